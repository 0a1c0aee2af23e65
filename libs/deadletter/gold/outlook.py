"""When a queue's rows of gold change although none of its own events comes: when a delay, a claim or a TTL ends, and
whenever other queues change, where too few of its own payloads are healthy and it is compared with those of all."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.profile import EACH_HAS_ONE
from deadletter.patterns.profile import MIN_HEALTHY
from deadletter.tables import QUEUE


def outlook(
    open_ones: DataFrame, candidates: DataFrame, dead: DataFrame, profiles: DataFrame, as_of: datetime
) -> DataFrame:
    """Rows of ``control.queue_outlook``: one for each queue that has open messages or dead letters.

    ``open_ones`` are rows of :func:`deadletter.gold.at_risk.waiting`, ``candidates`` those of them that
    :func:`deadletter.gold.at_risk.receivable` keeps, ``dead`` rows of ``gold.dead_letters``, ``profiles`` of
    ``control.queue_profile``. The payloads of candidates and dead ones are compared, no others.
    """
    ends = F.array("delay_until", "claimed_until", "expires_at")
    next_end = F.array_min(F.filter(ends, lambda end: end > F.lit(as_of)))
    waiting = open_ones.select(*QUEUE, next_end.alias("end"), F.lit(False).alias("compared"))
    compared = candidates.select(*QUEUE).unionByName(dead.select(*QUEUE))
    compared = compared.select(*QUEUE, F.lit(None).cast("timestamp").alias("end"), F.lit(True).alias("compared"))
    healthy = profiles.where(EACH_HAS_ONE).groupBy(*QUEUE).agg(F.sum("messages").alias("healthy"))
    few = F.coalesce(F.col("healthy") < MIN_HEALTHY, F.lit(True))
    return (
        waiting.unionByName(compared)
        .groupBy(*QUEUE)
        .agg(F.min("end").alias("next_change"), F.bool_or("compared").alias("compared"))
        .join(healthy, list(QUEUE), "left")
        .withColumn("borrows", F.col("compared") & few)
        .select(*tables.QUEUE_OUTLOOK.column_names)
    )
