"""Jars from Maven Central, found by the resolver that comes with Spark and kept for the machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import pyspark

from deadletter.errors import DeadletterError

CACHE = Path.home() / ".ivy2.5.2" / "deadletter"
"""Beside the jars that Spark itself fetches."""
PATIENCE = 400
"""Seconds that fetching may take."""
MODULE = """<ivy-module version="2.0"><info organisation="deadletter" module="jars"/><dependencies>
{lines}
</dependencies></ivy-module>
"""
DELTA = """<dependency org="io.delta" name="delta-spark_{spark}_2.13" rev="{delta}" conf="default"/>
<exclude org="(?!io\\.delta|io\\.unitycatalog).*" matcher="regexp"/>"""
"""Delta with what it needs beside pyspark's jars, in Ivy's words."""
KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"
"""Spark's Kafka connector, for any 4.1."""
KAFKA = (
    '<dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="4.1.3" conf="default"/>',
    # pyspark has these
    *[f'<exclude org="{org}"/>' for org in ("org.apache.hadoop", "org.scala-lang", "org.scala-lang.modules")],
    *[f'<exclude org="{org}"/>' for org in ("org.slf4j", "org.lz4", "org.xerial.snappy", "com.github.luben")],
    '<exclude org="org.apache.spark" module="spark-tags_2.13"/>',
    # Maven Central has not each release of this part, and it has hardly changed since
    '<override org="org.apache.spark" module="spark-token-provider-kafka-0-10_2.13" rev="4.1.0-preview1"/>',
)
"""The connector with what it needs beside pyspark's jars, in Ivy's words."""


def delta_jars() -> list[str]:
    """Paths of the Delta jars that fit the installed pyspark and delta-spark."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return _given("DELTA") or fetch("Delta Lake", DELTA.format(spark=spark, delta=version("delta-spark")))


def kafka_jars() -> list[str]:
    """Paths of the jars that Spark needs to read Kafka."""
    return _given("KAFKA") or fetch("Spark's Kafka connector", *KAFKA)


def _given(name: str) -> list[str]:
    """Where a machine without Maven Central has the jars: ``DEADLETTER_DELTA_JARS``, ``DEADLETTER_KAFKA_JARS``."""
    return [path for path in os.environ.get(f"DEADLETTER_{name}_JARS", "").split(",") if path]


def fetch(what: str, *lines: str) -> list[str]:
    """Paths of the jars that an Ivy module with these ``<dependencies>`` needs, fetched where they are not here.

    Raises :class:`DeadletterError` where they cannot be had.
    """
    text = MODULE.format(lines="\n".join(lines))
    base = CACHE / hashlib.sha256(text.encode()).hexdigest()[:16]
    found = base.with_suffix(".jars")
    if not _all_there(found):
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "fetching.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of processes that start together one fetches and the others wait
            if not _all_there(found):
                base.with_suffix(".xml").write_text(text)
                _resolve(what, base.with_suffix(".xml"), found)
    return found.read_text().strip().split(os.pathsep)


def _all_there(found: Path) -> bool:
    # an empty list, of a fetch that was killed as it wrote it, names no file
    return found.exists() and all(Path(jar).is_file() for jar in found.read_text().strip().split(os.pathsep))


def _resolve(what: str, module: Path, found: Path) -> None:
    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    command = [java_command(), "-jar", str(ivy), "-cache", str(CACHE), "-ivy", str(module), "-confs", "default"]
    try:
        done = subprocess.run(
            [*command, "-cachepath", str(found)], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise DeadletterError(f"fetching {what} from Maven Central took longer than {PATIENCE} s; try again") from None
    if done.returncode or not _all_there(found):
        found.unlink(missing_ok=True)
        log = module.with_suffix(".log")
        log.write_text(done.stdout + done.stderr)
        raise DeadletterError(f"cannot fetch {what} from Maven Central (details: {log})")


def java_command() -> str:
    """The command that starts Java."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"
