"""Payloads: they stay in bronze's raw events, and are taken from there for the messages that need one.

Bronze is all that ever came. A run looks there once: for open messages, and for the dead and the healthy ones of which
no former run has kept what their payload says.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.parsing.envelope import LONG, parsed_text
from deadletter.spark.staging import Stage, as_it_is

PLACE = ("system", "payload_event_id", "payload_position")


def placed(messages: DataFrame, post: Column, otherwise: Column | None = None) -> DataFrame:
    """Add where the payload is, ``payload_event_id`` and ``payload_position``, and ``payload_day``.

    ``post`` is the post's ``struct<time, event_id, position>``; where it is null, ``otherwise`` is the id of an event
    that shows the message. The position counts within a Zaqar post, which holds several messages; an event of another
    broker holds one. ``messages`` has ``system``.
    """
    event_id = post["event_id"] if otherwise is None else F.coalesce(post["event_id"], otherwise)
    within = F.when(F.col("system") == "zaqar", F.coalesce(post["position"], F.lit(0))).otherwise(F.lit(0))
    # a post is of the time at which its event was captured, by which bronze is partitioned
    day = F.to_date(post["time"])
    return messages.withColumns(
        {"payload_event_id": event_id, "payload_position": within.cast("int"), "payload_day": day}
    )


def payloads(of: list[DataFrame], events: DataFrame, stage: Stage = as_it_is) -> DataFrame:
    """Rows of :data:`PLACE` with ``payload``, one for each place of :func:`placed` messages that holds one.

    ``events`` are rows of ``bronze.queue_events``. Raw texts are long and a resent event has several rows: most are
    left out as they are read, the others are parsed once for all the bodies that are wanted of them. ``stage`` keeps
    what is wanted, because Spark sends it to where the raw texts are only if it knows that it is little.
    """
    places = reduce(DataFrame.unionByName, [messages.select(*PLACE, "payload_day") for messages in of])
    by_event = places.where("payload_event_id IS NOT NULL").groupBy(*PLACE[:2])
    wanted = stage(by_event.agg(F.collect_set("payload_position").alias("positions"), F.min("payload_day").alias("on")))
    raw = _of_days(events, wanted).select(F.col("event_id").alias("payload_event_id"), "raw")
    told = raw.join(wanted.drop("on"), "payload_event_id")
    bodies = told.select(*PLACE[:2], "positions", F.posexplode(_bodies()).alias("payload_position", "payload"))
    return bodies.where("array_contains(positions, payload_position)").drop("positions").dropDuplicates(list(PLACE))


def with_payload(messages: DataFrame, found: DataFrame) -> DataFrame:
    """Add ``payload`` to :func:`placed` messages from what :func:`payloads` ``found``, null where that has none."""
    return messages.join(found, list(PLACE), "left").drop("payload_day")


def _of_days(events: DataFrame, wanted: DataFrame) -> DataFrame:
    """The events of the days that are wanted; all where the day of one is not known."""
    days = [row["on"] for row in wanted.select("on").distinct().collect()]
    return events if None in days else events.where(F.col("day").isin(days))


def _bodies() -> Column:
    posted = F.from_json(parsed_text("request_body"), "struct<messages:array<struct<body:string>>>", LONG)
    only = F.array(parsed_text("payload"))
    return F.when(F.col("system") == "zaqar", posted["messages"]["body"]).otherwise(only)
