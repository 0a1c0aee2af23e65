"""Masking: every value in a text gives way to a placeholder, in Spark and in Python alike."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.errors import UsageError
from deadletter.patterns.masks import MASKS, Mask

MAX_CHARS = 4096
"""Characters (code points) of a text that are looked at: what a text is about stands at its start."""


def load_masks(path: str | Path) -> tuple[Mask, ...]:
    """Read a user's rows and put them before the built-in ones.

    The file is a JSON list of objects with ``name``, ``regex``, ``placeholder`` and, if wished, ``why``
    and ``private``. Raises :class:`UsageError` naming the rule when one cannot be used.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "masks.json")
    >>> _ = file.write_text('[{"name": "sku", "regex": "S[0-9]{3}", "placeholder": "<sku>"}]')
    >>> mask_text("S915 is sold out", load_masks(file))
    '<sku> is sold out'
    """
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"masks file {path} cannot be read as JSON: {error}") from error
    if not isinstance(rows, list):
        raise UsageError(f"masks file {path}: a JSON list of name, regex, placeholder is needed")
    return tuple(_user_mask(path, place, row) for place, row in enumerate(rows, 1)) + MASKS


def _user_mask(path: str | Path, place: int, row: object) -> Mask:
    if not isinstance(row, dict) or not {"name", "regex", "placeholder"} <= set(row):
        raise UsageError(f"masks file {path}: rule {place} needs name, regex and placeholder")
    try:
        compiled = re.compile(row["regex"], re.ASCII)
    except (re.error, TypeError) as error:
        raise UsageError(f"masks file {path}: rule {row['name']!r}: bad regex: {error}") from error
    if compiled.match(""):
        raise UsageError(f"masks file {path}: rule {row['name']!r}: the regex matches the empty text")
    if not re.fullmatch(r"(?:\$1)?<[a-z_]+>", str(row["placeholder"])):
        raise UsageError(
            f"masks file {path}: rule {row['name']!r}: a placeholder looks like <word> or $1<word>"
        )
    return Mask(
        row["name"], row["regex"], row["placeholder"], row.get("why", ""), bool(row.get("private", False))
    )


def mask(text: Column, masks: Sequence[Mask] = MASKS) -> Column:
    """The text's first :data:`MAX_CHARS` characters with every value replaced by its placeholder.

    >>> df = spark.createDataFrame([("Took 1.04 s on mail.example.org",)], "t STRING")
    >>> df.select(mask(F.col("t"))).first()[0]
    'Took <duration> on <host>'
    """
    masked = F.substring(text, 1, MAX_CHARS)
    for row in masks:
        masked = F.regexp_replace(masked, F.lit(row.regex), F.lit(row.placeholder))
    return masked


def mask_text(text: str, masks: Sequence[Mask] = MASKS) -> str:
    """Do what :func:`mask` does, for one Python string.

    >>> mask_text("KeyError: 'currency' while pricing order 793923 of ada@example.org")
    "KeyError: 'currency' while pricing order <num> of <email>"
    """
    masked = text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
    for regex, replacement in _compiled(tuple(masks)):
        masked = regex.sub(replacement, masked)
    return masked


def private_masks(masks: Sequence[Mask] = MASKS) -> tuple[Mask, ...]:
    """The rows that hide persons and secrets, for examples that should otherwise stay readable.

    >>> mask_text("order 42 of ada@example.org", private_masks())
    'order 42 of <email>'
    """
    return tuple(row for row in masks if row.private)


@lru_cache(maxsize=32)
def _compiled(masks: tuple[Mask, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    # Java writes the first group as $1 where Python writes \1
    return tuple((re.compile(m.regex, re.ASCII), m.placeholder.replace("$1", r"\g<1>")) for m in masks)
