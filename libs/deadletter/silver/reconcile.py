"""Every event is accounted for: it says something, or is known to say nothing, or is refused."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.parsing.facts import PARTS, Facts
from deadletter.tables import Table


def balance(facts: Facts) -> DataFrame:
    """One row: how many different ``events`` there are, how many are ``lost``, and the ``first`` of these, its id.

    The balance is: events = with a fact + silent + refused. A lost event is a fault of a parser.
    """
    speaks = ~F.col("silent") & (F.size("reasons") == 0)
    events = facts.events.select("event_id", F.coalesce(speaks, F.lit(False)).alias("speaks"))
    told = [rows.select("event_id") for rows in source_events(facts).values()]
    named = reduce(DataFrame.unionByName, told).withColumn("told", F.lit(True))
    both = events.unionByName(named, allowMissingColumns=True)
    # of flags alone, which are gathered by hashing: texts would be sorted
    each = both.groupBy("event_id").agg(F.bool_or("speaks").alias("speaks"), F.bool_or("told").alias("told"))
    lost = F.col("speaks") & F.col("told").isNull()
    return each.agg(
        F.count("speaks").alias("events"),
        F.count_if(lost).alias("lost"),
        F.min(F.when(lost, F.col("event_id"))).alias("first"),
    )


def source_events(facts: Facts) -> dict[Table, DataFrame]:
    """What the rows of each silver table are made from: their key, and in ``event_id`` an event behind it, a row each.

    A silver row names some of these only: of two posts of one message it keeps the earlier.
    """
    by_message = F.coalesce(*[F.col(f"{part}.event_id") for part in PARTS if part in facts.messages.columns])
    by_claim = F.coalesce("claimed.event_id", F.get("renewals", 0)["event_id"], "released.event_id")
    return {
        tables.MESSAGE_STATE: facts.messages.select(*tables.MESSAGE_KEY, by_message.alias("event_id")),
        tables.CLAIMS: facts.claims.select(*tables.CLAIMS.key, by_claim.alias("event_id")),
        tables.CLAIM_ATTEMPTS: facts.attempts.select(*tables.CLAIM_ATTEMPTS.key),
        tables.QUEUE_POLICIES: facts.policies.select(*tables.QUEUE_POLICIES.key),
    }
