"""Texts to patterns: signatures in Spark, templates from the small set of distinct ones, joined back.

No Python runs per row, and what reaches the driver is bounded: at most :data:`MAX_COLLECTED` distinct
signatures, whatever the number of texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.patterns.masks import MASKS, Mask
from deadletter.patterns.mining import MAX_SIGNATURES, OVERFLOW, Template, mine, template_of
from deadletter.patterns.signature import signature, signature_text, skeleton, skeleton_text
from deadletter.spark.frames import frame_of
from deadletter.spark.staging import Stage, as_it_is

MAX_COLLECTED = 10 * MAX_SIGNATURES
"""Distinct signatures that are looked at; which ones, their hashes decide."""


def group_texts(signed: DataFrame) -> DataFrame:
    """Add ``template_id`` and ``template`` to texts with their ``signature``, see :func:`add_signature`.

    The same rows get the same ids however they are ordered, repeated or partitioned.

    >>> texts = spark.createDataFrame([("order 7 is lost",), ("order 8 is lost",), ("queue full",)], "text STRING")
    >>> found = group_texts(add_signature(texts, "text"))
    >>> sorted(row.template for row in found.select("template").collect())
    ['order <*> is lost', 'order <*> is lost', 'queue full']
    """
    joined = signed.join(F.broadcast(mine_signatures(signed)), "signature", "left")
    rest = template_of(OVERFLOW)
    return joined.select(
        *signed.columns,
        F.coalesce("template_id", F.lit(rest.template_id)).alias("template_id"),
        F.coalesce("template", F.lit(rest.template)).alias("template"),
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


def mine_signatures(signed: DataFrame) -> DataFrame:
    """Mine the distinct signatures: columns ``signature``, ``template_id``, ``template``.

    Collects the distinct signatures, at most :data:`MAX_COLLECTED`.
    """
    bounded = signed.select("signature").distinct().orderBy(F.sha2("signature", 256)).limit(MAX_COLLECTED)
    mined = mine({row["signature"] for row in bounded.collect()})
    rows = [(text, found.template_id, found.template) for text, found in mined.items()]
    return frame_of(signed.sparkSession, rows, "signature STRING, template_id STRING, template STRING")


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
