"""All brokers' dead letters in one table, with payload and last error."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import RULES_VERSION, tables
from deadletter.gold import pulsar, rabbitmq, zaqar
from deadletter.gold.facts import OF_DEATH, SilverFacts, last_error, of_its_end
from deadletter.gold.payload import PLACE, placed, with_payload
from deadletter.gold.removal import with_removal
from deadletter.gold.traits import with_traits
from deadletter.rules import zaqar_store
from deadletter.rules.policy import targets
from deadletter.spark.columns import looked_up
from deadletter.spark.parallel import together
from deadletter.spark.staging import Stage, as_it_is

_ID = ("system", "tenant", "message_id")
"""A message's id, in whatever queues."""
CAUSES = {
    "delivery_limit": "delivery_limit",
    "max_claim_count": "delivery_limit",
    "max_redeliver_count": "delivery_limit",
    "rejected": "rejected",
    "expired": "ttl",
    "maxlen": "length_limit",
}


def cause(reason: Column) -> Column:
    """Why it died in one vocabulary for all brokers; ``other`` for a reason not known.

    >>> df = spark.createDataFrame([("max_claim_count",), ("expired",), ("maxlen",), ("?",)], "reason string")
    >>> df.select("reason", cause(F.col("reason")).alias("cause")).show()
    +---------------+--------------+
    |         reason|         cause|
    +---------------+--------------+
    |max_claim_count|delivery_limit|
    |        expired|           ttl|
    |         maxlen|  length_limit|
    |              ?|         other|
    +---------------+--------------+
    """
    return F.coalesce(looked_up(CAUSES, reason), F.lit("other"))


def placed_deaths(deaths: DataFrame, facts: SilverFacts, former: DataFrame | None = None) -> DataFrame:
    """:func:`all_deaths` with their last error, and with the place of their payload, see
    :func:`deadletter.gold.payload.placed`.

    ``sought`` is true if an earlier run already looked for the payload, as ``former`` rows of ``gold.dead_letters``
    tell: ``payload`` is then its result, or null where the event holds none; such an event is not read again.
    """
    told = deaths.drop("error", "payload").join(_lives(deaths, facts), list(tables.MESSAGE_KEY), "left")
    posted = _with_post(told.join(_posts(deaths, facts), list(_ID), "left"))
    if former is None:
        return posted.withColumns({"payload": F.lit(None).cast("string"), "sought": F.lit(False)})
    told = former.where("payload_event_id IS NOT NULL").select(*PLACE, "payload", F.lit(True).alias("sought"))
    kept = posted.join(told.dropDuplicates(list(PLACE)), list(PLACE), "left")
    return kept.withColumn("sought", F.coalesce("sought", F.lit(False)))


def dead_letters(died: DataFrame, found: DataFrame) -> DataFrame:
    """Rows of ``gold.dead_letters`` from :func:`placed_deaths`, before they are compared and grouped: ``pattern_id``,
    ``signature`` and the deviation are null. Payloads that were not sought yet are among ``found``, see
    :func:`deadletter.gold.payload.payloads`.
    """
    here = died.withColumnRenamed("payload", "kept")
    return with_traits(with_payload(here, found).withColumn("payload", F.coalesce("kept", "payload")))


def ways(named: DataFrame, dead: DataFrame) -> DataFrame:
    """``system, tenant, queue, dead_letter_queue`` of each queue and dead letter queue that go together: a policy
    ``named`` both, or dead letters of the one lie in the other; ``dead`` are rows of ``gold.dead_letters``."""
    way = (*tables.QUEUE, "dead_letter_queue")
    return named.select(*way).unionByName(dead.select(*way)).where("dead_letter_queue IS NOT NULL").distinct()


