"""What is usual among the healthy messages of a queue: the yardstick for the dead ones."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.patterns.shape import APART, WHOLE, facts_of

USUAL = 0.02
"""Share of the healthy messages from which on a path, a type or an encoding is usual among them."""
USUAL_VALUE = 0.005
"""Share of the healthy messages with a path from which on a value belongs to the path's vocabulary."""
MIN_HEALTHY = 20
"""Healthy messages a queue must have for its dead ones to be compared with."""
LARGEST_VOCABULARY = 64
UNSEEN = 0.01
"""A path has a vocabulary when the share of values seen only once, which is about the chance that the
next message brings a new one (Good and Turing), is no greater than this."""
RARE_KEYS = 0.05
"""Share of an object's keys in healthy messages that are rare from which on no key that was seen twice is odd."""
NEW_KEYS = 0.5
"""An object is a map when so many of its keys were seen only once as a share of the messages that have it, which is
about how many new ones the next message brings: its keys are values."""
FIXED_KEY = 0.1
"""Share of the messages with a map from which on a key is none of its values, but one that it has beside them."""
ANY = "<key>"
"""Stands in a path for whatever key a map has."""
PARTS = ("what", "path", "word")


def facts(payload: Column) -> Column:
    """:func:`~deadletter.patterns.shape.facts_of` each payload: ``array<string>``, of which :func:`parts` tells the
    parts."""
    # neither with Arrow nor with pandas: no faster, and every worker takes seconds to load them
    return F.udf(facts_of, "array<string>", useArrow=False)(payload)


def fact(what: Column | str, path: Column | str, word: Column | str) -> Column:
    """One fact; null where a part is. Texts are themselves here, not names of columns."""
    return F.concat(*[part if isinstance(part, Column) else F.lit(part) for part in (what, APART, path, APART, word)])


def parts(facts: Column) -> Column:
    """Facts taken apart: ``array<struct<what, path, word>>``.

    ``what`` is ``path``, ``kind`` or ``value``; the pseudo-paths ``encoding`` and ``length`` have kinds too.

    >>> told = spark.createDataFrame([('{"to": "b"}',)], "payload STRING").select(parts(facts(F.col("payload"))))
    >>> [tuple(fact) for fact in told.first()[0]][2:]
    [('path', '$.to', ''), ('kind', '$.to', 'text'), ('value', '$.to', 'b'), ('kind', 'encoding', 'ASCII'), \
('kind', 'length', '3')]
    """
    split = F.transform(facts, lambda fact: F.split(fact, APART, 3))
    return F.transform(split, lambda part: F.struct(*[part[i].alias(name) for i, name in enumerate(PARTS)]))


def shape(payload: Column, facts: Column) -> Column:
    """The shape of a payload of which ``facts`` are said, as one canonical string: sorted paths with their kinds,
    encoding, size class.

    >>> df = spark.createDataFrame([('{"b": [1, 2], "a": null}',), ('{"a": 1, "b',)], "payload STRING")
    >>> payload = F.col("payload")
    >>> [row[0] for row in df.select(shape(payload, facts(payload))).collect()]
    ['$ object, $.a null, $.b array, $.b[] number; ASCII; 4^2 bytes', '$ truncated; ASCII; 4^1 bytes']
    """
    kinds = F.filter(parts(facts), lambda fact: fact["what"] == "kind")
    inside = F.filter(kinds, lambda fact: fact["path"].startswith(WHOLE))
    paths = F.array_sort(F.transform(inside, lambda fact: F.concat_ws(" ", fact["path"], fact["word"])))
    looks = F.filter(kinds, lambda fact: fact["path"] == "encoding")[0]["word"]
    size = F.concat(F.lit("4^"), size_class(payload).cast("string"), F.lit(" bytes"))
    return F.concat_ws("; ", F.array_join(paths, ", "), looks, size)


def size_class(payload: Column) -> Column:
    """The payload's bytes as a power of four: 3 is 64 to 255 bytes, 6 is 4,096 to 16,383."""
    return F.floor(F.log2(F.greatest(F.octet_length(payload), F.lit(1))) / 2).cast("int")


