"""``deadletter report``: a page that counts what the lake holds and names nobody."""

import shutil
from pathlib import Path

from click.testing import CliRunner

from deadletter import tables
from deadletter.cli import cli
from deadletter.dashboard.server import bundled
from deadletter.lake import Lake
from deadletter.notebook import views


def page(lake, out, *options):
    done = CliRunner().invoke(cli, ["report", "--lake", lake.root, "--out", str(out), *options])
    assert done.exit_code == 0, done.output
    assert Path(done.stdout.strip()) == out / "index.html"
    return (out / "index.html").read_text("utf-8").split("<body>")[1]


def test_the_report_counts_and_names_nobody(small_lake, tmp_path):
    hidden, revealed = page(small_lake, tmp_path / "hidden"), page(small_lake, tmp_path / "revealed", "--reveal")
    dead = small_lake.read(tables.DEAD_LETTERS).count()
    assert dead > 5
    assert f"<dt>dead letters</dt><dd>{dead:,}</dd>" in hidden
    patterns = [row["pattern_id"] for row in small_lake.read(tables.POISON_PATTERNS).collect()]
    assert [name for name in patterns if name not in hidden] == []
    assert "@example.org" in revealed
    assert "@example.org" not in hidden
    assert 'data_docs/index.html"' in hidden


def test_a_muted_pattern_is_counted_and_not_listed(small_lake, tmp_path):
    """Neither in the report nor in what the dashboard and the notebooks list."""
    lake = Lake(small_lake.spark, str(shutil.copytree(small_lake.root, tmp_path / "lake")))
    muted = views.pattern(lake).first()
    call = ["patterns", "mute", muted["pattern_id"], "--lake", lake.root, "--by", "ann", "--why", "known"]
    assert CliRunner().invoke(cli, call).exit_code == 0
    shown, dead = page(lake, tmp_path / "report"), lake.read(tables.DEAD_LETTERS)
    assert muted["pattern_id"] not in shown
    assert "not listed: 1 muted" in shown
    assert f"<dt>dead letters</dt><dd>{dead.count():,}</dd>" in shown
    listed = [lake.query(bundled().datasets["patterns"]), views.patterns_of(lake, dead), views.pattern(lake)]
    for frame in listed:
        found = {row["pattern_id"] for row in frame.select("pattern_id").collect()}
        assert found and muted["pattern_id"] not in found
    assert tuple(views.muted_of(lake, dead).first()) == (1, muted["dead_letters"])
    assert lake.query(bundled().datasets["dead_letters"]).where("muted").count() > 0
