"""Where a RabbitMQ queue's own count and the deliveries part ways, or its limit does not count."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts
from deadletter.rules.policy import policy_at
from deadletter.rules.rabbitmq import COUNTER_KINDS
from deadletter.rules.rabbitmq_counter import counter, counting_classic, since_return
from deadletter.tables import QUEUE_KEY

Difference = tuple[str, Column, Column, Column, Column]
"""Kind, test, time, the broker's word and the rules' word."""


def with_counts(state: DataFrame) -> DataFrame:
    """Add ``counts``: of each delivery since the last death of a message in a classic RabbitMQ queue its ``time``, the
    ``limit`` then in force, the queue's own ``count`` just before it, and the count ``unharmed`` by restarts and
    promotions; else null. ``state`` has ``policies``.
    """
    classic = F.exists("policies", counting_classic)
    counted = F.when((F.col("system") == "rabbitmq") & classic, since_return(F.col("deliveries"), F.col("deaths")))
    harmless = F.filter("policies", lambda p: ~p["kind"].isin(*COUNTER_KINDS))
    return (
        state.withColumns({"counted": counted, "harmless": harmless})
        .withColumn("counts", F.transform("counted", _counts))
        .drop("counted", "harmless")
    )


def _counts(delivery: Column) -> Column:
    before = delivery["time"] - F.expr("INTERVAL 1 MICROSECOND")
    count, unharmed = (counter(F.col("counted"), F.col(name), before) for name in ("policies", "harmless"))
    limit = policy_at(F.col("policies"), delivery["time"])["max_deliveries"]
    return F.struct(
        delivery["time"].alias("time"), limit.alias("limit"), count.alias("count"), unharmed.alias("unharmed")
    )


def delivered_over_limit() -> Difference:
    """A classic queue delivered again what by its own count had exceeded the limit and should have expired.

    Delivery limits, notes: it lay in the queue before, so the broker does not do what was proposed.
    """
    delivery = F.get(F.filter("counts", lambda d: d["count"] > d["limit"]), F.lit(0))
    return "should_have_been_moved", delivery.isNotNull(), delivery["time"], F.lit("delivered"), F.lit("expired")


def told_loss() -> Difference:
    """A classic queue's counter fell behind at a restart or a promotion that an event tells: its count before the
    next delivery, and what it would be without the loss. Where deliveries show a count, that is the broker's word.
    """
    delivery = F.get(F.filter("counts", lambda d: d["count"] < d["unharmed"]), F.lit(0))
    silent = F.forall("deliveries", lambda d: d["broker_count"].isNull())
    test = silent & delivery.isNotNull()
    return "lost_counter", test, delivery["time"], delivery["count"], delivery["unharmed"]


def ignored_limits(facts: SilverFacts) -> DataFrame:
    """RabbitMQ queues with a delivery limit that does not count: classic without the feature flag, or lazy."""
    ignored = F.filter("policies", lambda p: p["ignored_limit"].isNotNull())
    return (
        facts.policies.where("system = 'rabbitmq'")
        .withColumn("step", F.get(ignored, F.lit(0)))
        .where("step IS NOT NULL")
        .select(
            *QUEUE_KEY,
            F.lit("").alias("message_id"),
            F.lit("delivery_limit_ignored").alias("kind"),
            F.col("step.valid_from").alias("at"),
            F.concat_ws(" ", "step.queue_type", F.lit("queue, limit"), "step.ignored_limit").alias("broker_says"),
            F.lit("not supported").alias("rules_say"),
        )
    )
