"""The healthy payloads that dead ones are compared with."""

import json
from collections import Counter
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold import healthy
from deadletter.gold.facts import SilverFacts
from deadletter.gold.payload import payloads
from deadletter.gold.profile import said

BODIES = ("first", "second")
RAW = json.dumps({"request_body": {"messages": [{"body": json.dumps({"is": body})} for body in BODIES]}})
MESSAGES = {"large": 30, "small": 4}


@pytest.fixture(scope="module")
def given(spark):
    """Settled messages of two queues, one of which died after all; each post holds two."""
    rows = [(queue, f"{queue}-{n}", f"e{n // 2}", n % 2) for queue, count in MESSAGES.items() for n in range(count)]
    state = spark.createDataFrame(rows, "queue STRING, message_id STRING, event_id STRING, position INT").selectExpr(
        "'zaqar' AS system",
        "'t' AS tenant",
        "queue",
        "message_id",
        "date'2026-11-20' AS created_day",
        "struct(timestamp'2026-11-20' AS time, event_id, position) AS posted",
        "struct(event_id) AS settled",
        "array() AS deliveries",
    )
    dead = spark.sql(
        "SELECT 'zaqar' AS system, 't' AS tenant, * FROM VALUES ('small', 'small-0', NULL),"
        " ('other', 'large-0', 'small'), ('other', 'small-1', 'small') AS d(queue, message_id, dead_letter_queue)"
    ).withColumn("dead_letter_message_id", F.lit(None).cast("string"))
    events = spark.createDataFrame([(f"e{n}", RAW) for n in range(15)] * 2, "event_id STRING, raw STRING")
    events = events.withColumn("day", F.lit("2026-11-20").cast("date"))
    return SilverFacts(state, None, None, None, datetime.now(UTC)), dead, events


def sampled(given, *more):
    """What is read of a sample: payloads that no former run read are sought in the events."""
    facts, dead, events = given
    chosen = healthy.sampled(facts, dead, *more)
    found = payloads([chosen.where("facts IS NULL")], events)
    return healthy.healthy_sample(chosen, found).collect()


def counted(given, sample=1000):
    """How many messages of each queue say the one body and the other."""
    said = ((row["queue"], fact["word"]) for row in sampled(given, sample) for fact in row["facts"])
    return Counter(fact for fact in said if fact[1] in BODIES)


def test_a_payload_is_its_messages_own_and_the_dead_are_left_out(given):
    """Those that died in the queue, and those that came to it dead; the same id in another queue is another message."""
    assert counted(given) == {
        (queue, body): len(range(place, count, 2)) - (queue == "small")
        for queue, count in MESSAGES.items()
        for place, body in enumerate(BODIES)
    }


def test_a_queue_gives_its_sample(given):
    found = {}
    for (queue, _), count in counted(given, 10).items():
        found[queue] = found.get(queue, 0) + count
    assert found == {"large": 10, "small": 2}


def test_of_a_payload_that_no_event_showed_nothing_is_said(spark):
    told = spark.sql("SELECT * FROM VALUES (''), (NULL) AS p(payload)").select(said(F.col("payload"))).collect()
    assert [len(row[0]) for row in told] == [4, 0]


def test_a_payload_is_read_once(spark, given):
    """What a former run took from a payload is taken again only where the message is of another event by now."""
    facts, dead, events = given
    former = spark.createDataFrame(sampled(given), tables.HEALTHY_SAMPLE.ddl)
    noted = F.array(F.struct(F.lit("path").alias("what"), F.lit("$.kept").alias("path"), F.lit("").alias("word")))
    moved = F.when(F.col("message_id") == "large-7", F.lit("e0")).otherwise(F.col("payload_event_id"))
    former = former.where("message_id != 'large-9'").withColumns({"facts": noted, "payload_event_id": moved})
    again = {row["message_id"]: row["facts"][0]["path"] for row in sampled(given, 1000, former)}
    assert len(again) == sum(MESSAGES.values()) - 2
    assert {name for name, path in again.items() if path != "$.kept"} == {"large-7", "large-9"}
    assert {row["message_id"] for row in sampled((facts, dead, events.limit(0)), 1000, former)} == set(again)


@pytest.mark.parametrize(("left", "new", "enough"), [(10, 0, True), (9, 900, True), (9, 0, False)])
def test_a_full_sample_leaves_out_what_comes_after_it(spark, left, new, enough):
    """Where one of it is gone, enough of the new ones must come before its last."""
    keys = "'s' AS system", "'t' AS tenant", "'q' AS queue", "CAST(id AS string) AS message_id"
    every = healthy.first_of_each(spark.range(100).selectExpr(*keys), 100)
    former = healthy.first_of_each(every, 10)
    first = former.orderBy(F.xxhash64("message_id")).limit(left)
    candidates = first.unionByName(every.exceptAll(former)).unionByName(spark.range(100, 100 + new).selectExpr(*keys))
    chosen = healthy.first_of_each(candidates, 10)
    assert healthy.reaches(chosen, former, 10) == enough
    assert healthy.reaches(chosen, former, 11), "of a sample that was not full nobody was left out"
