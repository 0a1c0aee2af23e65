"""Which pattern a message at risk is like."""

import pytest

from deadletter import tables
from deadletter.gold.at_risk import at_risk
from deadletter.spark.frames import frame_of
from deadletter.spark.sqltext import sql_string

SAID = (
    "system STRING, tenant STRING, queue STRING, subscription STRING, signature STRING, deviation_key STRING, "
    "kind STRING, dead_letters BIGINT, pattern_id STRING"
)


def suspect(spark, queue, deviation):
    values = {"system": "zaqar", "tenant": "", "queue": queue, "subscription": "", "message_id": "m"}
    values |= {"signature": "s", "deviation_key": deviation}
    columns = [f"CAST({sql_value(values.get(c.name))} AS {c.type}) AS {c.name}" for c in tables.SUSPECTS.columns]
    return spark.range(1).selectExpr(*columns)


def sql_value(value):
    return "NULL" if value is None else sql_string(value)


@pytest.mark.parametrize(
    ("parts", "along", "queue", "deviation", "pattern"),
    [
        ({("a", "x"): ("p", 100), ("b", "x"): ("p", 5)}, (), "c", "y", "p"),
        # split along its queues, whatever differs in the payload
        ({("a", "x"): ("p", 100), ("b", "x"): ("b's", 5)}, ("queue",), "b", "y", "b's"),
        ({("a", "x"): ("p", 100), ("b", "x"): ("b's", 5)}, ("queue",), "c", "y", "p"),
        ({("a", "x"): ("p", 100), ("b", "y"): ("b's", 5)}, ("queue",), "c", "y", "p"),
        # split along what differs, whatever the queue
        ({("a", "x"): ("p", 100), ("a", "y"): ("y's", 5)}, ("deviation",), "c", "y", "y's"),
        ({("a", "x"): ("p", 3), ("a", "y"): ("y's", 5), ("b", "x"): ("p", 100)}, ("deviation",), "a", "z", "p"),
        # one pattern along the one, one along the other
        ({("a", "x"): ("p", 100), ("b", "y"): ("b's", 5)}, ("deviation", "queue"), "b", "y", "b's"),
    ],
)
def test_of_a_pattern_that_was_split_it_is_the_part_that_the_message_is_in(
    spark, parts, along, queue, deviation, pattern
):
    said = [("zaqar", "", name, "its", "s", key, "error", count, own) for (name, key), (own, count) in parts.items()]
    (row,) = at_risk(suspect(spark, queue, deviation), frame_of(spark, said, SAID), along).collect()
    assert row["pattern_id"] == pattern
