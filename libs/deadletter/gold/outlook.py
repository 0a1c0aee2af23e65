"""When a queue's rows of gold change although none of its own events comes: when a delay, a claim or a TTL ends."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.tables import QUEUE


def outlook(open_ones: DataFrame, as_of: datetime) -> DataFrame:
    """Rows of ``control.queue_outlook``: one for each queue that has open messages. ``open_ones`` are rows of
    :func:`deadletter.gold.at_risk.waiting`."""
    ends = F.array("delay_until", "claimed_until", "expires_at")
    next_end = F.array_min(F.filter(ends, lambda end: end > F.lit(as_of)))
    found = open_ones.groupBy(*QUEUE).agg(F.min(next_end).alias("next_change"))
    return found.select(*tables.QUEUE_OUTLOOK.column_names)
