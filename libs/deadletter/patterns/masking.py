"""Masking: every value in a text gives way to a placeholder, in Spark and in Python alike."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from operator import or_
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.errors import UsageError
from deadletter.patterns.codes import CLOSE, OPEN
from deadletter.patterns.masks import MASKS, Mask
from deadletter.spark.columns import bound

MAX_CHARS = 4096
"""Characters (code points) of a text that are looked at: what a text is about stands at its start."""
CUT_OFF = 256
"""Characters that a text which was cut loses at its end once it is masked, unless a placeholder ends there: half of a
value may look like none."""
PLACEHOLDER = "<[a-z_]+>"
"""What a placeholder looks like, as does many an element's name: what stands before it is whole in any case."""
BLOCK = 8
KEYS = frozenset(("name", "regex", "placeholder", "why", "private", "keep"))
"""What a user's row may have: of a misspelt ``private`` nobody would learn."""
Step = Callable[[Column], Column]


def load_masks(path: str | Path) -> tuple[Mask, ...]:
    """Read a user's rows and put them before the built-in ones.

    The file is a JSON list of objects with ``name``, ``regex`` and, if wished, ``placeholder`` (``<name>``
    unless given), ``why`` and ``private``, or with ``keep`` for a code, which is no value; or TOML with a table
    ``[[mask]]`` for each. Raises :class:`UsageError` naming the rule when one cannot be used.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "masks.json")
    >>> _ = file.write_text('[{"name": "sku", "regex": "S[0-9]{3}"}]')
    >>> mask_text("S915 is sold out", load_masks(file))
    '<sku> is sold out'
    """
    form = "TOML" if Path(path).suffix == ".toml" else "JSON"
    try:
        text = Path(path).read_text(encoding="utf-8")
        rows = tomllib.loads(text).get("mask") if form == "TOML" else json.loads(text)
    except OSError as error:
        raise UsageError(f"masks file {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"masks file {path} cannot be read as {form}: {error}") from error
    if not isinstance(rows, list):
        raise UsageError(f"masks file {path}: a {form} list of name, regex, placeholder is needed")
    return tuple(_user_mask(path, place, row) for place, row in enumerate(rows, 1)) + MASKS


def _user_mask(path: str | Path, place: int, row: object) -> Mask:
    if not isinstance(row, dict) or not {"name", "regex"} <= set(row):
        raise UsageError(f"masks file {path}: rule {place} needs name and regex")
    if unknown := sorted(set(row) - KEYS):
        raise UsageError(f"masks file {path}: rule {place}: {unknown[0]!r} is none of {', '.join(sorted(KEYS))}")
    for kind, names in {str: ("name", "regex", "why"), bool: ("keep", "private")}.items():
        if wrong := [name for name in names if not isinstance(row.get(name, kind()), kind)]:
            needed = "a text" if kind is str else "true or false"
            raise UsageError(f"masks file {path}: rule {place}: {wrong[0]} is to be {needed}")
    keep, private = row.get("keep", False), row.get("private", False)
    if keep and private:
        raise UsageError(f"masks file {path}: rule {row['name']!r}: what is private is not kept")
    placeholder = f"{OPEN}$0{CLOSE}" if keep else str(row.get("placeholder", f"<{row['name']}>"))
    try:
        compiled = re.compile(row["regex"], re.ASCII)
    except (re.error, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"masks file {path}: rule {row['name']!r}: bad regex: {error}") from error
    if compiled.match(""):
        raise UsageError(f"masks file {path}: rule {row['name']!r}: the regex matches the empty text")
    if not keep and not re.fullmatch(r"(?:\$1)?<[a-z_]+>", placeholder):
        raise UsageError(f"masks file {path}: rule {row['name']!r}: a placeholder looks like <word> or $1<word>")
    if "$1" in placeholder and not compiled.groups:
        raise UsageError(f"masks file {path}: rule {row['name']!r}: $1 is a group that the regex does not have")
    return Mask(row["name"], row["regex"], placeholder, row.get("why", ""), private, keep=keep)


def mask(text: Column, masks: Sequence[Mask] = MASKS, most: int = MAX_CHARS) -> Column:
    """The text's first ``most`` characters with every value replaced by its placeholder; of a longer text without the
    last :data:`CUT_OFF`, or without what follows its last placeholder where that is less.

    >>> df = spark.createDataFrame([("Took 1.04 s on mail.example.org",)], "t STRING")
    >>> df.select(mask(F.col("t"))).first()[0]
    'Took <duration> on <host>'
    """
    masked = in_turn(F.substring(text, 1, most), [_step(row) for row in masks])
    is_cut = F.length(text) > most

    def kept(masked: Column) -> Column:
        to_placeholder = F.regexp_extract(masked, f"(?s)^.*{PLACEHOLDER}", 0)
        length = F.greatest(F.length(masked) - CUT_OFF, F.length(to_placeholder), F.lit(0))
        return F.when(is_cut, F.substr(masked, F.lit(1), length)).otherwise(masked)

    return bound(masked, kept)


def mask_text(text: str, masks: Sequence[Mask] = MASKS) -> str:
    """Do what :func:`mask` does, for one Python string.

    >>> mask_text("KeyError: 'currency' while pricing order 793923 of ada@example.org")
    "KeyError: 'currency' while pricing order <num> of <email>"
    """
    masked = text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
    for regex, replacement, needs in _compiled(tuple(masks)):
        if not needs or any(part in masked for part in needs):
            masked = regex.sub(replacement, masked)
    if len(text) <= MAX_CHARS:
        return masked
    to_placeholder = re.match(f"(?s).*{PLACEHOLDER}", masked)
    return masked[: max(len(masked) - CUT_OFF, to_placeholder.end() if to_placeholder else 0)]


def private_masks(masks: Sequence[Mask] = MASKS) -> tuple[Mask, ...]:
    """The rows that hide persons and secrets, for examples that should otherwise stay readable.

    >>> mask_text("order 42 of ada@example.org", private_masks())
    'order 42 of <email>'
    """
    return tuple(row for row in masks if row.private)


def shown_value(parent: Column, key: Column, value: Column, masks: Sequence[Mask] = MASKS) -> Column:
    """A value of JSON as people may see it: some are private by what they are, others by their ``key`` or, by that of
    the object they are in, by whose they are.

    >>> rows = [("", "host", "web-1"), ("", "token", "ab"), ("customer", "name", "Ada"), ("order", "name", "created")]
    >>> df = spark.createDataFrame(rows, "parent STRING, key STRING, value STRING")
    >>> [row[0] for row in df.select(shown_value(*map(F.col, df.columns))).collect()]
    ['web-1', '<secret>', '<name>', 'created']
    """
    private = private_masks(masks)
    own = mask(value, private)  # on its own first: a user's row may ask for the whole of it
    there = F.concat(F.lit('"'), parent, F.lit('": {"'), key, F.lit('": "'), own, F.lit('"}'))
    told = bound(there, lambda there: mask(there, private))  # all that is in it, where the parent's is private
    return F.regexp_extract(told, r'(?s)^"[^"]*": (?:\{"[^"]*": )?"?(.*?)"?\}?$', 1)


def in_turn(text: Column, steps: Sequence[Step]) -> Column:
    """Apply the steps one after the other.

    Forty nested calls are more than Spark Connect's messages may be deep, so the chain is a fold over the
    steps' numbers, in blocks so that finding a step takes few comparisons.
    """
    blocks = [steps[n : n + BLOCK] for n in range(0, len(steps), BLOCK)]
    chosen = steps if len(blocks) <= 1 else [partial(in_turn, steps=block) for block in blocks]
    if not chosen:
        return text
    numbers = F.sequence(F.lit(0), F.lit(len(chosen) - 1))
    return F.aggregate(numbers, text, lambda so_far, number: _chosen(so_far, number, chosen))


def _chosen(text: Column, number: Column, steps: Sequence[Step]) -> Column:
    cases = F.when(number == 0, steps[0](text))
    for n, step in enumerate(steps[1:], 1):
        cases = cases.when(number == n, step(text))
    return cases


def _step(row: Mask) -> Step:
    def step(text: Column) -> Column:
        masked = F.regexp_replace(text, F.lit(row.regex), F.lit(row.placeholder))
        if not row.needs:
            return masked
        needed = reduce(or_, [F.contains(text, F.lit(part)) for part in row.needs])
        return F.when(needed, masked).otherwise(text)

    return step


@lru_cache(maxsize=32)
def _compiled(masks: tuple[Mask, ...]) -> tuple[tuple[re.Pattern[str], str, tuple[str, ...]], ...]:
    # Java writes the first group as $1 where Python writes \\g<1>
    return tuple((re.compile(m.regex, re.ASCII), re.sub(r"\$(\d)", r"\\g<\1>", m.placeholder), m.needs) for m in masks)
