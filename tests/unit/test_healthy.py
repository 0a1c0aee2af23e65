"""The healthy payloads that dead ones are compared with."""

from datetime import UTC, datetime

import pytest

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
        "struct(event_id, position) AS posted",
        "struct(event_id) AS settled",
        "array() AS deliveries",
    )
    dead = spark.createDataFrame([("zaqar", "t", "small-0")], "system STRING, tenant STRING, message_id STRING")
    events = spark.createDataFrame([(f"e{n}", RAW) for n in range(15)] * 2, "event_id STRING, raw STRING")
    return SilverFacts(state, None, None, None, datetime.now(UTC)), dead, events


def counted(given):
    rows = healthy.healthy_payloads(*given).groupBy("queue", "payload").count().collect()
    return {(row["queue"], row["payload"]): row["count"] for row in rows}


def test_a_payload_is_its_messages_own_and_the_dead_are_left_out(given):
    of = {"first": 0, "second": 1}
    assert counted(given) == {
        (queue, body): len(range(place, count, 2)) - ((queue, body) == ("small", "first"))
        for queue, count in MESSAGES.items()
        for body, place in of.items()
    }


def test_a_queue_gives_its_share_but_not_fewer_than_the_least(given, monkeypatch):
    def by_queue():
        found = {}
        for (queue, _), count in counted(given).items():
            found[queue] = found.get(queue, 0) + count
        return found

    monkeypatch.setattr(healthy, "LEAST", 2)
    monkeypatch.setattr(healthy, "SAMPLE_OF_ALL", 20)
    assert by_queue() == {"large": 10, "small": 3}
    monkeypatch.setattr(healthy, "SAMPLE_OF_ALL", 1)
    assert by_queue() == {"large": 2, "small": 2}
    monkeypatch.setattr(healthy, "SAMPLE_OF_ALL", 1000)
    monkeypatch.setattr(healthy, "SAMPLE", 5)
    assert by_queue() == {"large": 5, "small": 3}
