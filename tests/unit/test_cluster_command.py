"""``deadletter cluster`` on files of every kind."""

import csv
import gzip
import json

import pytest
from click.testing import CliRunner

from deadletter.cli import cli
from deadletter.errors import UsageError
from tests.command import call

TEXTS = ["timeout after 30 s on db-1", "no route to 10.0.0.7", "timeout after 31 s on db-2"]


def grouped(tmp_path, name, content, *options):
    """``(what the command printed, [(line id, cluster id)])``."""
    (tmp_path / name).write_text(content)
    out = tmp_path / "out.csv"
    done = call("cluster", tmp_path / name, "--out", out, *options)
    with out.open() as file:
        return done.stdout, [(row["line_id"], row["cluster_id"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("name", "content", "options", "lines", "ids"),
    [
        ("a.log", "\n".join(TEXTS), [], "1 2 3", None),
        (
            "a.csv",
            "no,text\n" + "\n".join(f"x{n},{t}" for n, t in enumerate(TEXTS)),
            ["--column", "text"],
            "1 2 3",
            "x0 x1 x2",
        ),
        (
            "a.jsonl",
            "\n\n".join(json.dumps({"no": n, "t": t}) for n, t in enumerate(TEXTS)),
            ["--column", "t"],
            "1 3 5",
            "0 1 2",
        ),
    ],
)
def test_two_of_three_texts_are_alike(tmp_path, name, content, options, lines, ids):
    """Blank lines between JSON objects are no texts, but lines."""
    printed, rows = grouped(tmp_path, name, content, *options)
    assert printed.startswith("3 lines in 2 clusters: ")
    assert [line for line, _ in rows] == lines.split()
    (first, other, third) = [cluster for _, cluster in rows]
    assert first == third != other
    if ids:
        _, rows = grouped(tmp_path, name, content, *options, "--id", "no")
        assert [line for line, _ in rows] == ids.split()


def test_masks_of_ones_own(tmp_path):
    (tmp_path / "masks.json").write_text('[{"name": "town", "regex": "Bern|Oslo"}]')
    texts = "to Bern by train\nto Oslo by train\n"
    printed, _ = grouped(tmp_path, "a.log", texts, "--masks", str(tmp_path / "masks.json"))
    assert printed.startswith("2 lines in 1 clusters: ")


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "a.log").write_text("one\n")
    done = CliRunner().invoke(cli, ["cluster", str(tmp_path / "a.log"), "--out", str(tmp_path / "nowhere" / "x.csv")])
    assert done.exception.exit_code == 1 and "x.csv: No such file or directory" in str(done.exception)


def test_half_a_surrogate_pair(tmp_path):
    _, rows = grouped(tmp_path, "a.jsonl", r'{"t": "\ud800", "no": "\ud800"}', "--column", "t", "--id", "no")
    assert [line for line, _ in rows] == ["?"]


def test_json_that_nobody_nests_so_deep(tmp_path):
    with pytest.raises(UsageError, match="line 1 is not JSON"):
        grouped(tmp_path, "a.jsonl", '{"t": ' + "[" * 100_000, "--column", "t")


@pytest.mark.parametrize(
    ("content", "told"),
    [(gzip.compress(b"one\n"), "packed with gzip; unpack it first"), ("one\n".encode("utf-16"), "holds NUL bytes")],
)
def test_what_is_no_text(tmp_path, content, told):
    (tmp_path / "a.log").write_bytes(content)
    done = CliRunner().invoke(cli, ["cluster", str(tmp_path / "a.log"), "--out", str(tmp_path / "out.csv")])
    assert isinstance(done.exception, UsageError) and told in str(done.exception)
    assert not (tmp_path / "out.csv").exists()


def test_the_texts_are_not_written_over(tmp_path):
    (tmp_path / "a.log").write_text("one\n")
    (tmp_path / "b.log").symlink_to("a.log")
    for out in ("a.log", "b.log"):
        done = CliRunner().invoke(cli, ["cluster", str(tmp_path / "a.log"), "--out", str(tmp_path / out)])
        assert isinstance(done.exception, UsageError) and "would be written over the texts" in str(done.exception)
    assert (tmp_path / "a.log").read_text() == "one\n"


def test_a_column_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="body"):
        grouped(tmp_path, "a.csv", "no,text\n1,x\n", "--column", "body")
