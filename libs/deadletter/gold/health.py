"""What happened in each queue in each hour."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import SilverFacts
from deadletter.rules import zaqar as rules
from deadletter.rules.policy import emptied_after, policy_at
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

MEASURES = ("posted", "claimed", "settled", "dead_lettered", "delayed", "expired_unseen")


def queue_health(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """Rows of ``gold.queue_health`` from the facts and ``gold.dead_letters``.

    A message counts in the hour in which the thing happened. A death is no settlement, although Pulsar
    acknowledges the message; a Zaqar message expired unseen when its TTL ended by ``as_of`` without any claim, and it
    lay in its queue until then.
    """
    deaths = dead.select(*MESSAGE_KEY, "dead_lettered_at")
    state = (
        facts.state.join(deaths, list(MESSAGE_KEY), "left")
        .join(facts.policies, list(QUEUE_KEY), "left")
        .withColumn("policy", policy_at(F.col("policies"), F.col("posted.time")))
    )
    delay = rules.effective_delay(F.col("posted.delay"), F.col("policy"))
    settled = F.when(F.col("dead_lettered_at").isNull(), F.col("settled.time"))
    moments = state.select(
        *QUEUE_KEY,
        F.flatten(
            F.array(
                _moments("posted", F.array(F.col("posted.time"))),
                _moments("claimed", F.transform("deliveries", lambda d: d["time"])),
                _moments("settled", F.array(settled)),
                _moments("delayed", F.array(F.when(delay > 0, F.col("posted.time")))),
                _moments("expired_unseen", F.array(_expired_unseen(facts))),
            )
        ).alias("moments"),
    ).select(*QUEUE_KEY, F.explode("moments").alias("moment"))
    died = deaths.select(
        *QUEUE_KEY,
        F.struct(F.lit("dead_lettered").alias("what"), F.col("dead_lettered_at").alias("time")).alias("moment"),
    )
    counts = [F.sum((F.col("moment.what") == name).cast("bigint")).alias(name) for name in MEASURES]
    return (
        moments.unionByName(died)
        .where("moment.time IS NOT NULL")
        .groupBy(*QUEUE_KEY, F.date_trunc("hour", "moment.time").alias("hour"))
        .agg(*counts)
        .select(*tables.QUEUE_HEALTH.column_names)
    )


def _moments(what: str, times: Column) -> Column:
    return F.transform(times, lambda time: F.struct(F.lit(what).alias("what"), time.alias("time")))


def _expired_unseen(facts: SilverFacts) -> Column:
    ttl = rules.effective_ttl(F.col("posted.ttl"), F.col("policy"))
    expires = F.timestamp_seconds(F.unix_seconds(F.col("posted.time")) + ttl)
    unseen = (F.col("system") == "zaqar") & (F.size("deliveries") == 0) & F.col("settled").isNull()
    emptied = emptied_after(F.col("policies"), F.col("posted.time"))
    there = F.col("dead_lettered_at").isNull() & F.coalesce(emptied >= expires, F.lit(True))
    return F.when(unseen & there & (expires <= F.lit(facts.as_of)), expires)