def profile(healthy: DataFrame, payload_col: str, by: Sequence[str]) -> DataFrame:
    """What is usual among healthy messages, see :func:`profile_of`; ``by`` names the columns of the queue.

    For payloads that are at hand, as tests have them: a run keeps the counts, see :mod:`deadletter.gold.profile`.
    """
    told = healthy.select(*by, F.explode(parts(facts(F.col(payload_col)))).alias("fact"))
    return profile_of(told.groupBy(*by, *[f"fact.{part}" for part in PARTS]).agg(F.count(F.lit(1)).alias("n")), by)


def profile_of(counted: DataFrame, by: Sequence[str]) -> DataFrame:
    """What is usual among healthy messages, a row for each combination of ``by`` with :data:`MIN_HEALTHY` of them.

    ``counted`` has each of the :func:`facts` as ``what, path, word``, and in ``n`` how many healthy messages say it.
    Columns: ``by``, ``messages``, ``usual`` (the usual facts), ``required`` (the facts that tell of paths that are
    there whenever the object they belong to is), ``vocabularies`` (the paths with few values), ``longest`` (the
    greatest usual length, as a power of two) and ``maps`` (the paths of objects whose keys are values; the usual facts
    tell the kinds that these have by the path :func:`any_key`).
    """
    keys = list(by)
    return _summarised(_judged(counted, keys), keys).where(F.col("messages") >= MIN_HEALTHY)


def _judged(counted: DataFrame, keys: list[str]) -> DataFrame:
    """Say of each counted fact whether it is usual, of each path whether it has a vocabulary, and of each object or
    array (the ``container`` of others) whether it is a map, with the kinds that ``any`` of its keys has."""
    all_of = Window.partitionBy(*keys)
    alike = Window.partitionBy(*keys, "what", "path")
    is_value = F.col("what") == "value"
    told = (
        counted.withColumn("of", F.sum("n").over(alike))
        .withColumn("messages", F.max(F.when(F.col("path") == "encoding", F.col("of"))).over(all_of))
        .withColumn("once", F.sum(F.when(F.col("n") == 1, 1).otherwise(0)).over(alike))
        .withColumn("different", F.count(F.lit(1)).over(alike))
        .withColumn(
            "vocabulary",
            is_value
            & (F.col("different") <= LARGEST_VOCABULARY)
            & (F.col("of") >= MIN_HEALTHY)
            & (F.col("once") <= UNSEEN * F.col("of")),
        )
    )
    usual_value = F.col("vocabulary") & (F.col("n") >= USUAL_VALUE * F.col("of"))
    # of a path that is not usual nobody asks what is there: a map has many
    usual_kind = (F.col("n") >= USUAL * F.col("of")) & _usual_path(F.col("of"))
    usual = F.when(is_value, usual_value).when(F.col("what") == "path", _usual_path(F.col("n"))).otherwise(usual_kind)
    return _with_container(told, keys).withColumn("usual", usual)


def _with_container(told: DataFrame, keys: list[str]) -> DataFrame:
    """Add the ``container`` that each path lies in, ``within``: how many messages have it, and of one that is an object
    whether it ``is_map`` and whether it has ``rare_keys``; ``any`` is the kind of a map's keys that a row tells of."""
    path, n = F.col("path"), F.col("n")
    is_path, is_kind, element = F.col("what") == "path", F.col("what") == "kind", path.endswith("[]")
    container = F.when(element, F.left(path, F.length(path) - 2)).when(is_key(path), parent_of(path))
    inside = told.withColumns({"container": F.when(is_path | is_kind, container), "element": element})
    of_kind = told.where(is_kind & F.col("word").isin("object", "array")).select(
        *keys, path.alias("container"), (F.col("word") == "array").alias("element"), n.alias("within")
    )
    one = [*keys, "container", "element"]
    own, alike = Window.partitionBy(*one), Window.partitionBy(*one, "what", "word")

    def counted(which: Column, count: Column = n) -> Column:
        return F.coalesce(F.sum(F.when(is_path & which, count)).over(own), F.lit(0))

    is_object = F.col("container").isNotNull() & ~F.col("element")
    every, once = counted(F.lit(True)), counted(n == 1, F.lit(1))
    # one odd message of few has several keys that were seen once
    is_map = is_object & (once >= MIN_HEALTHY) & (once >= NEW_KEYS * F.col("within"))
    rare_keys = is_object & (counted(n < USUAL * F.col("within")) >= RARE_KEYS * every)
    of_any = is_kind & F.col("is_map") & (F.sum("n").over(alike) >= USUAL * every)
    return (
        inside.join(of_kind, one, "left")
        .withColumn("within", F.coalesce("within", "messages"))
        .withColumns({"is_map": is_map, "rare_keys": rare_keys})
        .withColumn("any", F.when(of_any, fact("kind", any_key(F.col("container")), F.col("word"))))
    )


