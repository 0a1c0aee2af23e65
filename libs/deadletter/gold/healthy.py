"""The payloads of messages that did well: what dead ones are compared with."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.dead_letters import payload, raw_of
from deadletter.gold.facts import SilverFacts

SAMPLE = 1000
"""Messages of a queue that are looked at; which ones, the hashes of their ids decide."""
SAMPLE_OF_ALL, LEAST = 100_000, 100
"""Messages of all queues that are looked at: each queue gives its equal share, but not fewer than the least."""


def healthy_payloads(facts: SilverFacts, dead: DataFrame, events: DataFrame) -> DataFrame:
    """Rows of ``system, tenant, queue, payload``: messages that were delivered and did not die anywhere.

    Settled ones, except on RabbitMQ, where no settlement is observable. ``events`` are rows of
    ``bronze.queue_events``.
    """
    died = dead.select("system", "tenant", "message_id").distinct()
    settled = (
        facts.state.where("settled IS NOT NULL OR (system = 'rabbitmq' AND size(deliveries) > 0)")
        .select("system", "tenant", "queue", "message_id")
        .distinct()
    )
    posts = facts.state.where("posted IS NOT NULL").select("system", "tenant", "queue", "message_id", "posted")
    queues = posts.agg(F.count_distinct("system", "tenant", "queue").alias("queues"))
    share = F.greatest(F.lit(LEAST), F.least(F.lit(SAMPLE), F.lit(SAMPLE_OF_ALL) / F.greatest("queues", F.lit(1))))
    place = F.row_number().over(
        Window.partitionBy("system", "tenant", "queue").orderBy(F.xxhash64("message_id"), "message_id")
    )
    sampled = (
        posts.join(settled, ["system", "tenant", "queue", "message_id"], "left_semi")
        .join(died, ["system", "tenant", "message_id"], "left_anti")
        .withColumn("place", place)
        .crossJoin(queues)
        .where(F.col("place") <= share)
    )
    shown = sampled.withColumn("event_id", F.col("posted.event_id"))
    shown = shown.join(raw_of(shown, events), "event_id")
    body = payload(F.col("system"), F.col("raw"), F.col("posted.position"))
    return shown.select("system", "tenant", "queue", body.alias("payload"))
