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
    open_ones: DataFrame, dead: DataFrame, profiles: DataFrame, dead_letter_queues: DataFrame, as_of: datetime
) -> DataFrame:
    """Rows of ``control.queue_outlook``: one for each queue that has open messages or dead letters.

    ``open_ones`` are rows of :func:`deadletter.gold.at_risk.waiting`, ``dead`` of ``gold.dead_letters``, ``profiles``
    of ``control.queue_profile``; nothing that lies in one of the ``dead_letter_queues`` is compared.
    """
    ends = F.array("delay_until", "claimed_until", "expires_at")
    next_end = F.array_min(F.filter(ends, lambda end: end > F.lit(as_of)))
    lying = dead_letter_queues.withColumn("lies", F.lit(True))
    waiting = open_ones.join(lying, list(QUEUE), "left").select(
        *QUEUE, next_end.alias("end"), F.col("lies").isNull().alias("compared")
    )
    died = dead.select(*QUEUE, F.lit(None).cast("timestamp").alias("end"), F.lit(True).alias("compared"))
    healthy = profiles.where(EACH_HAS_ONE).groupBy(*QUEUE).agg(F.sum("messages").alias("healthy"))
    few = F.coalesce(F.col("healthy") < MIN_HEALTHY, F.lit(True))
    return (
        waiting.unionByName(died)
        .groupBy(*QUEUE)
        .agg(F.min("end").alias("next_change"), F.bool_or("compared").alias("compared"))
        .join(healthy, list(QUEUE), "left")
        .withColumn("borrows", F.col("compared") & few)
        .select(*tables.QUEUE_OUTLOOK.column_names)
    )
