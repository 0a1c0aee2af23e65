"""Tidying makes fewer files of the same rows."""

import json
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from click.testing import CliRunner

from deadletter.cli import cli
from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.lake.statements import create_statement
from deadletter.steps import maintenance
from deadletter.steps.maintenance import maintain
from deadletter.tables import AT_RISK, PATTERN_DECISIONS, PROGRESS, QUEUE_EVENTS
from deadletter.triage import decisions_count, write_down


@pytest.fixture()
def fragmented(spark, tmp_path):
    lake = Lake(spark, str(tmp_path))
    spark.sql(create_statement(lake.identifier(PROGRESS), PROGRESS))
    for version in range(3):
        lake.progress.note("gold", version, None)
    return lake


def live_files(lake):
    folder = Path(lake.folder, PROGRESS.layer, PROGRESS.name)
    names = lake.read(PROGRESS).selectExpr("_metadata.file_path AS path").distinct().collect()
    return len(names), len(list(folder.glob("*.parquet")))


def test_maintain(fragmented):
    before = sorted(fragmented.read(PROGRESS).collect())
    live, kept = live_files(fragmented)
    assert live == 3
    (told,) = maintain(fragmented, tell=lambda text: None)
    assert (told.table, told.files_before, told.files_after) == ("control.progress", 3, 1)
    assert live_files(fragmented) == (1, kept + 1), "a reader may still want the replaced files"
    assert sorted(fragmented.read(PROGRESS).collect()) == before


def test_a_tidied_lake_has_the_decisions_it_had(fragmented):
    """Nothing is derived anew for it."""
    fragmented.create_missing([PATTERN_DECISIONS])
    for pattern in ("a", "b"):
        write_down(fragmented, pattern, "resolve", "ann", "known", datetime(2026, 11, 20, tzinfo=UTC))
    maintain(fragmented, tell=lambda text: None)
    assert decisions_count(fragmented) == 2


def test_bronze_is_left_where_silver_has_yet_to_read_it(fragmented):
    """It reads what was appended since; in files that were replaced and deleted there would be nothing."""
    fragmented.create_missing([QUEUE_EVENTS])
    told = {"event_id": "e", "system": "zaqar", "raw": "{}"}
    row = [[told.get(name) for name in QUEUE_EVENTS.column_names]]
    for _ in range(2):
        fragmented.append(fragmented.spark.createDataFrame(row, QUEUE_EVENTS.ddl), QUEUE_EVENTS)
    for version, tables in ((1, [PROGRESS]), (2, [QUEUE_EVENTS, PROGRESS])):
        fragmented.progress.note("silver", version, None)
        assert [it.table for it in maintain(fragmented, tell=lambda _: None)] == [table.full_name for table in tables]
    assert fragmented.read(QUEUE_EVENTS).count() == 2


def test_files_of_events_stay_while_silver_may_be_stopped():
    """Unity Catalog tidies by itself, by the table's own property, and a shorter time is refused or ignored."""
    kept = "'delta.deletedFileRetentionDuration' = 'interval 30 days'"
    assert kept in create_statement("t", QUEUE_EVENTS) and kept not in create_statement("t", PROGRESS)

    lake = Lake(MagicMock(), "catalog:dead")
    for table, hours in ((QUEUE_EVENTS, 168), (QUEUE_EVENTS, 1000), (PROGRESS, 168)):
        lake.vacuum(table, hours)
    assert [call.args[0] for call in lake.spark.sql.call_args_list] == [
        "VACUUM `dead`.bronze.queue_events RETAIN 720 HOURS",
        "VACUUM `dead`.bronze.queue_events RETAIN 1000 HOURS",
        "VACUUM `dead`.control.progress RETAIN 168 HOURS",
    ]


def test_for_machines(fragmented):
    done = CliRunner().invoke(cli, ["maintain", "--lake", fragmented.root, "--json"])
    assert json.loads(done.stdout) == {"table": "control.progress", "files_before": 3, "files_after": 1}


def test_replaced_files_go_once_nobody_can_want_them(fragmented, monkeypatch):
    fragmented.spark.sql(
        f"ALTER TABLE {fragmented.identifier(PROGRESS)} "
        "SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')"
    )
    fragmented.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    _, kept = live_files(fragmented)
    try:
        maintain(fragmented, tell=lambda text: None)
        assert live_files(fragmented) == (1, kept + 1), "the hours that were asked for, not the table's own"
        with pytest.raises(UsageError, match="168 at least"):
            maintain(fragmented, retain_hours=0, tell=lambda text: None)
        monkeypatch.setattr(maintenance, "SHORTEST_RETENTION", 0)
        maintain(fragmented, retain_hours=0, tell=lambda text: None)
    finally:
        fragmented.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "true")
    assert live_files(fragmented) == (1, 1)


def test_what_others_may_tidy_marks_its_changes():
    told = "'delta.enableDeletionVectors' = '{}'".format
    assert told("false") in create_statement("t", AT_RISK) and told("true") in create_statement("t", AT_RISK, True)
    assert "enableDeletionVectors" not in create_statement("t", QUEUE_EVENTS, True)
