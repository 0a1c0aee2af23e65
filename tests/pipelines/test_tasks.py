"""The tasks of the scheduled job pass on what they are given; ``test_gates`` has them make a lake."""

import contextlib
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from deadletter.errors import SchemaError
from deadletter.lake import Lake
from deadletter.lake.statements import create_statement
from deadletter.rules.zaqar_store import MONGODB
from deadletter.steps import release, silver
from deadletter.tables import PROGRESS, QUEUE_EVENTS
from tests.pipelines.conftest import task
from tests.pipelines.test_start import older


def called(name, *arguments):
    """What a task without Spark gave its step, by place and by name; the step and its gate have a warning."""
    got = []

    def step(*given, **named):
        got.append((given, named))
        return ["of the step"]

    main = task(name)
    gate = SimpleNamespace(warnings=["of the gate"])
    main.__globals__.update(
        get_spark=lambda **_: None,
        Lake=lambda *_: SimpleNamespace(lock=contextlib.nullcontext),
        gated=lambda _: contextlib.nullcontext(gate),
        sources=SimpleNamespace(is_kafka=bool, find=list),
        bronze=SimpleNamespace(ingest=step),
        merge=step,
        gold=SimpleNamespace(derive=step),
        maintain=step,
    )
    main(["--lake", "lake", *arguments])
    return got[0]


def test_gold_is_judged_as_of_a_time_by_a_stores_habits():
    (_, _, as_of), named = called("gold", "--as-of", "2026-11-20T21:00:00+00:00", "--zaqar-store", "mongodb")
    assert (as_of, named) == (datetime(2026, 11, 20, 21, tzinfo=UTC), {"habits": MONGODB})
    (_, _, as_of), named = called("gold", "--as-of", "", "--zaqar-store", "")
    assert (as_of, named) == (None, {"habits": None})


def test_files_are_kept_as_long_as_was_said():
    (_, hours), _ = called("maintenance", "--retain-hours", "200")
    assert hours == 200


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("bronze", ["--landing", "landing"], "warning: of the step"),
        ("silver", [], "warning: of the gate"),
        ("gold", [], "warning: of the gate"),
    ],
)
def test_a_task_tells_the_warnings(name, more, told, capsys):
    called(name, *more)
    assert told in capsys.readouterr().out


def test_silver_tells_that_a_collectors_clock_is_ahead(monkeypatch, capsys):
    def merge(_lake, _gate, summary, _tell):
        summary.as_of = datetime.now(UTC) + timedelta(hours=1)

    main = task("silver")
    gate = contextlib.nullcontext(SimpleNamespace(warnings=[]))
    main.__globals__.update(get_spark=lambda: None, Lake=lambda *_: None, gated=lambda _: gate)
    monkeypatch.setattr(release, "complete", lambda *_: [])
    monkeypatch.setattr(silver, "merge", merge)
    main(["--lake", "lake"])
    assert "which is yet to come: is a collector's clock or time zone wrong?" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["silver", "gold", "maintenance"])
def test_a_task_tells_a_lake_of_another_version(spark, tmp_path, name):
    """Spark stumbles over it first, and says only that there is no such column."""
    lake = Lake(spark, str(tmp_path))
    spark.sql(create_statement(lake.identifier(PROGRESS), older(PROGRESS)))
    lake.create_missing([QUEUE_EVENTS])
    main = task(name)
    with pytest.raises(SchemaError, match="was made by another version: control.progress: missing "):
        main(["--lake", lake.root])
