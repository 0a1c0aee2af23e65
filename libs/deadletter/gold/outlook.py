"""What changes in a queue although no event of its own comes: time goes on, and other queues are a yardstick."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.patterns.profile import MIN_HEALTHY
from deadletter.tables import QUEUE


def outlook(open_ones: DataFrame, dead: DataFrame, profiles: DataFrame, as_of: datetime) -> DataFrame:
    """Rows of ``control.queue_outlook``: one for each queue that has open messages or dead letters.

    ``open_ones`` are rows of :func:`deadletter.gold.at_risk.waiting`, ``dead`` of ``gold.dead_letters``, ``profiles``
    of ``control.queue_profile``.
    """
    ends = F.array("delay_until", "claimed_until", "expires_at")
    next_end = F.array_min(F.filter(ends, lambda end: end > F.lit(as_of)))
    compared = open_ones.select(*QUEUE, next_end.alias("end")).unionByName(
        dead.select(*QUEUE, F.lit(None).cast("timestamp").alias("end"))
    )
    each_has_one = "what = 'kind' AND name = 'encoding'"
    healthy = profiles.where(each_has_one).groupBy(*QUEUE).agg(F.sum("messages").alias("healthy"))
    return (
        compared.groupBy(*QUEUE)
        .agg(F.min("end").alias("next_change"))
        .join(healthy, list(QUEUE), "left")
        .withColumn("borrows", F.coalesce(F.col("healthy") < MIN_HEALTHY, F.lit(True)))
        .select(*tables.QUEUE_OUTLOOK.column_names)
    )
