"""The landing folder: ``<landing>/<system>/**/*.jsonl[.gz]``, one JSON object a line.

The contract with writers: a file appears whole (write it elsewhere, or under a name that begins with ``.``
or ``_``, then rename it in) and never changes. A file is read once, by its path.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.errors import DeadletterError, UsageError
from deadletter.lake import WILDCARDS
from deadletter.session import on_databricks

SUFFIXES = (".jsonl", ".jsonl.gz")


def landing_files(landing: str) -> list[Path]:
    """The files in the landing folder that a run reads, sorted.

    Raises :class:`UsageError` where there is no such folder, or a file that cannot be read.
    """
    root = Path(landing)
    if not root.is_dir():
        raise UsageError(f"no landing folder {root}. Make it, with one folder a system: {root}/zaqar/ and so on.")
    if set(whole_path(landing)) & set(WILDCARDS):
        raise UsageError(f"landing folder {root}: Spark reads {WILDCARDS} in a path as wildcards. Rename the folder.")
    files = [path for path in _visible_files(root) if path.name.endswith(SUFFIXES)]
    for path in files:
        if not os.access(path, os.R_OK):
            why = "no permission" if path.exists() else "it is a link to nothing"
            raise UsageError(f"cannot read {path}: {why}. Put that right or move it away; nothing was taken in.")
        if ":" in path.name and not on_databricks():
            raise UsageError(
                f"cannot read {path}: Spark takes no ':' in a file's name. Rename it; nothing was taken in."
            )
    return files


def _visible_files(root: Path) -> list[Path]:
    """Everything in the folder that has arrived, sorted; what begins with ``.`` or ``_`` is still being written."""

    def refuse(error: OSError) -> None:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}. Put that right; nothing was taken in.")

    walked = os.walk(root, followlinks=True, onerror=refuse)
    found = (Path(folder, name) for folder, _, names in walked for name in names)
    return sorted(path for path in found if not any(p.startswith((".", "_")) for p in path.relative_to(root).parts))


def whole_path(landing: str | Path) -> str:
    """A path's absolute path, without ``..``; links stay what they are, as Spark names files by them."""
    return os.path.abspath(landing)  # noqa: PTH100


def damaged_archives(files: list[Path]) -> dict[Path, str]:
    """The ``.gz`` files that do not decompress to their end, each with the reason.

    Raises :class:`DeadletterError` where the storage does not give a file's bytes.
    """
    broken = {}
    for path in files:
        try:
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines:
                while lines.read(1 << 20):
                    pass
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            broken[path] = str(error) or type(error).__name__
        except OSError as error:
            raise DeadletterError(f"cannot read {path}: {error.strerror}. Put that right or move it away.") from None
    return broken


@dataclass(frozen=True)
class Folder:
    """A landing folder as a :class:`deadletter.sources.Source`: each file is read once."""

    path: str

    def __str__(self) -> str:
        return f"new .jsonl and .jsonl.gz files among {len(landing_files(self.path))} in {self.path}"

    @property
    def checkpoint(self) -> str:
        """A name made of the folder's absolute path."""
        return hashlib.sha256(str(Path(self.path).absolute()).encode()).hexdigest()[:16]

    def ignored(self) -> list[str]:
        """A warning where files lie there that no run reads."""
        others = [path for path in _visible_files(Path(self.path)) if not path.name.endswith(SUFFIXES)]
        told = f"{len(others):,} files are not read, e.g. {others[:1] and others[0]}: only {' and '.join(SUFFIXES)} are"
        return [f"{self.path}: {told}"] if others else []

    def size(self) -> int:
        """The bytes of all files; those of earlier runs count too. Errors as of :func:`landing_files`."""
        return sum(path.stat().st_size for path in landing_files(self.path))

    def lines(self, spark: SparkSession, lenient: bool = False) -> DataFrame:
        """The files' lines; blank ones carry nothing.

        ``lenient`` takes from a damaged archive the lines that come before the damage.
        """
        auto_loader = on_databricks()
        read = (
            spark.readStream.format("cloudFiles" if auto_loader else "text")
            .schema("value STRING")
            .options(**reader_options(auto_loader, lenient))
            .load(whole_path(self.path))
        )
        file = F.col("_metadata.file_path")
        system = system_of(file, self.path)
        return read.select(system.alias("system"), "value", file.alias("source_file")).where(r"value RLIKE '\\S'")

    def rescue(self, error: Exception) -> list[str]:
        """A warning for each damaged archive, where ``error`` is about one; otherwise it is raised again.

        Other files must not be read leniently because of an old damaged archive: what the storage fails to give
        would be left out without a word.
        """
        broken = damaged_archives(landing_files(self.path))
        told = unquote(f"{error} {error.__cause__}")
        if not any(whole_path(path) in told for path in broken):
            raise error
        return [
            f"{path}: damaged archive ({reason}). Its lines before the damage were taken; put the whole file "
            "there under another name, known lines count once."
            for path, reason in broken.items()
        ]


def system_of(file: Column, landing: str) -> Column:
    """The folder of ``landing`` that a file is in, by the file's URI; empty for one that lies in none.

    Folders are counted, not compared: in a URI a name is escaped, and it can come again further down.

    >>> files = ["file:/my%20data/in/zaqar/in/a.jsonl", "file:///my%20data/in/a.jsonl"]
    >>> df = spark.createDataFrame([(file,) for file in files], "file STRING")
    >>> [row[0] for row in df.select(system_of(F.col("file"), "/my data/x/../in")).collect()]
    ['zaqar', '']
    """
    parts = F.split(F.regexp_replace(file, "^[A-Za-z0-9+.-]+:(//[^/]*)?", ""), "/")
    depth = len(Path(whole_path(landing)).parts)
    return F.when(F.size(parts) > depth + 1, F.get(parts, F.lit(depth))).otherwise("")


def reader_options(auto_loader: bool, lenient: bool) -> dict[str, str]:
    """How the stream finds files and lines: Auto Loader on Databricks, Spark's own file source elsewhere.

    The one place where they differ. Both read each path once and take the same files; neither may make columns
    of folders that are called ``key=value``.

    >>> sorted(set(reader_options(True, False)) ^ set(reader_options(False, False)))
    ['cloudFiles.format', 'cloudFiles.partitionColumns', 'maxFileAge', 'recursiveFileLookup']
    """
    same = {
        "pathGlobFilter": "*.{jsonl,jsonl.gz}",
        "lineSep": "\n",
        "ignoreCorruptFiles": str(lenient).lower(),
    }
    if auto_loader:
        return same | {"cloudFiles.format": "text", "cloudFiles.partitionColumns": ""}
    # a file that is a week older than the newest is as good: a copy can keep the time of its original
    return same | {"recursiveFileLookup": "true", "maxFileAge": "36500d"}
