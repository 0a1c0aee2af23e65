"""Payloads: they stay in bronze's raw events, and are taken from there for the messages that need one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.staging import Stage, as_it_is

PLACE = ("system", "raw_event_id", "position")


def with_payload(
    messages: DataFrame, event_id: Column, position: Column, events: DataFrame, stage: Stage = as_it_is
) -> DataFrame:
    """Add ``payload``, null where the event ``event_id`` is not known; ``messages`` has ``system`` and is read twice.

    ``events`` are rows of ``bronze.queue_events``. ``position`` counts within a Zaqar post, which holds several
    messages; an event of another broker holds one.
    """
    within = F.when(F.col("system") == "zaqar", F.coalesce(position, F.lit(0))).otherwise(F.lit(0))
    placed = messages.withColumns({"raw_event_id": event_id, "position": within.cast("int")})
    found = _payloads(placed.select(*PLACE), events, stage)
    return placed.join(found, list(PLACE), "left").drop("raw_event_id", "position")


def _payloads(places: DataFrame, events: DataFrame, stage: Stage) -> DataFrame:
    """Rows of :data:`PLACE` with ``payload``, one a place.

    Raw texts are long and a resent event has several rows: most are left out as they are read, the others are parsed
    once for all the bodies that are wanted of them. ``stage`` keeps what is wanted, because Spark sends it to where
    the raw texts are only if it knows that it is little.
    """
    by_event = places.where("raw_event_id IS NOT NULL").groupBy(*PLACE[:2])
    wanted = stage(by_event.agg(F.collect_set("position").alias("positions")))
    raw = events.select(F.col("event_id").alias("raw_event_id"), "raw").join(wanted, "raw_event_id")
    bodies = raw.select(*PLACE[:2], "positions", F.posexplode(_bodies()).alias("position", "payload"))
    return bodies.where("array_contains(positions, position)").drop("positions").dropDuplicates(list(PLACE))


def _bodies() -> Column:
    posted = F.from_json(F.get_json_object("raw", "$.request_body"), "struct<messages:array<struct<body:string>>>")
    only = F.array(F.get_json_object("raw", "$.payload"))
    return F.when(F.col("system") == "zaqar", posted["messages"]["body"]).otherwise(only)
