"""From a masked text to its signature: the words and marks that are left, in one canonical spelling.

What varies between two messages of one kind without meaning anything is taken away here: which kind of
value stood at a place, how many values a list had, whether a value was repeated in brackets, rulers of
dots, and spaces.

A skeleton replaces every digit, and every hexadecimal letter near a digit, by one digit, but for those of codes
(:mod:`deadletter.patterns.codes`). Many texts share one, so the expensive masks run on few.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial, reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.patterns.codes import (
    CLOSE,
    DIGITS,
    LETTERS,
    MARKS,
    OPEN,
    TO_END,
    has_codes,
    spelt_in_letters,
    spelt_in_letters_text,
)
from deadletter.patterns.masking import MAX_CHARS, in_turn, mask, mask_text
from deadletter.patterns.masks import MASKS, Mask
from deadletter.spark.columns import bound

VALUE = "<*>"
"""How a value looks in a signature and a template."""

MAX_TOKENS = 128
"""Tokens of a signature that are kept."""


DIGIT = "1"
"""The digit that stands for every digit in a skeleton: with it an address stays an address and a date a date."""
NEAR = 3
BESIDE = "|".join(f"(?<=[0-9][a-f]{{{n}}})" for n in range(1, NEAR + 2))
HEX_LETTER = f"[a-f](?<=[0-9a-fx-][a-f])(?=[0-9a-f]{{0,64}}(?![A-Za-z0-9_]))(?:(?=[a-f]{{0,{NEAR}}}[0-9])|{BESIDE})"
"""A hex letter: not first in its word, a digit within three characters, only hex characters after it. What has a digit
in it is a value anyway; a key that follows a digit (``s3access_key=``) must stay what it is."""

ANY_DIGIT = f"[0-9]|{HEX_LETTER}"
NO_CODE = f"(?:{ANY_DIGIT})(?!{TO_END})"
"""Asked of digits alone: before each character of a text it would take ten times as long."""

CUT_WORD = r"[^\s\"'<>()\[\]{},;:=|]{1,256}+(?![\s\S])"
"""The last word of a text that was cut, of which the masks would see half: an address looks like none then."""
V = "\x01"
MARK = r"[!#-&(),/:-@\[-^`{-~]"
JOIN = "[,;:/|&=+#~*]"
# each step sees the text with one space at either end; none of them can look further than its bounds
SPELLING: tuple[tuple[str, str], ...] = (
    # a ruler or a row of dots leads the eye and says nothing
    (r"[.]{2,}+|[-=*_#~+]{3,}+", " "),
    # a value glued to words by name-like marks is one name: blk_V, core.V, V.prod, V~amd64
    (
        r"(?<![A-Za-z0-9_.~@+%$-])(?=[A-Za-z0-9_.~@+%$-]{0,256}" + V + r")[A-Za-z0-9_.~@+%$\-" + V + "]++",
        V,
    ),
    # a value said again in brackets, or brackets with nothing in them, may be there or not; no code, which has letters
    # of private use for its digits, and no word of another alphabet
    (r"\([^A-Za-z()\u00C0-\u00D6\u00D8-\u1FFF\u2C00-\uFFFF]{0,64}\)", " "),
    # every mark is a token of its own, except those that belong to a word
    (f"({MARK})", " $1 "),
    (r"(?<= )[.'\"-]++|[.'\"-]++(?= )", " "),
    (" {2,}+", " "),
    # a list of values is one value, however long it is
    (f"{V}(?: (?:{JOIN} ){{0,2}}{V})++", V),
    # a list of anything else is its first member: up to six tokens that come again at once
    ("(?<= )((?:[^ ]++ ){1,6}?)\\1++", "$1"),
)

_NO_MARKS = dict.fromkeys(map(ord, OPEN + CLOSE))
_TO_DIGITS = str.maketrans(LETTERS, DIGITS)


def skeleton(text: Column, masks: Sequence[Mask] = MASKS) -> Column:
    """The text's start with one digit for all digits: all that :func:`signature` needs to know of a text.

    Rows that users added to the masks may look for certain digits, so they are applied before.

    >>> rows = [("blk_42 took 0x7f30 s",), ("blk_79 took 0x1cd5 s",)]
    >>> spark.createDataFrame(rows, "t STRING").select(skeleton(F.col("t"))).distinct().first()[0]
    'blk_11 took 1x1111 s'
    """
    # not `translate`, which looks at each character: a text has hardly ever one of the two
    plain = reduce(lambda so_far, sign: F.replace(so_far, F.lit(sign), F.lit("")), (OPEN, CLOSE), text)
    is_cut = F.length(plain) > MAX_CHARS

    def whole(marked: Column) -> Column:
        return F.when(is_cut, F.regexp_replace(marked, F.lit(CUT_WORD), F.lit(""))).otherwise(marked)

    return bound(bound(mask(plain, (*_added(masks), *MARKS)), whole), _with_one_digit)


def signature(bones: Column, masks: Sequence[Mask] = MASKS) -> Column:
    """The canonical signature of a text's :func:`skeleton`; null stays null.

    >>> rows = [("blk_42 took 1.04 s (1040 ms), see a.b.c",), ("blk_7 took 2 s, see a.b.c",)]
    >>> df = spark.createDataFrame(rows, "t STRING")
    >>> df.select(signature(skeleton(F.col("t")))).distinct().first()[0]
    '<*> took <*> , see a.b.c'
    """
    spelt = F.regexp_replace(mask(spelt_in_letters(bones), _built_in(masks)), "[\\x00-\\x20\\x7f]+", " ")
    spelt = F.concat(F.lit(" "), F.regexp_replace(spelt, F.lit(_placeholders(masks)), F.lit(V)), F.lit(" "))
    spelt = in_turn(spelt, [partial(_respelt, regex=regex, new=new) for regex, new in SPELLING])
    tokens = F.slice(F.split(F.trim(spelt), " "), 1, MAX_TOKENS)
    return F.regexp_replace(F.translate(F.array_join(tokens, " "), LETTERS, DIGITS), F.lit(V), F.lit(VALUE))


def _with_one_digit(marked: Column) -> Column:
    digits, others = (F.regexp_replace(marked, F.lit(regex), F.lit(DIGIT)) for regex in (ANY_DIGIT, NO_CODE))
    return F.when(has_codes(marked), others).otherwise(digits)


def skeleton_text(text: str, masks: Sequence[Mask] = MASKS) -> str:
    """Do what :func:`skeleton` does, for one Python string."""
    plain = text.translate(_NO_MARKS)
    marked = mask_text(plain, (*_added(masks), *MARKS))
    marked = re.sub(CUT_WORD, "", marked, flags=re.ASCII) if len(plain) > MAX_CHARS else marked
    return re.sub(NO_CODE if CLOSE in marked else ANY_DIGIT, DIGIT, marked)


def signature_text(bones: str, masks: Sequence[Mask] = MASKS) -> str:
    """Do what :func:`signature` does, for one Python string.

    >>> text = "HTTPConnectionPool(host='10.1.2.3', port=8080): Read timed out. (read timeout=5)"
    >>> signature_text(skeleton_text(text))
    'HTTPConnectionPool ( host = <*> , port = <*> ) : Read timed out ( read timeout = <*> )'
    """
    spelt = re.sub("[\\x00-\\x20\\x7f]+", " ", mask_text(spelt_in_letters_text(bones), _built_in(masks)))
    spelt = " " + re.sub(_placeholders(masks), V, spelt) + " "
    for regex, replacement in _compiled():
        spelt = regex.sub(replacement, spelt)
    return " ".join(spelt.strip(" ").split(" ")[:MAX_TOKENS]).translate(_TO_DIGITS).replace(V, VALUE)


def _added(masks: Sequence[Mask]) -> tuple[Mask, ...]:
    return tuple(row for row in masks if row not in MASKS)


def _built_in(masks: Sequence[Mask]) -> tuple[Mask, ...]:
    return tuple(row for row in masks if row in MASKS)


def _respelt(text: Column, regex: str, new: str) -> Column:
    return F.regexp_replace(text, F.lit(regex), F.lit(new))


def _placeholders(masks: Sequence[Mask]) -> str:
    words = sorted({re.sub(r"\$1|[<>]", "", row.placeholder.replace("@", "")) for row in masks if not row.keep})
    return f"<(?:{'|'.join(words)})>"


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(regex, re.ASCII), new.replace("$1", r"\g<1>")) for regex, new in SPELLING)