def all_deaths(
    facts: SilverFacts,
    habits: zaqar_store.Habits,
    stage: Stage = as_it_is,
    systems: Collection[str] = (),
) -> DataFrame:
    """Every broker's deaths in the columns of ``gold.dead_letters``; payload and error are null.

    With ``stage`` each broker's are computed at once, beside the others'. ``systems``: those that the facts are of;
    another broker's deaths would cost as much to plan as if there were some. All brokers' where none is named.
    """
    brokers = {
        "zaqar": (partial(zaqar.deaths, facts, habits, stage), {"reason": "max_claim_count", "evidence": "derived"}),
        "rabbitmq": (partial(rabbitmq.deaths, facts, stage), {}),
        "pulsar": (partial(pulsar.deaths, facts), {"evidence": "observed"}),
    }

    def of_broker(system: str) -> DataFrame:
        deaths, constants = brokers[system]
        dead = stage(_complete(deaths(), system, **constants))
        removable = system != "zaqar" and facts.has_acknowledgements
        subscribed = facts.policy_steps() if system == "pulsar" else None
        return stage(with_removal(dead, facts.state, subscribed)) if removable else dead

    each = together(partial(of_broker, system) for system in brokers if system in (systems or brokers))
    dead = reduce(DataFrame.unionByName, each)
    return dead.withColumn("cause", F.coalesce("cause", cause(F.col("reason"))))


def _complete(deaths: DataFrame, system: str, **constants: str) -> DataFrame:
    """The deaths with every column of the table; what the broker does not tell is null."""
    given = set(deaths.columns)
    constants = {"system": system, "subscription": "", "rules_version": RULES_VERSION} | constants

    def value(column: tables.Column) -> Column:
        if column.name in given:
            return F.col(column.name)
        return F.lit(constants.get(column.name)).cast(column.type)

    return deaths.select(*[value(column).alias(column.name) for column in tables.DEAD_LETTERS.columns])


def _lives(deaths: DataFrame, facts: SilverFacts) -> DataFrame:
    """Of each dead message the last ``error`` that a consumer gave, the ``deliveries`` that led to its death, and
    ``failed_in``: the raw event of its last failure. None of all this is of a later life, nor of those who read a
    Pulsar message as a dead letter."""
    # the few dead are sent to where the messages are
    died = deaths.select(*tables.MESSAGE_KEY, *OF_DEATH)
    lives = facts.state.join(died, list(tables.MESSAGE_KEY))
    # one after the other: inside a lambda a name would mean the new column
    lives = lives.withColumn("failures", of_its_end("failures")).withColumn("deliveries", of_its_end())
    failed_in = F.try_element_at("failures", F.lit(-1))["event_id"].alias("failed_in")
    return lives.select(*tables.MESSAGE_KEY, last_error(F.col("failures")).alias("error"), "deliveries", failed_in)


def _posts(deaths: DataFrame, facts: SilverFacts) -> DataFrame:
    """The ``posts`` of each dead message's id in whatever queues, with the ``targets`` of each queue."""
    named = facts.policies.select(*tables.QUEUE_KEY, targets(F.col("policies")).alias("targets"))
    post = F.struct("posted.time", "posted.event_id", "posted.position", "posted.producer", "queue", "targets")
    return (
        facts.posts()
        .join(deaths.select(*_ID), list(_ID), "left_semi")
        .join(named, list(tables.QUEUE_KEY), "left")
        .groupBy(*_ID)
        .agg(F.array_sort(F.collect_list(post)).alias("posts"))
    )


def _with_post(dead: DataFrame) -> DataFrame:
    """Add the place of each payload: its post's or, where that was not seen, the event's that shows the death, or the
    consumer's last failure where none does: both hold the message. Adds ``producer``.

    Zaqar's deaths have no such event, and its ids are the server's own: a message that came from another queue, along
    its dead letter queue, was posted there. Elsewhere the same id in another queue can be another message.
    """
    here = F.get(F.filter("posts", lambda p: p["queue"] == F.col("queue")), 0)
    moved = F.filter("posts", lambda p: F.array_contains(p["targets"], F.col("queue")))
    elsewhere = F.when(F.col("system") == "zaqar", F.get(moved, 0))
    posted = dead.withColumn("here", here).withColumns(
        {"post": F.coalesce("here", elsewhere), "producer": F.col("here.producer")}
    )
    shown = F.when(F.col("evidence") == "observed", F.col("event_id"))
    return placed(posted, F.col("post"), otherwise=F.coalesce(shown, "failed_in"))
