"""Pulsar's dead letters: what lies in the dead letter topics."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts, counted_deliveries
from deadletter.rules.policy import policy_at
from deadletter.tables import MESSAGE_KEY, QUEUE, QUEUE_KEY

_MESSAGE = (*QUEUE, "message_id")
"""A message of a topic, whichever subscription it died in."""


def deaths(facts: SilverFacts) -> DataFrame:
    """Rows of ``tenant, queue, subscription, message_id, dead_letter_queue, dead_letter_message_id, reason,
    claim_count, max_deliveries, posted_at, dead_lettered_at, event_id``: one a message and subscription.
    """
    state = facts.state.where("system = 'pulsar'")
    posts = state.where("subscription = '' AND posted IS NOT NULL").select(
        "tenant", "queue", "message_id", F.col("posted.time").alias("posted_at")
    )
    received = state.where("subscription != ''").select(*MESSAGE_KEY, counted_deliveries().alias("claim_count"))
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
            F.coalesce("claim_count", F.lit(0)).cast("bigint").alias("claim_count"),
            policy["max_deliveries"].alias("max_deliveries"),
            "posted_at",
            "dead_lettered_at",
            "event_id",
        )
    )


def told_deaths(state: DataFrame, policies: DataFrame) -> DataFrame:
    """The earliest death of each message and subscription that a dead letter topic shows.

    The subscription is the one the dead letter names (``REAL_SUBSCRIPTION``), else the one whose policy sends
    to this dead letter topic, see :func:`_paired`, else the one in the topic's default name (PIP-22:
    ``<topic>-<subscription>-DLQ``, where a client may mean a partition by its topic), else the only one that received
    the message and that no other letter names.
    """
    received = _receivers(state)
    who = F.collect_set(F.nullif("policy_subscription", F.lit(""))).alias("receivers")
    candidates = (
        _letters(state)
        .join(_senders(policies), ["tenant", "queue", "dead_letter_queue"], "left")
        .join(received, ["tenant", "queue", "message_id", "policy_subscription"], "left")
        .join(received.groupBy("tenant", "queue", "message_id").agg(who), ["tenant", "queue", "message_id"], "left")
    )
    named = F.nullif("subscription", F.lit(""))
    others = F.array_except("receivers", "named")
    only = F.when(F.size(others) == 1, others[0])
    subscription = F.coalesce(named, F.col("policy_subscription"), _default_subscription(), only, F.lit(""))
    death = F.struct("letter.time", "letter.event_id", "letter.reason", "dead_letter_queue", "dead_letter_message_id")
    return (
        _paired(candidates)
        .withColumn("subscription", subscription)
        .groupBy(*MESSAGE_KEY)
        .agg(F.min(death).alias("death"))
        .select(*MESSAGE_KEY, "death.*")
        .withColumnRenamed("time", "dead_lettered_at")
    )


def _letters(state: DataFrame) -> DataFrame:
    """The dead letters of each message, one row each, however often it was read, and as ``named`` the subscriptions
    that any of the message's letters name: a subscription takes it off once."""
    told = state.select(*MESSAGE_KEY, F.explode("deaths").alias("death")).select(*MESSAGE_KEY, "death.*")
    letter = F.min(F.struct("time", "event_id", "reason")).alias("letter")
    letters = told.groupBy(*MESSAGE_KEY, "dead_letter_queue", "dead_letter_message_id").agg(letter)
    names = F.collect_set(F.nullif("subscription", F.lit("")))
    return letters.withColumn("named", names.over(Window.partitionBy(*_MESSAGE)))


def _senders(policies: DataFrame) -> DataFrame:
    """The subscriptions whose policies ever sent to a dead letter topic, as ``policy_subscription``, and the lowest
    ``limit`` with which they did: a client goes by its own consumer's policy, which need not be the last."""
    steps = policies.where("system = 'pulsar'").select(
        "tenant", "queue", F.col("subscription").alias("policy_subscription"), F.explode("policies").alias("policy")
    )
    there = F.col("policy.dead_letter_queue").alias("dead_letter_queue")
    lowest = F.min("policy.max_deliveries").alias("limit")
    return steps.groupBy("tenant", "queue", "policy_subscription", there).agg(lowest)


def _paired(candidates: DataFrame) -> DataFrame:
    """Each letter that names nobody with one of the subscriptions that send to its topic, as far as there are some.

    A subscription that another letter of the message names has its own. One that never received the message, or never
    with a count that is its limit, counts only where all are such: a client may write a letter twice. Of the others
    those died that received the message most often, and the one that received it last sent the last letter.
    """
    a_message = Window.partitionBy(*_MESSAGE, "dead_letter_queue", "subscription")
    reached = F.coalesce(F.col("received.broker_count") >= F.col("limit"), F.col("received").isNotNull())
    taken = (F.col("subscription") == "") & F.array_contains("named", F.col("policy_subscription"))
    free = {name: F.when(~F.coalesce(taken, F.lit(False)), F.col(name)) for name in ("policy_subscription", "received")}
    is_free = F.col("policy_subscription").isNotNull()
    first = (F.desc("reached"), F.desc("received"), F.asc("policy_subscription"))
    return (
        candidates.withColumns(free)
        .withColumn("any_free", F.max(is_free).over(a_message))
        .where(is_free | ~F.col("any_free"))
        .withColumn("reached", reached)
        .withColumns(
            {
                "any_reached": F.max("reached").over(a_message),
                "place": F.dense_rank().over(a_message.orderBy(*first)),
                "letters": F.size(F.collect_set("dead_letter_message_id").over(a_message)),
            }
        )
        .where("reached = any_reached AND place <= letters")
        .withColumns(
            {
                "turn": F.dense_rank().over(a_message.orderBy("received.time", "policy_subscription")),
                "letter_turn": F.dense_rank().over(a_message.orderBy("letter")),
            }
        )
        .where("turn = letter_turn")
    )


def _default_subscription() -> Column:
    """The subscription in a dead letter topic's default name; null where it has another name."""
    beyond = "substring(dead_letter_queue, length(queue) + 1)"
    return F.expr(
        "CASE WHEN startswith(dead_letter_queue, concat(queue, '-')) AND endswith(dead_letter_queue, '-DLQ')"
        f" THEN nullif(regexp_extract({beyond}, '(?s)^(?:-partition-[0-9]+)?-(.+)-DLQ$', 1), '') END"
    )


def _receivers(state: DataFrame) -> DataFrame:
    """Each message's subscriptions that received it, as ``policy_subscription``, and how often, when last and with what
    count at most, as ``received``: whoever seeks back to it begins to count anew."""
    return state.where("size(deliveries) > 0").select(
        "tenant",
        "queue",
        "message_id",
        F.col("subscription").alias("policy_subscription"),
        F.struct(
            F.size("deliveries").alias("n"),
            F.try_element_at("deliveries", F.lit(-1))["time"].alias("time"),
            F.array_max(F.col("deliveries")["broker_count"]).alias("broker_count"),
        ).alias("received"),
    )
