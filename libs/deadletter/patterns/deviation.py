"""What is wrong with a dead payload: how it differs from the healthy messages of the same queue.

A message that departs in nothing from the profile *looks healthy*: it failed for a reason outside its
payload and belongs to no family of broken ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.patterns.masking import shown_value
from deadletter.patterns.masks import MASKS, Mask
from deadletter.patterns.profile import any_key, fact, facts, is_key, parent_of, parts, shape
from deadletter.patterns.shape import APART, WHOLE

HEALTHY = "looks healthy"
UNSEEN = "payload not seen"
ALIKE = (HEALTHY, UNSEEN)
"""Keys that say nothing of what is wrong with a payload."""
NO_PROFILE = "too few healthy messages to compare with: "
"""How a key begins that is a payload's shape, of which nobody knows whether it is wrong."""
NOBODYS = "<(?:email|name|phone|card|iban|token|secret)>"
"""How a value is shown that names somebody, or is a secret: no queue has a vocabulary of these."""
TOO_LONG = 2
"""Powers of two that a payload's length must lie above the longest usual ones."""
FIRST_KEY = r"^(?:[^\\.]|\\.)*?(?=(?:\[\])*(?:\.|$))"
"""The first key of what lies below an object, without the sign of an array's elements."""
MOST_DEPARTURES = 200
"""Departures of one payload that are looked at, the shortest paths first: what lies below one only follows from it."""


def deviations(
    dead: DataFrame,
    profiles: DataFrame,
    payload_col: str,
    by: Sequence[str],
    masks: Sequence[Mask] = MASKS,
) -> DataFrame:
    """Add ``deviation_key`` (canonical, equal for messages that are wrong in the same way) and ``deviation``.

    ``profiles`` is what is usual by queue, see :func:`deadletter.patterns.profile.profile_of`; ``by`` names the columns
    of the queue. ``deviation`` is a list of sentences for people, empty where the payload looks healthy, or its queue
    has too few healthy messages. Of a payload that no event showed (null) nothing is said. A key of a map is a value:
    what is told is only where it has something that no other key of the map has.

    >>> from deadletter.patterns.profile import profile
    >>> good = [("q", '{"id": %d, "to": "a"}' % n) for n in range(30)]
    >>> bad = [("q", '{"id": 7}'), good[0]]
    >>> bad += [("q", '{"id": null, "to": "a"}'), ("q", '{"id": 7, "to": "b"}'), ("q", '{"id": 7, "t')]
    >>> usual = profile(spark.createDataFrame(good, "queue STRING, payload STRING"), "payload", ["queue"])
    >>> found = deviations(spark.createDataFrame(bad, "queue STRING, payload STRING"), usual, "payload", ["queue"])
    >>> for row in found.orderBy("deviation_key").collect():
    ...     print(row.deviation_key, row.deviation)
    $ truncated ['the payload is truncated']
    $.id null ['$.id is null instead of number']
    $.to = b ['$.to has a value that hardly any healthy message has: b']
    $.to missing ['$.to is missing']
    looks healthy []
    >>> stock = [("q", '{"stock": {"sku-%s": 1}}' % chr(97 + n)) for n in range(26)]
    >>> usual = profile(spark.createDataFrame(stock, "queue STRING, payload STRING"), "payload", ["queue"])
    >>> other = [("q", '{"stock": {"lamp": 3}}'), ("q", '{"stock": {"lamp": null}}')]
    >>> found = deviations(spark.createDataFrame(other, "queue STRING, payload STRING"), usual, "payload", ["queue"])
    >>> sorted(row.deviation_key for row in found.collect())
    ['$.stock.<key> null', 'looks healthy']
    """
    said = dead.withColumn("_facts", facts(F.col(payload_col)))
    # each in a column of its own: inside a function of arrays an expression is computed again for every element
    wrong = (
        _with_yardstick(said, profiles, by)
        .withColumn("_odd", _odd(F.col("_facts"), F.col("_usual")))
        .withColumn("_odd", _with_values_as_such(F.col("_odd"), F.col("_usual")))
        .withColumn("_gone", parts(F.array_except("_usual.required", "_facts")))
        .withColumn("_gone", _outside_values(F.col("_gone"), F.col("_usual")))
        .withColumn("_wrong", _wrong(F.col("_facts"), F.col("_odd"), F.col("_gone"), F.col("_usual"), masks))
        .withColumn("_wrong", F.slice(F.array_sort("_wrong"), 1, MOST_DEPARTURES))
        .withColumn("_wrong", _top_most(F.col("_wrong")))
    )
    incomparable = F.concat(F.lit(NO_PROFILE), shape(F.col(payload_col), F.col("_facts")))
    words = F.array_distinct(F.col("_wrong.key"))
    key = F.when(F.size("_wrong") > 0, F.array_join(F.array_sort(words), "; ")).otherwise(HEALTHY)
    key = F.when(F.col("_usual").isNull(), incomparable).otherwise(key)
    seen = F.col(payload_col).isNotNull()
    sentences = F.when(seen, F.array_distinct(F.col("_wrong.sentence")))
    return wrong.select(
        *dead.columns,
        F.when(seen, key).otherwise(UNSEEN).alias("deviation_key"),
        F.coalesce(sentences, F.array().cast("array<string>")).alias("deviation"),
    )


