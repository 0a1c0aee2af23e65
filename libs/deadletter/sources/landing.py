"""The landing folder: ``<landing>/<system>/**/*.jsonl[.gz]``, one JSON object a line.

The contract with writers: a file appears whole (write it elsewhere, or under a name that begins with ``.``
or ``_``, then rename it in) and never changes. A file is read once, by its path.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.errors import UsageError
from deadletter.parsing.envelope import clock

SUFFIXES = (".jsonl", ".jsonl.gz")


def landing_files(landing: str) -> list[Path]:
    """The files in the landing folder that a run reads, sorted.

    Raises :class:`UsageError` where there is no such folder, or a file that cannot be read.
    """
    root = Path(landing)
    if not root.is_dir():
        raise UsageError(f"no landing folder {root}. Make it, with one folder a system: {root}/zaqar/ and so on.")
    files = sorted(
        path
        for path in root.rglob("*")
        if path.name.endswith(SUFFIXES)
        and not path.is_dir()
        and not any(part.startswith((".", "_")) for part in path.relative_to(root).parts)
    )
    for path in files:
        if not os.access(path, os.R_OK):
            why = "no permission" if path.exists() else "it is a link to nothing"
            raise UsageError(f"cannot read {path}: {why}. Put that right or move it away; nothing was taken in.")
    return files


def truncated_archives(files: list[Path]) -> dict[Path, str]:
    """The ``.gz`` files that do not decompress to their end, each with the reason."""
    broken = {}
    for path in files:
        if path.suffix != ".gz":
            continue
        try:
            with gzip.open(path) as archive:
                while archive.read(1 << 20):
                    pass
        except (EOFError, OSError, zlib.error) as error:
            broken[path] = str(error) or type(error).__name__
    return broken


def read_lines(spark: SparkSession, landing: str, skip_corrupt: bool = False) -> DataFrame:
    """A stream of the landing folder's lines: ``value`` (the line) and ``source_file``.

    ``skip_corrupt`` takes from a truncated archive the lines that come before the damage.
    """
    on_databricks = "DATABRICKS_RUNTIME_VERSION" in os.environ
    return (
        spark.readStream.format("cloudFiles" if on_databricks else "text")
        .schema("value STRING")
        .options(**reader_options(on_databricks, skip_corrupt))
        .load(str(Path(landing).absolute()))
        .select("value", F.col("_metadata.file_path").alias("source_file"))
    )


def reader_options(on_databricks: bool, skip_corrupt: bool) -> dict[str, str]:
    """How the stream finds files and lines: Auto Loader on Databricks, Spark's own file source elsewhere.

    The one place where they differ. Both read each path once and take the same files; neither may make columns
    of folders that are called ``key=value``.

    >>> sorted(set(reader_options(True, False)) ^ set(reader_options(False, False)))
    ['cloudFiles.format', 'cloudFiles.partitionColumns', 'recursiveFileLookup']
    """
    same = {
        "pathGlobFilter": "*.{jsonl,jsonl.gz}",
        "lineSep": "\n",
        "ignoreCorruptFiles": str(skip_corrupt).lower(),
    }
    if on_databricks:
        return same | {"cloudFiles.format": "text", "cloudFiles.partitionColumns": ""}
    return same | {"recursiveFileLookup": "true"}


def queue_events(lines: DataFrame, landing: str) -> DataFrame:
    """Rows of ``bronze.queue_events`` from ``value`` and ``source_file``; blank lines carry nothing."""
    below = F.substring_index("source_file", Path(landing).absolute().name + "/", -1)
    captured = F.expr(clock("get_json_object(value, '$.captured_at')"))
    return (
        lines.where(F.length(F.trim("value")) > 0)
        .withColumn("captured_at", captured)
        .select(
            F.sha2(F.col("value").cast("binary"), 256).alias("event_id"),
            F.when(below.contains("/"), F.substring_index(below, "/", 1)).otherwise("").alias("system"),
            F.col("value").alias("raw"),
            "captured_at",
            F.coalesce(F.to_date("captured_at"), F.lit("1970-01-01").cast("date")).alias("day"),
            "source_file",
            F.current_timestamp().alias("ingested_at"),
        )
    )


def checkpoint_name(landing: str) -> str:
    """A folder name for the checkpoint of this landing folder."""
    return hashlib.sha256(str(Path(landing).absolute()).encode()).hexdigest()[:16]
