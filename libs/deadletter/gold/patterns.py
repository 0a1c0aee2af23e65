"""What dead letters share: each gets a pattern, and each pattern a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.contrast import concentrated_in, differences, trend
from deadletter.gold.decisions import Decisions, covering
from deadletter.gold.identity import ORDER, SAID_BY, identified
from deadletter.patterns.deviation import deviations
from deadletter.patterns.linking import pattern_keys
from deadletter.patterns.masking import mask, private_masks, shown_value
from deadletter.patterns.masks import Mask
from deadletter.queues import place
from deadletter.spark.columns import looked_up
from deadletter.spark.staging import Stage
from deadletter.tables import QUEUE

QUIET_AFTER = timedelta(hours=24)
"""A pattern without a death for so long is quiet."""
NEW_FOR = timedelta(hours=24)
"""A pattern first seen less than this before ``as_of`` is new."""


def compare_payloads(dead: DataFrame, profiles: DataFrame, masks: Sequence[Mask]) -> DataFrame:
    """Messages with a ``payload``, and how it differs from the healthy ones of the queue: ``deviation_key`` and
    ``deviation`` (sentences). ``profiles`` say what is usual, see :func:`deadletter.gold.profile.usual`.
    """
    return deviations(dead.drop("deviation_key", "deviation"), profiles, "payload", QUEUE, masks)


def summarised(dead: DataFrame) -> DataFrame:
    """What dead letters say, and how many say it: rows of :data:`~deadletter.gold.identity.SAID_BY`, ``dead_letters``,
    the ``earliest`` of them (struct of their :data:`~deadletter.gold.identity.ORDER`) and ``last_seen``. However many
    dead letters there are, they say few different things."""
    counts = (F.count("*").alias("dead_letters"), F.min(F.struct(*ORDER)).alias("earliest"))
    return dead.groupBy(*SAID_BY).agg(*counts, F.max("dead_lettered_at").alias("last_seen"))


def grouped(summary: DataFrame) -> DataFrame:
    """What dead letters say (:func:`summarised`) with ``pattern_id``, ``kind``, ``template`` and ``error_template``.

    A dead letter is grouped by the error its consumer gave, or by how its payload differs. Reads ``summary`` several
    times.
    """
    return identified(pattern_keys(summary)).withColumnRenamed("pattern_key", "template")


def status(first_seen: Column, last_seen: Column, as_of: datetime, resolved_at: Column) -> Column:
    """``resolved`` until a death after that, then ``regressed``; otherwise ``quiet`` after a day without a death,
    ``new`` in its first day, ``ongoing`` between.
    """
    now = F.lit(as_of)
    return (
        F.when(last_seen > resolved_at, "regressed")
        .when(resolved_at.isNotNull(), "resolved")
        .when(last_seen < now - F.lit(QUIET_AFTER), "quiet")
        .when(first_seen > now - F.lit(NEW_FOR), "new")
        .otherwise("ongoing")
    )


def judged(patterns: DataFrame, as_of: datetime, decisions: Decisions) -> DataFrame:
    """Add ``status`` and ``muted`` by the ``decisions`` until ``as_of``; reads ``first_seen``, ``last_seen`` and
    ``template``. Who mutes a pattern decides about what it says: once it says more, it is told of again.
    """
    muted = {pattern: covering(templates) for pattern, templates in decisions.muted.items()}
    known = F.regexp_like("template", looked_up(muted, F.col("pattern_id")).cast("string"))
    resolved_at = looked_up(decisions.resolved, F.col("pattern_id")).cast("timestamp")  # no decision: a null of no type
    return patterns.withColumns(
        {
            "status": status(F.col("first_seen"), F.col("last_seen"), as_of, resolved_at),
            "muted": F.coalesce(known, F.lit(False)),
        }
    )


def poison_patterns(
    named: DataFrame,
    counts: DataFrame,
    represented: DataFrame,
    profiles: DataFrame,
    as_of: datetime,
    decisions: Decisions,
    masks: Sequence[Mask],
    stage: Stage,
) -> DataFrame:
    """Rows of ``gold.poison_patterns``.

    ``named`` is what all dead letters say, :func:`grouped` and decided about, ``counts`` rows of
    ``control.dead_letter_counts``, ``profiles`` of ``control.queue_profile``. ``represented`` are the
    :func:`~deadletter.gold.contrast.examples` of these, with their ``example_payload`` as it is. ``stage`` keeps what
    is read several times.
    """
    counted = named.groupBy("pattern_id").agg(
        F.min("template").alias("template"),
        F.min("kind").alias("kind"),
        F.min("part_of").alias("part_of"),
        F.sum("dead_letters").alias("dead_letters"),
        F.min("earliest.dead_lettered_at").alias("first_seen"),
        F.max("last_seen").alias("last_seen"),
        F.array_sort(F.collect_set(place())).alias("queues"),
    )
    parts = [represented, differences(counts), concentrated_in(counts, profiles, stage), trend(counts)]
    whole = reduce(lambda left, right: left.join(right, "pattern_id", "left"), parts, counted)
    empty = {
        name: F.coalesce(name, F.array().cast(tables.POISON_PATTERNS.type_of(name)))
        for name in ("differences", "concentrated_in", "trend")
    }
    whole = whole.withColumns(empty)
    shown = F.transform(
        "concentrated_in",
        lambda one: one.withField("value", shown_value(F.lit(""), one["what"], one["value"], masks)),
    )
    payload = mask(F.col("example_payload"), private_masks(masks))
    masked = whole.withColumns({"concentrated_in": shown, "example_payload": payload})
    return judged(masked, as_of, decisions).select(*tables.POISON_PATTERNS.column_names)
