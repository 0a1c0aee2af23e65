"""What happened in each queue in each hour."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import SilverFacts
from deadletter.gold.zaqar import purged
from deadletter.rules import zaqar as rules
from deadletter.rules.policy import emptied_after, policy_at
from deadletter.rules.zaqar_store import Habits
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

MEASURES = ("posted", "claimed", "settled", "dead_lettered", "delayed", "expired_unseen")


def queue_health(facts: SilverFacts, dead: DataFrame, habits: Habits) -> DataFrame:
    """Rows of ``gold.queue_health`` from the facts and ``gold.dead_letters``, Zaqar's as a store of these ``habits``
    purges.

    A message counts in the hour in which the thing happened. A death is no settlement, although Pulsar
    acknowledges the message; a Zaqar message expired unseen when its TTL ended by ``as_of`` without any claim, and it
    lay in its queue until then.
    """
    deaths = dead.select(*MESSAGE_KEY, "dead_lettered_at")
    settled = facts.state.where("settled IS NOT NULL").join(deaths, list(MESSAGE_KEY), "left_anti")
    moments = [
        _moments("posted", facts.state, F.col("posted.time")),
        _moments("claimed", facts.state, F.explode("deliveries.time")),
        _moments("settled", settled, F.col("settled.time")),
        _moments("dead_lettered", deaths, F.col("dead_lettered_at")),
        _moments("delayed", _delayed(facts), F.col("posted.time")),
        _moments("expired_unseen", _expired_unseen(facts, deaths, habits), F.col("expires")),
    ]
    if facts.uneventful is not None:
        times = {"posted": "post.time", "claimed": "claimed_at", "settled": "settled_hour"}
        many = F.col("messages")
        moments += [_moments(what, facts.uneventful, F.col(time), many) for what, time in times.items()]
    counts = [F.sum(F.when(F.col("what") == name, F.col("n")).otherwise(0)).alias(name) for name in MEASURES]
    return (
        reduce(DataFrame.unionByName, moments)
        .where("time IS NOT NULL")
        .groupBy(*QUEUE_KEY, F.date_trunc("hour", "time").alias("hour"))
        .agg(*counts)
        .select(*tables.QUEUE_HEALTH.column_names)
    )


def _moments(what: str, rows: DataFrame, time: Column, messages: Column | None = None) -> DataFrame:
    n = F.lit(1) if messages is None else messages
    return rows.select(*QUEUE_KEY, F.lit(what).alias("what"), time.alias("time"), n.cast("bigint").alias("n"))


def _delayed(facts: SilverFacts) -> DataFrame:
    """The messages that were posted with a delay in force, Zaqar's by their queue's policy, Pulsar's by their own.
    Few of Zaqar's queues ever have one: the others' are not looked at."""
    some = F.exists("policies", lambda policy: policy["default_delay"] > 0)
    delaying = facts.state.join(facts.policies.where(some), list(QUEUE_KEY))
    policy = policy_at(F.col("policies"), F.col("posted.time"))
    by_policy = delaying.where(rules.effective_delay(F.col("posted.delay"), policy) > 0)
    own = facts.posts().where("system = 'pulsar' AND posted.delay > 0")
    return by_policy.select(*facts.state.columns).unionByName(own)


def _expired_unseen(facts: SilverFacts, deaths: DataFrame, habits: Habits) -> DataFrame:
    """The Zaqar messages whose TTL ended without any claim, and when: ``expires``."""
    unseen = facts.state.where("system = 'zaqar' AND posted IS NOT NULL AND settled IS NULL AND size(deliveries) = 0")
    judged = unseen.join(deaths, list(MESSAGE_KEY), "left_anti").join(facts.policies, list(QUEUE_KEY), "left")
    policy = policy_at(F.col("policies"), F.col("posted.time"))
    ttl = rules.effective_ttl(F.col("posted.ttl"), policy)
    ended = judged.withColumn("expires", F.timestamp_seconds(F.unix_seconds("posted.time") + ttl))
    if facts.has_zaqar_purges:
        ended = ended.join(purged(facts, habits), ["tenant", "queue", "message_id"], "left_anti")
    emptied = emptied_after(F.col("policies"), F.col("posted.time"), purges=F.lit(False))
    there = F.coalesce(emptied >= F.col("expires"), F.lit(True))
    return ended.where(there & (F.col("expires") <= F.lit(facts.as_of)))
