"""The masking table of a lake: the built-in rows, after those people put into the lake."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from deadletter.errors import UsageError
from deadletter.files import put_in_place
from deadletter.lake import Lake
from deadletter.patterns.masking import load_masks
from deadletter.patterns.masks import MASKS, Mask
from deadletter.spark.regexes import unreadable

FILE = "masks.json"
"""The lake's own rows, in the lake's folder."""


def lake_masks(lake: Lake) -> tuple[Mask, ...]:
    """The whole table in order; :class:`UsageError` where the lake's own rows cannot be used."""
    own = Path(lake.folder, FILE)
    return load_masks(own) if own.exists() else MASKS


def _require_readable(lake: Lake, path: str, rows: Sequence[Mask]) -> None:
    """Raise :class:`UsageError` where Spark, whose regular expressions are Java's, cannot read what Python can."""
    foreign = unreadable(lake.spark, [row.regex for row in rows])
    if foreign:
        name = next(row.name for row in rows if row.regex == foreign[0])
        raise UsageError(
            f"masks file {path}: rule {name!r}: the regex is none of Java's, by which Spark reads it; a group there "
            "has no name"
        )


def adopt_masks(lake: Lake, path: str) -> None:
    """Make a file's rows the lake's own from now on; :class:`UsageError` where one cannot be used."""
    rows = load_masks(path)[: -len(MASKS)]
    _require_readable(lake, path, rows)
    text = json.dumps([{k: v for k, v in asdict(row).items() if k != "needs"} for row in rows], indent=2)
    with lake.lock():  # another run may be at work with the rows that are there
        Path(lake.folder).mkdir(parents=True, exist_ok=True)
        new = Path(lake.folder, f"{FILE}.new")
        new.write_text(text + "\n", encoding="utf-8")
        put_in_place(new, Path(lake.folder, FILE))  # a full disk must not cost the rows that were there
