"""Pulsar's dead letters: what lies in the dead letter topics."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts, counted_deliveries
from deadletter.rules.policy import policy_at
from deadletter.rules.pulsar import own
from deadletter.tables import MESSAGE, MESSAGE_KEY, QUEUE_KEY


def deaths(facts: SilverFacts) -> DataFrame:
    """Rows of ``tenant, queue, subscription, message_id, dead_letter_queue, dead_letter_message_id, reason,
    claim_count, max_deliveries, posted_at, dead_lettered_at, event_id``: one a message and subscription.
    """
    state = facts.state.where("system = 'pulsar'")
    posts = state.where("subscription = '' AND posted IS NOT NULL").select(
        "tenant", "queue", "message_id", F.col("posted.time").alias("posted_at")
    )
    received = state.where("subscription != ''").select(*MESSAGE_KEY, "deliveries", "settled", "deaths")
    policy = policy_at(F.col("policies"), F.col("dead_lettered_at"))
    return (
        told_deaths(state, facts.policies)
        .join(received, list(MESSAGE_KEY), "left")
        .join(posts, ["tenant", "queue", "message_id"], "left")
        .join(facts.policies, list(QUEUE_KEY), "left")
        .withColumn("max_deliveries", policy["max_deliveries"])
        .withColumn("deliveries", own("deliveries"))
        .select(
            "tenant",
            "queue",
            "subscription",
            "message_id",
            "dead_letter_queue",
            "dead_letter_message_id",
            "reason",
            F.when(F.col("deliveries").isNull(), 0).otherwise(counted_deliveries()).cast("bigint").alias("claim_count"),
            "max_deliveries",
            "posted_at",
            "dead_lettered_at",
            "event_id",
        )
    )


def told_deaths(state: DataFrame, policies: DataFrame) -> DataFrame:
    """The earliest death of each message and subscription that a dead letter topic shows, with the last of its letters:
    a client that fails to take the original off its topic writes another one, as does one that seeks back to it.

    The subscription is the one the dead letter names (``REAL_SUBSCRIPTION``), else the one whose policy sends
    to this dead letter topic, see :func:`_paired`, else the one in the topic's default name (PIP-22:
    ``<topic>-<subscription>-DLQ``, where a client may mean a partition by its topic), else one that received the
    message, where there are letters enough for all, see :func:`_candidates`.
    """
    named = F.nullif("subscription", F.lit(""))
    subscription = F.coalesce(named, F.col("candidate"), _default_subscription(), F.lit(""))
    death = F.struct("letter.time", "letter.event_id", "letter.reason")
    # somebody may have removed the first one
    lying = F.struct("letter.time", "letter.event_id", "dead_letter_queue", "dead_letter_message_id")
    return (
        _paired(_candidates(_letters(state), _senders(policies), _receivers(state)))
        .withColumn("subscription", subscription)
        .groupBy(*MESSAGE_KEY)
        .agg(F.min(death).alias("death"), F.max(lying).alias("last"))
        .select(*MESSAGE_KEY, "death.*", "last.dead_letter_queue", "last.dead_letter_message_id")
        .withColumnRenamed("time", "dead_lettered_at")
    )


def _letters(state: DataFrame) -> DataFrame:
    """The dead letters of each message, one row each, however often it was read, and as ``named`` the subscriptions
    that any of the message's letters name: a subscription takes it off once."""
    told = state.select(*MESSAGE_KEY, F.explode("deaths").alias("death")).select(*MESSAGE_KEY, "death.*")
    letter = F.min(F.struct("time", "event_id", "reason")).alias("letter")
    letters = told.groupBy(*MESSAGE_KEY, "dead_letter_queue", "dead_letter_message_id").agg(letter)
    names = F.collect_set(F.nullif("subscription", F.lit("")))
    return letters.withColumn("named", names.over(Window.partitionBy(*MESSAGE)))


def _senders(policies: DataFrame) -> DataFrame:
    """Of each dead letter topic the ``senders``, ``array<struct<candidate, limit>>``: the subscriptions whose policies
    ever sent there, and the lowest limit with which they did: a client goes by its own consumer's policy, which need
    not be the last."""
    steps = policies.where("system = 'pulsar'").select(
        "tenant", "queue", F.col("subscription").alias("candidate"), F.explode("policies").alias("policy")
    )
    there = F.col("policy.dead_letter_queue").alias("dead_letter_queue")
    lowest = F.min("policy.max_deliveries").alias("limit")
    sender = F.collect_list(F.struct("candidate", "limit")).alias("senders")
    return (
        steps.groupBy("tenant", "queue", "candidate", there)
        .agg(lowest)
        .groupBy("tenant", "queue", "dead_letter_queue")
        .agg(sender)
    )


