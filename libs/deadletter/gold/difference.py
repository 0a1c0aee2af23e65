"""What a difference between the broker's word and the rules' looks like."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.tables import QUEUE_KEY


def difference(kind: str, test: Column, at: Column, broker: Column, rule: Column) -> Column:
    """A message's difference as ``struct<kind, at, broker_says, rules_say>`` where ``test`` holds, else null.

    >>> counts = spark.sql("SELECT * FROM VALUES (2, 3), (3, 3), (3, NULL) AS t(broker, rule)")
    >>> broker, rule = F.col("broker"), F.col("rule")
    >>> differs = difference("lost_counter", broker < rule, F.lit("noon"), broker, rule)
    >>> counts.select(differs.alias("found")).show(truncate=False)
    +--------------------------+
    |found                     |
    +--------------------------+
    |{lost_counter, noon, 2, 3}|
    |NULL                      |
    |NULL                      |
    +--------------------------+
    """
    row = F.struct(
        F.lit(kind).alias("kind"),
        at.alias("at"),
        broker.cast("string").alias("broker_says"),
        rule.cast("string").alias("rules_say"),
    )
    return F.when(F.coalesce(test, F.lit(False)), row)


def of_queue(queues: DataFrame, kind: str, at: str, broker_says: Column) -> DataFrame:
    """Rows of ``gold.discrepancies`` of these ``queues`` themselves: none has a message, and no rule supports them."""
    return queues.select(
        *QUEUE_KEY,
        F.lit("").alias("message_id"),
        F.lit(kind).alias("kind"),
        F.col(at).alias("at"),
        broker_says.alias("broker_says"),
        F.lit("not supported").alias("rules_say"),
    )
