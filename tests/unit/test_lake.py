"""What the lake writes, and what it leaves alone."""

import errno
import time
from datetime import UTC, datetime, timedelta
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException

from deadletter import tables
from deadletter.errors import DeadletterError, SchemaError, UsageError
from deadletter.gold.scope import affected
from deadletter.lake import Lake
from deadletter.lake.lake import PROCESS
from deadletter.lake.statements import create_statement
from deadletter.spark import session

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


def test_of_tables_that_were_never_written_nothing_is_read(spark, tmp_path, monkeypatch):
    lake = Lake(spark, str(tmp_path))
    lake.create_missing()
    schemas = {table: lake.query(f"SELECT * FROM {table.full_name}").schema for table in tables.ALL_TABLES}
    monkeypatch.setattr(Lake, "_rows", MagicMock(side_effect=AssertionError("Delta was asked")))
    for table, schema in schemas.items():
        empty = lake.read(table)
        assert empty.isEmpty() and empty.dtypes == [(f.name, f.dataType.simpleString()) for f in schema]


def test_the_first_version_of_a_clone_has_rows(spark, tmp_path):
    lake, clone = Lake(spark, str(tmp_path / "lake")), Lake(spark, str(tmp_path / "clone"))
    lake.create_missing([TABLE])
    told = {"system": "zaqar", "tenant": "p", "queue": "q", "event_id": "e", "time": NOON}
    one = spark.createDataFrame([[told.get(name) for name in TABLE.column_names]], TABLE.ddl)
    lake.merge(one, TABLE)
    spark.sql(f"CREATE TABLE {clone.identifier(TABLE)} SHALLOW CLONE {lake.identifier(TABLE)}")
    assert clone.version(TABLE) == 0 and clone.read(TABLE).count() == 1
    clone.merge(one, TABLE)
    assert clone.read(TABLE).count() == 1
    clone.replace(one.where("false"), TABLE)
    assert clone.read(TABLE).isEmpty()


def test_the_same_rows_again_are_no_commit(spark, tmp_path, monkeypatch):
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([TABLE])
    told = {"system": "zaqar", "tenant": "p", "time": NOON}

    def rows(*events, micros=0):
        made = [told | {"queue": queue, "event_id": event} for queue, event in events]
        made = [row | {"time": NOON.replace(microsecond=micros)} for row in made]
        return spark.createDataFrame([[row.get(name) for name in TABLE.column_names] for row in made], TABLE.ddl)

    def replaced(df, where="true"):
        before = lake.version(TABLE)
        lake.replace(df, TABLE, where)
        return lake.version(TABLE) - before

    one, two = ("q", "e"), ("q", "f")
    assert replaced(rows(one, two)) == 1
    assert replaced(rows(two, one)) == 0
    assert replaced(rows(one, one, two)) == 1, "twice is not once"
    assert replaced(rows(one, two)) == 1
    assert replaced(rows(one, two, micros=1)) == 1
    assert replaced(rows(("other", "e")), "queue = 'other'") == 1
    assert replaced(rows(("other", "e")), "queue = 'other'") == 0
    assert replaced(rows(one), "queue = 'q'") == 1
    assert sorted(lake.read(TABLE).select("queue", "event_id").collect()) == [("other", "e"), ("q", "e")]
    monkeypatch.setattr("deadletter.lake.lake.MOST_COMPARED", 0)
    assert replaced(rows(one), "queue = 'q'") == 1, "more rows than are compared are written"
    assert replaced(rows(), "queue = 'none'") == 0


def test_rows_that_replace_others_are_written_only_if_all_match(spark, tmp_path):
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([TABLE])
    told = {"system": "zaqar", "tenant": "p", "event_id": "e", "time": NOON}
    rows = [told | {"queue": queue} for queue in ("q", "other")]
    both = spark.createDataFrame([[row.get(name) for name in TABLE.column_names] for row in rows], TABLE.ddl)
    lake.replace(both, TABLE, "queue IN ('q', 'other')")
    with pytest.raises(PySparkException, match="claim_attempts gets is none of those"):
        lake.replace(both, TABLE, "queue = 'q'")
    assert lake.version(TABLE) == 1


