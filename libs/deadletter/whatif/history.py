"""What each delivered message of a queue lived through."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gold.at_risk import OPEN, counts_as_done
from deadletter.gold.facts import OF_DEATH, SilverFacts, counted_deliveries, of_its_end
from deadletter.gold.rabbitmq import waits_for_its_next_try
from deadletter.gold.status import message_status
from deadletter.gold.survival import outcome
from deadletter.rules.zaqar_store import Habits
from deadletter.tables import MESSAGE_KEY


@dataclass(frozen=True)
class Choice:
    """Which messages: all of a queue's, or those of one tenant or subscription where they are given."""

    system: str
    queue: str
    tenant: str | None = None
    subscription: str | None = None

    def condition(self) -> Column:
        """True for the chosen rows; a Pulsar topic may be named without what stands before its last ``/``.

        >>> rows = [("pulsar", "persistent://public/default/orders"), ("pulsar", "orders"), ("zaqar", "orders")]
        >>> df = spark.createDataFrame(rows, "system STRING, queue STRING")
        >>> df.where(Choice("pulsar", "orders").condition()).count()
        2
        """
        named = F.col("queue") == self.queue
        if self.system == "pulsar":
            named = named | F.endswith("queue", F.lit(f"/{self.queue}"))
        test = (F.col("system") == self.system) & named
        for name in ("tenant", "subscription"):
            if getattr(self, name) is not None:
                test = test & (F.col(name) == getattr(self, name))
        return test


def histories(facts: SilverFacts, dead: DataFrame, choice: Choice, habits: Habits) -> DataFrame:
    """One row a chosen message that was delivered at least once.

    Columns: the message's key, ``posted`` (as in ``silver.message_state``), ``times`` (its deliveries, in order),
    ``deliveries`` (how many count, see :func:`~deadletter.gold.facts.counted_deliveries`; both of its last
    life, see :func:`~deadletter.gold.facts.of_its_end`), ``outcome`` (``settled``, ``dead_lettered`` or ``unknown``),
    ``is_open`` (whether somebody can still receive it, in a store of these ``habits``), ``lost`` (whether it expired or
    was purged, and nobody settled it), ``settled_at``, and of its death ``dead_lettered_at``, ``cause`` and
    ``pattern_id``. ``dead`` are rows of ``gold.dead_letters``.
    """
    chosen = choice.condition()
    died = dead.where(chosen).select(*MESSAGE_KEY, *OF_DEATH, "cause", "pattern_id")
    delivered = facts.state.where(chosen & (F.size("deliveries") > 0))
    # a purge asks for all that lay in its queue
    here = replace(facts, state=facts.state.where(chosen), policies=facts.policies.where(chosen))
    stand = message_status(here, dead, habits, delivered.where("settled IS NULL"))
    # what RabbitMQ no longer has may have been acknowledged, which it does not tell
    gone = F.col("status").isin("expired", "purged") & (F.col("system") != "rabbitmq")
    is_open = F.col("status").isin(*OPEN) & ~counts_as_done() & ~waits_for_its_next_try()
    return (
        delivered.join(died, list(MESSAGE_KEY), "left")
        .withColumn("deliveries", of_its_end())
        .join(stand.select(*MESSAGE_KEY, is_open.alias("is_open"), gone.alias("lost")), list(MESSAGE_KEY), "left")
        .select(
            *MESSAGE_KEY,
            "posted",
            F.col("deliveries.time").alias("times"),
            counted_deliveries().alias("deliveries"),
            outcome(F.col("dead_lettered_at").isNotNull()).alias("outcome"),
            F.coalesce("is_open", F.lit(False)).alias("is_open"),
            F.coalesce("lost", F.lit(False)).alias("lost"),
            F.col("settled.time").alias("settled_at"),
            "dead_lettered_at",
            "cause",
            "pattern_id",
        )
    )
