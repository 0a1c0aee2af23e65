"""The way back from quarantine: events are judged again after a fix, or put aside for good.

Quarantine is a function of the events, these decisions, and the rules as of when each event was last judged. A
decision is written first, then the facts are merged, then quarantine is set to what is refused now, in one commit:
killed before that, the events are still in quarantine, and the same command started again ends in the same tables, as
does the next run, see :data:`~deadletter.snapshot.RELEASING`; killed later, gold is known to be out of date, see
:func:`~deadletter.snapshot.gold_is_behind`, and the next run derives it.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.lake import Lake, Progress
from deadletter.parsing import PARSER_VERSION
from deadletter.silver.quarantine import DISCARDED, RELEASED
from deadletter.snapshot import RELEASING, STALE, was_cut_short
from deadletter.steps import gold, silver
from deadletter.steps.quality import gated
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
        if "parser" in noted and noted["parser"].source_version != PARSER_VERSION:
            raise UsageError(
                "another version of deadletter read this lake's events, or a run that reads them again was interrupted:"
                " `deadletter run` first; nothing was released"
            )
        ids = lake.stage(chosen.select("event_id", "captured_at"))
        _decide(lake, ids, RELEASED, who, why)
        before, newest = noted.get("gold"), noted.get("silver")
        lake.progress.note("gold", STALE, before and before.as_of)
        events = lake.stage(_raw_events(lake, ids))
        settle, begun = partial(_settle, lake, events), {RELEASING: Progress(1, None)}
        latest = silver.merge_events(lake, gate, events, summary, tell, settle, begun)
        if not was_cut_short(noted, RELEASING):  # of another release's events nobody knows here which these were
            lake.progress.note(RELEASING, 0, None)
        if before and latest is None:
            lake.progress.note_all({"gold": before})
        else:
            gold.derive(lake, gate, _judged_at(before, newest, lake.progress.of("silver")), tell=tell)
    summary.warnings += sorted(gate.warnings)
    return summary


def _judged_at(before: Progress | None, newest: Progress | None, now: Progress | None) -> datetime | None:
    """The time to derive gold as of: the one that the run ``before`` judged at where that was not of the ``newest``
    event then, as it was given one; else of the newest that there is ``now``, and not before what was given."""
    caught_up = before and newest and before.source_version == newest.source_version
    if caught_up and before.as_of and before.as_of != newest.as_of:
        return before.as_of
    return max([done.as_of for done in (before, now) if done and done.as_of], default=None)


def _settle(lake: Lake, events: DataFrame, refused: DataFrame, latest: datetime | None) -> None:
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
