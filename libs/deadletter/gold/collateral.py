"""Messages that look healthy and died in claims that held poison, too.

A consumer that fails at one message of a claim often returns all of them, and each counts one claim more.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import SilverFacts
from deadletter.patterns.deviation import HEALTHY, tells_a_fault
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

MOST_NAMED = 10
"""Poison messages and patterns that are named for one victim."""


def collateral(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """Rows of ``gold.collateral``: dead letters that look healthy, have no error of their own, and were in
    every claim until their death together with a message that is poison.

    ``dead`` are rows of ``gold.dead_letters`` with ``deviation_key`` and ``pattern_id``. Poison is what died
    with a deviating payload or with an error. Only Zaqar's events tell which messages were claimed together.
    ``by_chance`` is how probable it is that a message of this queue is in as many poisoned claims without any
    connection: the share of the queue's claims with poison, to the power of the claims.
    """
    healthy = (F.col("deviation_key") == HEALTHY) & F.col("error").isNull()
    faulty = tells_a_fault(F.col("deviation_key")) | F.col("error").isNotNull()
    told = dead.select(*MESSAGE_KEY, "dead_lettered_at", "pattern_id", healthy.alias("healthy"), faulty.alias("faulty"))
    claimed = _claimed(facts, told)
    claim = ["system", "tenant", "queue", "claim_id"]
    poison = F.when(F.col("faulty"), F.struct("message_id", "pattern_id"))
    claims = claimed.groupBy(*claim).agg(
        F.slice(F.array_sort(F.collect_set(poison)), 1, MOST_NAMED).alias("poison"),
    )
    rate = claims.groupBy(*claim[:3]).agg(F.avg((F.size("poison") > 0).cast("int")).alias("rate"))
    victims = (
        claimed.where("healthy AND dead_lettered_at IS NOT NULL")
        .join(claims, claim)
        .groupBy(*MESSAGE_KEY, "dead_lettered_at")
    )
    named = F.array_sort(F.array_distinct(F.flatten(F.collect_list("poison"))))
    together = victims.agg(
        F.count("*").alias("claims"), F.count_if(F.size("poison") > 0).alias("with_poison"), named.alias("poison")
    )
    return (
        together.where("claims = with_poison")
        .join(rate, claim[:3])
        .withColumns(
            {
                "poison_message_ids": _distinct("message_id"),
                "pattern_ids": _distinct("pattern_id"),
                "by_chance": F.pow(F.col("rate"), F.col("claims")),
            }
        )
        .select(*tables.COLLATERAL.column_names)
    )


def _claimed(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """Every claim of every message until its death: the message's key, ``claim_id``, ``healthy`` (true for a
    message that did not die), ``faulty``, ``pattern_id``. Uneventful messages are not told by their ids."""
    grants = facts.state.select(*MESSAGE_KEY, F.explode("deliveries").alias("delivery")).select(
        *MESSAGE_KEY, "delivery.claim_id", "delivery.time"
    )
    joined = grants.where("claim_id IS NOT NULL").join(dead, list(MESSAGE_KEY), "left")
    until = joined.where("dead_lettered_at IS NULL OR time <= dead_lettered_at")
    claimed = until.withColumn("healthy", F.coalesce("healthy", F.lit(True))).drop("time")
    if facts.uneventful is None:
        return claimed
    others = facts.uneventful.where("claim_id IS NOT NULL").withColumn("healthy", F.lit(True))
    return claimed.unionByName(others.select(*QUEUE_KEY, "claim_id", "healthy"), allowMissingColumns=True)


def _distinct(name: str) -> Column:
    return F.slice(F.array_sort(F.array_distinct(F.col("poison")[name])), 1, MOST_NAMED)