def test_queries_on_a_large_lake_are_compiled(spark, tmp_path, monkeypatch):
    lake = Lake(spark, str(tmp_path))
    lake.tune()
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "false"
    day = tmp_path / "bronze" / "queue_events" / "day=2026-11-20"
    day.mkdir(parents=True)
    (day / "part.parquet").write_bytes(b"12")
    monkeypatch.setattr(session, "SMALL_LAKE", 1)
    lake.tune()
    assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
    assert session.held_rows(spark) > 0, "a question has few rows all the same"
    session.tune(spark, 0)


def test_any_writer_tells_a_full_disk(tmp_path):
    """Also where Spark tells it as the cause of the cause of something else."""
    lake = Lake(None, str(tmp_path))
    told = r"cannot write to the lake .*: No space left on device\. .*Make room"
    with pytest.raises(DeadletterError, match=told), lake.lock():
        try:
            raise OSError(28, "No space left on device")
        except OSError as full:
            raise RuntimeError("Job aborted") from full
    with pytest.raises(DeadletterError, match=r"^stopped$"), lake.lock():
        raise DeadletterError("stopped")


def test_any_writer_tells_a_lake_of_another_version(spark, tmp_path, monkeypatch):
    """Where Spark fails, not before: to look at every table takes its time."""
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([tables.PROGRESS])
    with pytest.raises(PySparkException, match="^no such column$"), lake.lock():
        raise PySparkException("no such column")
    older = tables.Table(TABLE.layer, TABLE.name, "older", TABLE.key[:1], TABLE.columns[:3])
    spark.sql(create_statement(lake.identifier(TABLE), older))
    with lake.lock():
        pass
    told = "was made by another version: silver.claim_attempts: missing "
    with pytest.raises(SchemaError, match=told), lake.lock():
        raise PySparkException("no such column")
    with pytest.raises(SchemaError, match=told), lake.lock():
        raise DeadletterError("silver.claim_attempts: no such column") from PySparkException("no such column")


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    """Nobody is at work there, so to try again would not help."""

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    told = r"cannot lock the lake .*: No locks available\. Nothing was changed\. Put the lake on a file system with"
    with pytest.raises(DeadletterError, match=told) as error, Lake(None, str(tmp_path)).lock():
        pass
    assert error.value.exit_code == 1


def test_a_clock_that_is_set_back(spark, tmp_path):
    """What is noted last counts, and is noted as such."""
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([tables.PROGRESS])
    ahead = datetime.now(UTC) + timedelta(hours=1)
    lake.append(spark.createDataFrame([("silver", 1, None, ahead)], tables.PROGRESS.ddl), tables.PROGRESS)
    lake.progress.note("silver", 2, None)
    assert lake.progress.of("silver").source_version == 2


@pytest.mark.parametrize("root", ["s3://bucket/lake", "file:///data/lake", "dbfs:/lake", "~/lake", "catalog:", ""])
def test_what_is_no_folder_makes_none(root):
    with pytest.raises(UsageError, match="a lake is a folder's path"):
        Lake(None, root)


@pytest.mark.parametrize("root", ["/data/a:b", "/data/c~/d", "/data/catalog:", "/data/s3:/x"])
def test_folders_with_odd_names_are_lakes(root):
    assert Lake(None, root).folder == root


def test_a_table_whose_making_was_cut_short_is_made(spark, tmp_path):
    """Killed between making the log's folder and its first commit, which Delta takes for a table."""
    lake = Lake(spark, str(tmp_path))
    (tmp_path / TABLE.layer / TABLE.name / "_delta_log").mkdir(parents=True)
    lake.create_missing([TABLE])
    assert lake.read(TABLE).columns == list(TABLE.column_names)


def test_a_path_that_spark_reads_as_another(tmp_path):
    with pytest.raises(UsageError, match="in a path as wildcards. Rename the folder"):
        Lake(None, str(tmp_path / "lake[prod]"))


