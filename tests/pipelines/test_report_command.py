"""``deadletter report``: a page that counts what the lake holds and names nobody."""

from pathlib import Path

from click.testing import CliRunner

from deadletter import tables
from deadletter.cli import cli


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
