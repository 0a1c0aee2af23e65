"""The landing folder: ``<landing>/<system>/**/*.jsonl[.gz]``, one JSON object a line.

The contract with writers: a file appears whole (write it elsewhere, or under a name that begins with ``.``
or ``_``, then rename it in) and never changes. A file is read once, by its path.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.errors import DeadletterError, UsageError
from deadletter.lake import WILDCARDS
from deadletter.sources.noted import (
    LOG,
    SCHEME,
    keep_damaged,
    keep_gone,
    named,
    noted,
    on_disk,
    passed_over,
    path_named,
    still_damaged,
)
from deadletter.spark.columns import unescaped
from deadletter.spark.session import on_databricks

SUFFIXES = (".jsonl", ".jsonl.gz")
GZIP = 31
"""What zlib calls a gzip archive with a window of any size."""
FAILED = re.compile(r"reading file (\S+?)\.?(?:\s|$)")
"""How Spark names the file that stopped it, as a URI."""
ANEW = "put the whole file there under another name"


def visible_files(root: Path) -> list[Path]:
    """Everything in the folder that has arrived, sorted; what begins with ``.`` or ``_`` is still being written.

    Raises :class:`UsageError` where there is no such folder.
    """
    if root.is_file():
        raise UsageError(
            f"{shown(root)} is a file. Name the landing folder, and put the file there into a folder called like its"
            " system: zaqar/ and so on."
        )
    if not root.is_dir():
        raise UsageError(
            f"no landing folder {shown(root)}. Make it, with one folder a system: {shown(root)}/zaqar/ and so on."
        )
    refuse_odd_bytes(root)
    if set(whole_path(root)) & set(WILDCARDS):
        raise UsageError(f"landing folder {root}: Spark reads {WILDCARDS} in a path as wildcards. Rename the folder.")

    def refuse(error: OSError) -> None:
        raise UsageError(
            f"cannot read {shown(error.filename)}: {error.strerror}. Put that right; nothing was taken in."
        )

    found = []
    for folder, folders, names in os.walk(root, followlinks=True, onerror=refuse):
        # nor is what lies below looked at: it need not be readable, or stay there
        folders[:] = [name for name in folders if not is_hidden(name)]
        found += [Path(folder, name) for name in names if not is_hidden(name)]
    return sorted(found)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this name has not arrived yet, as it begins with ``.`` or ``_``."""
    return name.startswith((".", "_"))


def has_arrived(path: Path, root: Path) -> bool:
    """Whether no name below the folder ``root`` is hidden."""
    return not any(map(is_hidden, path.relative_to(root).parts))


def refuse_odd_bytes(path: Path) -> None:
    """Raise :class:`UsageError` where a path is no UTF-8: Spark would pass over it without a word."""
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise UsageError(f"cannot read {shown(path)}: its name is no UTF-8. Rename it; nothing was taken in.") from None


def shown(path: str | Path) -> str:
    r"""A path to be printed, whatever bytes are in it.

    >>> print(shown(os.fsdecode(b"in/caf\xe9.jsonl")))
    in/caf\xe9.jsonl
    """
    return os.fsencode(path).decode(errors="backslashreplace")


def whole_path(landing: str | Path) -> str:
    """A path's absolute path as Spark has it, without ``..``; links stay what they are, as Spark names files by them.

    Spark's names are UTF-8, whatever Python takes them for.
    """
    absolute = os.fsencode(os.path.abspath(landing)).decode(errors="surrogateescape")  # noqa: PTH100
    return "/" + absolute.lstrip("/")  # two slashes at the beginning are one


def damaged_archives(files: list[Path]) -> dict[Path, str]:
    """The ``.gz`` files that do not decompress to their end, each with the reason.

    Raises :class:`DeadletterError` where the storage does not give a file's bytes.
    """
    broken = {}
    for path in files:
        try:
            read_to_end(path)
        except (EOFError, zlib.error) as error:
            broken[path] = str(error)
        except OSError as error:
            raise DeadletterError(f"cannot read {path}: {error.strerror}. Put that right or move it away.") from None
    return broken


