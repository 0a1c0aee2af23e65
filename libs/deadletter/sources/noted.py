"""What the stream of a landing folder has noted as read, and the files that it passes over because of that.

Spark's file source reads a path once: it notes the path, with the file's time, in the stream's checkpoint, and then
reads the batch. What comes into such a file later is never read; nor is a file that was gone when a batch that had been
cut short was read again. Spark says nothing of either, so this looks at the same notes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.files import put_in_place

SCHEME = "^[A-Za-z0-9+.-]+:(//[^/]*)?"
"""What comes before the path in a file's URI."""
LOG = "sources/0"
"""The folder of a checkpoint where Spark's file source keeps its notes."""
COMPARED = "compared.json"
"""The file of a checkpoint that keeps what was found here: ``{path: [time, lost]}``. ``lost`` is whether lines were not
taken in, or the reason why those after an archive's damage were not, a text."""
SHOWN = 3
"""So many files are named in a warning."""
BLANK = b" \t\n\x0b\f\r"
"""What a line that carries nothing is made of."""


class Note(NamedTuple):
    """A file as Spark noted it: its URI, and when it was changed last (milliseconds since 1970)."""

    uri: str
    time: int


def noted(checkpoint: Path, after: int = -1) -> dict[str, Note]:
    """The files that are noted as read, by path; only those of batches with numbers above ``after``.

    Every tenth file of the log is called ``9.compact`` and so on: it holds all that those before it do.
    """
    logs = sorted((int(path.stem), path) for path in (checkpoint / LOG).glob("[0-9]*"))
    if not logs or logs[-1][0] <= after:
        return {}
    whole = max((number for number, path in logs if path.suffix), default=0)
    texts = [path.read_bytes() for number, path in logs if number >= whole]
    entries = (json.loads(line) for text in texts for line in text.split(b"\n")[1:] if line)  # the first is a version
    return {
        path_named(entry["path"]): Note(entry["path"], entry["timestamp"])
        for entry in entries
        if entry["batchId"] > after
    }


def cut_short(checkpoint: Path) -> dict[str, Note]:
    """The files that were noted by a run which ended before their lines were written; the next one reads them again."""
    written = max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=None)
    if written is None:
        return noted(checkpoint)
    last = (checkpoint / "offsets" / str(written)).read_text().splitlines()[-1]
    return noted(checkpoint, json.loads(last)["logOffset"])


def keep_gone(checkpoint: Path, taken: Callable[[], DataFrame]) -> list[str]:
    """The files of :func:`cut_short` that are not there now, so Spark passes over them; that is kept, as they may come
    back. To be called before the stream reads on. ``taken``: gives the rows of bronze."""
    waiting = cut_short(checkpoint)
    gone = {path: note for path, note in waiting.items() if not on_disk(path).exists()}
    if gone:  # bronze may have got the lines just before the run ended
        there = known_files(taken(), [note.uri for note in gone.values()])
        gone = {path: note for path, note in gone.items() if path not in there}
    if waiting:
        # an archive whose lines bronze has by now is not read again: its damage would be forgotten
        before = _kept(checkpoint).items()
        kept = {path: value for path, value in before if path not in waiting or isinstance(value[1], str)}
        _keep(checkpoint, kept | {path: [note.time, True] for path, note in gone.items()})
    return list(gone)


def passed_over(checkpoint: Path, files: Iterable[str], taken: Callable[[], DataFrame]) -> tuple[list[str], list[str]]:
    """The paths among ``files`` that have lines which were not taken in, and those that Spark never noted. To be called
    when the stream has ended.

    A file counts as read where its time is the one that was noted. The lines of others are compared with ``taken``,
    the rows of bronze, once for each time that they have: one that was only put there again has nothing new.
    """
    log, kept = noted(checkpoint), _kept(checkpoint)
    times = {path: stat for path in files if (stat := _stat(path))}
    unknown = [path for path, (_, size) in times.items() if size and path not in log]
    others = {path: time for path, (time, _) in times.items() if path in log and time != log[path].time}
    new = {path: time for path, time in others.items() if kept.get(path, [None])[0] != time}
    if new:
        known = known_ids(taken(), [log[path].uri for path in new])
        kept |= {path: [time, has_others(on_disk(path), known)] for path, time in new.items()}
        _keep(checkpoint, kept)
    return [path for path, (time, _) in times.items() if kept.get(path) == [time, True]], unknown


