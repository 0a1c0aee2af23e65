"""Group the lines of any file without Spark, so that anyone can check the grouping on their own data."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deadletter.patterns.grouping import group_rows
from deadletter.patterns.masks import MASKS, Mask

CSV_ENDINGS = {".csv": ",", ".tsv": "\t"}
JSON_ENDINGS = (".jsonl", ".ndjson", ".json")
LONGEST_FIELD = 1 << 30
GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class Clustered:
    """What was written."""

    lines: int
    clusters: int


def cluster_file(
    path: str | Path,
    column: str | None,
    id_column: str | None,
    out: str | Path,
    masks: Sequence[Mask] = MASKS,
) -> Clustered:
    """Write ``line_id,cluster_id,template`` for every line of a CSV, TSV, JSON-lines or text file.

    ``column`` holds the text (a text file has none), ``id_column`` the line's id; without it that is the
    line's number from 1, in CSV and TSV the record's. Raises ``ValueError`` for a missing file or column, a
    line that is not JSON, an id that occurs twice, a file that is no text, or one that is ``out`` itself.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = ["id,error", "a,order 7 is lost", "b,queue full", "c,order 8 is lost"]
    >>> _ = (folder / "errors.csv").write_text("\\n".join(rows))
    >>> cluster_file(folder / "errors.csv", "error", "id", folder / "out.csv")
    Clustered(lines=3, clusters=2)
    >>> print((folder / "out.csv").read_text().splitlines()[1].split(",", 2)[2])
    order <*> is lost
    """
    source = Path(path)
    if not source.is_file():
        raise ValueError(f"{source}: no such file")
    if Path(out).exists() and source.samefile(out):
        raise ValueError(f"{out}: the clusters would be written over the texts; name another file")
    _require_text(source)
    rows = list(_read(source, column, id_column))
    _require_unique(source, [line_id for line_id, _ in rows])
    found = group_rows([text for _, text in rows], masks)
    with Path(out).open("w", newline="", encoding="utf-8", errors="replace") as sink:
        writer = csv.writer(sink)
        writer.writerow(("line_id", "cluster_id", "template"))
        writer.writerows((row[0], t.template_id, t.template) for row, t in zip(rows, found, strict=True))
    return Clustered(len(rows), len({template.template_id for template in found}))


def _read(source: Path, column: str | None, id_column: str | None) -> Iterator[tuple[str, str]]:
    ending = source.suffix.lower()
    if ending not in CSV_ENDINGS and ending not in JSON_ENDINGS:
        if column or id_column:
            raise ValueError(f"{source}: a text file has no columns; name it .csv, .tsv or .jsonl if it has")
        with source.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
            yield from ((str(n), line.rstrip("\r\n")) for n, line in enumerate(lines, 1))
        return
    if not column:
        raise ValueError(f"{source}: say which column holds the text")
    is_csv = ending in CSV_ENDINGS
    for number, record in _csv(source, CSV_ENDINGS[ending]) if is_csv else _json(source):
        wanted = [column] + ([id_column] if id_column else [])
        missing = [name for name in wanted if name not in record]
        if missing:
            there = ", ".join(map(str, record)) or "nothing"
            place = f"{'record' if is_csv else 'line'} {number}"
            raise ValueError(f"{source}: {place} has no column {missing[0]!r} (there is: {there})")
        yield str(record[id_column]) if id_column else str(number), _as_text(record[column])


def _csv(source: Path, delimiter: str) -> Iterator[tuple[int, dict]]:
    """Each record with its number: a quoted one can be several lines."""
    csv.field_size_limit(LONGEST_FIELD)
    with source.open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        try:
            yield from enumerate(csv.DictReader(lines, delimiter=delimiter), 1)
        except csv.Error as error:
            raise ValueError(f"{source}: not readable as CSV: {error}") from error


def _json(source: Path) -> Iterator[tuple[int, dict]]:
    """Each object with its line's number."""
    with source.open(encoding="utf-8-sig", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{source}: line {number} is not JSON: {error}") from error
            if not isinstance(record, dict):
                raise ValueError(f"{source}: line {number} is not a JSON object")
            yield number, record


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _require_text(source: Path) -> None:
    """Lines of a packed file could be grouped, too, and would say nothing."""
    with source.open("rb") as file:
        if file.read(len(GZIP)) == GZIP:
            raise ValueError(f"{source}: it is packed with gzip; unpack it first")
        file.seek(0)
        if any(b"\0" in block for block in iter(partial(file.read, 1 << 20), b"")):
            raise ValueError(f"{source}: it holds NUL bytes, which UTF-8 text does not; unpack or convert it first")


def _require_unique(source: Path, ids: list[str]) -> None:
    seen: set[str] = set()
    for line_id in ids:
        if line_id in seen:
            raise ValueError(f"{source}: the id {line_id!r} occurs twice")
        seen.add(line_id)
