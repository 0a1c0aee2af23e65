"""Texts to patterns: signatures in Spark, templates from the small set of distinct ones, joined back.

No Python runs per row, and what reaches the driver is bounded: at most :data:`MAX_COLLECTED` distinct
signatures, whatever the number of texts.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from deadletter.patterns.masks import MASKS, Mask
from deadletter.patterns.mining import MAX_SIGNATURES, OVERFLOW, Template, mine, template_of
from deadletter.patterns.signature import signature, signature_text, skeleton, skeleton_text
from deadletter.staging import Stage, as_it_is

MAX_COLLECTED = 10 * MAX_SIGNATURES
"""Distinct signatures of one group that are looked at; which ones, their hashes decide."""


def group_texts(df: DataFrame, text_col: str, by: Sequence[str] = (), masks: Sequence[Mask] = MASKS) -> DataFrame:
    """Add ``signature``, ``template_id`` and ``template`` to every row; a null text counts as empty.

    The same rows get the same ids however they are ordered, repeated or partitioned. With ``by``, the
    texts of each combination of those columns are grouped by themselves. A ``signature`` that is already
    there, kept from :func:`add_signature`, is taken as it is: it costs most of the work.

    >>> rows = [("order 7 is lost",), ("order 8 is lost",), ("queue full",)]
    >>> found = group_texts(spark.createDataFrame(rows, "text STRING"), "text")
    >>> sorted(row.template for row in found.select("template").collect())
    ['order <*> is lost', 'order <*> is lost', 'queue full']
    """
    signed = df if "signature" in df.columns else add_signature(df, text_col, masks)
    mined = mine_signatures(signed, by)
    joined = signed.join(F.broadcast(mined), [_same(signed, mined, name) for name in (*by, "signature")], "left")
    rest = template_of(OVERFLOW)
    return joined.select(
        *[signed[name] for name in signed.columns],
        F.coalesce(mined["template_id"], F.lit(rest.template_id)).alias("template_id"),
        F.coalesce(mined["template"], F.lit(rest.template)).alias("template"),
    )


def add_signature(
    df: DataFrame,
    text_col: str,
    masks: Sequence[Mask] = MASKS,
    stage: Stage = as_it_is,
) -> DataFrame:
    """Add the column ``signature``; a null text counts as empty.

    The built-in masks look at the distinct skeletons of the texts only: hundreds of texts may share one. ``stage``
    keeps what is read several times.
    """
    shaped = stage(df.withColumn("_skeleton", skeleton(F.coalesce(F.col(text_col), F.lit("")), masks)))
    distinct = shaped.select("_skeleton").distinct()
    signed = stage(distinct.withColumn("signature", signature(F.col("_skeleton"), masks)))
    return shaped.join(signed, "_skeleton").drop("_skeleton")


def mine_signatures(signed: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Mine the distinct signatures: columns ``by``, ``signature``, ``template_id``, ``template``.

    Collects the distinct signatures, at most :data:`MAX_COLLECTED` for each combination of ``by``.
    """
    distinct = signed.select(*by, "signature").distinct()
    first = Window.partitionBy(*(by or [F.lit(0)])).orderBy(F.sha2("signature", 256))
    bounded = distinct.withColumn("_n", F.row_number().over(first)).where(F.col("_n") <= MAX_COLLECTED)
    groups = defaultdict(set)
    for *key, text in bounded.select(*by, "signature").collect():
        groups[tuple(key)].add(text)
    rows = [
        (*key, text, found.template_id, found.template)
        for key, texts in groups.items()
        for text, found in mine(texts).items()
    ]
    added = [StructField(name, StringType()) for name in ("signature", "template_id", "template")]
    return signed.sparkSession.createDataFrame(rows, StructType([signed.schema[name] for name in by] + added))


def group_rows(texts: Sequence[str | None], masks: Sequence[Mask] = MASKS) -> list[Template]:
    """Do what :func:`group_texts` does, for a list: the template of each text, in the list's order.

    >>> [found.template for found in group_rows(["order 7 is lost", "queue full", "order 8 is lost"])]
    ['order <*> is lost', 'queue full', 'order <*> is lost']
    """
    bones = {text: skeleton_text(text or "", masks) for text in set(texts)}
    signed = {bone: signature_text(bone, masks) for bone in set(bones.values())}
    spelt = {text: signed[bone] for text, bone in bones.items()}
    found = mine_bounded(set(spelt.values()))
    return [found.get(spelt[text], template_of(OVERFLOW)) for text in texts]


def mine_bounded(signatures: set[str]) -> dict[str, Template]:
    """Mine what the bound lets through; a signature that is not in the result is overflow."""
    if len(signatures) <= MAX_COLLECTED:
        return mine(signatures)
    return mine(sorted(signatures, key=lambda text: hashlib.sha256(text.encode()).hexdigest())[:MAX_COLLECTED])


def _same(left: DataFrame, right: DataFrame, name: str) -> Column:
    return left[name].eqNullSafe(right[name])