def test_a_catalogs_tables_are_read_and_written_by_their_names(monkeypatch):
    """Databricks has no folders for them."""
    spark, df = MagicMock(), MagicMock()
    monkeypatch.setattr("deadletter.lake.lake.conform", lambda df, table: df)
    lake, name = Lake(spark, "catalog:dead"), "`dead`.silver.claim_attempts"
    spark.sql.return_value.select.return_value.first.return_value = {"version": 3}
    assert lake.version(TABLE) == 3
    lake.read(TABLE, 2)
    lake.appended_since(TABLE, 2)
    lake.query("SELECT 1 FROM silver.claim_attempts")
    assert [call.args[0] for call in spark.sql.call_args_list] == [
        f"DESCRIBE HISTORY {name} LIMIT 1",
        f"SELECT * FROM {name} VERSION AS OF 2",
        f"SELECT * FROM table_changes('{name}', 3) WHERE _change_type = 'insert'",
        f"SELECT 1 FROM {name}",
    ]
    lake.append(df, TABLE)
    df.write.format.return_value.mode.return_value.saveAsTable.assert_called_once_with(name)
    lake.append_stream(df, TABLE, "landing")
    stream, volume = df.writeStream.format.return_value.option, "/Volumes/dead/control/files"
    stream.assert_called_once_with("checkpointLocation", f"{volume}/_checkpoints/claim_attempts/landing")
    stream.return_value.trigger.return_value.toTable.assert_called_once_with(name)


@pytest.mark.parametrize(
    ("root", "kept"), [("catalog:dead", ["other"]), (None, [])], ids=["a catalog has no lock", "a folder has"]
)
def test_what_others_staged_goes_once_nobody_can_be_at_work_on_it(monkeypatch, tmp_path, root, kept):
    stage, now = tmp_path / "_stage", int(time.time())
    for name, began in {"other": now - 3600, "killed": now - 90000, "older": ""}.items():
        (stage / f"{began}-{name}" / "frame").mkdir(parents=True)
    (stage / PROCESS).mkdir()
    monkeypatch.setattr(Lake, "_stage_folder", str(stage / PROCESS))
    Lake(None, root or str(tmp_path)).clear_stage()
    assert [folder.name.partition("-")[2] for folder in stage.iterdir()] == kept


@pytest.fixture
def catalog(spark, tmp_path):
    """The session's own catalog as a lake, with the schema of :data:`TABLE`."""
    schema = f"spark_catalog.{TABLE.layer}"
    spark.sql(f"CREATE SCHEMA {schema} LOCATION '{tmp_path}'")
    yield Lake(spark, "catalog:spark_catalog")
    spark.sql(f"DROP SCHEMA {schema} CASCADE")


def test_rows_that_take_the_place_of_others_are_a_write(spark, catalog):
    """Whoever may write rows may do that; a table that is made anew wants its owner."""
    told, name = {"system": "zaqar", "tenant": "p", "time": NOON}, catalog.identifier(TABLE)

    def about():
        return spark.sql(f"DESCRIBE DETAIL {name}").select("description", "properties", "partitionColumns").first()

    catalog.create_missing([TABLE])
    made = about()

    def rows(**queue_of):
        attempts = [told | {"queue": queue, "event_id": event} for event, queue in queue_of.items()]
        return spark.createDataFrame([[row.get(it) for it in TABLE.column_names] for row in attempts], TABLE.ddl)

    def events():
        return sorted(row["event_id"] for row in catalog.read(TABLE).collect())

    for some in ("ab", "c", ""):
        catalog.replace(rows(**dict.fromkeys(some, "q")), TABLE)
        assert events() == list(some)
    catalog.append(rows(d="q", e="r's"), TABLE)
    catalog.replace(rows(f="r's"), TABLE, affected([("zaqar", "p", "r's"), ("zaqar", "o", "q")], []).inside)
    assert events() == ["d", "f"]
    done = spark.sql(f"DESCRIBE HISTORY {name}").orderBy("version").select("operation").collect()
    assert [row[0] for row in done] == ["CREATE TABLE", *["WRITE"] * 5]
    assert about() == made
