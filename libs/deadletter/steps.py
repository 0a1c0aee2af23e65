"""The steps of a run: read, call, write. Each can be killed and started again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import DeadletterError
from deadletter.gold.dead_letters import dead_letters
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.facts import SilverFacts, kept
from deadletter.gold.health import queue_health
from deadletter.gold.healthy import healthy_payloads
from deadletter.gold.patterns import assign_patterns, compare_payloads, poison_patterns
from deadletter.gold.survival import delivery_survival
from deadletter.lake import Lake, from_micros, literal_days
from deadletter.parallel import together
from deadletter.parsing import brokers
from deadletter.parsing.facts import Facts
from deadletter.replay import facts_at
from deadletter.rules.zaqar_store import REDIS, Habits
from deadletter.session import tune
from deadletter.silver import state
from deadletter.sources import landing as source

Tell = Callable[[str], None]


@dataclass
class Summary:
    """What a run did: counts of events of this run, and of the lake at its end."""

    as_of: datetime | None = None
    events_in: int = 0
    events_new: int = 0
    events_quarantined: int = 0
    events_silent: int = 0
    messages: int = 0
    patterns: int = 0
    dead_letters: list[dict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def bronze(lake: Lake, landing: str, tell: Tell = print) -> list[str]:
    """Take the landing folder's new files into ``bronze.queue_events``; returns warnings.

    Each file is read once (Structured Streaming, ``availableNow``). Where an archive is cut off, the lines
    before the damage are taken and the file is named in a warning.
    """
    files = source.landing_files(landing)
    lake.create_missing()
    if not files:
        return [f"{landing} holds no .jsonl or .jsonl.gz file: nothing to take in"]
    tell(f"bronze: reading new files among {len(files)} in {landing}")
    try:
        _stream(lake, landing, skip_corrupt=False)
    except DeadletterError:
        broken = source.truncated_archives(files)
        if not broken:
            raise
        _stream(lake, landing, skip_corrupt=True)
        return [
            f"{path}: damaged archive ({reason}). Its lines before the damage were taken; put the whole file "
            "there under another name, known lines count once."
            for path, reason in broken.items()
        ]
    return []


def _stream(lake: Lake, landing: str, skip_corrupt: bool) -> None:
    lines = source.read_lines(lake.spark, landing, skip_corrupt)
    lake.append_stream(source.queue_events(lines, landing), tables.QUEUE_EVENTS, source.checkpoint_name(landing))


def silver(lake: Lake, summary: Summary, tell: Tell = print) -> None:
    """Merge the facts of bronze's new events into the silver tables.

    Progress is noted after the last merge: a run that was killed merges the same facts again, which
    changes nothing.
    """
    done = lake.progress("silver")
    version = lake.version(tables.QUEUE_EVENTS)
    if done and done.source_version >= version:
        tell("silver: no new events")
        summary.as_of = done.as_of
        return
    new = lake.appended_since(tables.QUEUE_EVENTS, done.source_version if done else None).persist()
    systems = [row["system"] for row in new.select("system").distinct().collect()]
    tell(f"silver: merging the facts of {', '.join(sorted(systems)) or 'no system'}")
    facts, persisted = brokers.parse(new, systems)
    _count(facts.events, summary)
    _merge(lake, facts, tell)
    good = facts.events.where("size(reasons) = 0")
    latest = from_micros(good.agg(F.unix_micros(F.max("captured_at")).alias("latest")).first()["latest"])
    known = [time for time in (latest, done and done.as_of) if time]
    summary.as_of = max(known) if known else None
    lake.note_progress("silver", version, summary.as_of)
    for frame in [*persisted, new]:
        frame.unpersist()


def _count(events: DataFrame, summary: Summary) -> None:
    row = events.agg(
        F.count("*").alias("total"),
        F.count_distinct("event_id").alias("new"),
        F.count_if(F.size("reasons") > 0).alias("quarantined"),
        F.count_if(F.col("silent") & (F.size("reasons") == 0)).alias("silent"),
    ).first()
    summary.events_in, summary.events_new = row["total"], row["new"]
    summary.events_quarantined, summary.events_silent = row["quarantined"], row["silent"]


def _merge(lake: Lake, facts: Facts, tell: Tell) -> None:
    messages = state.message_state(facts.messages).persist()
    days = literal_days(messages, "created_day", "created_day")
    together(
        [
            partial(lake.merge, messages, tables.MESSAGE_STATE, days),
            partial(lake.merge, state.claims(facts.claims), tables.CLAIMS),
            partial(lake.merge, state.distinct_rows(facts.attempts, tables.CLAIM_ATTEMPTS), tables.CLAIM_ATTEMPTS),
            partial(lake.merge, state.distinct_rows(facts.policies, tables.QUEUE_POLICIES), tables.QUEUE_POLICIES),
            partial(lake.merge, state.quarantine(facts.events), tables.QUARANTINE),
        ]
    )
    messages.unpersist()


def gold(lake: Lake, as_of: datetime | None = None, habits: Habits = REDIS, tell: Tell = print) -> None:
    """Derive the gold tables from the facts that happened until ``as_of`` (UTC).

    ``as_of`` is the greatest event time in silver unless given.
    """
    known = lake.progress("silver")
    as_of = as_of or (known and known.as_of)
    if as_of is None:
        tell("gold: no event yet")
        return
    version = lake.version(tables.QUEUE_EVENTS)
    done = lake.progress("gold")
    if done and done.source_version == version and done.as_of == as_of:
        tell("gold: already up to date")
        return
    tell(f"gold: judging what happened until {as_of.isoformat()}")
    with kept(facts_at(lake, as_of)) as facts:
        _write_gold(lake, facts, habits, tell)
    lake.note_progress("gold", version, as_of)


def _write_gold(lake: Lake, facts: SilverFacts, habits: Habits, tell: Tell) -> None:
    events = lake.read(tables.QUEUE_EVENTS)
    judged = dead_letters(facts, events, habits).persist()
    # counted by now, so that threads share the rows instead of each deriving them
    tell(f"gold: {judged.count():,} dead letters; patterns, queue health, delivery survival, discrepancies")
    compared = compare_payloads(judged, healthy_payloads(facts, judged, events)).persist()
    together(
        [
            partial(_write_patterns, lake, compared, facts.as_of),
            partial(lake.replace, queue_health(facts, judged), tables.QUEUE_HEALTH),
            partial(lake.replace, delivery_survival(facts, judged), tables.DELIVERY_SURVIVAL),
            partial(lake.replace, discrepancies(facts, judged), tables.DISCREPANCIES),
        ]
    )
    compared.unpersist()
    judged.unpersist()


def _write_patterns(lake: Lake, compared: DataFrame, as_of: datetime) -> None:
    dead = assign_patterns(compared).persist()
    lake.replace(poison_patterns(dead, as_of), tables.POISON_PATTERNS)
    lake.replace(dead.select(*tables.DEAD_LETTERS.column_names), tables.DEAD_LETTERS)
    dead.unpersist()


def run(lake: Lake, landing: str, as_of: datetime | None = None, habits: Habits = REDIS, tell: Tell = print) -> Summary:
    """Bring the lake up to date with the landing folder: bronze, silver, gold.

    ``as_of`` (UTC) is the greatest event time unless given.
    """
    files = source.landing_files(landing)  # a missing folder is told before anything is made
    # files of earlier runs count too: too large a guess costs a little, too small a guess much
    tune(lake.spark, sum(path.stat().st_size for path in files))
    with lake.lock():
        summary = Summary()
        summary.warnings = bronze(lake, landing, tell)
        silver(lake, summary, tell)
        summary.as_of = as_of or summary.as_of
        gold(lake, as_of, habits, tell)
        _describe(lake, summary)
        return summary


def _describe(lake: Lake, summary: Summary) -> None:
    summary.messages = lake.read(tables.MESSAGE_STATE).count()
    summary.patterns = lake.read(tables.POISON_PATTERNS).count()
    counted = (
        lake.read(tables.DEAD_LETTERS)
        .groupBy("system", "tenant", "queue", "subscription", "reason")
        .agg(F.count("*").alias("dead_letters"))
        .orderBy("system", "tenant", "queue", "subscription", "reason")
    )
    summary.dead_letters = [row.asDict() for row in counted.collect()]


def utc(text: str) -> datetime:
    """An ISO 8601 time in UTC; one without an offset is taken as UTC.

    >>> utc("2026-11-20T21:00:00+01:00").isoformat()
    '2026-11-20T20:00:00+00:00'
    """
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
