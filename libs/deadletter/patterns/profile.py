"""What is usual among the healthy messages of a queue: the yardstick for the dead ones."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.patterns.shape import encoding, leaves

USUAL = 0.02
"""Share of the healthy messages from which on a path, a type or an encoding is usual among them."""
USUAL_VALUE = 0.005
"""Share of the healthy messages with a path from which on a value belongs to the path's vocabulary."""
MIN_HEALTHY = 20
"""Healthy messages a queue must have to be its own yardstick; with fewer, all queues together are."""
LARGEST_VOCABULARY = 64
UNSEEN = 0.01
"""A path has a vocabulary when the share of values seen only once, which is about the chance that the
next message brings a new one (Good and Turing), is no greater than this."""


def facts(payload: Column) -> Column:
    """What is said of one payload: ``array<struct<what, path, word>>``, each fact once.

    ``what`` is ``path``, ``kind`` or ``value``; the pseudo-paths ``encoding`` and ``length`` have kinds too.
    """
    text = F.coalesce(payload, F.lit(""))
    length = F.floor(F.log2(F.octet_length(text) + 1)).cast("string")
    # one transform: each further mention of the leaves would parse the payload again
    said = F.flatten(F.transform(leaves(text), _facts_of_leaf))
    whole = F.array(_fact("kind", F.lit("encoding"), encoding(text)), _fact("kind", F.lit("length"), length))
    return F.array_distinct(F.concat(F.filter(said, lambda fact: fact["word"].isNotNull()), whole))


def _facts_of_leaf(leaf: Column) -> Column:
    return F.array(
        _fact("path", leaf["path"], F.lit("")),
        _fact("kind", leaf["path"], leaf["kind"]),
        _fact("value", leaf["path"], leaf["value"]),
    )


def profile(healthy: DataFrame, payload_col: str, by: Sequence[str] = ()) -> DataFrame:
    """What is usual among healthy messages, see :func:`profile_of`; ``by`` names the columns of the queue.

    For payloads that are at hand, as tests have them: a run keeps the counts, see :mod:`deadletter.gold.profile`.
    """
    told = healthy.select(*by, F.explode(facts(F.col(payload_col))).alias("fact"))
    return profile_of(told.groupBy(*by, "fact.what", "fact.path", "fact.word").agg(F.count(F.lit(1)).alias("n")), by)


def profile_of(counted: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """What is usual among healthy messages: a row for each combination of ``by``, and one for all together.

    ``counted`` has each of the :func:`facts` as ``what, path, word``, and in ``n`` how many healthy messages say it.
    Columns: ``by`` (null in the row for all), ``everywhere`` (true in that row), ``messages``, ``usual``
    (the usual facts), ``required`` (paths that are there whenever the object they belong to is) and
    ``vocabularies`` (the paths with few values).
    """
    scopes = F.array(F.lit(False), F.lit(True)) if by else F.array(F.lit(True))
    scoped = counted.withColumn("everywhere", F.explode(scopes))
    for name in by:
        scoped = scoped.withColumn(name, F.when(~F.col("everywhere"), F.col(name)))
    keys, said = [*by, "everywhere"], ("what", "path", "word")
    summed = scoped.groupBy(*keys, *said).agg(F.sum("n").alias("n")).withColumn("fact", F.struct(*said))
    return _summarised(_judged(summed, keys), keys)


def _fact(what: str, path: Column, word: Column) -> Column:
    return F.struct(F.lit(what).alias("what"), path.alias("path"), word.alias("word"))


def _judged(counted: DataFrame, keys: list[str]) -> DataFrame:
    """Say of each counted fact whether it is usual, of each path whether it has a vocabulary."""
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
            F.when(is_value, F.col("vocabulary") & (F.col("n") >= USUAL_VALUE * F.col("of")))
            .when(F.col("what") == "path", F.col("n") >= USUAL * F.col("messages"))
            .otherwise(F.col("n") >= USUAL * F.col("of")),
        )
    )


def _summarised(judged: DataFrame, keys: list[str]) -> DataFrame:
    is_path = (F.col("what") == "path") & F.col("usual")
    is_object = (F.col("what") == "kind") & (F.col("word") == "object")
    path = F.struct("path", "n")
    gathered = judged.groupBy(*keys).agg(
        F.max("messages").alias("messages"),
        F.array_sort(F.collect_set(F.when(F.col("usual"), F.col("fact")))).alias("usual"),
        F.collect_set(F.when(is_path, path)).alias("_paths"),
        F.map_from_entries(F.collect_set(F.when(is_object, path))).alias("_objects"),
        F.array_sort(F.collect_set(F.when(F.col("vocabulary"), F.col("path")))).alias("vocabularies"),
    )
    always = F.filter(
        "_paths",
        lambda p: p["n"] >= (1 - USUAL) * F.try_element_at("_objects", parent_of(p["path"])).cast("double"),
    )
    required = F.array_sort(F.transform(always, lambda p: p["path"]))
    return gathered.select(*keys, "messages", "usual", required.alias("required"), "vocabularies")


def parent_of(path: Column) -> Column:
    """The path of the object that a path belongs to."""
    return F.regexp_replace(path, r"\.[^.]*$", "")
