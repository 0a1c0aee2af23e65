"""Silver: the facts of bronze's new events, merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.bronze.events import day_of_event
from deadletter.errors import GateError
from deadletter.gates.gate import Gate
from deadletter.gates.rows import reasons
from deadletter.gates.suites import load_all, suite_of
from deadletter.lake import Lake, Progress, digest
from deadletter.lake.progress import MERGING, PARSER, RELEASING, STALE, SUITES, waits_for_release, was_cut_short
from deadletter.parsing import PARSER_VERSION, brokers
from deadletter.parsing.facts import Facts
from deadletter.queues import MOST_QUEUES, of_queues
from deadletter.silver import state
from deadletter.silver.changes import queue_changes
from deadletter.silver.days import days_of, literal_days, with_known_days
from deadletter.silver.quarantine import best_copies, excused, quarantine, refused, released, united
from deadletter.silver.reconcile import balance, source_events
from deadletter.spark.frames import only_row
from deadletter.spark.parallel import together
from deadletter.steps.summary import Summary, Tell
from deadletter.tables import QUEUE, Table
from deadletter.times import from_micros

WriteQuarantine = Callable[[datetime | None, DataFrame], None]
"""Writes the rows of ``silver.quarantine`` after all facts are merged; gets the latest time of a good event, too."""


def merge(lake: Lake, gate: Gate, summary: Summary, tell: Tell = print) -> None:
    """Merge the facts of bronze's new events into the silver tables.

    Progress is noted after the last merge: a run that was killed merges the same facts again, which
    changes nothing. Where another version parsed the events, or of :func:`other_suites`, all are parsed again and what
    was made is replaced.
    """
    noted = lake.progress.all()
    same_version = PARSER in noted and noted[PARSER].source_version == PARSER_VERSION
    anew = not same_version or other_suites(noted)
    done = None if anew else noted.get("silver")
    begun = {MERGING: Progress(1, None), SUITES: suites_now()}
    if anew and "silver" in noted:
        lake.check_tables()
        by_suites = "other suites judged what was merged when it was interrupted"
        why = by_suites if same_version else "this version reads them differently"
        tell(f"silver: parsing all events again, as {why}")
        # should this run be cut short, whatever version runs next parses them again, too
        as_of = noted["gold"].as_of if "gold" in noted else None
        begun |= {"gold": Progress(STALE, as_of), PARSER: Progress(STALE, None)}
    version = lake.version(tables.QUEUE_EVENTS)
    # what the landing folder holds says little: most of it was read before
    new = lake.appended_bytes(tables.QUEUE_EVENTS, done.source_version) if done else lake.size(tables.QUEUE_EVENTS)
    lake.tune(new)
    events = _new_events(lake, done, version)
    if events is None:
        tell("silver: no new events")
        summary.as_of = done.as_of if done else None
        if done and done.source_version < version:
            lake.progress.note("silver", version, done.as_of)
        return
    latest = merge_events(lake, gate, events, summary, tell, begun=begun, anew=anew)
    known = [time for time in (latest, done and done.as_of) if time]
    summary.as_of = max(known) if known else None
    ended = {MERGING: Progress(0, None), PARSER: Progress(PARSER_VERSION, None)}
    ended |= {RELEASING: Progress(0, None)} if anew and waits_for_release(noted) else {}
    lake.progress.note_all(ended | {"silver": Progress(version, summary.as_of)})


def suites_now() -> Progress:
    """What judges what is merged now, for :data:`~deadletter.lake.progress.SUITES`."""
    return Progress(digest(load_all()), None)


def other_suites(noted: Mapping[str, Progress]) -> bool:
    """Whether a run or a release was cut short while it merged what other suites had let pass than judge now."""
    cut_short = any(was_cut_short(noted, step) for step in (MERGING, RELEASING))
    return cut_short and noted.get(SUITES) not in (None, suites_now())


def _new_events(lake: Lake, done: Progress | None, version: int) -> DataFrame | None:
    """Bronze's rows since ``done``, the same ones each time they are read; ``None`` where there are none: a newer
    version may only have tidied its files."""
    if done is None and version > 0:
        return lake.read(tables.QUEUE_EVENTS, version)
    if done is None or done.source_version >= version:
        return None
    events = lake.stage(lake.appended_since(tables.QUEUE_EVENTS, done.source_version))
    return None if events.isEmpty() else events


def merge_events(
    lake: Lake,
    gate: Gate,
    events: DataFrame,
    summary: Summary,
    tell: Tell,
    write_quarantine: WriteQuarantine | None = None,
    begun: Mapping[str, Progress] | None = None,
    anew: bool = False,
) -> datetime | None:
    """Merge the facts of rows of ``bronze.queue_events``, which are read several times; returns the latest time
    (UTC) of a good one.

    ``write_quarantine`` is given where the events are judged again, see :mod:`deadletter.steps.release`. Without it,
    what is refused is merged into quarantine. ``begun`` is noted once the gates let all pass, before anything is
    written. ``anew``: the events are all that ever came, and silver is to hold nothing else. A usable copy of an event
    that people released excuses its other copies, whether they came before or come later.
    """
    systems = [row["system"] for row in events.select("system").distinct().collect()]
    # of a folder that names no broker there is nothing but what is refused
    known = sorted(set(systems) & brokers.BROKERS.keys())
    tell(f"silver: merging the facts of {', '.join(known) or 'no broker'}")
    some_bad = gate.check(events, tables.QUEUE_EVENTS, refused=True)
    good, bad = gate.split(events, tables.QUEUE_EVENTS) if some_bad else (events, None)
    facts = brokers.parse(good, systems, lake.stage)
    refusals = [] if bad is None else [_refused(bad, tables.QUEUE_EVENTS, events, events)]
    decisions = lake.read(tables.QUARANTINE_DECISIONS)
    if not decisions.isEmpty():
        freed = released(decisions)
        still = None if write_quarantine or anew else lake.read(tables.QUARANTINE)
        before = None if still is None else _usable_before(lake, events, facts.events, freed, still)
        facts = replace(facts, events=best_copies(facts.events, freed, before))
        if still is not None:
            write_quarantine = _writer_excusing(lake, excused(facts.events, freed, still))
    latest, summary.events_new = together([partial(_count, facts.events, summary), partial(_reconcile, facts)])
    if bad is not None:
        _count_refused(bad, summary)
    write = partial(write_quarantine, latest) if write_quarantine else None
    summary.events_quarantined += _merge_facts(lake, gate, facts, events, refusals, write, begun, anew)
    return latest


def _usable_before(
    lake: Lake, events: DataFrame, parsed: DataFrame, freed: DataFrame, still: DataFrame
) -> DataFrame | None:
    """The ``event_id`` of what was ``freed``, is not ``still`` in quarantine and came before this batch of ``events``:
    it was usable; ``None`` where there are none. In a lake to which decisions were copied, such an event may have yet
    to come."""
    refused = parsed.where("size(reasons) > 0").select("event_id", "captured_at").distinct()
    gone = refused.join(freed, "event_id", "left_semi").join(still, "event_id", "left_anti")
    ids = lake.stage_few(gone)
    if ids.isEmpty():
        return None
    ever, now = (rows.groupBy("event_id").count() for rows in (copies_of(lake, ids), events))
    both = ever.join(now.withColumnRenamed("count", "now"), "event_id").where("count > now")
    return lake.stage_few(both.select("event_id"))


def _writer_excusing(lake: Lake, found: DataFrame) -> WriteQuarantine | None:
    """Takes the :func:`excused` out of quarantine once their facts are merged; ``None`` where there are none."""
    ids = lake.stage_few(found)
    if ids.isEmpty():
        return None

    def write_quarantine(latest: datetime | None, refused: DataFrame) -> None:
        lake.merge(refused, tables.QUARANTINE)
        lake.revise(refused.join(ids, "event_id", "left_semi"), tables.QUARANTINE, ids)

    return write_quarantine


def _count(events: DataFrame, summary: Summary) -> datetime | None:
    """Count the events; returns the latest time of a good one."""
    good = F.size("reasons") == 0
    counted = events.agg(
        F.count("*").alias("total"),
        F.count_if(~good).alias("quarantined"),
        F.count_if(F.col("silent") & good).alias("silent"),
        F.unix_micros(F.max(F.when(good, F.col("captured_at")))).alias("latest"),
    )
    row = only_row(counted)
    summary.events_in = row["total"]
    summary.events_quarantined, summary.events_silent = row["quarantined"], row["silent"]
    return from_micros(row["latest"])


def _count_refused(bad: DataFrame, summary: Summary) -> None:
    """Count what the gate of bronze refused, too: it is not parsed and so not among the facts' events."""
    row = only_row(bad.agg(F.count("*").alias("total"), F.count_distinct("event_id").alias("new")))
    summary.events_in += row["total"]
    summary.events_new += row["new"]
    summary.events_quarantined += row["total"]


