"""The lake as of a time: what was known to have happened, and what it meant then."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from shlex import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.gold.dead_letters import all_deaths, ways
from deadletter.gold.facts import SilverFacts, each, until
from deadletter.gold.scope import EVERYTHING, Link, Scope
from deadletter.gold.status import message_status
from deadletter.lake import Lake, Progress, digest
from deadletter.lake.progress import DECISIONS, HABITS, MERGING, RELEASING, STORE, WRITING, is_stale, was_cut_short
from deadletter.rules.policy import histories
from deadletter.rules.pulsar import tenant_of
from deadletter.rules.rabbitmq import SENDS
from deadletter.rules.zaqar_store import REDIS, STORES, Habits
from deadletter.spark.staging import held_if_few
from deadletter.tables import EVERY, QUEUE
from deadletter.triage import decisions_count

HALF_WRITTEN = (
    "a run, a release or a decision is writing tables of silver or gold, or was interrupted as it did: some are older "
    "than others. `deadletter run` puts that right."
)
"""What :func:`is_half_written` means to people."""


def gold_as_of(lake: Lake) -> datetime:
    """The time (UTC) that the gold tables stand for; :class:`UsageError` where no run has judged an event."""
    done = lake.progress.of("gold")
    if done is None or done.as_of is None:
        see = f"deadletter quarantine list --lake {quote(lake.root)}"
        raise UsageError(f"{lake.root}: no run has found a usable event here yet; `{see}` tells what was refused")
    return done.as_of


def is_half_written(lake: Lake) -> bool:
    """Whether a run or a release is writing the silver or gold tables, or a decision about patterns is applied, or was
    interrupted as it did: some are as before, some as of later."""
    notes = lake.progress.all()
    if any(was_cut_short(notes, step) for step in (WRITING, MERGING, RELEASING)) or is_stale(notes):
        return True
    return DECISIONS in notes and notes[DECISIONS].source_version != decisions_count(lake)


def habits_in(done: Mapping[str, Progress]) -> Habits:
    """The habits of Zaqar's store that was chosen for a lake, by its ``control.progress``; the Redis store's before the
    first choice. :class:`UsageError` where another version noted the choice in a way of its own.

    A choice is kept by the store's name, whose habits may be known better later. An earlier version kept only those
    that gold was derived with.

    >>> habits_in({}).name, habits_in({STORE: Progress(digest("mongodb"), None)}).name
    ('redis', 'mongodb')
    >>> habits_in({HABITS: Progress(digest(STORES["mongodb"]), None)}).name
    'mongodb'
    >>> habits_in({STORE: Progress(7, None)})
    Traceback (most recent call last):
    deadletter.errors.UsageError: another version of deadletter noted this lake's Zaqar store: name it once more ...
    """
    chosen = done.get(STORE)
    if chosen is None:
        return _derived_with(done) or REDIS
    for habits in STORES.values():
        if chosen.source_version == digest(habits.name):
            return habits
    raise UsageError(
        "another version of deadletter noted this lake's Zaqar store: name it once more with `deadletter run "
        f"--zaqar-store` ({', '.join(STORES)})"
    )


def habits_of_gold(done: Mapping[str, Progress]) -> Habits:
    """The habits of Zaqar's store that gold was derived with, by which what is worked out beside it agrees with it: a
    run that chose others may not have come that far."""
    return _derived_with(done) or habits_in(done)


def _derived_with(done: Mapping[str, Progress]) -> Habits | None:
    """The known habits that gold was derived with; ``None`` where it never was, or with others."""
    derived = done[HABITS].source_version if HABITS in done else None
    return next((habits for habits in STORES.values() if digest(habits) == derived), None)


def chosen_habits(lake: Lake, done: Mapping[str, Progress], given: Habits | None) -> Habits:
    """The habits that were ``given``, noted for later runs whatever becomes of this one; else those of the lake."""
    if given is None:
        return habits_in(done)
    if STORE not in done or done[STORE].source_version != digest(given.name):
        lake.progress.note(STORE, digest(given.name), None)
    return given


def facts_at(lake: Lake, as_of: datetime, scope: Scope = EVERYTHING, later: bool | None = None) -> SilverFacts:
    """The facts that happened until ``as_of``, whenever they arrived: of the queues in ``scope``, and the policies of
    all. ``later``: whether any happened after that, where it is known."""
    named = (tables.MESSAGE_STATE, tables.CLAIMS, tables.CLAIM_ATTEMPTS)
    state, claims, attempts = (lake.read(table).where(scope.inside) for table in named)
    policies = lake.read(tables.QUEUE_POLICIES)
    if later is None:
        later = not lake.read(tables.QUEUE_CHANGES).where(F.col("latest") > F.lit(as_of)).isEmpty()
    # what cuts arrays is not compiled and copies every message: a run for now has nothing to cut
    if later:
        return until(state, claims, attempts, policies, as_of)
    return SilverFacts(state, claims, attempts, histories(policies), as_of)


def dead_letter_links(lake: Lake) -> list[Link]:
    """Every queue with each dead letter queue it ever named, or where its dead letters are. A Zaqar queue that was
    purged goes with itself: what a purge spared there depends on all that lay in it, as if it sent its dead letters on.
    A routing key of RabbitMQ's counts without an exchange, too: another event can name that. A queue that names an
    exchange alone goes with itself: it leads on, nobody knows where.
    """
    purged = F.expr("system = 'zaqar' AND kind = 'purged'")
    exchange, key = (F.nullif(F.get_json_object("attributes", f"$.{name}"), F.lit("")) for name in SENDS)
    itself = F.when(exchange.isNotNull() & (F.col("queue") != EVERY), F.col("queue"))
    target = F.when(purged, F.col("queue")).otherwise(F.coalesce("dead_letter_queue", key, itself))
    policies = lake.read(tables.QUEUE_POLICIES).withColumn("dead_letter_queue", target)
    linked = ways(policies, lake.read(tables.DEAD_LETTERS))
    there = F.expr(tenant_of("dead_letter_queue"))
    return [Link(*row) for row in linked.select(*QUEUE, there, "dead_letter_queue").collect()]


def status_at(lake: Lake, as_of: datetime) -> DataFrame:
    """``silver.message_state`` with each message's status at ``as_of``, by the habits that gold was derived with."""
    facts, habits = each(facts_at(lake, as_of), held_if_few), habits_of_gold(lake.progress.all())
    return message_status(facts, all_deaths(facts, habits, held_if_few, facts.systems()), habits)
