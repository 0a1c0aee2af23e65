"""How messages fare from delivery to delivery: the figures behind a delivery limit."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import OF_DEATH, SilverFacts, counted_deliveries, of_its_end
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

OUTCOMES = ("settled", "dead_lettered", "unknown")


def outcome(died: Column) -> Column:
    """How the history of a row of ``silver.message_state`` ends, one of :data:`OUTCOMES`; a null ``died`` is no."""
    return F.when(died, "dead_lettered").when(F.col("settled").isNotNull(), "settled").otherwise("unknown")


def outcomes(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """Each delivered message with ``deliveries``, how many count against a limit of those that were seen, and
    ``outcome``, see :func:`outcome`."""
    deaths = dead.select(*MESSAGE_KEY, *OF_DEATH)
    delivered = facts.state.where(F.size("deliveries") > 0).join(deaths, list(MESSAGE_KEY), "left")
    seen = F.size("deliveries").cast("bigint")
    # what a message was returned on purpose for, and what it lived through before it came back, no limit counts
    counted = F.when(F.col("system") == "rabbitmq", F.least(counted_deliveries(), seen)).otherwise(seen)
    ends = outcome(F.col("dead_lettered_at").isNotNull()).alias("outcome")
    return delivered.withColumn("deliveries", of_its_end()).select(*MESSAGE_KEY, counted.alias("deliveries"), ends)


def delivery_survival(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """Rows of ``gold.delivery_survival``. RabbitMQ tells no acknowledgement: a message there ends ``unknown``
    (censored) unless it died, or a consumer wrote down what it did."""
    ends = outcomes(facts, dead).select(*QUEUE_KEY, "deliveries", "outcome", F.lit(1).cast("bigint").alias("messages"))
    if facts.uneventful is not None:
        once = {"deliveries": F.lit(1).cast("bigint"), "outcome": F.lit("settled")}
        ends = ends.unionByName(facts.uneventful.where("claimed_at IS NOT NULL").withColumns(once).select(ends.columns))
    exits = ends.groupBy(*QUEUE_KEY, "deliveries").agg(
        F.sum("messages").alias("messages"),
        *[F.sum(F.when(F.col("outcome") == end, F.col("messages")).otherwise(F.lit(0))).alias(end) for end in OUTCOMES],
    )
    at = F.col("delivery") == F.col("deliveries")
    return (
        exits.withColumn("delivery", F.explode(F.sequence(F.lit(1).cast("bigint"), F.col("deliveries"))))
        .groupBy(*QUEUE_KEY, "delivery")
        .agg(
            F.sum("messages").alias("reached"),
            *[F.sum(F.when(at, F.col(name)).otherwise(F.lit(0))).alias(name) for name in OUTCOMES],
        )
        .select(*tables.DELIVERY_SURVIVAL.column_names)
    )
