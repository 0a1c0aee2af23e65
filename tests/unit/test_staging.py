"""What a small batch's run holds in memory is what it would have written."""

import contextlib
from datetime import UTC, datetime
from unittest.mock import MagicMock

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.lake import Lake
from deadletter.spark import staging
from deadletter.spark.session import HELD_ROWS, LARGE_BATCH
from deadletter.spark.staging import Rows, held
from tests.pipelines.comparing import assert_same_rows

TIMES = (
    datetime(1, 1, 2, tzinfo=UTC),
    datetime(2026, 11, 20, 12, 0, 0, 1, tzinfo=UTC),
    datetime(9999, 12, 30, tzinfo=UTC),
)


@pytest.fixture
def at_most(spark):
    """Sets how many rows may be held; at the end it is as before."""
    before = spark.conf.get(HELD_ROWS, "0")
    yield lambda rows: spark.conf.set(HELD_ROWS, str(rows))
    spark.conf.set(HELD_ROWS, before)
    spark.conf.set(LARGE_BATCH, "false")


@pytest.fixture
def messages(spark):
    """Rows of ``silver.message_state``: times at the ends of what a time can be, sets with nothing and with nulls."""
    key = ["zaqar", "p", "q", ""]
    rows = []
    for number, time in enumerate(TIMES):
        delivery = (time, "e", None, "né", None, None)
        told = {"message_id": f"m{number}", "deliveries": [delivery] * number, "failures": []}
        told |= {"posted": (time, "e", number, None, 7, None) if number else None, "seen": time}
        rows.append([*key, *[told.get(name) for name in tables.MESSAGE_STATE.column_names[4:]]])
    return spark.createDataFrame(rows, tables.MESSAGE_STATE.ddl)


def test_the_rows_and_types_are_those_that_were_computed(messages, at_most):
    at_most(10)
    kept = held(messages.where("message_id != ''"))
    assert kept.schema == messages.schema
    assert_same_rows(kept, messages)


def test_a_struct_may_be_null_though_its_fields_never_are(spark, at_most):
    at_most(10)
    struct = F.when(
        F.col("id") == 1, F.struct(F.lit("e").alias("e"), F.array(F.struct(F.lit(1).alias("n"))).alias("a"))
    )
    made = spark.range(2).select("id", struct.alias("s"), F.array(struct).alias("l"))
    kept = held(made)
    assert [tuple(row) for row in kept.orderBy("id").collect()] == [tuple(row) for row in made.orderBy("id").collect()]
    assert all(field.nullable for field in kept.schema)


@pytest.mark.parametrize("table", tables.ALL_TABLES, ids=lambda table: table.full_name)
def test_every_tables_shape_is_kept_without_rows(spark, at_most, table):
    at_most(10)
    kept = held(spark.createDataFrame([], table.ddl).where(F.rand() >= 0))
    assert kept.schema == spark.createDataFrame([], table.ddl).schema and kept.isEmpty()


def test_what_is_scanned_in_several_tasks_still_is(spark, at_most):
    at_most(10)
    task = F.expr("reflect('org.apache.spark.TaskContext', 'getPartitionId')")
    kept = held(spark.range(0, 40, 1, numPartitions=4).where("id % 5 = 0").select(task.alias("task")))
    assert {row["task"] for row in kept.collect()} == {"0", "1", "2", "3"}


@pytest.mark.parametrize(("told", "refused"), [("bigger than spark.driver.maxResultSize", True), ("a fault", False)])
def test_what_the_driver_refuses_is_not_held(spark, at_most, monkeypatch, told, refused):
    """Few rows can be gigabytes together."""
    at_most(10)
    frame = spark.range(1)
    monkeypatch.setattr(type(frame), "toArrow", MagicMock(side_effect=RuntimeError(told)))
    with contextlib.nullcontext() if refused else pytest.raises(RuntimeError, match=told):
        assert held(frame, Rows.OF_LAKE) is None


def test_more_rows_are_written_and_only_few_are_held_from_then_on(spark, messages, at_most, tmp_path):
    lake = Lake(spark, str(tmp_path))
    at_most(len(TIMES))
    lake.stage(messages)
    assert not (tmp_path / "_stage").exists()
    at_most(len(TIMES) - 1)
    lake.stage(messages, Rows.OF_LAKE)
    lake.stage_few(messages)
    assert held(messages.limit(1)) is not None, "neither says anything of the batch"
    written = lake.stage(messages)
    assert len(list((tmp_path / "_stage").glob("*/*"))) == 3
    assert_same_rows(written, messages)
    assert held(messages.limit(1)) is held(messages.limit(1), Rows.OF_LAKE) is None
    assert held(messages.limit(1), Rows.FEW) is not None


def test_nothing_is_held_on_databricks(messages, at_most, monkeypatch):
    at_most(10)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert held(messages) is held(messages, Rows.FEW) is None


def test_long_texts_are_not_held_and_none_is_cut(spark, at_most):
    at_most(100)

    def told(length, column="payload"):
        return spark.range(3).select("id", F.repeat(F.lit("é"), F.lit(length)).alias(column))

    for column in staging.LONG:
        for length in (1, staging.LONGEST):
            kept = staging.held(told(length, column))
            assert [len(row[column]) for row in kept.collect()] == [length] * 3
        long = told(staging.LONGEST + 1, column)
        assert staging.held_if_few(long) is long
    nobody_saw = spark.range(3).select("id", F.lit(None).cast("string").alias("payload"))
    assert [row["payload"] for row in staging.held_if_few(nobody_saw).collect()] == [None] * 3
    assert staging.held(nobody_saw.where("false")).isEmpty()


def test_a_row_of_very_many_values_is_not_held(spark, at_most):
    """A trait that differs from message to message has as many values as there are dead letters."""
    at_most(100)
    for column in staging.WIDE:
        for many in (0, staging.LONGEST):
            kept = staging.held(spark.range(2).select(F.array_repeat("id", many).alias(column)))
            assert [len(row[column]) for row in kept.collect()] == [many] * 2
        wide = spark.range(2).select(F.array_repeat("id", staging.LONGEST + 1).alias(column))
        assert staging.held_if_few(wide) is wide