def tells_a_fault(key: Column) -> Column:
    """Whether a ``deviation_key`` says what is wrong with a payload."""
    return ~key.isin(*ALIKE) & ~key.startswith(NO_PROFILE)


def _with_yardstick(dead: DataFrame, profiles: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add ``_usual``, the queue's profile; null where it has too few healthy messages for one."""
    yardstick = F.struct("messages", "usual", "required", "vocabularies", "longest", "maps")
    own = profiles.select(*[F.col(name).alias(f"_own_{name}") for name in by], yardstick.alias("_usual"))
    same = [F.col(name) == F.col(f"_own_{name}") for name in by]
    return dead.join(F.broadcast(own), same, "left")


def _odd(said: Column, usual: Column) -> Column:
    """What of ``said`` is not usual, taken apart; values only of paths with a vocabulary, as those of others differ."""
    unusual = parts(F.array_except(said, usual["usual"]))
    return F.filter(unusual, lambda f: (f["what"] != "value") | F.array_contains(usual["vocabularies"], f["path"]))


def _with_values_as_such(odd: Column, usual: Column) -> Column:
    """``odd`` without what is told of unusual keys of maps, which are values, and of what lies below them; instead
    their kinds, told of any key, where these are no usual ones of the map."""
    theirs = F.filter(odd, lambda f: (f["what"] == "kind") & F.array_contains(usual["maps"], parent_of(f["path"])))
    values = F.filter(theirs, lambda f: is_key(f["path"]) & _is_in_value(f["path"], usual))
    kinds = F.array_distinct(F.transform(values, lambda f: f.withField("path", any_key(parent_of(f["path"])))))
    unlike = F.filter(kinds, lambda f: ~F.array_contains(usual["usual"], fact("kind", f["path"], f["word"])))
    return F.when(F.size(usual["maps"]) > 0, F.concat(_outside_values(odd, usual), unlike)).otherwise(odd)


def _outside_values(told: Column, usual: Column) -> Column:
    """What is ``told`` of paths that are no values of maps, nor lie below one."""
    others = F.filter(told, lambda f: ~_is_in_value(f["path"], usual))
    return F.when(F.size(usual["maps"]) > 0, others).otherwise(told)


def _is_in_value(path: Column, usual: Column) -> Column:
    """Whether a path is that of an unusual key of a map, or lies below one."""

    def is_value(map_: Column) -> Column:
        inside = F.concat(map_, F.lit("."))
        key = F.regexp_extract(F.substr(path, F.length(inside) + 1), FIRST_KEY, 0)
        is_usual = F.array_contains(usual["usual"], fact("path", F.concat(inside, key), ""))
        return path.startswith(inside) & ~is_usual

    return F.exists(usual["maps"], is_value)


def _wrong(said: Column, odd: Column, gone: Column, usual: Column, masks: Sequence[Mask]) -> Column:
    """All departures of one message that says ``said``, of which ``odd`` is not usual, and does not say ``gone``, which
    is required: ``array<struct<length, path, rank, key, sentence>>``; null for none, as nothing is looked at then."""
    broken = F.filter(odd, lambda f: (f["what"] == "kind") & (f["path"] == WHOLE))
    whole = _told(broken, lambda f: (f["word"], F.concat(F.lit("the payload is "), f["word"])))
    inside = F.concat(_new(odd), _missing(said, gone), _other_kind(odd, usual), _other_value(odd, masks))
    all_of = F.when(F.size(broken) > 0, whole).otherwise(F.concat(inside, _encoding(odd), _length(odd, usual)))
    return F.when((F.size(odd) > 0) | (F.size(gone) > 0), all_of)


def _new(odd: Column) -> Column:
    paths = F.filter(odd, lambda f: f["what"] == "path")
    return _told(paths, lambda f: (F.lit("new"), F.concat(f["path"], F.lit(" is in hardly any healthy message"))))


def _missing(said: Column, gone: Column) -> Column:
    missing = F.filter(gone, lambda f: F.array_contains(said, fact("kind", parent_of(f["path"]), "object")))
    return _told(missing, lambda f: (F.lit("missing"), F.concat(f["path"], F.lit(" is missing"))))


def _other_kind(odd: Column, usual: Column) -> Column:
    kinds = F.filter(odd, lambda f: (f["what"] == "kind") & f["path"].startswith(WHOLE))

    def told(f: Column) -> tuple[Column, Column]:
        instead = F.filter(usual["usual"], lambda u: u.startswith(fact("kind", f["path"], "")))
        expected = F.array_join(F.transform(instead, lambda u: F.substring_index(u, APART, -1)), " or ")
        return f["word"], F.concat(f["path"], F.lit(" is "), f["word"], F.lit(" instead of "), expected)

    return _told(kinds, told, rank=1)


def _other_value(odd: Column, masks: Sequence[Mask]) -> Column:
    values = F.filter(odd, lambda f: f["what"] == "value")

    def told(f: Column) -> tuple[Column, Column]:
        # the value goes into keys and reports: nobody's address or secret may travel with it
        word = _without_private(f["path"], f["word"], masks)
        return word, F.concat(f["path"], F.lit(" has a value that hardly any healthy message has: "), word)

    return F.filter(_told(values, told, rank=2, sign=" = "), lambda w: ~w["key"].rlike(f" = {NOBODYS}$"))


def _without_private(path: Column, word: Column, masks: Sequence[Mask]) -> Column:
    """A value as people may see it, see :func:`~deadletter.patterns.masking.shown_value`."""
    # a key with a dot in it is read as a parent and its key
    names = r"(?:([^.\[\]]*?)\\*[\[\]]*\.)?([^.\[\]]*)[\[\]]*$"
    parent, key = (F.regexp_extract(path, names, group) for group in (1, 2))
    has_digits = F.contains(word, F.lit("#"))  # which are told apart in numbers only
    plain = F.when(has_digits, F.translate(word, "#", "1")).otherwise(word)  # masks look for digits
    shown = shown_value(parent, key, plain, masks)
    return F.when(has_digits, F.translate(shown, "1", "#")).otherwise(shown)


def _encoding(odd: Column) -> Column:
    other = F.filter(odd, lambda f: (f["what"] == "kind") & (f["path"] == "encoding"))
    return _told(other, lambda f: (f["word"], F.concat(F.lit("the text has "), f["word"])))


def _length(odd: Column, usual: Column) -> Column:
    least = usual["longest"] + TOO_LONG
    longer = F.filter(odd, lambda f: (f["path"] == "length") & (f["word"].cast("int") >= least))
    return _told(longer, lambda f: (F.lit("too long"), F.lit("the payload is much longer than healthy ones")))


def _told(found: Column, tell: Callable[[Column], tuple[Column, Column]], rank: int = 0, sign: str = " ") -> Column:
    """Turn facts into ``struct<length, path, rank, key, sentence>``; of one path only the lowest rank is kept."""

    def one(odd: Column) -> Column:
        word, sentence = tell(odd)
        key = F.concat(odd["path"], F.lit(sign), word)
        return F.struct(
            F.length(odd["path"]).alias("length"),
            odd["path"].alias("path"),
            F.lit(rank).alias("rank"),
            key.alias("key"),
            sentence.alias("sentence"),
        )

    return F.transform(found, one)


def _top_most(wrong: Column) -> Column:
    """Drop what only follows from another departure: what lies below its path, the type of a new path, ..."""
    return F.filter(wrong, lambda w: ~F.exists(wrong, lambda other: _follows(w, other)))


def _follows(w: Column, other: Column) -> Column:
    below = w["path"].startswith(F.concat(other["path"], F.lit("."))) | w["path"].startswith(
        F.concat(other["path"], F.lit("["))
    )
    return below | ((w["path"] == other["path"]) & (w["rank"] > other["rank"]))
