"""What ``deadletter run`` is told: masks and a store's habits change gold without a new event; runs are tracked."""

import json
import re
import shutil

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.lake.masks import adopt_masks
from deadletter.notebook import views
from tests import command
from tests.pipelines.conftest import capture_files
from tests.pipelines.test_disorder import assert_alone

MASKS = [{"name": "event", "regex": "order[.]merged", "placeholder": "<event>", "private": True}]


def call(*arguments):
    done = command.call(*arguments)
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
    common += ("--fresh-after", "2030-01-01T00:00:00Z")
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


def test_masks_that_spark_cannot_read_are_refused_before_they_are_kept(spark, tmp_path):
    file = tmp_path / "masks.json"
    file.write_text(json.dumps([{"name": "member", "regex": "(?P<m>M-[0-9]{6})"}]))
    with pytest.raises(UsageError, match="'member': the regex is none of Java's"):
        adopt_masks(Lake(spark, str(tmp_path / "lake")), str(file))
    assert not (tmp_path / "lake" / "masks.json").exists()


def test_notebooks_hide_what_the_lakes_own_masks_hide(runs):
    lake, *_ = runs
    dead = views.dead_letters(lake).where("payload LIKE '%order.merged%'")
    shown = [row["payload"] for row in views.examples(lake, dead, 3).collect()]
    assert len(shown) == 3 and all("<event>" in text and "order.merged" not in text for text in shown)


def test_a_feed_that_is_stuck_is_told_with_its_newest_event(runs):
    """Also by the second run, for which no event came."""
    lake, first, second = runs
    newest = lake.read(tables.QUEUE_EVENTS).select(F.max("captured_at").cast("string")).first()[0]
    for run in (first, second):
        (told,) = [text for text in json.loads(run.stdout)["warnings"] if "is a feed stuck?" in text]
        assert newest.replace(" ", "T") in told and "2030-01-01" in told, told


def test_one_broker_alone(runs, lake):
    assert_alone(runs[0], lake, "pulsar")


def test_tracked_runs_are_compared(runs):
    lake, *told = runs
    first, second = (re.search(r"MLflow run (\w+)", run.stderr)[1] for run in told)
    assert "$.event = order.merged" in listed(lake, "--run", first)
    assert listed(lake, "--run", second).keys() == listed(lake).keys()
    changes = listed(lake, "--run", second, "--against", first)
    with pytest.raises(UsageError, match="--against none: no run"):
        listed(lake, "--run", second, "--against", "none")
    assert changes["$.event = <event>"]["change"] > 0 > changes["$.event = order.merged"]["change"]


def test_what_gold_stands_for_is_noted(runs):
    lake, *_ = runs
    notes = lake.progress.all()
    derived_with = {"decisions", "masks", "habits", "rules", "sample", "writing"}
    assert notes.keys() == {"silver", "parser", "gold", "merging", "suites"} | derived_with
    assert notes["merging"].source_version == notes["writing"].source_version == 0
    assert len({notes[step].as_of for step in ("silver", "gold")}) == 1
