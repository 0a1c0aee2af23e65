"""Quarantine: what is refused, and what was decided about it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables

RELEASED, DISCARDED = "released", "discarded"


def quarantine(events: DataFrame) -> DataFrame:
    """Rows of ``silver.quarantine``: the events that broke a rule, one row an event."""
    return united(events.where(F.size("reasons") > 0))


def united(refused: DataFrame) -> DataFrame:
    """One row an event with the reasons of all its rows; ``refused`` has the columns of ``silver.quarantine``."""
    return (
        refused.groupBy("event_id")
        .agg(
            F.min("system").alias("system"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("reasons")))).alias("reasons"),
            F.min("raw").alias("raw"),
            F.min("source_file").alias("source_file"),
            F.min("captured_at").alias("captured_at"),
        )
        .select(*tables.QUARANTINE.column_names)
    )


def refused(bad: DataFrame, key: Sequence[str], source_events: DataFrame, events: DataFrame) -> DataFrame:
    """Rows of ``silver.quarantine``, one an event, for the bad rows of a batch.

    ``bad`` has the rows' ``key`` and the ``reasons`` why they are refused, see :func:`deadletter.gates.rows.reasons`;
    ``source_events`` the ids of all events that rows of this key were made from, see
    :func:`deadletter.silver.reconcile.source_events`; ``events`` has ``event_id, system,
    raw, source_file, captured_at`` of the batch's events. An event that also says something good keeps its
    good rows; it is in quarantine for the bad ones.
    """
    told = bad.select(*key, "reasons").distinct()
    same = " AND ".join(f"of.`{name}` <=> bad.`{name}`" for name in key)  # a key that is refused may be null
    found = source_events.alias("of").join(told.alias("bad"), F.expr(same)).select("of.event_id", "bad.reasons")
    copies = events.select("event_id", "system", "raw", "source_file", "captured_at")
    return united(found.join(copies, "event_id"))


def with_decisions(quarantine: DataFrame, decisions: DataFrame) -> DataFrame:
    """``silver.quarantine`` with each event's newest decision in ``decision``; null where there is none.

    >>> q = spark.createDataFrame([("a",), ("b",)], "event_id string")
    >>> d = spark.createDataFrame([("a", "discarded", 1), ("a", "released", 2)],
    ...                           "event_id string, decision string, decided_at int")
    >>> with_decisions(q, d).orderBy("event_id").show()
    +--------+--------+
    |event_id|decision|
    +--------+--------+
    |       a|released|
    |       b|    NULL|
    +--------+--------+
    """
    return quarantine.join(_newest(decisions), "event_id", "left")


def released(decisions: DataFrame) -> DataFrame:
    """The ``event_id`` of the events whose newest decision is that they are released."""
    return _newest(decisions).where(F.col("decision") == RELEASED).select("event_id")


def _newest(decisions: DataFrame) -> DataFrame:
    newest = F.max_by("decision", F.struct("decided_at", "decision"))
    return decisions.groupBy("event_id").agg(newest.alias("decision"))


def waiting() -> Column:
    """Whether an event of :func:`with_decisions` still waits for somebody: it was not discarded."""
    return ~F.col("decision").eqNullSafe(DISCARDED)


def code() -> Column:
    """The code of a ``reason``, e.g. ``bad_ttl`` of ``bad_ttl: a TTL is a whole number``."""
    return F.substring_index("reason", ": ", 1)


def by_reason(events: DataFrame) -> DataFrame:
    """How many events each rule refused, by system and code: ``system, code, reason, events, example``.

    An event that broke two rules counts for both. ``example`` is an event's id.
    """
    return (
        events.select("system", "event_id", F.explode("reasons").alias("reason"))
        .groupBy("system", code().alias("code"))
        .agg(
            F.min("reason").alias("reason"),
            F.count_distinct("event_id").alias("events"),
            F.min("event_id").alias("example"),
        )
        .orderBy(F.desc("events"), "system", "code")
    )


def excused(events: DataFrame, freed: DataFrame, waiting: DataFrame) -> DataFrame:
    """The ``event_id`` of events in quarantine that people released in vain, and that came as a usable copy now.

    ``events`` are parsed, ``freed`` is what was :func:`released`, ``waiting`` quarantine as it is.

    >>> copies = "VALUES ('a', array()), ('a', array('unknown_system')), ('b', array('no_time')), ('c', array())"
    >>> events = spark.sql(f"SELECT * FROM {copies} AS t(event_id, reasons)")
    >>> freed = spark.sql("SELECT explode(array('a', 'b')) AS event_id")
    >>> waiting = spark.sql("SELECT explode(array('a', 'b', 'c')) AS event_id")
    >>> excused(events, freed, waiting).show()
    +--------+
    |event_id|
    +--------+
    |       a|
    +--------+
    """
    usable = events.where("size(reasons) = 0").select("event_id").distinct()
    return usable.join(freed, "event_id", "left_semi").join(waiting, "event_id", "left_semi")


def best_copies(events: DataFrame, freed: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Parsed events without the refused copies of those :func:`released` that also came as a usable copy: now, or
    ``before``, which has the ``event_id`` of such.

    The same line may have come in the wrong folder first and in the right one later: it is usable then.
    """
    usable, refused = events.where("size(reasons) = 0"), events.where("size(reasons) > 0")
    excused = usable.join(freed, "event_id", "left_semi").select("event_id")
    if before is not None:
        excused = excused.unionByName(before)
    return usable.unionByName(refused.join(excused, "event_id", "left_anti"))
