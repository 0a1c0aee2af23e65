"""What ``deadletter run`` is told: masks and a store's habits change gold without a new event; runs are tracked."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner

from deadletter import tables
from deadletter.cli import cli
from deadletter.lake import Lake
from tests.pipelines.conftest import capture_files
from tests.pipelines.test_disorder import assert_alone

MASKS = [{"name": "event", "regex": "order[.]merged", "placeholder": "<event>", "private": True}]


def call(*arguments):
    done = CliRunner().invoke(cli, list(map(str, arguments)))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0
    return done


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """A lake after two tracked runs, the second with masks; and what the two told."""
    base = tmp_path_factory.mktemp("options")
    (base / "landing" / "pulsar").mkdir(parents=True)
    for path in capture_files("pulsar"):
        shutil.copy(path, base / "landing" / "pulsar")
    (base / "masks.json").write_text(json.dumps(MASKS))
    common = ("run", "--landing", base / "landing", "--lake", base / "lake", "--track", "--json")
    return Lake(spark, str(base / "lake")), call(*common), call(*common, "--masks", base / "masks.json")


def listed(lake, *options):
    rows = call("patterns", "list", "--lake", lake.root, "--json", *options).stdout.splitlines()
    return {row["template"]: row for row in map(json.loads, rows)}


def test_masks_change_the_patterns(runs):
    lake, first, second = runs
    summaries = [json.loads(run.stdout) for run in (first, second)]
    assert "gold: judging" in second.stderr
    assert [summary["events_in"] > 0 for summary in summaries] == [True, False]
    assert summaries[0]["dead_letters"] == summaries[1]["dead_letters"]
    now = listed(lake)
    assert "$.event = <event>" in now and "$.event = order.merged" not in now
    assert sum(row["dead_letters"] for row in now.values()) == lake.read(tables.DEAD_LETTERS).count()


def test_one_broker_alone(runs, lake):
    assert_alone(runs[0], lake, "pulsar")


def test_tracked_runs_are_compared(runs):
    lake, *told = runs
    first, second = (re.search(r"MLflow run (\w+)", run.stderr)[1] for run in told)
    assert "$.event = order.merged" in listed(lake, "--run", first)
    assert listed(lake, "--run", second).keys() == listed(lake).keys()
    changes = listed(lake, "--run", second, "--against", first)
    assert changes["$.event = <event>"]["change"] > 0 > changes["$.event = order.merged"]["change"]


def test_what_gold_stands_for_is_noted(runs):
    lake, *_ = runs
    notes = lake.all_progress()
    assert notes.keys() == {"silver", "gold", "decisions", "masks", "habits"}
    assert len({notes[step].as_of for step in ("silver", "gold")}) == 1
