"""What stops a run at its start: one clear line, the right exit code, no stack trace."""

import json
import sys
import tempfile

import pytest
from click.testing import CliRunner

from deadletter import cli, tables
from deadletter.gates import suites
from deadletter.lake import Lake
from deadletter.lake.statements import create_statement

EVENT = b'{"captured_at": "2026-11-20T20:53:01+00:00"}\n'


def older(table):
    """The table as another version made it: with its first columns only."""
    return tables.Table(table.layer, table.name, "older", table.key[:1], table.columns[:3])


@pytest.fixture
def landing(tmp_path):
    (tmp_path / "landing" / "zaqar").mkdir(parents=True)
    (tmp_path / "landing" / "zaqar" / "a.jsonl").write_bytes(EVENT)
    return tmp_path / "landing"


def run(landing, lake, monkeypatch, capsys):
    """``deadletter run`` as a shell calls it: its exit code and what it says on standard error."""
    return call(["run", "--landing", str(landing), "--lake", str(lake)], monkeypatch, capsys)


def call(arguments, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["deadletter", *arguments])
    with pytest.raises(SystemExit) as done:
        cli.main()
    said = capsys.readouterr().err
    told = [line for line in said.splitlines() if line.startswith("deadletter: ")]
    assert len(told) == 1 and "Traceback" not in said and "at org.apache" not in said
    return done.value.code, told[0]


def test_spark_makes_no_folder_where_the_user_stands(spark):
    assert spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:") == tempfile.gettempdir()


def test_a_lake_that_is_a_file(spark, landing, tmp_path, monkeypatch, capsys):
    (tmp_path / "lake").write_text("no lake")
    code, told = run(landing, tmp_path / "lake", monkeypatch, capsys)
    assert code == 2 and "lake is a file; a lake is a folder" in told


def test_a_lake_that_another_run_writes(spark, landing, tmp_path, monkeypatch, capsys):
    with Lake(spark, str(tmp_path / "lake")).lock():
        code, told = run(landing, tmp_path / "lake", monkeypatch, capsys)
    assert code == 4 and "another run is at work on" in told


def test_a_lake_that_cannot_be_written(spark, landing, monkeypatch, capsys):
    code, told = run(landing, "/proc/lake", monkeypatch, capsys)
    assert code == 1 and "cannot write to the lake /proc/lake: " in told


def test_a_landing_file_that_cannot_be_read(landing, tmp_path, monkeypatch, capsys):
    (landing / "zaqar" / "b.jsonl").symlink_to(tmp_path / "gone.jsonl")
    code, told = run(landing, tmp_path / "lake", monkeypatch, capsys)
    assert code == 2 and "b.jsonl: it is a link to nothing" in told
    assert not (tmp_path / "lake").exists()


def test_a_lake_of_another_version(spark, landing, tmp_path, monkeypatch, capsys):
    """A table without one of today's columns: it is named, with what is missing."""
    lake = Lake(spark, str(tmp_path / "lake"))
    spark.sql(create_statement(lake.identifier(tables.QUARANTINE), older(tables.QUARANTINE)))
    code, told = run(landing, lake.root, monkeypatch, capsys)
    assert code == 1
    assert "was made by another version: silver.quarantine: missing raw string; missing source_file string" in told


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["patterns", "list"], "was made by another version: gold.poison_patterns: missing dead_letters bigint"),
        (["show", "collateral"], "was made by another version, or its first run did not end: it holds no table gold."),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_other_commands_on_a_lake_of_another_version(spark, tmp_path, monkeypatch, capsys, command, told):
    """Its table lacks a column, or it lacks a table."""
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.create_missing([tables.PROGRESS])
    if command[0] == "patterns":
        spark.sql(create_statement(lake.identifier(tables.POISON_PATTERNS), older(tables.POISON_PATTERNS)))
    code, said = call([*command, "--lake", lake.root], monkeypatch, capsys)
    assert code == 1 and told in said


def test_a_folder_that_is_closed(spark, tmp_path, monkeypatch, capsys):
    """A lake's table may be there where nobody may look: it is not called absent."""
    closed = PermissionError(13, "Permission denied", "lake/gold")
    lake = Lake(spark, str(tmp_path / "lake"))
    monkeypatch.setattr("deadletter.cli.failing.Path.iterdir", lambda _: (_ for _ in ()).throw(closed))
    code, told = call(["show", "dead_letters", "--lake", lake.root], monkeypatch, capsys)
    assert code == 1 and "lake/gold: Permission denied; give this user access to it" in told


def test_a_table_without_its_files(spark, tmp_path, monkeypatch, capsys):
    lake = Lake(spark, str(tmp_path / "lake"))
    lake.create_missing([tables.PATTERN_ALIASES])
    lake.append(spark.createDataFrame([("a", "b", "grouping")], tables.PATTERN_ALIASES.ddl), tables.PATTERN_ALIASES)
    for file in (tmp_path / "lake").rglob("*.parquet"):
        file.unlink()
    code, told = call(["show", "pattern_aliases", "--lake", lake.root], monkeypatch, capsys)
    assert code == 1 and ".parquet" in told and "--where" not in told
    where = ["--where", "CAST(alias AS INT) = 1"]
    code, told = call(["show", "pattern_aliases", "--lake", lake.root, *where], monkeypatch, capsys)
    assert code == 2 and told.startswith("deadletter: --where CAST(alias AS INT) = 1: ")


def test_a_suite_with_a_mistake(landing, tmp_path, monkeypatch, capsys):
    """Told before Spark starts, with file, place and what is wrong."""
    document = json.loads((suites.FOLDER / "silver.claims.json").read_text())
    document["expectations"][0]["type"] = "expect_magic"
    (tmp_path / "silver.claims.json").write_text(json.dumps(document))
    found = suites.load_all
    command = sys.modules["deadletter.cli.run"]  # the package's own name "run" is the command
    monkeypatch.setattr(command, "load_all", lambda: found(tmp_path))
    monkeypatch.setattr(command, "open_lake", lambda *_, **__: pytest.fail("Spark was started"))
    code, told = run(landing, tmp_path / "lake", monkeypatch, capsys)
    assert code == 1
    assert "silver.claims.json: expectations[0] " in told and "type 'expect_magic' cannot be used" in told


def test_an_argument_that_is_no_utf8(tmp_path, monkeypatch, capsys):
    """Told before Spark starts: the bridge to it would end."""
    code, told = call(["explain", "caf\udce9", "--lake", str(tmp_path)], monkeypatch, capsys)
    assert code == 2 and told == r"deadletter: caf\xe9 is no UTF-8. Give what is meant in UTF-8."


def test_every_command_says_what_a_lake_is(spark, tmp_path):
    """A folder that is no lake: usage, not a stack trace."""
    out = ["--out", str(tmp_path / "out")]
    commands = (
        ["show", "dead_letters"],
        ["explain", "m1"],
        ["report", *out],
        ["dashboard", *out],
        ["patterns", "list"],
        ["patterns", "show", "p1"],
        ["patterns", "mute", "p1", "--by", "ann", "--why", "known"],
        ["preview", "--system", "zaqar", "--queue", "q", "--limit", "1"],
        ["quarantine", "list"],
        ["maintain"],
    )
    for command in commands:
        done = CliRunner().invoke(cli.cli, [*command, "--lake", str(tmp_path / "typo")])
        assert done.exception.exit_code == 2 and "Is it a lake?" in str(done.exception), command
        assert not (tmp_path / "typo").exists()
