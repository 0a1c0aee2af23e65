"""``deadletter demo``: everything once, on fewer lines than it bundles."""

import re
import sys

import pytest

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.lake import Lake
from tests import command
from tests.pipelines.conftest import few_lines


def test_the_demo_runs_the_job_and_says_where_its_report_is(spark, tmp_path, monkeypatch):
    few_lines(tmp_path / "package" / "captures")
    monkeypatch.setattr(sys.modules["deadletter.cli.demo"], "files", lambda name: tmp_path / "package")
    out = tmp_path / "the demo"
    done = command.call("demo", "--out", out)
    assert done.exit_code == 0
    lake = Lake(spark, str(out / "lake"))
    dead = lake.read(tables.DEAD_LETTERS).count()
    assert dead > 5
    assert re.search(rf"dead letters\W+{dead}\b", done.stdout)
    assert f"Report: {out}/report/index.html\n" in done.stdout
    assert f"--lake '{lake.root}'" in done.stdout
    assert f"<dt>dead letters</dt><dd>{dead:,}</dd>" in (out / "report" / "index.html").read_text("utf-8")
    with pytest.raises(UsageError, match="not an empty folder"):
        command.call("demo", "--out", out)
