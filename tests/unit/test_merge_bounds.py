"""What a run knows of its batch beforehand: the queues that a merge has to look at, and how much is new."""

from datetime import date
from pathlib import Path

import pytest

from deadletter import tables
from deadletter.lake import Lake
from deadletter.silver.days import Days, days_of, with_known_days
from deadletter.spark.staging import held_if_few
from deadletter.steps import silver

DAY = date(2026, 11, 20)
CHANGES = [("zaqar", "p", "it's"), ("zaqar", "p", "b"), ("pulsar", "t/n", "b"), ("rabbitmq", "/", "orders-${ENV}")]


def test_a_merge_names_the_queues_of_its_batch(spark, monkeypatch):
    changes = spark.createDataFrame(CHANGES, "system STRING, tenant STRING, queue STRING")
    told = silver.literal_queues(changes)
    assert "(t.system = 'zaqar' AND t.tenant = 'p' AND t.queue IN ('b', 'it\\'s'))" in told
    kept = changes.unionByName(changes.selectExpr("system", "tenant", "'other' AS queue")).alias("t").where(told)
    assert sorted(map(tuple, kept.collect())) == sorted(CHANGES)
    monkeypatch.setattr(silver, "MOST_QUEUES", len(CHANGES) - 1)
    assert silver.literal_queues(changes) == "true"


def test_only_zaqars_ids_are_of_one_day(spark):
    """Another broker's id can come again on another day, and is the same message then."""
    rows = [("zaqar", DAY), ("pulsar", DAY), ("zaqar", None)]
    messages = spark.createDataFrame(rows, "system STRING, created_day DATE").selectExpr("*", "'p' tenant", "'q' queue")
    told = {where: days_of(messages.where(where)) for where in ("created_day IS NOT NULL", "system = 'zaqar'", "false")}
    assert told == {
        "created_day IS NOT NULL": Days(frozenset({DAY}), frozenset(), True),
        "system = 'zaqar'": Days(frozenset({DAY}), frozenset({("zaqar", "p", "q")}), False),
        "false": Days(frozenset(), frozenset(), False),
    }


@pytest.mark.parametrize("near", [DAY, None], ids=["a day of the batch", "no day told"])
def test_a_deletion_has_the_day_by_which_silver_knows_its_message(spark, near):
    """Of a message of the batch's days, of one of another day, of one that silver knows by no day, and of a new one;
    the same id in another queue is another message."""
    columns = "queue STRING, message_id STRING, created_day DATE"
    silver_rows = [("q", "near", DAY), ("q", "far", date(2026, 1, 1)), ("q", "undated", None), ("other", "new", DAY)]
    batch_rows = [("q", name, None) for name in ("near", "far", "undated", "new")] + [("q", "told", near)]
    state, batch = (
        spark.createDataFrame(rows, columns).selectExpr("'zaqar' system", "'p' tenant", "'' subscription", "*")
        for rows in (silver_rows, batch_rows)
    )
    dated, days = with_known_days(batch, days_of(batch), state, held_if_few)
    found = {row["message_id"]: row["created_day"] for row in dated.collect()}
    assert found == {"near": DAY, "far": date(2026, 1, 1), "undated": None, "new": None, "told": near}
    assert days.told == {DAY, date(2026, 1, 1)}


def test_a_message_that_silver_has_twice_is_one_row_of_a_batch(spark):
    """By a wrong clock it is of two days: a merge takes each row of its source once, and fails where there are two."""
    columns = "queue STRING, message_id STRING, created_day DATE"
    early = date(2026, 1, 1)
    state = [("q", "both", DAY), ("q", "both", early), ("q", "far", early), ("q", "far", date(2026, 1, 9))]
    batch = [("q", "both", None), ("q", "far", None), ("q", "gone", None), ("q", "told", DAY)]
    known, rows = (
        spark.createDataFrame(told, columns).selectExpr("'zaqar' system", "'p' tenant", "'' subscription", "*")
        for told in (state, batch)
    )
    dated, days = with_known_days(rows, days_of(rows), known, held_if_few)
    found = sorted((row["message_id"], str(row["created_day"])) for row in dated.collect())
    assert found == [("both", str(DAY)), ("far", str(early)), ("gone", "None"), ("told", str(DAY))]
    assert days.told == {DAY, early}


def test_how_much_is_new_is_what_was_written_since(spark, tmp_path):
    lake, sizes = Lake(spark, str(tmp_path)), []
    lake.create_missing([tables.QUEUE_CHANGES])
    rows = spark.createDataFrame([("zaqar", "p", "q", 1, None, None, [])], lake.read(tables.QUEUE_CHANGES).schema)
    for count in (1, 1000):
        more = rows.crossJoin(spark.range(count)).drop("id")
        lake.append(more.coalesce(1), tables.QUEUE_CHANGES)  # a task without rows leaves a file that nobody reads
        sizes.append(sum(path.stat().st_size for path in Path(tmp_path).rglob("*.parquet")))
    assert lake.appended_bytes(tables.QUEUE_CHANGES, -1) == sizes[1]
    assert lake.appended_bytes(tables.QUEUE_CHANGES, 1) == sizes[1] - sizes[0]
    assert lake.appended_bytes(tables.QUEUE_CHANGES, 2) == 0
    assert lake.compact(tables.QUEUE_CHANGES) == (2, 1)
    assert lake.appended_bytes(tables.QUEUE_CHANGES, 2) == 0, "tidying writes nothing new"
