"""The payloads of messages that did well: what dead ones are compared with."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts
from deadletter.gold.payload import with_payload
from deadletter.staging import Stage, as_it_is

SAMPLE = 1000
"""Messages of a queue that are looked at; which ones, the hashes of their ids decide."""
SAMPLE_OF_ALL, LEAST = 100_000, 100
"""Messages of all queues that are looked at: each queue gives its equal share, but not fewer than the least."""
_MESSAGE = ("system", "tenant", "queue", "message_id")


def healthy_payloads(facts: SilverFacts, dead: DataFrame, events: DataFrame, stage: Stage = as_it_is) -> DataFrame:
    """Rows of ``system, tenant, queue, payload``: messages that were delivered and did not die anywhere.

    Settled ones; on RabbitMQ, where consumers rarely tell, delivered ones. ``events`` are rows of
    ``bronze.queue_events``; ``stage`` keeps what is read several times.
    """
    died = dead.select("system", "tenant", "message_id").distinct()
    posts = facts.state.where("posted IS NOT NULL").select(*_MESSAGE, "posted")
    queues = posts.agg(F.count_distinct(*_MESSAGE[:3]).alias("queues"))
    share = F.greatest(F.lit(LEAST), F.least(F.lit(SAMPLE), F.lit(SAMPLE_OF_ALL) / F.greatest("queues", F.lit(1))))
    place = F.row_number().over(Window.partitionBy(*_MESSAGE[:3]).orderBy(F.xxhash64("message_id"), "message_id"))
    sampled = (
        _delivered(facts)
        .join(died, ["system", "tenant", "message_id"], "left_anti")
        .withColumn("place", place)
        .crossJoin(queues)
        .where(F.col("place") <= share)
        .select(*_MESSAGE, "post")
    )
    shown = with_payload(stage(sampled), F.col("post.event_id"), F.col("post.position"), events, stage)
    return shown.select(*_MESSAGE[:3], "payload")


def _delivered(facts: SilverFacts) -> DataFrame:
    """Each message that was posted and delivered, with its ``post``. On Pulsar the topic's row has the post and a
    subscription's the acknowledgement."""
    well = F.expr("settled IS NOT NULL OR (system = 'rabbitmq' AND size(deliveries) > 0)")
    post = F.struct("posted.event_id", "posted.position").alias("post")
    posted = facts.state.where("posted IS NOT NULL")
    one_row = posted.where((F.col("system") != "pulsar") & well)
    acknowledged = facts.state.where((F.col("system") == "pulsar") & well).select(*_MESSAGE)
    topics = posted.where("system = 'pulsar'").join(acknowledged, list(_MESSAGE), "left_semi")
    return one_row.select(*_MESSAGE, post).unionByName(topics.select(*_MESSAGE, post))
