"""Kafka topics, one event a record: ``kafka://HOST:PORT[,HOST:PORT]/SYSTEM=TOPIC[,SYSTEM=TOPIC][?config=FILE]``.

The contract with writers: a record's value is one JSON object, as a line of a landing file is; key and headers
are not read. ``FILE`` has Kafka's own client properties (security, passwords).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.errors import DeadletterError, UsageError
from deadletter.parsing.brokers import BROKERS
from deadletter.sources.kafkafaults import UNREACHABLE, judge
from deadletter.sources.properties import properties
from deadletter.spark.session import SMALL_BATCH, on_databricks

SCHEME = "kafka://"
ADDRESS = "kafka://HOST:PORT[,HOST:PORT]/SYSTEM=TOPIC[,SYSTEM=TOPIC][?config=FILE]"
FORM = re.compile(r"kafka://(?P<servers>[^/?]+)/(?P<topics>[^/?]+)(\?config=(?P<config>.+))?")
SERVER = re.compile(r"\[?(?P<host>[^,\[\]]+?)\]?:(?P<port>\d{1,5})")
LEGAL = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""What Kafka takes as a topic's name."""
SECONDS = 5
"""How long one server may take to answer a first call."""
PATIENCE = {"kafka.request.timeout.ms": "20000", "kafka.default.api.timeout.ms": "20000", "fetchOffset.numRetries": "2"}
"""Kafka's own defaults wait for minutes until they say that nobody answers."""

COMMITTED = {"kafka.isolation.level": "read_committed"}
"""A transaction that was aborted is written again: by default a reader takes both."""


@dataclass(frozen=True)
class Topic:
    """One topic as a :class:`deadletter.sources.Source`: each record is read once, from the oldest that is kept."""

    servers: str
    system: str
    name: str
    config: str | None = None

    def __str__(self) -> str:
        return f"new {self.system} records of topic {self.name} at {self.servers}"

    @property
    def checkpoint(self) -> str:
        """A name made of servers, system and topic: a corrected mapping reads the topic again."""
        return hashlib.sha256(f"{SCHEME}{self.servers}/{self.system}={self.name}".encode()).hexdigest()[:16]

    @cached_property
    def size(self) -> int:
        """A guess: only Spark can look. Raises an error where no server answers."""
        read_config(self.config)
        # over Connect it is the server that reads, and on Databricks what runs here may not reach what Spark does
        from_here = not (os.environ.get("SPARK_REMOTE", "").startswith("sc:") or on_databricks())
        if from_here and not any(map(answers, self.servers.split(","))):
            unreachable = UNREACHABLE.format(servers=self.servers)
            raise DeadletterError(f"{unreachable}. Start it or correct the address; nothing was taken in.")
        return SMALL_BATCH

    def ignored(self) -> list[str]:
        """Every record of a topic is read."""
        return []

    def lines(self, spark: SparkSession, lenient: bool = False) -> DataFrame:
        """The records' values; one without a value (a tombstone) is an empty line, which a gate then refuses."""
        read = spark.readStream.format("kafka").options(**self.options()).load()
        place = F.format_string("kafka://%s/%d/%d", "topic", "partition", "offset")
        value = F.coalesce(F.col("value").cast("string"), F.lit(""))
        return read.select(F.lit(self.system).alias("system"), value.alias("value"), place.alias("source_file"))

    def options(self) -> dict[str, str]:
        """How Spark's connector reads the topic: the oldest record first, and never past records that are gone."""
        given = {f"kafka.{key}": value for key, value in read_config(self.config).items()}
        fixed = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.name,
            "startingOffsets": "earliest",
            "failOnDataLoss": "true",
        }
        return PATIENCE | COMMITTED | given | fixed

    def rescue(self, error: Exception, checkpoint: Path, taken: DataFrame) -> NoReturn:
        """Always raises: what Kafka says is put into words a person can act on."""
        raise judge(error, topic=self.name, servers=self.servers, checkpoint=self.checkpoint) from error

    def gone(self, checkpoint: Path, taken: Callable[[], DataFrame]) -> list[str]:
        """What is gone stops the stream."""
        return []

    def unread(self, checkpoint: Path, taken: Callable[[], DataFrame]) -> list[str]:
        """A record never changes."""
        return []


def parse_address(landing: str) -> list[Topic]:
    """The topics that a ``kafka://`` address names; :class:`UsageError` where it has another form.

    >>> [one, two] = parse_address("kafka://a:9092,b:9092/zaqar=taps,rabbitmq=firehose?config=/etc/kafka.properties")
    >>> one.servers, one.system, one.name, two.name, two.config
    ('a:9092,b:9092', 'zaqar', 'taps', 'firehose', '/etc/kafka.properties')
    """
    form = FORM.fullmatch(landing)
    pairs = [pair.partition("=") for pair in form["topics"].split(",")] if form else []
    names_fit = all(LEGAL.fullmatch(name) for _, _, name in pairs)
    if not (form and names_fit and all(map(SERVER.fullmatch, form["servers"].split(",")))):
        raise UsageError(f"{landing}: write {ADDRESS}")
    for system, _, name in pairs:
        if system not in BROKERS:
            raise UsageError(f"{landing}: '{system}' is none of {', '.join(BROKERS)}; write zaqar={name} or the like")
    return [Topic(form["servers"], system, name, form["config"]) for system, _, name in dict.fromkeys(pairs)]


def answers(server: str) -> bool:
    """Whether something listens at ``HOST:PORT``."""
    host, port = SERVER.fullmatch(server).group("host", "port")  # type: ignore[union-attr]  # parse_address asked
    no_host = (OSError, OverflowError, UnicodeError)  # the last of a name that no host can have
    with contextlib.suppress(*no_host), socket.create_connection((host, int(port)), SECONDS):
        return True
    return False


def read_config(path: str | None) -> dict[str, str]:
    """A file of Kafka's client properties, see :func:`~deadletter.sources.properties.properties`.

    No file, no properties. :class:`UsageError` where the file cannot be read or a line names no property.
    """
    if not path:
        return {}
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fault = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(f"cannot read {path}: {fault}. It is to hold Kafka's client properties.") from None
    try:
        return properties(text)
    except ValueError as error:
        raise UsageError(f"cannot read {path}: {error}") from None
