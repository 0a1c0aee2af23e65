"""Error text and payload deviation, combined: one pattern key for each dead letter.

An error text is the stronger witness, but not every broker has one. Where an error template and a
deviation always come together they are two names of one problem, and the deviation's name is kept,
because the brokers without error texts can see that one too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.patterns.deviation import ALIKE
from deadletter.patterns.grouping import add_signature, group_texts
from deadletter.patterns.masks import MASKS, Mask

TOGETHER = 0.8
"""Share of an error's dead letters that must have the deviation, and the other way round."""


def pattern_keys(dead: DataFrame, error_col: str, masks: Sequence[Mask] = MASKS) -> DataFrame:
    """Add ``signature`` and ``error_template`` (null without an error), ``pattern_key`` and ``pattern_id`` to dead
    letters with a ``deviation_key``.

    ``dead`` is read several times; a ``signature`` that is already there is taken as it is. The key is the error's
    template where there is one, unless it and a deviation come together in at least :data:`TOGETHER` of the cases of
    both; then, and without an error, it is the deviation.

    >>> rows = [("KeyError: 'to' in order 1", "$.to missing"), ("KeyError: 'to' in order 2", "$.to missing")]
    >>> rows += [(None, "$.to missing"), ("timeout after 3 s", "looks healthy"), (None, "looks healthy")]
    >>> dead = spark.createDataFrame(rows, "error STRING, deviation_key STRING")
    >>> sorted(row.pattern_key for row in pattern_keys(dead, "error").collect())
    ['$.to missing', '$.to missing', '$.to missing', 'looks healthy', 'timeout after <*>']
    """
    signed = dead if "signature" in dead.columns else add_signature(dead, error_col, masks)
    signed = signed.withColumn("signature", F.when(says_something(F.col(error_col)), F.col("signature")))
    # however many dead letters there are, they say few different things
    said = signed.groupBy("signature", "deviation_key").agg(F.count("*").alias("count"))
    keyed = _keyed(group_texts(said.where("signature IS NOT NULL"), "signature"), said)
    same = [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in ("signature", "deviation_key")]
    added = ("signature", "error_template", "pattern_key", pattern_id(F.col("pattern_key")).alias("pattern_id"))
    kept = [name for name in dead.columns if name != "signature"]
    return signed.join(F.broadcast(keyed), same, "left").select(*kept, *added)


def _keyed(grouped: DataFrame, said: DataFrame) -> DataFrame:
    """Each pair of ``signature`` and ``deviation_key`` in ``said`` as ``_signature`` and ``_deviation_key``, with
    ``error_template`` and ``pattern_key``; ``grouped`` are those with a signature, by their ``template``."""
    templates = grouped.select("signature", F.col("template").alias("error_template")).distinct()
    told = said.join(templates, "signature", "left")
    linked = told.join(_linked(told), ["error_template", "deviation_key"], "left")
    is_error = F.col("error_template").isNotNull() & F.col("linked").isNull()
    key = F.when(is_error, F.col("error_template")).otherwise(F.col("deviation_key"))
    pair = [F.col(name).alias(f"_{name}") for name in ("signature", "deviation_key")]
    return linked.select(*pair, "error_template", key.alias("pattern_key"))


def says_something(error: Column) -> Column:
    """Whether an error is there and not blank."""
    return F.length(F.trim(F.coalesce(error, F.lit("")))) > 0


def pattern_id(key: Column) -> Column:
    """The id of a pattern: the first 16 hexadecimal digits of its key's SHA-256."""
    return F.substring(F.sha2(key, 256), 1, 16)


def _linked(told: DataFrame) -> DataFrame:
    """The pairs of ``error_template`` and ``deviation_key`` that come together."""
    pairs = told.where("error_template IS NOT NULL").groupBy("error_template", "deviation_key")
    pairs = pairs.agg(F.sum("count").alias("count"))
    of_error = F.sum("count").over(Window.partitionBy("error_template"))
    of_deviation = F.sum("count").over(Window.partitionBy("deviation_key"))
    return (
        pairs.withColumn("share", F.col("count") / F.greatest(of_error, of_deviation))
        .where((F.col("share") >= TOGETHER) & ~F.col("deviation_key").isin(*ALIKE))
        .select("error_template", "deviation_key", F.lit(True).alias("linked"))
    )
