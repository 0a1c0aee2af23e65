"""What is wrong with a dead payload: how it differs from the healthy messages of the same queue.

A profile says what is usual among the healthy; a dead message's deviation key says, canonically, in
what it departs from that. A message that departs in nothing *looks healthy*: it failed for a reason
outside its payload and belongs to no family of broken ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.patterns.masking import mask, private_masks
from deadletter.patterns.shape import WHOLE, encoding, leaves, shape

HEALTHY = "looks healthy"
NO_PROFILE = "nothing healthy to compare with: "
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
TOO_LONG = 2
"""Powers of two that a payload's length must lie above the longest usual ones."""


def facts(payload: Column) -> Column:
    """What is said of one payload: ``array<struct<what, path, word>>``, each fact once.

    ``what`` is ``path``, ``kind`` or ``value``; the pseudo-paths ``encoding`` and ``length`` have kinds too.
    """
    found = leaves(payload)
    valued = F.filter(found, lambda leaf: leaf["value"].isNotNull())
    length = F.floor(F.log2(F.octet_length(payload) + 1)).cast("string")
    said = F.concat(
        F.transform(found, lambda leaf: _fact("path", leaf["path"], F.lit(""))),
        F.transform(found, lambda leaf: _fact("kind", leaf["path"], leaf["kind"])),
        F.transform(valued, lambda leaf: _fact("value", leaf["path"], leaf["value"])),
        F.array(_fact("kind", F.lit("encoding"), encoding(payload)), _fact("kind", F.lit("length"), length)),
    )
    return F.array_distinct(said)


def profile(healthy: DataFrame, payload_col: str, by: Sequence[str] = ()) -> DataFrame:
    """What is usual among healthy messages: a row for each combination of ``by``, and one for all together.

    Columns: ``by`` (null in the row for all), ``everywhere`` (true in that row), ``messages``, ``usual``
    (the usual facts), ``required`` (paths that are there whenever the object they belong to is) and
    ``vocabularies`` (the paths with few values).
    """
    scopes = F.array(F.lit(False), F.lit(True)) if by else F.array(F.lit(True))
    scoped = healthy.select(*by, payload_col, F.explode(scopes).alias("everywhere"))
    for name in by:
        scoped = scoped.withColumn(name, F.when(~F.col("everywhere"), F.col(name)))
    keys = [*by, "everywhere"]
    said = scoped.select(*keys, F.explode(facts(F.col(payload_col))).alias("fact")).select(*keys, "fact")
    counted = said.groupBy(*keys, "fact").agg(F.count(F.lit(1)).alias("n")).select(*keys, "fact.*", "fact", "n")
    return _summarised(_judged(counted, keys), keys)


def deviations(dead: DataFrame, profiles: DataFrame, payload_col: str, by: Sequence[str] = ()) -> DataFrame:
    """Add ``deviation_key`` (canonical, equal for messages that are wrong in the same way) and ``deviation``.

    ``deviation`` is a list of sentences for people, empty where the payload looks healthy.

    >>> good = [('{"id": %d, "to": "a"}' % n,) for n in range(30)]
    >>> bad = [('{"id": 7}',), ('{"id": null, "to": "a"}',), ('{"id": 7, "to": "b"}',), good[0], ('{"id": 7, "t',)]
    >>> usual = profile(spark.createDataFrame(good, "payload STRING"), "payload")
    >>> found = deviations(spark.createDataFrame(bad, "payload STRING"), usual, "payload")
    >>> for row in found.orderBy("deviation_key").collect():
    ...     print(row.deviation_key, row.deviation)
    $ truncated ['the payload is truncated']
    $.id null ['$.id is null instead of number']
    $.to = b ['$.to has a value that healthy messages do not have: b']
    $.to missing ['$.to is missing']
    looks healthy []
    """
    columns = ("messages", "usual", "required", "vocabularies")
    yardstick = profiles.select(*by, "everywhere", F.struct(*columns).alias("_profile"))
    everywhere = F.broadcast(yardstick.where("everywhere").select(F.col("_profile").alias("_all")))
    known = dead.join(everywhere, F.lit(True), "left").withColumn("_own", F.lit(None).cast(everywhere.schema["_all"].dataType))
    if by:
        own = yardstick.where(~F.col("everywhere") & (F.col("_profile.messages") >= MIN_HEALTHY))
        own = F.broadcast(own.drop("everywhere").withColumnRenamed("_profile", "_own"))
        matches = [known[name].eqNullSafe(own[name]) for name in by]
        known = known.drop("_own").join(own, matches, "left").drop(*[own[name] for name in by])
    wrong = (
        known.withColumn("_usual", F.coalesce("_own", "_all"))
        .withColumn("_facts", facts(F.col(payload_col)))
        .withColumn("_wrong", _top_most(_wrong(F.col("_facts"), F.col("_usual"))))
    )
    incomparable = F.concat(F.lit(NO_PROFILE), shape(F.col(payload_col)))
    words = F.array_distinct(F.transform("_wrong", lambda w: w["key"]))
    key = F.when(F.size("_wrong") > 0, F.array_join(F.array_sort(words), "; ")).otherwise(HEALTHY)
    return wrong.select(
        *dead.columns,
        F.when(F.col("_usual").isNull(), incomparable).otherwise(key).alias("deviation_key"),
        F.coalesce(F.transform("_wrong", lambda w: w["sentence"]), F.array().cast("array<string>")).alias("deviation"),
    )


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
        "_paths", lambda p: p["n"] >= (1 - USUAL) * F.try_element_at("_objects", _parent(p["path"])).cast("double")
    )
    required = F.array_sort(F.transform(always, lambda p: p["path"]))
    return gathered.select(*keys, "messages", "usual", required.alias("required"), "vocabularies")


def _parent(path: Column) -> Column:
    return F.regexp_replace(path, r"\.[^.]*$", "")


def _wrong(said: Column, usual: Column) -> Column:
    """All departures of one message: ``array<struct<path, key, sentence>>``."""
    broken = F.filter(said, lambda f: (f["what"] == "kind") & (f["path"] == WHOLE) & _unusual(f, usual))
    inside = F.concat(_new_or_other(said, usual), _missing(said, usual), _values(said, usual))
    whole = F.transform(
        broken,
        lambda f: F.struct(
            f["path"],
            F.concat_ws(" ", f["path"], f["word"]).alias("key"),
            F.concat(F.lit("the payload is "), f["word"]).alias("sentence"),
        ),
    )
    return F.when(F.size(broken) > 0, whole).otherwise(inside)
