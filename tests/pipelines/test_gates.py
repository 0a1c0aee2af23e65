"""A gate that stops a run: nothing half-written, everything told, and the next run picks up there."""

import dataclasses
import shutil

import pytest

from deadletter import steps, tables
from deadletter.errors import GateError
from deadletter.gates import suites
from deadletter.gates.suites import Rule
from deadletter.lake import Lake
from tests.pipelines.comparing import assert_same_rows
from tests.pipelines.conftest import capture_files, quiet

FEW = Rule(
    "00000000-0000-4000-8000-0000000000ff",
    "expect_table_row_count_to_be_between",
    {"max_value": 10},
    "critical",
    "ten rows are the most this test allows",
    "Take the rule away.",
)


@pytest.fixture(scope="module")
def landing(tmp_path_factory):
    made = tmp_path_factory.mktemp("gate")
    (made / "pulsar").mkdir()
    shutil.copy(capture_files("pulsar")[0], made / "pulsar")
    return made


@pytest.fixture(scope="module")
def quiet_lake(spark, landing, tmp_path_factory):
    lake = Lake(spark, str(tmp_path_factory.mktemp("quiet")))
    steps.run(lake, str(landing), tell=quiet)
    return lake


def with_rule(name):
    good = suites.load_all()
    return dict(good) | {name: dataclasses.replace(good[name], rules=(*good[name].rules, FEW))}


def test_a_stopped_run_writes_nothing_of_the_layer_and_the_next_one_completes(
    spark, landing, quiet_lake, tmp_path, monkeypatch
):
    """Stopped in silver, then in gold, then not at all."""
    lake = Lake(spark, str(tmp_path))
    for table in (tables.MESSAGE_STATE, tables.DEAD_LETTERS):
        with monkeypatch.context() as broken:
            wrong = with_rule(table.full_name)
            broken.setattr(suites, "load_all", lambda wrong=wrong: wrong)
            with pytest.raises(GateError) as stopped:
                steps.run(lake, str(landing), tell=quiet)
        assert_stopped(lake, table, stopped.value)
    steps.run(lake, str(landing), tell=quiet)
    for other in (tables.MESSAGE_STATE, tables.QUEUE_POLICIES, tables.DEAD_LETTERS, tables.POISON_PATTERNS):
        assert_same_rows(lake.read(other), quiet_lake.read(other), other.full_name)


def assert_stopped(lake, table, stopped):
    """The error tells all, nothing of the table's layer was written, and the history knows."""
    assert stopped.exit_code == 3
    told = (table.full_name, FEW.id, "max_value=10", FEW.why, FEW.what_to_do)
    assert [part for part in told if part not in str(stopped)] == []
    assert "deadletter show" not in str(stopped)  # the rows were not written
    layer = [other for other in tables.ALL_TABLES if other.layer == table.layer and other != tables.QUALITY_METRICS]
    assert {other.full_name: lake.read(other).count() for other in layer} == {other.full_name: 0 for other in layer}
    failed = lake.read(tables.QUALITY_METRICS).where("NOT passed AND severity = 'critical'").collect()
    assert (table.full_name, FEW.id) in [(row["table_name"], row["rule_id"]) for row in failed]
