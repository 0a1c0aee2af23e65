"""The Spark session: found where one is running, started where none is."""

from __future__ import annotations

import atexit
import contextlib
import locale
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from deadletter.errors import DeadletterError, first_line
from deadletter.spark.jars import delta_jars, java_command, kafka_jars
from deadletter.spark.jvm import Jvm, known_jvm
from deadletter.spark.lookups import remember_lookups

JAVA_VERSIONS = (17, 21)
IN_UTC = ("spark.sql.session.timeZone", "UTC")
"""Days and hours are those of UTC, whatever a session or a server shows: the lake's folders are named by them."""
LOCAL = {
    # where in Python a column was made: errors are told by the command
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Delta plans a state reconstruction of 50 partitions for every table; one is enough below millions of files
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM lists a table's folders in so many tasks however few they are: 10,000 by default, half a minute a table
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # Lake.replace looks itself: Delta would compare each row with every queue's name in turn
    "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
    # every source of a merge is staged before, so it is the same each time it is read
    "spark.databricks.delta.merge.materializeSource": "none",
    # a rule that simplifies what merges count, and walks through every expression of every query for it
    "spark.databricks.delta.optimize.conditionalIncrementMetric.enabled": "false",
    # Spark makes this folder, where nothing is ever put: one that is there already, not one where the user stands
    "spark.sql.warehouse.dir": tempfile.gettempdir(),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # nobody sees the plans that Spark writes down and keeps for its pages
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "5",
    # without Hadoop's native library every rename and every mode of a file starts a process: few of both, then
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.log.level": "ERROR",
    "spark.sql.ansi.enabled": "true",
    "spark.driver.memory": os.environ.get("DEADLETTER_DRIVER_MEMORY", "4g"),
    # each aggregation and each broadcast begins with a page, 64 MB by default; most here hold a few hundred rows
    "spark.buffer.pageSize": "1m",
    "spark.broadcast.blockSize": "128k",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # a run has some hundred queries: compiled ones are kept for the next run of the process
    "spark.sql.codegen.cache.maxEntries": "5000",
}
ON_LINUX = "-XX:+UseTransparentHugePages -Djdk.lang.Process.launchMechanism=VFORK"
"""A virtual machine can be slow to give a process its memory page by page: huge pages are few. The processes that
Hadoop starts for a file's mode are started without a helper process for each. Other systems' JVMs know neither."""
JVM = "-XX:+UseParallelGC -XX:ReservedCodeCacheSize=512m -XX:FreqInlineSize=60 -XX:InlineSmallCode=600"
"""The second compiler puts small methods alone into those that call them: what it does beyond that takes it longer than
planning some hundred queries saves."""
QUICK_JVM = f"{JVM} -XX:TieredStopAtLevel=1 -XX:MetaspaceSize=400m"
"""A command that is over in a minute ends before the second compiler has paid for itself."""
WARNS_NOBODY = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM warns on standard output, which is the rows', of each of these options that it does without."""
STORED_CLASSES = Path(sys.prefix, "var", "deadletter-spark.jsa")
"""Spark's classes as a JVM holds them in memory, made by :mod:`deadletter.spark.warmup`: Spark starts in half the
time."""
TINY_BATCH = 1 << 20
"""Bytes of events, as bronze holds them, up to which a batch's rows are so few that one task at a time is enough."""
TINY_LOAD = 8 << 20
"""The same in a :data:`SMALL_LAKE`, where compiling would take longer than a second task saves."""
SMALL_LAKE = 64 << 20
"""Bytes of all events in bronze up to which compiling a tiny batch's queries costs more than interpreting them. In a
larger lake they read many rows of others to find theirs."""
SMALL_BATCH = 32 << 20
"""Bytes of events, as bronze holds them, up to which planning a query again costs more than the work."""
HELD_ROWS = "spark.deadletter.heldRows"
"""Up to so many rows a staged frame is held in memory."""
LARGE_BATCH = "spark.deadletter.largeBatch"
"""Whether the batch turned out to be larger than it looked: of its frames only those that have few rows anyway are
held."""
COMPILED = {
    HELD_ROWS: "0",
    LARGE_BATCH: "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
REPEATED = (
    *("system", "tenant", "queue", "subscription", "posted.producer"),
    *(f"{told}.list.element.consumer" for told in ("deliveries", "failures")),
)
"""Columns in which few values are repeated, by their paths in a file of Parquet: with a dictionary they are read in
half the time."""
LARGE = COMPILED | {
    "spark.sql.adaptive.enabled": "true",
    # small partitions, as many as there is data for: what gathers a message's facts holds a partition's in memory
    "spark.sql.shuffle.partitions": "128",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # the days of a batch are written side by side: raw texts are too long to be sorted by day first
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # the few dead of millions of messages are still sent to where the messages are
    "spark.sql.autoBroadcastJoinThreshold": "64m",
    # sets are gathered in memory for so many messages at once before they are sorted instead, not for 128
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "200000",
    # most ids and times differ: a dictionary of them takes two fifths of a write's time, for a quarter less of bytes
    "parquet.enable.dictionary": "false",
    **{f"parquet.enable.dictionary#{path}": "true" for path in REPEATED},
}
SMALL = COMPILED | {
    HELD_ROWS: "10000",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.maxConcurrentOutputFileWriters": "0",
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "128",
    "parquet.enable.dictionary": "true",
}
TINY = SMALL | {
    "spark.sql.shuffle.partitions": "1",
    # one task for rows that are held
    "spark.sql.leafNodeDefaultParallelism": "1",
    HELD_ROWS: "50000",
}
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def get_spark(quick: bool = False, kafka: bool = False) -> SparkSession:
    """Return the session to work in; ``quick`` for a command that is soon over.

    ``kafka`` loads Spark's Kafka connector where the session is started here.

    On Databricks, and wherever a session is active, that one. With ``SPARK_REMOTE`` set, a Spark Connect
    session; with ``SPARK_MASTER`` set, one on that cluster; otherwise one on this machine's cores.
    """
    active = SparkSession.getActiveSession() or (SparkSession.builder.getOrCreate() if on_databricks() else None)
    if active is not None:
        active.conf.set(*IN_UTC)
        return active
    builder = SparkSession.builder.appName("deadletter")
    remote = os.environ.get("SPARK_REMOTE")
    if remote and not remote.startswith("local"):
        return builder.config(*IN_UTC).remote(remote).getOrCreate()
    require_java()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # errors are told by the command
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the same packages
    name_files_in_utf8()
    master = os.environ.get("SPARK_MASTER", "local[*]")
    builder = builder.remote(remote) if remote else builder.master(master)
    delta, added = delta_jars(), kafka_jars() if kafka else []
    if not (remote or master.startswith("local")):
        added += delta  # the workers fetch them
    started = {
        # from the start: a JVM stores no classes of jars that are added to it later
        "spark.driver.extraClassPath": os.pathsep.join(delta),
        "spark.driver.extraJavaOptions": java_options(quick),
        "spark.jars": ",".join(added),
    }
    for key, value in (LOCAL | TINY | INTERPRETED | DELTA | started | dict([IN_UTC])).items():
        builder = builder.config(key, value)
    if not remote:
        remember_lookups()
    with quiet_start(), known_jvm():
        return builder.getOrCreate()


def name_files_in_utf8() -> None:
    """Have the processes that this one starts take files' names for UTF-8.

    In a locale with other characters (``LC_ALL=C``, as cron and some containers have it) a JVM cannot name a file such
    as ``Zürich.jsonl``, and Spark passes over it without a word. The JVM takes it from the environment only.
    """
    if locale.nl_langinfo(locale.CODESET).upper() not in ("UTF-8", "UTF8"):
        os.environ["LC_ALL"] = "C.UTF-8"


def java_options(quick: bool) -> str:
    """Options of the JVM that is started; ``DEADLETTER_JAVA_OPTIONS`` adds to them."""
    options = [
        QUICK_JVM if quick else JVM,
        ON_LINUX if sys.platform == "linux" else "",
        WARNS_NOBODY,
        os.environ.get("DEADLETTER_JAVA_OPTIONS", ""),
    ]
    if STORED_CLASSES.exists():
        options.append(java_path("SharedArchiveFile", STORED_CLASSES))
    return " ".join(filter(None, options))


def java_path(option: str, path: Path) -> str:
    """An option of the JVM that names a path, as Spark takes it: its options are split as a shell does.

    >>> java_path("SharedArchiveFile", Path("/home/ann/my project/classes.jsa"))
    "'-XX:SharedArchiveFile=/home/ann/my project/classes.jsa'"
    """
    return shlex.quote(f"-XX:{option}={path}")


def tune(spark: SparkSession, new_bytes: int, lake_bytes: int = 0) -> None:
    """Set what depends on the size of a batch, and of the lake that it comes to: compiling queries, planning them
    again, and partitions.

    On Databricks the platform's own settings stay.
    """
    if on_databricks():
        return
    is_small_lake = lake_bytes <= SMALL_LAKE
    is_tiny = new_bytes <= (TINY_LOAD if is_small_lake else TINY_BATCH)
    sizes = TINY if is_tiny else SMALL if new_bytes <= SMALL_BATCH else LARGE
    if is_tiny and is_small_lake:
        sizes = TINY | INTERPRETED
    for key, value in sizes.items():
        spark.conf.set(key, value)
    for key in TINY.keys() - sizes.keys():
        spark.conf.unset(key)


def held_rows(spark: SparkSession, few: bool = False) -> int:
    """Up to how many rows a staged frame is held in memory: none on Databricks, which not every setting can be asked
    of, none in a session that :func:`tune` did not set up, and none of a :data:`LARGE_BATCH` unless they are ``few``
    however large it is."""
    if on_databricks() or not few and spark.conf.get(LARGE_BATCH, "false") == "true":
        return 0
    return int(spark.conf.get(HELD_ROWS, "0") or 0)


def on_databricks() -> bool:
    """Whether this process runs there."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def require_java() -> None:
    """Raise a one-line error unless a Java that Spark runs on is found."""
    home, java = os.environ.get("JAVA_HOME"), shutil.which(java_command())
    needed = f"Java {' or '.join(map(str, JAVA_VERSIONS))} is needed: install one and set JAVA_HOME to its folder"
    if not java:
        raise DeadletterError(f"no Java found{f' in JAVA_HOME={home}' if home else ''}. {needed}.")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if not found or int(found.group(1)) not in JAVA_VERSIONS:
        first = told.strip().splitlines()[0] if told.strip() else "no version"
        raise DeadletterError(f"{java} says: {first}. {needed}.")


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Send what the JVM prints to a log file, which a failed start names; else it goes when this process ends."""
    sink, name = tempfile.mkstemp(prefix="deadletter-spark-", suffix=".log")
    log, saved = Path(name), os.dup(2)
    os.dup2(sink, 2)
    os.close(sink)
    atexit.register(log.unlink, missing_ok=True)
    try:
        yield
    except Exception as error:
        if Jvm.ending:  # what fails is no fault of Spark's
            raise
        atexit.unregister(log.unlink)
        raise DeadletterError(f"Spark did not start: {first_line(error)} (details: {log})") from error
    finally:
        os.dup2(saved, 2)
        os.close(saved)
