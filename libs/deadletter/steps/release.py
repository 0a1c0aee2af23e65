"""The way back from quarantine: events are judged again after a fix, or put aside for good.

Quarantine is a function of the events, these decisions, and the rules as of when each event was last judged. A release
is noted as begun, see :data:`~deadletter.lake.progress.RELEASING`, then its decision is written, then the facts are
merged, then quarantine is set to what is refused now, in one commit: killed between, the events are still in
quarantine, and the next run judges them again, see :func:`complete`; killed later, gold is known to be out of date, see
:func:`~deadletter.lake.progress.is_stale`, and the next run derives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.gates.gate import Gate
from deadletter.lake import Lake, Progress
from deadletter.lake.progress import CHOSEN, PARSER, RELEASING, STALE, SUITES, waits_for_release, was_cut_short
from deadletter.parsing import PARSER_VERSION
from deadletter.silver.quarantine import DISCARDED, RELEASED, released
from deadletter.steps import gold, silver
from deadletter.steps.quality import gated, judged
from deadletter.steps.summary import Summary, Tell


def discard(lake: Lake, chosen: DataFrame, who: str, why: str) -> None:
    """Note that the chosen events (``event_id``) are known to be unusable. They stay in bronze and quarantine."""
    with lake.lock():
        lake.create_missing()
        _decide(lake, chosen, DISCARDED, who, why)


def release(lake: Lake, chosen: DataFrame, who: str, why: str, tell: Tell = print) -> Summary:
    """Judge the chosen rows of ``silver.quarantine`` again, from bronze, by today's parsers and suites.

    What is usable now leaves quarantine and its facts are merged; the rest stays with the reasons it has now.
    Then gold is derived again, where anything was usable. Raises :class:`~deadletter.errors.GateError` where a gate
    stops it.
    """
    summary = Summary()
    lake.tune(lake.size(tables.QUARANTINE))
    with gated(lake, tell, releases=True) as gate:
        lake.create_missing()
        noted = lake.progress.all()
        if PARSER in noted and _reads_all_again(noted):
            raise UsageError(
                "another version of deadletter read this lake's events, or a run that reads them again was interrupted:"
                " `deadletter run` first; nothing was released"
            )
        ids = lake.stage(chosen.select("event_id", "captured_at"))
        before, newest = noted.get("gold"), noted.get("silver")
        rest = noted.get(RELEASING, Progress(0, None))  # what another release left: the next run has to know of that
        begun = Progress(rest.source_version or CHOSEN, None)
        lake.progress.note_all({"gold": Progress(STALE, before.as_of if before else None), RELEASING: begun})
        _decide(lake, ids, RELEASED, who, why)
        stopped = {RELEASING: rest} | ({"gold": before} if before else {})
        latest = _judge_again(lake, gate, ids, summary, tell, stopped)
        if before and latest is None:
            lake.progress.note_all(stopped)
        else:
            lake.progress.note_all({RELEASING: rest})
            gold.derive(lake, gate, _judged_at(before, newest, lake.progress.of("silver")), tell=tell)
    summary.warnings += sorted(gate.warnings)
    return summary


def complete(lake: Lake, tell: Tell = print) -> list[str]:
    """Finish a release that was cut short: judge its events again; returns warnings. A run does so before it merges
    what is new, under the same lock.

    Where facts were merged already nobody knows of which events: all in quarantine are judged that anybody ever
    released, also those that were discarded since. Raises :class:`~deadletter.errors.GateError` where a gate stops it.
    """
    noted, none_left = lake.progress.all(), {RELEASING: Progress(0, None)}
    if not waits_for_release(noted) or _reads_all_again(noted):
        return []
    tell("silver: completing a release from quarantine that was interrupted")
    lake.tune(lake.size(tables.QUARANTINE))
    before, decisions = noted["gold"], lake.read(tables.QUARANTINE_DECISIONS)
    ever = decisions.where(F.col("decision") == RELEASED).select("event_id")
    meant = ever if was_cut_short(noted, RELEASING) else released(decisions)
    with judged(lake, tell, releases=True) as gate:
        waiting = lake.read(tables.QUARANTINE).select("event_id", "captured_at")
        ids = lake.stage(waiting.join(meant, "event_id", "left_semi"))
        if not ids.isEmpty():
            lake.progress.note("gold", STALE, before.as_of)
            # what fails before it has written anything is over, as it is for who began it
            _judge_again(lake, gate, ids, Summary(), tell, none_left | {"gold": before})
        lake.progress.note_all(none_left)
    return sorted(gate.warnings)


def _reads_all_again(noted: Mapping[str, Progress]) -> bool:
    """Whether the next run judges all events again, those in quarantine among them."""
    return noted.get(PARSER) != Progress(PARSER_VERSION, None) or silver.other_suites(noted)


def _judge_again(
    lake: Lake, gate: Gate, ids: DataFrame, summary: Summary, tell: Tell, stopped: Mapping[str, Progress]
) -> datetime | None:
    """Merge the facts of these events that are usable, and set quarantine; returns the latest time of a good one. Where
    it fails and nothing was merged, ``stopped`` is noted."""
    events = lake.stage(_raw_events(lake, ids))
    write_quarantine = partial(_write_quarantine, lake, events)
    begun = {RELEASING: Progress(1, None), SUITES: silver.suites_now()}
    try:
        return silver.merge_events(lake, gate, events, summary, tell, write_quarantine, begun)
    except Exception:
        with suppress(Exception):  # a disk that is full
            if not was_cut_short(lake.progress.all(), RELEASING):
                lake.progress.note_all(stopped)
        raise


def _judged_at(before: Progress | None, newest: Progress | None, now: Progress | None) -> datetime | None:
    """The time to derive gold as of: the one that the run ``before`` judged at where that was not of the ``newest``
    event then, as it was given one; else of the newest that there is ``now``, and not before what was given."""
    caught_up = before and newest and before.source_version == newest.source_version
    given = before.as_of if before and newest and before.as_of != newest.as_of else None
    if caught_up and given:
        return given
    return max([done.as_of for done in (before, now) if done and done.as_of], default=None)


def _write_quarantine(lake: Lake, events: DataFrame, latest: datetime | None, refused: DataFrame) -> None:
    """Set quarantine to what is refused now of the events that were judged again; gold may have to look further than
    before."""
    done = lake.progress.of("silver")
    if done and latest and (done.as_of is None or latest > done.as_of):
        lake.progress.note("silver", done.source_version, latest)
    lake.revise(refused, tables.QUARANTINE, events.select("event_id").distinct())


def _decide(lake: Lake, chosen: DataFrame, decision: str, who: str, why: str) -> None:
    columns = {"decision": decision, "who": who, "why": why}
    rows = chosen.select("event_id").withColumns({name: F.lit(value) for name, value in columns.items()})
    lake.append_now(rows, tables.QUARANTINE_DECISIONS, "decided_at")


def _raw_events(lake: Lake, ids: DataFrame) -> DataFrame:
    """Every copy of the events, of each system the one that came last: what was in the future once may be so no
    more."""
    last = F.max_by(F.struct(*tables.QUEUE_EVENTS.column_names), F.struct("ingested_at", "source_file"))
    return silver.copies_of(lake, ids).groupBy("event_id", "system").agg(last.alias("last")).select("last.*")
