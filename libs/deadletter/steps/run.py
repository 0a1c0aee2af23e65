"""All steps in turn."""

from __future__ import annotations

from datetime import datetime

from deadletter import sources
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import Habits
from deadletter.session import tune
from deadletter.steps import bronze, gold, silver
from deadletter.steps.quality import gated
from deadletter.steps.summary import Summary, Tell


def run(
    lake: Lake,
    landing: str,
    as_of: datetime | None = None,
    habits: Habits | None = None,
    tell: Tell = print,
    fresh_after: datetime | None = None,
) -> Summary:
    """Bring the lake up to date with the landing folder or topics: bronze, silver, gold.

    ``as_of`` (UTC) is the greatest event time unless given, ``habits`` of Zaqar's store are those of the last run. The
    newest event must be later than ``fresh_after`` (UTC), or a warning says so. Raises
    :class:`~deadletter.errors.GateError` where a quality gate stops the run.
    """
    # looks at the sources, so what cannot be read is told before anything is made
    tune(lake.spark, sum(source.size() for source in sources.find(landing)))
    summary = Summary()
    with gated(lake, tell, fresh_after) as gate:
        summary.warnings += bronze.ingest(lake, landing, tell)
        silver.merge(lake, gate, summary, tell)
        if fresh_after and not summary.events_in and (summary.as_of is None or summary.as_of < fresh_after):
            # the gate of bronze judges new events: there are none
            summary.warnings.append(f"{landing}: no event came, none is later than {fresh_after}: a stuck feed?")
        summary.as_of = as_of or summary.as_of
        gold.derive(lake, gate, as_of, habits, tell)
        summary.describe(lake)
    summary.run_id = gate.run_id
    summary.warnings += gate.warnings
    return summary