def read_to_end(path: Path) -> None:
    """Read a file to its end; ``EOFError`` or ``zlib.error`` where a ``.gz`` has another one.

    As strict as Hadoop is, whose archives may be several in a row and nothing else: zeros after the last one, which
    :mod:`gzip` passes over, stop it.
    """
    archive = None
    with path.open("rb") as file:
        while data := file.read(1 << 20):
            while data and path.suffix == ".gz":
                archive = zlib.decompressobj(GZIP) if archive is None or archive.eof else archive
                archive.decompress(data, 1 << 20)
                data = archive.unused_data or archive.unconsumed_tail
    if archive:
        archive.flush()  # it may hold the last bytes back
        if not archive.eof:
            raise EOFError("it is cut off")


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
        return hashlib.sha256(whole_path(self.path).encode(errors="surrogateescape")).hexdigest()[:16]

    @cached_property
    def visible(self) -> list[Path]:
        """What :func:`visible_files` found."""
        return visible_files(Path(self.path))

    @cached_property
    def files(self) -> list[Path]:
        """The files that a run reads, sorted; :class:`UsageError` where one cannot be read."""
        files = [path for path in self.visible if path.name.endswith(SUFFIXES)]
        for path in files:
            refuse_odd_bytes(path)
            if not os.access(path, os.R_OK) and (path.exists() or path.is_symlink()):  # else it was just removed
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
        first = shown(others[0]) if others else ""
        told = f"{len(others):,} files are not read, e.g. {first}: only {' and '.join(SUFFIXES)} are"
        return [f"{self.path}: {told}"] if others else []

    @cached_property
    def size(self) -> int:
        """The bytes of all files; those of earlier runs count too. Errors as of :attr:`files`."""
        return sum(path.stat().st_size for path in self.files if path.exists())

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

    def rescue(self, error: Exception, checkpoint: Path, taken: DataFrame) -> Callable[[], None]:
        """Note each damaged archive that is not ``taken`` yet in ``checkpoint``, where ``error`` is about one;
        otherwise it is raised again, or what can be done about the file that it names.

        Other files must not be read leniently because of an old damaged archive: what the storage fails to give
        would be left out without a word.

        Returns what is to be called once the lenient reading is over: files that arrived meanwhile were read leniently,
        too, and their damage is noted then.
        """
        failed = FAILED.search(f"{error.__cause__} {error}")  # the cause tells the path in full
        if not failed:
            raise error
        place = path_named(failed[1])
        files = Folder(self.path).files  # looked through again: it may have come since
        stopped = [path for path in files if whole_path(path) == place] or [on_disk(place)]
        broken = damaged_archives(stopped)
        if not broken and not place.endswith(".gz"):
            # without Spark's words: those of a refusal would be taken for the lake's
            raise DeadletterError(
                f"cannot read {shown(stopped[0])} to its end. Put it right, or move it away and {ANEW}."
            ) from None
        broken = broken or dict.fromkeys(stopped, "Spark cannot read it to its end")
        known = {unquote(row[0]) for row in taken.select(path_of(F.col("source_file"))).distinct().toLocalIterator()}
        broken |= damaged_archives([path for path in files if whole_path(path) not in {place, *known}])
        keep_damaged(checkpoint, {whole_path(path): reason for path, reason in broken.items()})
        return partial(self._note_late_damage, checkpoint, {place, *map(whole_path, files)})

    def _note_late_damage(self, checkpoint: Path, looked_at: Collection[str]) -> None:
        """Note the damaged archives among the files that the stream has read by now, but for the paths that were
        ``looked_at``: on Databricks, whose Auto Loader tells nobody what it read, among those that are there."""
        there = {whole_path(path): path for path in Folder(self.path).files}
        read = there if on_databricks() else noted(checkpoint)
        broken = damaged_archives([path for place, path in there.items() if place in read and place not in looked_at])
        keep_damaged(checkpoint, {whole_path(path): reason for path, reason in broken.items()})

    def gone(self, checkpoint: Path, taken: Callable[[], DataFrame]) -> list[str]:
        """A warning where files that a run noted and did not take in are not there for this one."""
        if on_databricks():  # Auto Loader keeps notes of its own
            return []
        root = Path(whole_path(self.path))
        paths = [path for path in keep_gone(checkpoint, taken) if has_arrived(Path(path), root)]
        told = f"files that a run which was cut short had yet to take in are gone: {named(paths)}"
        return [f"{self.path}: {told}. Put each there under another name if it is not yet."] if paths else []

    def unread(self, checkpoint: Path, taken: Callable[[], DataFrame]) -> list[str]:
        """Warnings where the stream, which has ended, passed over files or over what is new in them, or took only what
        comes before an archive's damage."""
        damaged = [
            f"{path}: damaged archive ({reason}). Its lines before the damage were taken; {ANEW} and remove this one, "
            "known lines count once."
            for path, reason in still_damaged(checkpoint).items()
        ]
        if on_databricks() or not (checkpoint / LOG).is_dir():
            return damaged
        changed, unknown = passed_over(checkpoint, map(whole_path, self.files), taken)
        warnings = {
            f"files changed after they were read, or were gone when they were to be read: {named(changed)}. What is "
            "new in them was not taken in: put it there under another name; known lines count once.": changed,
            f"files were not found by Spark, so nothing of them was taken in: {named(unknown)}. Rename them; where "
            "Spark runs elsewhere, let it see the same folder, in a UTF-8 locale.": unknown,
        }
        return damaged + [f"{self.path}: {told}" for told, paths in warnings.items() if paths]


def system_of(file: Column, landing: str) -> Column:
    """The folder of ``landing`` that a file is in, by the file's URI; empty for one that lies in none.

    Folders are counted, not compared: in a URI a name is escaped, and it can come again further down.

    >>> files = ["file:/my%20data/in/zaqar/in/a.jsonl", "file:///my%20data/in/a.jsonl", "file:/my/in/1+1%20%25/a.jsonl"]
    >>> df = spark.createDataFrame([(file,) for file in files], "file STRING")
    >>> [row[0] for row in df.select(system_of(F.col("file"), "/my data/x/../in")).collect()]
    ['zaqar', '', '1+1 %']
    """
    parts = F.split(path_of(file), "/")
    depth = len(Path(whole_path(landing)).parts)
    return F.when(F.size(parts) > depth + 1, unescaped(F.get(parts, depth))).otherwise("")


def path_of(file: Column) -> Column:
    """The path in a file's URI, its names escaped."""
    return F.regexp_replace(file, SCHEME, "")


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
    # a file that is a week older than the newest is as good: a copy can keep the time of its original, and a time that
    # is wrong can be centuries ahead
    return same | {"recursiveFileLookup": "true", "maxFileAge": "10000000d"}
