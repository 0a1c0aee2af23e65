"""Every event is accounted for: it says something, or is known to say nothing, or is refused."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.parsing.facts import PARTS, Facts


def balance(facts: Facts) -> DataFrame:
    """One row: how many different ``events`` there are, how many are ``lost``, and the ``first`` of these, its id.

    The balance is: events = with a fact + silent + refused. A lost event is a fault of a parser.
    """
    speaks = ~F.col("silent") & (F.size("reasons") == 0)
    events = facts.events.select("event_id", F.coalesce(speaks, F.lit(False)).alias("speaks"))
    named = reduce(DataFrame.unionByName, _named(facts)).withColumn("told", F.lit(True))
    both = events.unionByName(named, allowMissingColumns=True)
    # of flags alone, which are gathered by hashing: texts would be sorted
    each = both.groupBy("event_id").agg(F.bool_or("speaks").alias("speaks"), F.bool_or("told").alias("told"))
    lost = F.col("speaks") & F.col("told").isNull()
    return each.agg(
        F.count("speaks").alias("events"),
        F.count_if(lost).alias("lost"),
        F.min(F.when(lost, F.col("event_id"))).alias("first"),
    )


def _named(facts: Facts) -> list[DataFrame]:
    """The event ids in the facts of each kind; an event may be named several times."""
    by_message = F.coalesce(*[F.col(f"{part}.event_id") for part in PARTS if part in facts.messages.columns])
    by_claim = F.coalesce("claimed.event_id", F.get("renewals", F.lit(0))["event_id"], "released.event_id")
    return [
        facts.messages.select(by_message.alias("event_id")),
        facts.claims.select(by_claim.alias("event_id")),
        facts.attempts.select("event_id"),
        facts.policies.select("event_id"),
    ]
