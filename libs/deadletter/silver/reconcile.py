"""Every event is accounted for: it says something, or is known to say nothing, or is refused."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.parsing.facts import Facts

MESSAGE_PARTS = ("posted", "delivery", "settled", "failure", "death")


def unaccounted(facts: Facts) -> DataFrame:
    """Rows of ``event_id, system``: events that are neither refused nor silent, and yet no fact names them.

    The balance is: events = with a fact + silent + refused. A row here is a fault of a parser.
    """
    expected = facts.events.where(~F.col("silent") & (F.size("reasons") == 0)).select("event_id", "system")
    named = reduce(DataFrame.unionByName, _named(facts)).withColumn("told", F.lit(1))
    both = expected.withColumn("told", F.lit(0)).unionByName(named, allowMissingColumns=True)
    balanced = both.groupBy("event_id").agg(F.max("system").alias("system"), F.max("told").alias("told"))
    return balanced.where("told = 0").select("event_id", "system")


def _named(facts: Facts) -> list[DataFrame]:
    """The event ids in the facts of each kind; an event may be named several times."""
    by_message = F.coalesce(*[F.col(f"{part}.event_id") for part in MESSAGE_PARTS])
    by_claim = F.coalesce("claimed.event_id", F.get("renewals", F.lit(0))["event_id"], "released.event_id")
    return [
        facts.messages.select(by_message.alias("event_id")),
        facts.claims.select(by_claim.alias("event_id")),
        facts.attempts.select("event_id"),
        facts.policies.select("event_id"),
    ]
