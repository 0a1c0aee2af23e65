"""What the lake writes, and what it leaves alone."""

from datetime import UTC, datetime

from deadletter import tables
from deadletter.lake import Lake

TABLE = tables.CLAIM_ATTEMPTS
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_no_rows_for_none_are_no_commit(spark, tmp_path):
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([TABLE])
    told = {"system": "zaqar", "tenant": "p", "queue": "q", "event_id": "e", "time": NOON}
    one = spark.createDataFrame([[told.get(name) for name in TABLE.column_names]], TABLE.ddl)
    none, here = one.where("false"), "queue = 'q'"
    lake.merge(none, TABLE)
    lake.replace(none, TABLE)
    assert lake.version(TABLE) == 0
    lake.merge(one, TABLE)
    lake.replace(none, TABLE, "queue = 'other'")
    assert lake.version(TABLE) == 1
    lake.replace(none, TABLE, here)
    assert lake.version(TABLE) == 2 and lake.read(TABLE).isEmpty()
    lake.replace(one, TABLE, here)
    assert lake.read(TABLE).count() == 1
