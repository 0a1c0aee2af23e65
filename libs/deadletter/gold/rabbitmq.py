"""RabbitMQ's dead letters: as ``x-death`` tells them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts
from deadletter.rules.policy import policy_at
from deadletter.tables import QUEUE_KEY

SECOND = "INTERVAL 1 SECOND"
"""``x-death`` has whole seconds: what happens in a death's own second may be before it."""


def deaths(facts: SilverFacts) -> DataFrame:
    """Rows of ``tenant, queue, message_id, dead_letter_queue, reason, cause, claim_count, max_deliveries, posted_at,
    dead_lettered_at, event_id``: every message whose latest death its queue's own deliveries do not undo.

    ``cause`` is null where the reason says it.
    """
    state = facts.state.where("system = 'rabbitmq' AND size(deaths) > 0")
    state = state.withColumn("death", latest_death(F.col("deaths"), F.col("deliveries")))
    return (
        state.where("death IS NOT NULL")
        .withColumn("dead_lettered_at", F.col("death.time"))
        .join(facts.policies, list(QUEUE_KEY), "left")
        .withColumn("policy", policy_at(F.col("policies"), F.col("dead_lettered_at") + F.expr(SECOND)))
        .select(
            "tenant",
            "queue",
            "message_id",
            "death.dead_letter_queue",
            "death.reason",
            F.when(killed_by_limit(), "delivery_limit").alias("cause"),
            F.size("deliveries").cast("bigint").alias("claim_count"),
            F.col("policy.max_deliveries").alias("max_deliveries"),
            F.col("posted.time").alias("posted_at"),
            "dead_lettered_at",
            "death.event_id",
        )
    )


def latest_death(deaths: Column, deliveries: Column) -> Column:
    """The latest death that no later delivery from the message's own queue undoes; null where each is undone.

    ``x-death`` has one entry a queue and reason: its count grows with each death, its time stays that of the
    first. A delivery from the queue that shows a count says that the message came back from that many deaths.
    """

    def mine(death: Column) -> Column:
        return F.exists(deliveries, lambda d: d["event_id"] == death["event_id"])

    returned = F.filter(deaths, mine)

    def undone(death: Column) -> Column:
        same = F.exists(returned, lambda r: (r["reason"] == death["reason"]) & (r["count"] >= death["count"]))
        later = F.exists(deliveries, lambda d: d["time"] >= death["time"] + F.expr(SECOND))
        return same | (later & (F.coalesce(death["count"], F.lit(1)) <= 1))

    standing = F.filter(deaths, lambda death: ~mine(death) & ~undone(death))
    ranked = F.transform(
        standing, lambda d: F.struct(d["dead_letter_queue"].isNotNull().alias("newest"), d["time"], d.alias("death"))
    )
    return F.array_max(ranked)["death"]


def killed_by_limit() -> Column:
    """Whether ``expired`` means the delivery limit of a classic queue (delivery limits, last of the notes).

    A TTL cannot have been over, and the message had been delivered more often than the limit.
    """
    ttl = F.least(F.col("posted.ttl"), F.col("policy.default_ttl"))
    over = F.col("posted.time") + F.make_dt_interval(secs=ttl) <= F.col("death.time") + F.expr(SECOND)
    exceeded = F.size("deliveries") > F.col("policy.max_deliveries")
    classic = (F.col("death.reason") == "expired") & (F.col("policy.queue_type") == "classic")
    return classic & exceeded & ~F.coalesce(over, F.lit(False))