def keep_damaged(checkpoint: Path, reasons: Mapping[str, str]) -> None:
    """Keep which archives, by path, do not decompress to their end, and why. To be called before the lines that they
    have are taken in: a run that is killed after that has told nobody."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    found = {path: [stat[0], why] for path, why in reasons.items() if (stat := _stat(path))}
    _keep(checkpoint, _kept(checkpoint) | found)


def still_damaged(checkpoint: Path) -> dict[str, str]:
    """The archives of :func:`keep_damaged` that are there as they were then."""
    kept = {path: (time, why) for path, (time, why) in _kept(checkpoint).items() if isinstance(why, str)}
    return {path: why for path, (time, why) in kept.items() if (stat := _stat(path)) and stat[0] == time}


def on_disk(path: str) -> Path:
    """The file that Spark calls ``path``, whatever Python's encoding of names is."""
    return Path(os.fsdecode(path.encode()))


def named(paths: list[str]) -> str:
    """The first few of some paths, and how many there are.

    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = len(paths) - SHOWN
    return ", ".join(paths[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def path_named(uri: str) -> str:
    """The path that a URI names.

    >>> path_named("file:///my%20data/a+b.jsonl"), path_named("file:/my%20data/a+b.jsonl")
    ('/my data/a+b.jsonl', '/my data/a+b.jsonl')
    """
    return unquote(re.sub(SCHEME, "", uri))


def lines_of(taken: DataFrame, uris: list[str]) -> DataFrame:
    """The rows of some files."""
    # in a row Spark writes the same URI with one slash
    spelled = [form for uri in uris for form in (uri, re.sub("^file:///", "file:/", uri))]
    return taken.where(F.col("source_file").isin(spelled))


def known_files(taken: DataFrame, uris: list[str]) -> set[str]:
    """The paths of the files of which bronze has lines."""
    return {path_named(row[0]) for row in lines_of(taken, uris).select("source_file").distinct().collect()}


def known_ids(taken: DataFrame, uris: list[str]) -> np.ndarray:
    """Numbers for the lines of some files in bronze, see :func:`line_ids`."""
    number = F.conv(F.substring("event_id", 1, 15), 16, 10).cast("bigint").alias("id")
    return lines_of(taken, uris).select(number).toPandas()["id"].to_numpy(np.int64)  # type: ignore[index]


def has_others(path: Path, known: np.ndarray) -> bool:
    """Whether a file has lines that are not ``known``; what cannot be read to its end counts as such."""
    try:
        return not np.isin(np.fromiter(line_ids(path), np.int64), known).all()
    except (EOFError, OSError, zlib.error):
        return True


def line_ids(path: Path) -> Iterator[int]:
    """A number for each line that bronze would have: the beginning of its ``event_id``."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines:
        for number, line in enumerate(lines):
            text = line.removesuffix(b"\n")
            text = text.removeprefix(b"\xef\xbb\xbf") if number == 0 else text  # Hadoop leaves a byte order mark out
            if text.strip(BLANK):
                yield int(hashlib.sha256(text).hexdigest()[:15], 16)


def _stat(path: str) -> tuple[int, int] | None:
    """A file's time as Spark notes it, and its bytes; ``None`` where it is gone."""
    try:
        found = os.stat(os.fsdecode(path.encode()))  # noqa: PTH116 - there may be a million files
    except OSError:
        return None
    return found.st_mtime_ns // 1_000_000, found.st_size


def _kept(checkpoint: Path) -> dict[str, list]:
    file = checkpoint / COMPARED
    return json.loads(file.read_text()) if file.exists() else {}


def _keep(checkpoint: Path, kept: dict[str, list]) -> None:
    half = checkpoint / f".{COMPARED}"
    half.write_text(json.dumps(kept))
    put_in_place(half, checkpoint / COMPARED)
