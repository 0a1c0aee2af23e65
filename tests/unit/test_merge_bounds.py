"""What a run knows of its batch beforehand: the queues that a merge has to look at, and how much is new."""

from datetime import date
from pathlib import Path

from deadletter import tables
from deadletter.lake import Lake
from deadletter.steps import silver

CHANGES = [("zaqar", "p", "it's"), ("zaqar", "p", "b"), ("pulsar", "t/n", "b"), ("rabbitmq", "/", "orders-${ENV}")]


def test_a_merge_names_the_queues_of_its_batch(spark, monkeypatch):
    changes = spark.createDataFrame(CHANGES, "system STRING, tenant STRING, queue STRING")
    told = silver.literal_queues(changes)
    assert "(t.system = 'zaqar' AND t.tenant = 'p' AND t.queue IN ('b', 'it\\'s'))" in told
    kept = changes.unionByName(changes.selectExpr("system", "tenant", "'other' AS queue")).alias("t").where(told)
    assert sorted(map(tuple, kept.collect())) == sorted(CHANGES)
    monkeypatch.setattr(silver, "MOST", len(CHANGES) - 1)
    assert silver.literal_queues(changes) == "true"


def test_only_zaqars_ids_are_of_one_day(spark):
    """Another broker's id can come again on another day, and is the same message then."""
    rows = [("zaqar", date(2026, 11, 20)), ("pulsar", date(2026, 11, 20)), ("zaqar", None)]
    messages = spark.createDataFrame(rows, "system STRING, created_day DATE")
    known = silver.literal_days(messages.where("system = 'zaqar' AND created_day IS NOT NULL"))
    assert known == (
        "(t.created_day IN (DATE'2026-11-19', DATE'2026-11-20', DATE'2026-11-21') OR t.created_day IS NULL)"
    )
    for one in ("system = 'pulsar'", "created_day IS NOT NULL", "system = 'zaqar'"):
        assert silver.literal_days(messages.where(one)) == "true"


def test_how_much_is_new_is_what_was_written_since(spark, tmp_path):
    lake, sizes = Lake(spark, str(tmp_path)), []
    lake.create_missing([tables.QUEUE_CHANGES])
    rows = spark.createDataFrame([("zaqar", "p", "q", 1, None, None)], lake.read(tables.QUEUE_CHANGES).schema)
    for count in (1, 1000):
        more = rows.crossJoin(spark.range(count)).drop("id")
        lake.append(more.coalesce(1), tables.QUEUE_CHANGES)  # a task without rows leaves a file that nobody reads
        sizes.append(sum(path.stat().st_size for path in Path(tmp_path).rglob("*.parquet")))
    assert lake.appended_bytes(tables.QUEUE_CHANGES, -1) == sizes[1]
    assert lake.appended_bytes(tables.QUEUE_CHANGES, 1) == sizes[1] - sizes[0]
    assert lake.appended_bytes(tables.QUEUE_CHANGES, 2) == 0
    assert lake.compact(tables.QUEUE_CHANGES) == (2, 1)
    assert lake.appended_bytes(tables.QUEUE_CHANGES, 2) == 0, "tidying writes nothing new"