def _candidates(letters: DataFrame, senders: DataFrame, received: DataFrame) -> DataFrame:
    """Each letter that names nobody with each ``candidate`` whose it may be, the ``limit`` by which that one sends to
    the letter's topic, and how it ``received`` the message; any other letter with none.

    These are the ``senders`` to its topic that no other letter of the message names. Where there is no such one and
    the topic's name tells nobody either, they are those that received the message and that no letter names, if there
    are at least as many letters: of fewer nobody could say whose they are.
    """
    message = ["tenant", "queue", "message_id"]
    among_letters = Window.partitionBy(*MESSAGE, "dead_letter_queue", "subscription")
    free = F.filter("senders", lambda sender: ~F.array_contains("named", sender["candidate"]))
    others = F.array_except("receivers", "named")
    enough = _default_subscription().isNull() & (F.size(others) <= F.col("letters"))
    limit = F.lit(None).cast("bigint").alias("limit")
    unlimited = F.transform(F.when(enough, others), lambda name: F.struct(name.alias("candidate"), limit))
    who = F.when(F.col("subscription") == "", F.when(F.size(free) > 0, free).otherwise(unlimited))
    return (
        letters.withColumn("letters", F.size(F.collect_set("dead_letter_message_id").over(among_letters)))
        .join(senders, ["tenant", "queue", "dead_letter_queue"], "left")
        .join(received.groupBy(*message).agg(F.collect_set("candidate").alias("receivers")), message, "left")
        .withColumn("who", F.explode_outer(who))
        .drop("senders", "receivers")
        .select("*", "who.*")
        .join(received, [*message, "candidate"], "left")
    )


def _paired(candidates: DataFrame) -> DataFrame:
    """Each letter that names nobody with one of its ``candidates``, as far as there are some.

    1. A candidate that never received the message, or never with a count that is its limit, counts only where all are
       such.
    2. As many as there are letters are taken: first those that gave the message back after they last received it, as
       far as anybody tells, then those that received it most often.
    3. Both in order of time: the one that received it last sent the last letter, and those that are left over, as a
       client may write a letter twice.
    """
    a_message = Window.partitionBy(*MESSAGE, "dead_letter_queue", "subscription")
    reached = F.coalesce(F.col("received.broker_count") >= F.col("limit"), F.col("received").isNotNull())
    first = (F.desc("reached"), F.desc("received.failed"), F.desc("received"), F.asc("candidate"))
    return (
        candidates.withColumn("reached", reached)
        .withColumns(
            {
                "any_reached": F.max("reached").over(a_message),
                "place": F.dense_rank().over(a_message.orderBy(*first)),
            }
        )
        .where("reached = any_reached AND place <= letters")
        .withColumns(
            {
                "turn": F.dense_rank().over(a_message.orderBy("received.time", "candidate")),
                "letter_turn": F.dense_rank().over(a_message.orderBy("letter")),
            }
        )
        .withColumn("last_turn", F.max("turn").over(a_message))
        .where("turn = least(letter_turn, last_turn)")
    )


def _default_subscription() -> Column:
    """The subscription in a dead letter topic's default name; null where it has another name."""
    beyond = "substring(dead_letter_queue, length(queue) + 1)"
    return F.expr(
        "CASE WHEN startswith(dead_letter_queue, concat(queue, '-')) AND endswith(dead_letter_queue, '-DLQ')"
        f" THEN nullif(regexp_extract({beyond}, '(?s)^(?:-partition-[0-9]+)?-(.+)-DLQ$', 1), '') END"
    )


def _receivers(state: DataFrame) -> DataFrame:
    """Each message's subscriptions that received it, as ``candidate``, and how often, when last, with what count at
    most and whether they ``failed`` then, as ``received``: whoever seeks back to it begins to count anew."""
    received, failed = (F.try_element_at(told, F.lit(-1))["time"] for told in ("deliveries", "failures"))
    return state.where("size(deliveries) > 0 AND subscription != ''").select(
        "tenant",
        "queue",
        "message_id",
        F.col("subscription").alias("candidate"),
        F.struct(
            F.size("deliveries").alias("n"),
            received.alias("time"),
            F.array_max(F.col("deliveries")["broker_count"]).alias("broker_count"),
            F.coalesce(failed >= received, F.lit(False)).alias("failed"),
        ).alias("received"),
    )