def _reconcile(facts: Facts) -> int:
    """Stop the run where an event would be lost between bronze and silver; returns how many different ones came."""
    row = only_row(balance(facts))
    if row["lost"]:
        raise GateError(
            f"silver: {row['lost']} events are in no table and not counted as silent, e.g. {row['first']} in "
            "bronze.queue_events. Nothing was merged. The parser of its system is at fault: report the event."
        )
    return row["events"]


def _merge_facts(
    lake: Lake,
    gate: Gate,
    facts: Facts,
    raw_events: DataFrame,
    refusals: list[DataFrame],
    write_quarantine: Callable[[DataFrame], None] | None,
    begun: Mapping[str, Progress] | None,
    anew: bool,
) -> int:
    """Judge all batches, then merge their good rows; the events behind the others go to quarantine. Returns how many
    these are."""
    batches = lake.stage_all(
        {
            tables.MESSAGE_STATE: partial(state.message_state, facts.messages),
            tables.CLAIMS: partial(state.claims, facts.claims),
            tables.CLAIM_ATTEMPTS: partial(state.distinct_rows, facts.attempts, tables.CLAIM_ATTEMPTS),
            tables.QUEUE_POLICIES: partial(state.distinct_rows, facts.policies, tables.QUEUE_POLICIES),
        },
    )
    good, more = _split(gate, batches, source_events(facts), raw_events)
    count = reduce(DataFrame.unionByName, more).select("event_id").distinct().count() if more else 0
    all_refused = lake.stage(_all_refused(facts, [*refusals, *more]))
    gate.check(all_refused, tables.QUARANTINE)
    if begun:
        lake.progress.note_all(begun)
    if anew:
        _write_anew(lake, good, all_refused)
    else:
        _merge(lake, good, all_refused, write_quarantine)
    return count