def _usual_path(n: Column) -> Column:
    """Whether a path that ``n`` messages have is usual: mostly as a share of those with what it lies in. What lies in
    something that only one of many messages has is not, or all that is in a map would be."""
    within = F.col("within")
    several = (n >= 2) | (n >= USUAL * F.col("messages"))
    fixed = n >= F.least(F.lit(MIN_HEALTHY), FIXED_KEY * within)
    share = ((n >= USUAL * within) & several) | (F.col("rare_keys") & (n >= 2))
    return F.when(F.col("is_map"), fixed & (n >= 2)).otherwise(share)


def _summarised(judged: DataFrame, keys: list[str]) -> DataFrame:
    in_many = (F.col("what") == "path") & (F.col("n") >= USUAL * F.col("messages"))
    is_object = (F.col("what") == "kind") & (F.col("word") == "object")
    is_length = (F.col("what") == "kind") & (F.col("path") == "length") & F.col("usual")
    path = F.struct("path", "n")
    gathered = judged.groupBy(*keys).agg(
        F.max("messages").alias("messages"),
        F.collect_set(F.when(F.col("usual"), fact(*map(F.col, PARTS)))).alias("_usual"),
        F.collect_set("any").alias("_any"),
        F.collect_set(F.when(in_many, path)).alias("_paths"),
        F.map_from_entries(F.collect_set(F.when(is_object, path))).alias("_objects"),
        F.array_sort(F.collect_set(F.when(F.col("vocabulary"), F.col("path")))).alias("vocabularies"),
        F.max(F.when(is_length, F.col("word").cast("int"))).alias("longest"),
        F.array_sort(F.collect_set(F.when(F.col("is_map"), F.col("container")))).alias("maps"),
    )
    always = F.filter(
        "_paths",
        lambda p: p["n"] >= (1 - USUAL) * F.try_element_at("_objects", parent_of(p["path"])).cast("double"),
    )
    required = F.array_sort(F.transform(always, lambda p: fact("path", p["path"], "")))
    usual = F.array_sort(F.concat("_usual", "_any"))
    columns = ("messages", usual.alias("usual"), required.alias("required"), "vocabularies", "longest", "maps")
    return gathered.select(*keys, *columns)


def is_key(path: Column) -> Column:
    """Whether a path is that of an object's key: neither the whole nor an array's elements."""
    return path.startswith(WHOLE) & F.contains(path, F.lit(".")) & ~path.endswith("[]")


def any_key(path: Column) -> Column:
    """The path of whatever key the map at ``path`` has."""
    return F.concat(path, F.lit(f".{ANY}"))


def parent_of(path: Column) -> Column:
    r"""The path of the object that a path belongs to.

    >>> df = spark.createDataFrame([("$.to.mail",), (r"$.to[].mail\.box",), (r"$.a\\.b",)], "path STRING")
    >>> for row in df.select(parent_of(F.col("path"))).collect():
    ...     print(row[0])
    $.to
    $.to[]
    $.a\\
    """
    return F.regexp_replace(path, r"^((?:[^\\.]++|\\.|\.)*)\.(?:[^\\.]++|\\.)*$", "$1")
