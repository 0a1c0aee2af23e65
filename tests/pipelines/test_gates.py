"""A gate that stops a run: nothing half-written, everything told, and the next run picks up there."""

import dataclasses

import pytest

from deadletter import cli, steps, tables
from deadletter.errors import GateError
from deadletter.gates import suites
from deadletter.gates.suites import Rule
from deadletter.lake import Lake
from deadletter.parsing import zaqar
from tests.pipelines.comparing import COMPARED, assert_same_tables
from tests.pipelines.conftest import few_lines, quiet, task

FEW = Rule(
    "00000000-0000-4000-8000-0000000000ff",
    "expect_table_row_count_to_be_between",
    {"max_value": 5},
    "critical",
    "five rows are the most this test allows",
    "Take the rule away.",
)


def with_rule(name):
    good = suites.load_all()
    return dict(good) | {name: dataclasses.replace(good[name], rules=(*good[name].rules, FEW))}


def test_a_stopped_run_writes_nothing_of_the_layer_and_the_next_one_completes(spark, small_lake, tmp_path, monkeypatch):
    """Stopped in silver, then in gold, then not at all. The tasks of the scheduled job make the same lake as the
    command, from where a gate stopped that."""
    lake, landing = Lake(spark, str(tmp_path / "lake")), few_lines(tmp_path / "landing")
    task("bronze")(["--landing", str(landing), "--lake", lake.root])
    for table in (tables.MESSAGE_STATE, tables.DEAD_LETTERS):
        with monkeypatch.context() as broken:
            wrong = with_rule(table.full_name)
            broken.setattr(suites, "load_all", lambda wrong=wrong: wrong)
            with pytest.raises(GateError) as stopped:
                steps.run(lake, str(landing), tell=quiet)
        assert_stopped(lake, table, stopped.value)
        task(table.layer)(["--lake", lake.root])
    assert_same_tables(lake, small_lake, COMPARED)


def test_an_event_that_would_be_lost_stops_the_run(spark, tmp_path, monkeypatch):
    """By the fault of a parser, here one that tells of no claim attempt; nothing is merged."""
    lake, landing = Lake(spark, str(tmp_path / "lake")), few_lines(tmp_path / "landing")
    whole = zaqar.facts

    def forgetful(parsed):
        found = whole(parsed)
        none = {name: getattr(found, name).where("false") for name in ("attempts", "claims", "messages")}
        return dataclasses.replace(found, **none)

    with monkeypatch.context() as broken:
        broken.setattr(zaqar, "facts", forgetful)
        with pytest.raises(GateError, match=r"silver: \d+ events are in no table .* Nothing was merged") as stopped:
            steps.run(lake, str(landing), tell=quiet)
    assert stopped.value.exit_code == 3
    assert lake.read(tables.MESSAGE_STATE).isEmpty() and lake.progress.of("silver") is None
    task("silver")(["--lake", lake.root])
    assert not lake.read(tables.MESSAGE_STATE).isEmpty()


def assert_stopped(lake, table, stopped):
    """The error tells all, nothing of the table's layer was written, and the history knows."""
    assert stopped.exit_code == 3
    told = (table.full_name, FEW.id, "max_value=5", FEW.why, FEW.what_to_do)
    assert [part for part in told if part not in str(stopped)] == []
    assert "deadletter show" not in str(stopped)  # the rows were not written
    layer = [other for other in tables.ALL_TABLES if other.layer == table.layer and other != tables.QUALITY_METRICS]
    assert {other.full_name: lake.read(other).count() for other in layer} == {other.full_name: 0 for other in layer}
    failed = lake.read(tables.QUALITY_METRICS).where("NOT passed AND severity = 'critical'").collect()
    assert (table.full_name, FEW.id) in [(row["table_name"], row["rule_id"]) for row in failed]


def test_a_run_judges_every_table_that_has_rules(small_lake):
    judged = small_lake.read(tables.QUALITY_METRICS).select("table_name").distinct().collect()
    assert {row["table_name"] for row in judged} == set(suites.load_all())


def test_the_shell_sees_a_stopped_run(spark, tmp_path, monkeypatch, capsys):
    """Exit code 3, and what a person has to know on standard error: also of a file that no later run reads."""
    landing, wrong = few_lines(tmp_path / "landing"), with_rule(tables.QUEUE_EVENTS.full_name)
    whole = (landing / "pulsar" / "first.jsonl.gz").read_bytes()
    (landing / "pulsar" / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    monkeypatch.setattr(suites, "load_all", lambda: wrong)
    monkeypatch.setattr("sys.argv", ["deadletter", "run", "--landing", str(landing), "--lake", str(tmp_path / "lake")])
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert done.value.code == 3
    told = capsys.readouterr().err
    assert FEW.id in told and FEW.what_to_do in told and "Traceback" not in told
    assert "cut.jsonl.gz: damaged archive" in told
