"""The healthy payloads that dead ones are compared with."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from deadletter.gold import healthy
from deadletter.gold.facts import SilverFacts

RAW = '{"request_body": {"messages": [{"body": "first"}, {"body": "second"}]}}'
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


def counted(given, sample=1000):
    rows = healthy.healthy_payloads(*given, sample).groupBy("queue", "payload").count().collect()
    return {(row["queue"], row["payload"]): row["count"] for row in rows}


def test_a_payload_is_its_messages_own_and_the_dead_are_left_out(given):
    """Those that died in the queue, and those that came to it dead; the same id in another queue is another message."""
    of = {"first": 0, "second": 1}
    assert counted(given) == {
        (queue, body): len(range(place, count, 2)) - (queue == "small")
        for queue, count in MESSAGES.items()
        for body, place in of.items()
    }


def test_a_queue_gives_its_sample(given):
    found = {}
    for (queue, _), count in counted(given, 10).items():
        found[queue] = found.get(queue, 0) + count
    assert found == {"large": 10, "small": 2}