def copies_of(lake: Lake, ids: DataFrame) -> DataFrame:
    """Every row of bronze of the events ``event_id, captured_at``, from the days that they lie in."""
    days = only_row(ids.agg(F.collect_set(F.date_format(day_of_event(), "yyyy-MM-dd")).alias("days")))["days"]
    pruned = lake.read(tables.QUEUE_EVENTS).where(F.col("day").isin([F.lit(found).cast("date") for found in days]))
    return pruned.join(ids.select("event_id"), "event_id", "left_semi")


def _refused(bad: DataFrame, table: Table, source_events: DataFrame, events: DataFrame) -> DataFrame:
    """Rows of ``silver.quarantine`` for a batch's bad rows."""
    suite = suite_of(table)
    return refused(bad.withColumn("reasons", reasons(suite)), suite.key, source_events, events)


def _all_refused(facts: Facts, refusals: list[DataFrame]) -> DataFrame:
    """Rows of ``silver.quarantine``: what the parsers refused, and what the gates did."""
    by_parsers = quarantine(facts.events)
    return united(reduce(DataFrame.unionByName, refusals, by_parsers)) if refusals else by_parsers


def _write_anew(lake: Lake, good: Mapping[Table, DataFrame], all_refused: DataFrame) -> None:
    """Have silver hold these rows and no others."""
    _note_changes(lake, good)
    made = {**good, tables.QUARANTINE: all_refused}
    together(partial(lake.replace, rows, table) for table, rows in made.items())


def _merge(
    lake: Lake,
    good: Mapping[Table, DataFrame],
    all_refused: DataFrame,
    write_quarantine: Callable[[DataFrame], None] | None,
) -> None:
    """Merge these rows into silver, those of quarantine by ``write_quarantine`` where it is given."""
    dated, days = _with_days(lake, good[tables.MESSAGE_STATE])
    good = {**good, tables.MESSAGE_STATE: dated}
    queues = literal_queues(_note_changes(lake, good))
    pruning = {tables.MESSAGE_STATE: f"({queues}) AND {days}"}
    merges = [partial(lake.merge, batch, table, pruning.get(table, queues)) for table, batch in good.items()]
    together(merges if write_quarantine else [*merges, partial(lake.merge, all_refused, tables.QUARANTINE)])
    if write_quarantine:  # only now: a killed release must leave its events in quarantine
        write_quarantine(all_refused)


def _note_changes(lake: Lake, good: Mapping[Table, DataFrame]) -> DataFrame:
    """Note which queues the rows are about, before they are merged: what a killed run merged has to be seen by gold,
    too. Returns the notes."""
    messages, claims, attempts, policies = good.values()
    changes = lake.stage(queue_changes(messages, claims, attempts, policies, lake.version(tables.QUEUE_EVENTS)))
    lake.append(changes, tables.QUEUE_CHANGES)
    return changes


def _split(
    gate: Gate, batches: Mapping[Table, DataFrame], sources: Mapping[Table, DataFrame], events: DataFrame
) -> tuple[dict[Table, DataFrame], list[DataFrame]]:
    """The batches' good rows, and the rows of ``silver.quarantine`` for the others."""

    def judged(table: Table, batch: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        if not gate.check(batch, table, refused=True):
            return batch, None
        good, bad = gate.split(batch, table)
        return good, _refused(bad, table, sources[table], events)

    found = together(partial(judged, table, batch) for table, batch in batches.items())
    good = {table: rows for table, (rows, _) in zip(batches, found, strict=True)}
    return good, [refused for _, refused in found if refused is not None]


def literal_queues(changes: DataFrame) -> str:
    """A literal predicate on a merge's target for the queues in ``changes``; ``true`` if they are too many to name."""
    queues = [tuple(row) for row in changes.select(*QUEUE).limit(MOST_QUEUES + 1).collect()]
    return of_queues(queues, table="t.") if len(queues) <= MOST_QUEUES else "true"


def _with_days(lake: Lake, messages: DataFrame) -> tuple[DataFrame, str]:
    """A batch of ``silver.message_state`` with the days that silver knows, and the literal predicate for these."""
    dated, days = with_known_days(messages, days_of(messages), lake.read(tables.MESSAGE_STATE), lake.stage)
    return dated, literal_days(days)
