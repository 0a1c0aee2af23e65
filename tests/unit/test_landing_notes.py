"""What a stream has noted as read, and what is told of files that it passes over because of that."""

import gzip
import hashlib
import json
import os
import shutil

import numpy as np
import pytest

from deadletter.sources import noted
from deadletter.sources.landing import Folder

LINE = b'{"captured_at": "2026-11-20T20:53:0%d+00:00"}\n'


@pytest.fixture
def landing(tmp_path):
    folder = tmp_path / "landing" / "my zaqar"
    folder.mkdir(parents=True)
    for number, name in enumerate(("a.jsonl", "b+%20.jsonl", "Zürich.jsonl")):
        (folder / name).write_bytes(LINE % number)
    (folder / "d.jsonl.gz").write_bytes(gzip.compress(b"\n" + LINE % 3))
    return folder


@pytest.fixture
def checkpoint(tmp_path, landing):
    """A stream's, where all files were read, each in a batch of its own."""
    for number, path in enumerate(sorted(landing.iterdir())):
        note(tmp_path / "checkpoint", number, {path: number})
        written(tmp_path / "checkpoint", number)
    return tmp_path / "checkpoint"


def note(checkpoint, number, batches, suffix=""):
    """One file of the log, as Spark writes it."""
    entries = [
        {"path": path.as_uri(), "timestamp": path.stat().st_mtime_ns // 10**6, "batchId": batch}
        for path, batch in batches.items()
    ]
    file = checkpoint / "sources" / "0" / f"{number}{suffix}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(["v1", *map(json.dumps, entries)]))


def written(checkpoint, number):
    for kind, text in (("offsets", json.dumps({"logOffset": number})), ("commits", "{}")):
        (checkpoint / kind).mkdir(parents=True, exist_ok=True)
        (checkpoint / kind / str(number)).write_text(f"v1\n{text}")


def no_query():
    pytest.fail("bronze was read")


def told(landing, checkpoint, taken=no_query):
    source = Folder(str(landing.parent))
    return source.gone(checkpoint, taken) + source.unread(checkpoint, taken)


def knows(monkeypatch, *lines, files=()):
    """Bronze has these lines of any file, and some of these files."""
    ids = [int(hashlib.sha256(line.rstrip(b"\n")).hexdigest()[:15], 16) for line in lines]
    monkeypatch.setattr(noted, "known_ids", lambda *_: np.array(ids, np.int64))
    monkeypatch.setattr(noted, "known_files", lambda *_: set(map(str, files)))


def test_a_run_with_nothing_new_says_nothing(landing, checkpoint):
    assert told(landing, checkpoint) == []
    (landing / "_late.jsonl").touch()
    (landing / "empty.jsonl").touch()
    (landing / "a.jsonl").unlink()
    assert told(landing, checkpoint) == []


def test_a_stream_that_keeps_no_such_notes(landing, tmp_path, monkeypatch):
    """As Auto Loader's; or none has been started."""
    assert told(landing, tmp_path / "nowhere") == []
    note(tmp_path, 0, {})
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.0")
    assert told(landing, tmp_path) == []


def test_the_log_is_read_from_its_newest_whole_file(landing, tmp_path):
    files = sorted(landing.iterdir())
    note(tmp_path, 8, {})
    (tmp_path / "sources" / "0" / "7").write_text("no longer looked at")
    note(tmp_path, 9, dict.fromkeys(files[:2], 8), ".compact")
    note(tmp_path, 10, {files[2]: 10})
    note(tmp_path, 11, {files[3]: 11})
    (tmp_path / "sources" / "0" / ".11.crc").touch()
    assert list(noted.noted(tmp_path)) == list(map(str, files))
    assert list(noted.noted(tmp_path, 10)) == [str(files[3])]
    assert noted.noted(tmp_path, 11) == {}


def test_a_file_that_changed(landing, checkpoint, monkeypatch):
    """It is named in each run, and compared in one."""
    with (landing / "Zürich.jsonl").open("ab") as file:
        file.write(LINE % 9)
    os.utime(landing / "Zürich.jsonl", (1, 1))
    knows(monkeypatch, LINE % 2)
    (said,) = told(landing, checkpoint, lambda: None)
    assert f"changed after they were read, or were gone when they were to be read: {landing}/Zürich.jsonl." in said
    assert "What is new in them was not taken in: put it there under another name; known lines count once" in said
    assert told(landing, checkpoint) == [said]
    (landing / "Zürich.jsonl").rename(landing / "again.jsonl")
    note(checkpoint, 4, {landing / "again.jsonl": 4})
    assert told(landing, checkpoint) == []


def test_a_file_that_was_only_put_there_again(landing, checkpoint, monkeypatch):
    """With another time, and the lines that are known: blank ones and a byte order mark are none."""
    for name in ("a.jsonl", "d.jsonl.gz"):
        shutil.copy(landing / name, landing.parent / "copy")
        os.utime(landing.parent / "copy", (2, 2))
        (landing.parent / "copy").replace(landing / name)
    (landing / "b+%20.jsonl").write_bytes(b"\xef\xbb\xbf" + LINE % 1 + b" \t\r\n")
    os.utime(landing / "b+%20.jsonl", (3, 3))
    knows(monkeypatch, LINE % 0, LINE % 1, LINE % 3)
    assert told(landing, checkpoint, lambda: None) == []
    assert told(landing, checkpoint) == []
    os.utime(landing / "a.jsonl", (4, 4))
    knows(monkeypatch)
    assert f"{landing}/a.jsonl" in told(landing, checkpoint, lambda: None)[0]


def test_an_archive_that_was_damaged_later(landing, checkpoint, monkeypatch):
    (landing / "d.jsonl.gz").write_bytes((landing / "d.jsonl.gz").read_bytes()[:-5])
    os.utime(landing / "d.jsonl.gz", (5, 5))
    knows(monkeypatch, LINE % 3)
    assert f"{landing}/d.jsonl.gz" in told(landing, checkpoint, lambda: None)[0]


def test_a_file_that_spark_did_not_find(landing, checkpoint):
    for number in range(1205):
        (landing / f"new{number:04}.jsonl").write_bytes(b"x")
    (said,) = told(landing, checkpoint)
    first = ", ".join(f"{landing}/new000{number}.jsonl" for number in range(3))
    assert f"were not found by Spark, so nothing of them was taken in: {first} and 1,202 more. Rename them" in said


@pytest.mark.parametrize("batch", ["noted", "begun"])
def test_a_file_that_was_gone_when_a_killed_run_was_made_up_for(landing, checkpoint, batch, monkeypatch):
    """Spark reads what is left and never looks for it again; it is told when it is gone, and when it is there again."""
    late, there, hidden = (landing / name for name in ("late.jsonl", "there.jsonl", "_half=1.jsonl"))
    for path in (late, there, hidden):
        path.write_bytes(LINE % 5)
    note(checkpoint, 4, dict.fromkeys((late, there, hidden), 4))
    if batch == "begun":
        (checkpoint / "offsets" / "4").write_text('v1\n{"logOffset":4}')
    knows(monkeypatch)
    hidden.unlink()
    late.rename(landing.parent.parent / "away")
    (said,) = Folder(str(landing.parent)).gone(checkpoint, lambda: None)
    assert f"had yet to take in are gone: {late}. Put each there under another name" in said
    written(checkpoint, 4)
    assert told(landing, checkpoint) == []
    (landing.parent.parent / "away").rename(late)
    (said,) = told(landing, checkpoint)
    assert f"gone when they were to be read: {late}." in said


def test_a_file_that_came_back_before_it_was_made_up_for(landing, checkpoint, monkeypatch):
    late = landing / "late.jsonl"
    late.write_bytes(LINE % 5)
    note(checkpoint, 4, {late: 4})
    knows(monkeypatch)
    late.rename(landing.parent.parent / "away")
    assert Folder(str(landing.parent)).gone(checkpoint, lambda: None)
    (landing.parent.parent / "away").rename(late)
    assert told(landing, checkpoint) == []


def test_a_run_that_was_killed_when_bronze_had_the_lines(landing, checkpoint, monkeypatch):
    note(checkpoint, 4, {landing / "a.jsonl": 4})
    (landing / "a.jsonl").unlink()
    knows(monkeypatch, files=[landing / "a.jsonl"])
    assert Folder(str(landing.parent)).gone(checkpoint, lambda: None) == []


def test_an_archive_that_a_killed_run_found_damaged(landing, checkpoint, monkeypatch):
    """Bronze has what can be read of it, so nobody reads it again."""
    archive = landing / "d.jsonl.gz"
    note(checkpoint, 4, {archive: 4})
    noted.keep_damaged(checkpoint, {str(archive): "it is cut off"})
    knows(monkeypatch, LINE % 3)
    assert Folder(str(landing.parent)).gone(checkpoint, lambda: None) == []
    assert noted.still_damaged(checkpoint) == {str(archive): "it is cut off"}


def test_an_archive_that_came_while_others_were_looked_at(landing, checkpoint):
    """It was read as leniently, so what comes after its damage is missing."""
    whole, cut = landing / "whole.jsonl.gz", landing / "late.jsonl.gz"
    whole.write_bytes(gzip.compress(LINE % 8))
    cut.write_bytes(gzip.compress(LINE % 9)[:-4])
    note(checkpoint, 4, {whole: 4, cut: 4})
    whole.rename(landing / "_moved")
    looked_at = {str(landing / "d.jsonl.gz")}
    Folder(str(landing))._note_late_damage(checkpoint, looked_at | {str(cut)})
    assert noted.still_damaged(checkpoint) == {}
    Folder(str(landing))._note_late_damage(checkpoint, looked_at)
    assert list(noted.still_damaged(checkpoint)) == [str(cut)]


def test_such_an_archive_where_nobody_notes_what_was_read(landing, tmp_path, monkeypatch):
    (landing / "late.jsonl.gz").write_bytes(gzip.compress(LINE % 9)[:-4])
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.0")
    Folder(str(landing))._note_late_damage(tmp_path / "checkpoint", set())
    assert list(noted.still_damaged(tmp_path / "checkpoint")) == [str(landing / "late.jsonl.gz")]
