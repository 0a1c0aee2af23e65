"""How messages fare from delivery to delivery: the figures behind a delivery limit."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import SilverFacts
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY


def outcomes(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """Each delivered message with ``deliveries`` (how many) and ``outcome``: settled, dead_lettered, unknown."""
    deaths = dead.select(*MESSAGE_KEY, F.lit(True).alias("died"))
    outcome = F.when(F.col("died"), "dead_lettered").when(F.col("settled").isNotNull(), "settled").otherwise("unknown")
    return (
        facts.state.where(F.size("deliveries") > 0)
        .join(deaths, list(MESSAGE_KEY), "left")
        .select(*MESSAGE_KEY, F.size("deliveries").cast("bigint").alias("deliveries"), outcome.alias("outcome"))
    )


def delivery_survival(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """Rows of ``gold.delivery_survival``. RabbitMQ tells no acknowledgement: a message there ends ``unknown``
    (censored) unless it died, or a consumer wrote down what it did."""
    exits = (
        outcomes(facts, dead)
        .groupBy(*QUEUE_KEY, "deliveries")
        .agg(
            F.count("*").alias("messages"),
            *[F.count_if(F.col("outcome") == name).alias(name) for name in ("settled", "dead_lettered", "unknown")],
        )
    )
    at = F.col("delivery") == F.col("deliveries")
    return (
        exits.withColumn("delivery", F.explode(F.sequence(F.lit(1).cast("bigint"), F.col("deliveries"))))
        .groupBy(*QUEUE_KEY, "delivery")
        .agg(
            F.sum("messages").alias("reached"),
            *[
                F.sum(F.when(at, F.col(name)).otherwise(F.lit(0))).alias(name)
                for name in ("settled", "dead_lettered", "unknown")
            ],
        )
        .select(*tables.DELIVERY_SURVIVAL.column_names)
    )
