"""All steps in turn."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from shlex import quote

from deadletter import sources, tables
from deadletter.gates.gate import Gate
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import Habits
from deadletter.snapshot import chosen_habits
from deadletter.sources import Source
from deadletter.steps import bronze, gold, release, silver
from deadletter.steps.quality import gated
from deadletter.steps.summary import Summary, Tell

TOLERANCE = timedelta(minutes=5)
"""How far a collector's clock may be ahead of ours."""


def run(
    lake: Lake,
    landing: str,
    *,
    as_of: datetime | None = None,
    habits: Habits | None = None,
    tell: Tell = print,
    fresh_after: datetime | None = None,
    found: Sequence[Source] = (),
) -> Summary:
    """Bring the lake up to date with the landing folder or topics: bronze, silver, gold.

    ``as_of`` (UTC) is the greatest event time unless given, ``habits`` of Zaqar's store are those of the last run. The
    lake's newest event must be later than ``fresh_after`` (UTC), or a warning says so. ``found``: the sources that
    ``landing`` names, where they were looked at already. Raises :class:`~deadletter.errors.GateError` where a quality
    gate stops the run.
    """
    found = found or sources.find(landing)
    # looks at the sources, so what cannot be read is told before anything is made
    lake.tune(sum(source.size for source in found))
    summary = Summary()
    try:
        with gated(lake, tell) as gate:
            if habits:  # noted first: a run that does not get to gold has chosen, too
                lake.create_missing([tables.PROGRESS])
                chosen_habits(lake, lake.progress.all(), habits)
            summary.warnings += bronze.ingest(lake, found, tell)
            merge(lake, gate, summary, tell)
            lake.clear_stage()  # gold reads tables
            summary.warnings += _stuck(summary.as_of, fresh_after, landing)
            summary.as_of = as_of or summary.as_of
            gold.derive(lake, gate, as_of, habits, tell)
            summary.describe(lake)
    except BaseException:  # the next run reads these files no more: it cannot tell what was wrong with all of them
        for warning in summary.warnings:
            tell(f"warning: {warning}")
        if summary.events_quarantined:
            see = f"deadletter quarantine list --lake {quote(lake.root)}"
            tell(f"events refused: {summary.events_quarantined:,}. See: {see}")
        raise
    summary.run_id = gate.run_id
    summary.warnings += sorted(gate.warnings)  # found side by side
    return summary


def merge(lake: Lake, gate: Gate, summary: Summary, tell: Tell = print) -> None:
    """Bring silver up to date with bronze; first of all a release that was cut short."""
    summary.warnings += release.complete(lake, tell)
    silver.merge(lake, gate, summary, tell)
    summary.warnings += ahead(summary.as_of)


def _stuck(newest: datetime | None, fresh_after: datetime | None, landing: str) -> list[str]:
    """A warning where the newest event that can be used is not later than ``fresh_after``, if that is given."""
    if fresh_after is None or (newest and newest > fresh_after):
        return []
    seen = f"the newest event is of {newest.isoformat()}" if newest else "no event came yet"
    return [
        f"{seen}, none is later than {fresh_after.isoformat()}: is a feed stuck? Look whether the capture still runs "
        f"and still writes to {landing}."
    ]


def ahead(newest: datetime | None) -> list[str]:
    """A warning where the newest event is from the future: by its time claims and TTLs end that still run."""
    if newest is None or newest <= datetime.now(UTC) + TOLERANCE:
        return []
    return [
        f"the newest event is of {newest.isoformat()}, which is yet to come: is a collector's clock or time zone "
        "wrong? Claims and TTLs that end until then count as ended; --as-of judges at another time."
    ]
