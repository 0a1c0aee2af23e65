"""Bad rows as rows of ``silver.quarantine``: the events they came from, with every rule they broke."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.gates.rows import reasons
from deadletter.gates.suites import Suite
from deadletter.silver.state import united


def refused(bad: DataFrame, suite: Suite, behind: DataFrame, events: DataFrame) -> DataFrame:
    """Rows of ``silver.quarantine``, one an event, for the bad rows of a batch.

    ``bad`` is the second result of :func:`deadletter.gates.rows.split`; ``behind`` has the ids of all events that rows
    of this key were made from, see :func:`deadletter.silver.reconcile.behind`; ``events`` has ``event_id, system,
    raw, source_file, captured_at`` of the batch's events. An event that also says something good keeps its
    good rows; it is in quarantine for the bad ones.
    """
    told = bad.select(*suite.key, reasons(suite).alias("reasons")).distinct()
    same = " AND ".join(f"of.`{name}` <=> bad.`{name}`" for name in suite.key)  # a key that is refused may be null
    found = behind.alias("of").join(told.alias("bad"), F.expr(same)).select("of.event_id", "bad.reasons")
    copies = events.select("event_id", "system", "raw", "source_file", "captured_at")
    return united(found.join(copies, "event_id"))
