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
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.errors import DeadletterError, UsageError
from deadletter.lake import WILDCARDS
from deadletter.session import on_databricks

SUFFIXES = (".jsonl", ".jsonl.gz")


def visible_files(root: Path) -> list[Path]:
    """Everything in the folder that has arrived, sorted; what begins with ``.`` or ``_`` is still being written.

    Raises :class:`UsageError` where there is no such folder.
    """
    if not root.is_dir():
        raise UsageError(f"no landing folder {root}. Make it, with one folder a system: {root}/zaqar/ and so on.")
    if set(whole_path(root)) & set(WILDCARDS):
        raise UsageError(f"landing folder {root}: Spark reads {WILDCARDS} in a path as wildcards. Rename the folder.")

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
    """A landing folder as a :class:`deadletter.sources.Source`: each file is read once.

    It is looked through once, when it is first asked: there may be a million files.
    """

    path: str

    def __str__(self) -> str:
        return f"new .jsonl and .jsonl.gz files among {len(self.files)} in {self.path}"

    @property
    def checkpoint(self) -> str:
        """A name made of the folder's absolute path."""
        return hashlib.sha256(whole_path(self.path).encode()).hexdigest()[:16]

    @cached_property
    def visible(self) -> list[Path]:
        """What :func:`visible_files` found."""
        return visible_files(Path(self.path))

    @cached_property
    def files(self) -> list[Path]:
        """The files that a run reads, sorted; :class:`UsageError` where one cannot be read."""
        files = [path for path in self.visible if path.name.endswith(SUFFIXES)]
        for path in files:
            if not os.access(path, os.R_OK):
                why = "no permission" if path.exists() else "it is a link to nothing"
                raise UsageError(f"cannot read {path}: {why}. Put that right or move it away; nothing was taken in.")
            if ":" in path.name and not on_databricks():
                raise UsageError(
                    f"cannot read {path}: Spark takes no ':' in a file's name. Rename it; nothing was taken in."
                )
        return files

    def ignored(self) -> list[str]:
        """A warning where files lie there that no run reads."""
        others = [path for path in self.visible if not path.name.endswith(SUFFIXES)]
        told = f"{len(others):,} files are not read, e.g. {others[:1] and others[0]}: only {' and '.join(SUFFIXES)} are"
        return [f"{self.path}: {told}"] if others else []

    @cached_property
    def size(self) -> int:
        """The bytes of all files; those of earlier runs count too. Errors as of :attr:`files`."""
        return sum(path.stat().st_size for path in self.files)

    def lines(self, spark: SparkSession, lenient: bool = False) -> DataFrame:
        """The files' lines; blank ones carry nothing. Of the names that begin with ``_`` Spark itself reads some.

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
        lines = read.where(~still_written(file, self.path)).where(r"value RLIKE '\\S'")
        return lines.select(system.alias("system"), "value", file.alias("source_file"))

    def rescue(self, error: Exception, taken: DataFrame) -> list[str]:
        """A warning for each damaged archive that is not ``taken`` yet, where ``error`` is about one; otherwise it is
        raised again.

        Other files must not be read leniently because of an old damaged archive: what the storage fails to give
        would be left out without a word.
        """
        told = unquote(f"{error} {error.__cause__}")
        files = Folder(self.path).files  # looked through again: it may have come since
        broken = damaged_archives([path for path in files if whole_path(path) in told])
        if not broken:
            raise error
        known = {unquote(row[0]) for row in taken.select(path_of(F.col("source_file"))).distinct().toLocalIterator()}
        broken |= damaged_archives([path for path in files if whole_path(path) not in known])
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
    parts = F.split(path_of(file), "/")
    depth = len(Path(whole_path(landing)).parts)
    return F.when(F.size(parts) > depth + 1, F.get(parts, F.lit(depth))).otherwise("")


def path_of(file: Column) -> Column:
    """The path in a file's URI, its names escaped."""
    return F.regexp_replace(file, "^[A-Za-z0-9+.-]+:(//[^/]*)?", "")


def still_written(file: Column, landing: str) -> Column:
    """Whether a name in a file's path below ``landing`` begins with ``.`` or ``_``, by the file's URI.

    >>> files = ["file:/my/_in/zaqar/_host=1.jsonl", "file:///my/_in/_x=1/a.jsonl", "file:///my/_in/zaqar/a_.jsonl"]
    >>> df = spark.createDataFrame([(file,) for file in files], "file STRING")
    >>> [row[0] for row in df.select(still_written(F.col("file"), "/my/_in")).collect()]
    [True, True, False]
    """
    above = len(Path(whole_path(landing)).parts) - 1
    return F.rlike(path_of(file), F.lit(f"^(/[^/]*){{{above}}}(/[^/]*)*/[._]"))


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
