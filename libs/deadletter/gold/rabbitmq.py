"""RabbitMQ's dead letters: as ``x-death`` tells them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts
from deadletter.rules.policy import policy_at
from deadletter.tables import QUEUE_KEY


def deaths(facts: SilverFacts) -> DataFrame:
    """Rows of ``tenant, queue, message_id, dead_letter_queue, reason, claim_count, max_deliveries, posted_at,
    dead_lettered_at, event_id``: every message whose latest death its queue's own deliveries do not undo.

    ``x-death`` has whole seconds; a delivery in a later second than the death says that the message came back.
    """
    state = facts.state.where("system = 'rabbitmq' AND size(deaths) > 0")
    state = state.withColumn("death", F.try_element_at("deaths", F.lit(-1)))
    back = F.exists("deliveries", lambda d: d["time"] >= F.col("death.time") + F.expr("INTERVAL 1 SECOND"))
    policy = policy_at(F.col("policies"), F.col("death.time") + F.expr("INTERVAL 1 SECOND"))
    return (
        state.where(~back)
        .join(facts.policies, list(QUEUE_KEY), "left")
        .select(
            "tenant",
            "queue",
            "message_id",
            "death.dead_letter_queue",
            "death.reason",
            F.size("deliveries").cast("bigint").alias("claim_count"),
            policy["max_deliveries"].alias("max_deliveries"),
            F.col("posted.time").alias("posted_at"),
            F.col("death.time").alias("dead_lettered_at"),
            "death.event_id",
        )
    )
