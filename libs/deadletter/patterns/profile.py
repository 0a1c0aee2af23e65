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
MAP = 0.05
"""Share of an object's keys in healthy messages from which on, where so many are rare, no key that is among them is
odd; and where so many came once, it is a map: its keys are values, and the next message brings others."""
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
    """Say of each counted kind and value whether it is usual, of each path whether it has a vocabulary."""
    all_of = Window.partitionBy(*keys)
    alike = Window.partitionBy(*keys, "what", "path")
    is_value = F.col("what") == "value"
    return (
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
        .withColumn(
            "usual",
            F.when(is_value, F.col("vocabulary") & (F.col("n") >= USUAL_VALUE * F.col("of"))).otherwise(
                F.col("n") >= USUAL * F.col("of")
            ),
        )
    )


def _summarised(judged: DataFrame, keys: list[str]) -> DataFrame:
    is_path, is_kind = F.col("what") == "path", F.col("what") == "kind"
    is_length = is_kind & (F.col("path") == "length") & F.col("usual")
    parent = F.when(is_key(F.col("path")), parent_of(F.col("path"))).alias("parent")
    objects = F.collect_set(F.when(is_kind & (F.col("word") == "object"), F.struct("path", "n")))
    gathered = judged.groupBy(*keys).agg(
        F.max("messages").alias("messages"),
        F.collect_set(F.when(~is_path & F.col("usual"), fact(*map(F.col, PARTS)))).alias("_usual"),
        F.collect_list(F.when(is_path, F.struct("path", parent, "n"))).alias("_paths"),
        F.collect_list(F.when(is_kind, F.struct(parent, "word", "n"))).alias("_kinds"),
        F.map_from_entries(objects).alias("_objects"),
        F.array_sort(F.collect_set(F.when(F.col("vocabulary"), F.col("path")))).alias("vocabularies"),
        F.max(F.when(is_length, F.col("word").cast("int"))).alias("longest"),
    )
    common = F.filter(F.map_entries("_objects"), lambda entry: entry["value"] >= MIN_HEALTHY)
    told = (
        gathered.withColumn("_objects_told", F.transform(common, lambda entry: _keys_of(entry["key"], entry["value"])))
        .withColumn("maps", F.array_sort(F.filter("_objects_told", _is_map)["path"]))
        .withColumn("_loose", F.filter("_objects_told", _has_rare_keys)["path"])
    )
    paths = F.transform(F.filter("_paths", _is_usual), lambda p: fact("path", p["path"], ""))
    usual = F.array_sort(F.concat("_usual", paths, F.flatten(F.transform("maps", _usual_kinds))))
    always = F.filter(
        "_paths",
        lambda p: (p["n"] >= USUAL * F.col("messages")) & (p["n"] >= (1 - USUAL) * _times(p["parent"])),
    )
    required = F.array_sort(F.transform(always, lambda p: fact("path", p["path"], "")))
    columns = ("messages", usual.alias("usual"), required.alias("required"), "vocabularies", "longest", "maps")
    return told.select(*keys, *columns)


def _times(path: Column) -> Column:
    """How many messages have an object at ``path``; null for none."""
    return F.try_element_at("_objects", path).cast("double")


def _keys_of(path: Column, messages: Column) -> Column:
    """Of the object at ``path``, which so many ``messages`` have, how often ``all`` of its keys came, how often those
    that are ``rare``, and how many came ``once``."""
    own = F.filter("_paths", lambda p: p["parent"] == path)
    rare = F.filter(own, lambda p: p["n"] < USUAL * messages)
    once = F.size(F.filter(own, lambda p: p["n"] == 1))
    return F.struct(path.alias("path"), _sum(own).alias("all"), _sum(rare).alias("rare"), once.alias("once"))


def _sum(counted: Column) -> Column:
    return F.aggregate(counted, F.lit(0).cast("bigint"), lambda so_far, one: so_far + one["n"])


def _is_map(told: Column) -> Column:
    # one odd message has several keys that came once
    return (told["once"] >= MAP * told["all"]) & (told["once"] >= MIN_HEALTHY)


def _has_rare_keys(told: Column) -> Column:
    return told["rare"] >= MAP * told["all"]


def _is_usual(p: Column) -> Column:
    """Whether a path is: most are by how many of the messages with the object that they belong to have them."""
    by_share = p["n"] >= USUAL * F.coalesce(_times(p["parent"]), F.col("messages"))
    return (
        F.when(F.array_contains("maps", p["parent"]), p["n"] >= MIN_HEALTHY)
        .when(F.array_contains("_loose", p["parent"]), True)
        .otherwise(by_share)
    )


def _usual_kinds(path: Column) -> Column:
    """The facts that tell the usual kinds of what any key of the map at ``path`` has."""
    own = F.filter("_kinds", lambda kind: kind["parent"] == path)
    least = USUAL * _sum(own)

    def is_usual(word: Column) -> Column:
        return _sum(F.filter(own, lambda kind: kind["word"] == word)) >= least

    words = F.filter(F.array_distinct(own["word"]), is_usual)
    return F.transform(words, lambda word: fact("kind", any_key(path), word))


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
