"""Error text and payload deviation, combined: one pattern key for each dead letter.

An error text is the stronger witness, but not every broker has one. Where an error template and a
deviation always come together they are two names of one problem, and the deviation's name is kept,
because the brokers without error texts can see that one too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.patterns.deviation import tells_a_fault
from deadletter.patterns.grouping import add_signature, group_texts
from deadletter.patterns.masks import MASKS, Mask
from deadletter.spark.staging import Stage, as_it_is

TOGETHER = 0.8
"""Share of an error's dead letters that must have the deviation, and the other way round."""


def with_signature(messages: DataFrame, masks: Sequence[Mask] = MASKS, stage: Stage = as_it_is) -> DataFrame:
    """Add the ``signature`` of each ``error``, null where none is told; ``stage`` keeps what is read several times."""
    signature = F.when(says_something(F.col("error")), F.col("signature"))
    return add_signature(messages, "error", masks, stage).withColumn("signature", signature)


def pattern_keys(summary: DataFrame) -> DataFrame:
    """Add ``error_template`` (null without an error), ``kind`` (``error`` or ``payload``: what the pattern is one of)
    and ``pattern_key`` to rows that tell how many ``dead_letters`` have a ``signature`` (of their error; null without
    one) and a ``deviation_key``.

    ``summary`` is read several times. The key is the error's template where there is one, unless it and a deviation
    come together in at least :data:`TOGETHER` of the cases of both: then it is that deviation, of all that gave the
    error. Without an error it is the deviation.

    >>> rows = [("KeyError: 'to' in order <*>", "$.to missing", 2), (None, "$.to missing", 1)]
    >>> rows += [("queue full", "looks healthy", 1)]
    >>> summary = spark.createDataFrame(rows, "signature STRING, deviation_key STRING, dead_letters BIGINT")
    >>> sorted((row.kind, row.pattern_key, row.dead_letters) for row in pattern_keys(summary).collect())
    [('error', 'queue full', 1), ('payload', '$.to missing', 1), ('payload', '$.to missing', 2)]
    """
    pairs = summary.groupBy("signature", "deviation_key").agg(F.sum("dead_letters").alias("count"))
    keyed = _keyed(group_texts(pairs.where("signature IS NOT NULL")), pairs)
    same = [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in ("signature", "deviation_key")]
    added = ("error_template", "kind", "pattern_key")
    return summary.join(F.broadcast(keyed), same, "left").select(*summary.columns, *added)


def _keyed(grouped: DataFrame, pairs: DataFrame) -> DataFrame:
    """Each of the ``pairs`` of ``signature`` and ``deviation_key`` as ``_signature`` and ``_deviation_key``, with
    ``error_template``, ``kind`` and ``pattern_key``; ``grouped`` are those with a signature, by their ``template``."""
    templates = grouped.select("signature", F.col("template").alias("error_template")).distinct()
    told = pairs.join(templates, "signature", "left")
    linked = told.join(_linked(told), "error_template", "left")
    kind = F.when(F.col("error_template").isNotNull() & F.col("linked").isNull(), "error").otherwise("payload")
    key = F.coalesce("linked", "error_template", "deviation_key")
    pair = [F.col(name).alias(f"_{name}") for name in ("signature", "deviation_key")]
    return linked.select(*pair, "error_template", kind.alias("kind"), key.alias("pattern_key"))


def says_something(error: Column) -> Column:
    """Whether an error is there and not blank."""
    return F.coalesce(F.rlike(error, F.lit(r"\S")), F.lit(False))


def _linked(told: DataFrame) -> DataFrame:
    """The error templates that come together with a deviation, which is ``linked``."""
    with_error = told.where("error_template IS NOT NULL")
    pairs = with_error.groupBy("error_template", "deviation_key").agg(F.sum("count").alias("count"))
    of_error = F.sum("count").over(Window.partitionBy("error_template"))
    of_deviation = F.sum("count").over(Window.partitionBy("deviation_key"))
    return (
        pairs.withColumn("share", F.col("count") / F.greatest(of_error, of_deviation))
        .where((F.col("share") >= TOGETHER) & tells_a_fault(F.col("deviation_key")))
        .select("error_template", F.col("deviation_key").alias("linked"))
    )
