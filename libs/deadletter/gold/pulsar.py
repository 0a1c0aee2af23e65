"""Pulsar's dead letters: what lies in the dead letter topics."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts
from deadletter.rules.policy import policy_at, targets
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY


def deaths(facts: SilverFacts) -> DataFrame:
    """Rows of ``tenant, queue, subscription, message_id, dead_letter_queue, dead_letter_message_id, reason,
    claim_count, max_deliveries, posted_at, dead_lettered_at, event_id``: one a message and subscription.
    """
    state = facts.state.where("system = 'pulsar'")
    posts = state.where("subscription = '' AND posted IS NOT NULL").select(
        "tenant", "queue", "message_id", F.col("posted.time").alias("posted_at")
    )
    received = state.where("subscription != ''").select(*MESSAGE_KEY, "deliveries")
    policy = policy_at(F.col("policies"), F.col("dead_lettered_at"))
    return (
        told_deaths(state, facts.policies)
        .join(received, list(MESSAGE_KEY), "left")
        .join(posts, ["tenant", "queue", "message_id"], "left")
        .join(facts.policies, list(QUEUE_KEY), "left")
        .select(
            "tenant",
            "queue",
            "subscription",
            "message_id",
            "dead_letter_queue",
            "dead_letter_message_id",
            "reason",
            F.coalesce(F.size("deliveries"), F.lit(0)).cast("bigint").alias("claim_count"),
            policy["max_deliveries"].alias("max_deliveries"),
            "posted_at",
            "dead_lettered_at",
            "event_id",
        )
    )


def told_deaths(state: DataFrame, policies: DataFrame) -> DataFrame:
    """The earliest death of each message and subscription that a dead letter topic shows.

    The subscription is the one the dead letter names (``REAL_SUBSCRIPTION``), else the one whose policy sends
    to this dead letter topic, else the one in the topic's default name (PIP-22: ``<topic>-<subscription>-DLQ``, where
    a client may mean a partition by its topic), else the only one that received the message.
    Where several subscriptions send there, those died that received the message most often, as many as there are
    dead letters of it.
    """
    told = state.select("system", "tenant", "queue", "subscription", "message_id", F.explode("deaths").alias("death"))
    told = told.select("system", "tenant", "queue", "subscription", "message_id", "death.*")
    by_policy = policies.where("system = 'pulsar'").select(
        "tenant",
        "queue",
        F.col("subscription").alias("policy_subscription"),
        F.explode(F.array_distinct(targets(F.col("policies")))).alias("dead_letter_queue"),
    )
    named = F.nullif("subscription", F.lit(""))
    subscription = F.coalesce(named, F.col("policy_subscription"), _default_subscription(), F.col("only"), F.lit(""))
    death = F.min(F.struct("time", "event_id", "reason", "dead_letter_queue", "dead_letter_message_id"))
    received = _receivers(state)
    one = F.when(F.count("*") == 1, F.min("policy_subscription")).alias("only")
    only = received.where("policy_subscription != ''").groupBy("tenant", "queue", "message_id").agg(one)
    a_message = Window.partitionBy("system", "tenant", "queue", "message_id", "dead_letter_queue", "subscription")
    letters = F.size(F.collect_set("dead_letter_message_id").over(a_message))
    candidates = (
        told.join(by_policy, ["tenant", "queue", "dead_letter_queue"], "left")
        .join(received, ["tenant", "queue", "message_id", "policy_subscription"], "left")
        .join(only, ["tenant", "queue", "message_id"], "left")
        .withColumn("place", F.dense_rank().over(a_message.orderBy(F.desc("received"), "policy_subscription")))
        .withColumn("letters", letters)
    )
    return (
        candidates.where("subscription != '' OR policy_subscription IS NULL OR place <= greatest(letters, 1)")
        .withColumn("subscription", subscription)
        .groupBy(*MESSAGE_KEY)
        .agg(death.alias("death"))
        .select(*MESSAGE_KEY, "death.*")
        .withColumnRenamed("time", "dead_lettered_at")
    )


def _default_subscription() -> Column:
    """The subscription in a dead letter topic's default name; null where it has another name."""
    beyond = "substring(dead_letter_queue, length(queue) + 1)"
    return F.expr(
        "CASE WHEN startswith(dead_letter_queue, concat(queue, '-')) AND endswith(dead_letter_queue, '-DLQ')"
        f" THEN nullif(regexp_extract({beyond}, '(?s)^(?:-partition-[0-9]+)?-(.+)-DLQ$', 1), '') END"
    )


def _receivers(state: DataFrame) -> DataFrame:
    """Each message's subscriptions that received it, as ``policy_subscription``, and how often and when last, as
    ``received``."""
    return state.where("size(deliveries) > 0").select(
        "tenant",
        "queue",
        "message_id",
        F.col("subscription").alias("policy_subscription"),
        F.struct(F.size("deliveries").alias("n"), F.try_element_at("deliveries", F.lit(-1))["time"]).alias("received"),
    )
