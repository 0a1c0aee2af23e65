"""Which pattern a message at risk is like."""

import pytest

from deadletter import tables
from deadletter.gold.at_risk import at_risk
from deadletter.spark.frames import frame_of
from deadletter.spark.sqltext import sql_string

SAID = (
    "system STRING, tenant STRING, queue STRING, subscription STRING, signature STRING, deviation_key STRING, "
    "kind STRING, dead_letters BIGINT, pattern_id STRING, part_of STRING"
)


def suspect(spark, queue, deviation):
    values = {"system": "zaqar", "tenant": "", "queue": queue, "subscription": "", "message_id": "m"}
    values |= {"signature": "s", "deviation_key": deviation}
    columns = [f"CAST({sql_value(values.get(c.name))} AS {c.type}) AS {c.name}" for c in tables.SUSPECTS.columns]
    return spark.range(1).selectExpr(*columns)


def sql_value(value):
    return "NULL" if value is None else sql_string(value)


@pytest.mark.parametrize(
    ("parts", "queue", "deviation", "pattern"),
    [
        ({("a", "x"): ("p", None), ("b", "x"): ("p", None)}, "c", "y", "p"),
        # split along its queues, whatever differs in the payload
        ({("a", "x"): ("p", None), ("b", "x"): ("b's", "p")}, "b", "y", "b's"),
        ({("a", "x"): ("p", None), ("b", "x"): ("b's", "p")}, "c", "y", "p"),
        # split along what differs, whatever the queue
        ({("a", "x"): ("p", None), ("a", "y"): ("y's", "p")}, "c", "y", "y's"),
    ],
)
def test_of_a_pattern_that_was_split_it_is_the_part_that_the_message_is_in(spark, parts, queue, deviation, pattern):
    said = [
        ("zaqar", "", name, "", "s", key, "error", 100 if part is None else 5, own, part)
        for (name, key), (own, part) in parts.items()
    ]
    (row,) = at_risk(suspect(spark, queue, deviation), frame_of(spark, said, SAID)).collect()
    assert row["pattern_id"] == pattern
