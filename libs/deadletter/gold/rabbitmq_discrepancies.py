"""Where a RabbitMQ queue's own count and the deliveries part ways, or its limit does not count."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gold.difference import difference, of_queue
from deadletter.gold.facts import SilverFacts
from deadletter.rules.policy import policy_at
from deadletter.rules.rabbitmq_counter import DELIVERY, FIRST, count_at, counter_steps, counting_classic
from deadletter.rules.rabbitmq_deaths import since_arrival


def with_counts(state: DataFrame) -> DataFrame:
    """Add ``counts``: of each delivery since a message last came to its classic RabbitMQ queue its ``time``, the
    ``limit`` then in force, the queue's own ``count`` just before it, and the count ``unharmed`` by restarts and
    promotions; else null. ``state`` has ``policies``.
    """
    classic = F.exists("policies", counting_classic)
    counted = F.when((F.col("system") == "rabbitmq") & classic, since_arrival(F.col("deliveries"), F.col("deaths")))
    # once a message: each delivery would make the steps anew
    return (
        state.withColumn("counted", counted)
        .withColumn("steps", counter_steps(F.col("counted"), F.col("policies")))
        .withColumn("harmless", F.filter("steps", lambda step: step["kind"].isin(DELIVERY, FIRST, "deleted")))
        .withColumn("counts", F.transform("counted", _counts))
        .drop("counted", "steps", "harmless")
    )


def _counts(delivery: Column) -> Column:
    before = delivery["time"] - F.expr("INTERVAL 1 MICROSECOND")
    count, unharmed = (count_at(F.col(name), before) for name in ("steps", "harmless"))
    limit = policy_at(F.col("policies"), delivery["time"])["max_deliveries"]
    return F.struct(
        delivery["time"].alias("time"), limit.alias("limit"), count.alias("count"), unharmed.alias("unharmed")
    )


def should_have_been_moved() -> Column:
    """A classic queue delivered again what by its own count had exceeded the limit and should have expired.

    Delivery limits, notes: it lay in the queue before, so the broker does not do what was proposed.
    """
    delivery = F.get(F.filter("counts", lambda d: d["count"] > d["limit"]), 0)
    said = F.lit("delivered"), F.lit("expired")
    return difference("should_have_been_moved", delivery.isNotNull(), delivery["time"], *said)


def lost_counter() -> Column:
    """A classic queue's counter fell behind at a restart or a promotion that an event tells: its count before the
    next delivery, and what it would be without the loss. Where deliveries show a count, that is the broker's word.
    """
    delivery = F.get(F.filter("counts", lambda d: d["count"] < d["unharmed"]), 0)
    silent = F.forall("deliveries", lambda d: d["broker_count"].isNull())
    test = silent & delivery.isNotNull()
    return difference("lost_counter", test, delivery["time"], delivery["count"], delivery["unharmed"])


def shows_too_few() -> Column:
    """RabbitMQ's count at a delivery is below the deliveries before it since the message came to its queue: the counter
    was in memory.

    A quorum queue's is in its log: since RabbitMQ 4.3 what is returned on purpose does not count there. A classic one
    that does not count shows what was counted elsewhere. Of a queue whose declaration was not seen nobody knows which
    it is.
    """
    counted = F.transform(
        F.when(F.col("system") == "rabbitmq", since_arrival(F.col("deliveries"), F.col("deaths"))),
        lambda d, i: F.struct(d["time"].alias("time"), d["broker_count"].alias("broker"), i.alias("earlier")),
    )
    lost = F.get(F.filter(counted, lambda c: c["broker"] < c["earlier"]), 0)
    stayed = F.size("deaths") == 0  # a message that came back from a death counts anew
    then = policy_at(F.col("policies"), lost["time"])
    in_memory = (then["queue_type"] != "quorum") & then["counts"]
    return difference(
        "lost_counter",
        lost.isNotNull() & stayed & F.coalesce(in_memory, F.lit(False)),
        lost["time"],
        lost["broker"],
        lost["earlier"],
    )


def delivery_limit_ignored(facts: SilverFacts) -> DataFrame:
    """RabbitMQ queues with a delivery limit that does not count: classic without the feature flag, lazy, a stream."""
    ignored = F.filter("policies", lambda p: p["ignored_limit"].isNotNull())
    queues = facts.policies.where("system = 'rabbitmq'").withColumn("step", F.get(ignored, 0))
    says = F.concat_ws(" ", "step.queue_type", F.lit("queue, limit"), "step.ignored_limit")
    return of_queue(queues.where("step IS NOT NULL"), "delivery_limit_ignored", "step.valid_from", says)
