"""The rows of ``bronze.queue_events``: every raw event exactly as it came."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.parsing.envelope import with_captured_at


def day_of_event() -> Column:
    """The partition of ``bronze.queue_events`` that a row with this ``captured_at`` lies in."""
    return F.coalesce(F.to_date("captured_at"), F.lit("1970-01-01").cast("date"))


def queue_events(lines: DataFrame) -> DataFrame:
    """Rows of ``bronze.queue_events`` from ``system, value, source_file``."""
    return with_captured_at(lines, "value").select(
        F.sha2(F.col("value").cast("binary"), 256).alias("event_id"),
        "system",
        F.col("value").alias("raw"),
        "captured_at",
        day_of_event().alias("day"),
        "source_file",
        F.current_timestamp().alias("ingested_at"),
    )
