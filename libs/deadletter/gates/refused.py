"""Bad rows as rows of ``silver.quarantine``: the events they came from, with every rule they broke."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.gates.rows import reasons
from deadletter.gates.suites import Suite
from deadletter.silver.state import united

_ONE = "array(event_id)"
EVENT_IDS = {
    "bronze.queue_events": _ONE,
    "silver.message_state": (
        "concat(array(posted.event_id, settled.event_id), coalesce(deliveries.event_id, array()),"
        " coalesce(failures.event_id, array()), coalesce(deaths.event_id, array()))"
    ),
    "silver.claims": ("concat(array(claimed.event_id, released.event_id), coalesce(renewals.event_id, array()))"),
    "silver.claim_attempts": _ONE,
    "silver.queue_policies": _ONE,
}
"""SQL for the ids of the raw events that a row was made from, by table."""


def refused(bad: DataFrame, suite: Suite, events: DataFrame) -> DataFrame:
    """Rows of ``silver.quarantine``, one an event, for the bad rows of a batch.

    ``bad`` is the second result of :func:`deadletter.gates.rows.split`; ``events`` has ``event_id, system,
    raw, source_file, captured_at`` of the batch's events. An event that also says something good keeps its
    good rows; it is in quarantine for the bad ones.
    """
    found = bad.select(
        F.explode(F.array_distinct(F.array_compact(F.expr(EVENT_IDS[suite.name])))).alias("event_id"),
        reasons(suite).alias("reasons"),
    )
    copies = events.select("event_id", "system", "raw", "source_file", "captured_at")
    return united(found.join(copies, "event_id"))
