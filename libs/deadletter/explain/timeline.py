"""One message's life: its events in order, and each verdict with the rule and the policy behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.explain.moments import moments
from deadletter.gold.dead_letters import all_deaths
from deadletter.gold.facts import each
from deadletter.gold.scope import affected
from deadletter.gold.status import message_status
from deadletter.lake import Lake
from deadletter.parsing import pulsar
from deadletter.queues import place_of
from deadletter.snapshot import dead_letter_links, facts_at, habits_of_gold
from deadletter.spark.frames import only_row
from deadletter.spark.parallel import together
from deadletter.spark.sqltext import sql_string
from deadletter.spark.staging import held_if_few
from deadletter.tables import MESSAGE_KEY, QUEUE
from deadletter.times import from_micros

RULES = {
    "max_claim_count": (
        "Zaqar, Dead Letter Queue, change 4.3: a claim attempt that finds the claim count at _max_claim_count "
        "moves the message to _dead_letter_queue instead of granting it"
    ),
    "delivery_limit": "RabbitMQ, delivery limits: a message delivered more often than the limit is dead-lettered",
    "rejected": "RabbitMQ: a consumer rejected the message without requeueing it",
    "expired": "RabbitMQ: the message's or the queue's TTL ran out",
    "maxlen": "RabbitMQ: the queue was full",
    "max_redeliver_count": (
        "Pulsar, PIP-22: a message redelivered maxRedeliverCount times goes to the dead letter topic and is "
        "acknowledged on its own"
    ),
}
"""The rule behind each reason of death, with its document."""
EXPIRED_BY_LIMIT = (
    "RabbitMQ, classic delivery limits, notes: a message that lies in a classic queue and was delivered more often "
    "than the limit is expired by the queue"
)
"""The rule where ``expired`` is the reason and the limit the cause."""

DEATH = (*MESSAGE_KEY, "event_id")
SHARED = (
    "payload",
    "payload_event_id",
    "payload_position",
    "error",
    "traits",
    "deviation_key",
    "deviation",
    "signature",
    "pattern_id",
)
"""What gold finds by comparing a dead letter with other messages."""


@dataclass(frozen=True)
class Moment:
    """Something that happened to a message: when (UTC), where, what, and the raw event that says so.

    RabbitMQ tells a death's whole second: it stands after what was in that second and led to it.
    """

    time: datetime
    queue: str
    what: str
    event_id: str | None


@dataclass(frozen=True)
class Life:
    """What was known of a message at ``as_of``: its moments in order, its status in each queue, its death if it died;
    and the id of the message whose dead letter it is, where the broker gave that a new one.

    Times of the rows are ISO 8601 texts.
    """

    message_id: str
    as_of: datetime
    moments: list[Moment]
    statuses: list[dict]
    deaths: list[dict]
    dead_letter_of: str | None = None


def life(lake: Lake, message_id: str, as_of: datetime) -> Life:
    """What is known of ``message_id`` until ``as_of``; :class:`UsageError` if nothing is.

    A Pulsar message may be named as any client prints its id, or by that of its dead letter as long as nobody was seen
    to receive that: then it has a life of its own.
    """
    name = as_kept(lake, message_id)
    # what a Pulsar client prints for another id can be an id of another broker's
    of_pulsar, of_others = F.col("message_id") == name, F.col("message_id") == message_id
    mine = (of_pulsar & (F.col("system") == "pulsar")) | (of_others & (F.col("system") != "pulsar"))
    places = lake.read(tables.MESSAGE_STATE).where(mine).select(*QUEUE).distinct()
    found, links, origin = together([places.collect, partial(dead_letter_links, lake), partial(_origin, lake, name)])
    if not found and origin:
        return life(lake, origin, as_of)
    # no fact of another queue says anything of it, but of those that its queues' dead letters link them with
    facts = each(facts_at(lake, as_of, affected(map(tuple, found), links)), held_if_few)
    habits = habits_of_gold(lake.progress.all())
    dead = held_if_few(all_deaths(facts, habits, held_if_few, facts.systems()))
    status = held_if_few(message_status(facts, dead, habits).where(mine))
    happened = [
        Moment(from_micros(row["micros"]), place_of(row), row["what"], row["event_id"])
        for row in moments(status, facts, dead, habits).collect()
    ]
    if not happened:
        raise UsageError(f"no event until {as_of.isoformat()} names a message {message_id}")
    shown = status.select(*MESSAGE_KEY, "status", "claims_granted", "delay_until", "expires_at")
    shared = lake.read(tables.DEAD_LETTERS).where(mine).select(*DEATH, *SHARED)
    deaths = _rows(_known(dead.where(mine), shared))
    in_pulsar = any(row["system"] == "pulsar" for row in found)
    shown_as, of = (name, origin) if in_pulsar else (message_id, None)
    return Life(shown_as, as_of, happened, _with_a_turn(_rows(shown)), deaths, dead_letter_of=of)


def rule(death: Mapping) -> str:
    """The rule behind a death, a row of ``gold.dead_letters``.

    >>> rule({"reason": "expired", "cause": "ttl"})
    "RabbitMQ: the message's or the queue's TTL ran out"
    >>> rule({"reason": "expired", "cause": "delivery_limit"})[:44]
    'RabbitMQ, classic delivery limits, notes: a '
    >>> rule({"reason": "unheard", "cause": "other"})
    'the broker named this reason'
    """
    if (death["reason"], death["cause"]) == ("expired", "delivery_limit"):
        return EXPIRED_BY_LIMIT
    return RULES.get(death["reason"], "the broker named this reason")


def as_kept(lake: Lake, message_id: str) -> str:
    """The id as silver has it: Pulsar's clients print ``(3,0,-1,-1)`` where another prints ``3:0:-1``."""
    given = sql_string(message_id)
    return only_row(lake.spark.sql(f"SELECT coalesce({pulsar.message_id(given)}, {given})"))[0]


def _with_a_turn(statuses: list[dict]) -> list[dict]:
    """The statuses without a Pulsar topic's own that only says that the message is there: its subscriptions' tell
    what became of it."""
    subscribed = {(row["tenant"], row["queue"]) for row in statuses if row["subscription"]}

    def only_there(row: dict) -> bool:
        in_topic = row["system"] == "pulsar" and not row["subscription"] and row["status"] == "available"
        return in_topic and (row["tenant"], row["queue"]) in subscribed

    return [row for row in statuses if not only_there(row)]


def _known(deaths: DataFrame, shared: DataFrame) -> DataFrame:
    """The deaths as they stood at ``as_of``, with what gold found of them: it may stand for a later time, by which a
    death was taken back or the message died again."""
    found = deaths.drop(*SHARED).join(shared, list(DEATH), "left")
    return found.select(*tables.DEAD_LETTERS.column_names)


def _origin(lake: Lake, message_id: str) -> str | None:
    """The message that became a dead letter with this id, where the broker gave it a new one."""
    dead = lake.read(tables.DEAD_LETTERS).where(F.col("dead_letter_message_id") == message_id)
    row = dead.select("message_id").orderBy("message_id").first()
    return row["message_id"] if row else None


def _rows(df: DataFrame) -> list[dict]:
    texts = [
        (F.date_format(name, "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx") if kind == "timestamp" else F.col(name)).alias(name)
        for name, kind in df.dtypes
    ]
    return [row.asDict(recursive=True) for row in df.select(*texts).orderBy(*MESSAGE_KEY).collect()]
