"""Payloads: they stay in bronze's raw events, and are taken from there for the messages that need one."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.staging import Stage, as_it_is

PLACE = ("system", "raw_event_id", "position")


def with_payload(
    messages: DataFrame,
    post: Column,
    events: DataFrame,
    otherwise: Column | None = None,
    stage: Stage = as_it_is,
) -> DataFrame:
    """Add ``payload``, null where its event is not known; ``messages`` has ``system`` and is read twice.

    ``events`` are rows of ``bronze.queue_events``. ``post`` is the post's ``struct<time, event_id, position>``; where
    it is null, ``otherwise`` is the id of an event that shows the message. ``position`` counts within a Zaqar post,
    which holds several messages; an event of another broker holds one.
    """
    event_id = post["event_id"] if otherwise is None else F.coalesce(post["event_id"], otherwise)
    within = F.when(F.col("system") == "zaqar", F.coalesce(post["position"], F.lit(0))).otherwise(F.lit(0))
    # a post is of the time at which its event was captured, by which bronze is partitioned
    placed = messages.withColumns(
        {"raw_event_id": event_id, "position": within.cast("int"), "day": F.to_date(post["time"])}
    )
    found = _payloads(placed.select(*PLACE, "day"), events, stage)
    return placed.join(found, list(PLACE), "left").drop("raw_event_id", "position", "day")


def _payloads(places: DataFrame, events: DataFrame, stage: Stage) -> DataFrame:
    """Rows of :data:`PLACE` with ``payload``, one a place.

    Raw texts are long and a resent event has several rows: most are left out as they are read, the others are parsed
    once for all the bodies that are wanted of them. ``stage`` keeps what is wanted, because Spark sends it to where
    the raw texts are only if it knows that it is little.
    """
    by_event = places.where("raw_event_id IS NOT NULL").groupBy(*PLACE[:2])
    wanted = stage(by_event.agg(F.collect_set("position").alias("positions"), F.min("day").alias("wanted_day")))
    raw = _of_days(events, wanted).select(F.col("event_id").alias("raw_event_id"), "raw")
    told = raw.join(wanted.drop("wanted_day"), "raw_event_id")
    bodies = told.select(*PLACE[:2], "positions", F.posexplode(_bodies()).alias("position", "payload"))
    return bodies.where("array_contains(positions, position)").drop("positions").dropDuplicates(list(PLACE))


def _of_days(events: DataFrame, wanted: DataFrame) -> DataFrame:
    """The events of the days that are wanted; all where the day of one is not known."""
    days = [row["wanted_day"] for row in wanted.select("wanted_day").distinct().collect()]
    return events if None in days else events.where(F.col("day").isin(days))


def _bodies() -> Column:
    posted = F.from_json(F.get_json_object("raw", "$.request_body"), "struct<messages:array<struct<body:string>>>")
    only = F.array(F.get_json_object("raw", "$.payload"))
    return F.when(F.col("system") == "zaqar", posted["messages"]["body"]).otherwise(only)
