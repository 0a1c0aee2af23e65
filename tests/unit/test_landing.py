"""How much is new in a landing folder: what a run is planned for."""

import os

from deadletter.sources.landing import LATE, Folder


def put(folder, name, text, modified=None):
    path = folder / "zaqar" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    if modified is not None:
        os.utime(path, (modified, modified))
    return path.stat().st_ctime


def test_only_files_that_came_since_count(tmp_path):
    came = put(tmp_path, "a.jsonl", "12345")
    folder = Folder(str(tmp_path))
    assert folder.size() == 5
    assert folder.size(since=came - 1) == 5
    assert folder.size(since=came + LATE + 1) == 0


def test_a_file_counts_from_when_it_was_put_there_whatever_its_own_time(tmp_path):
    """A copy that keeps its old modification time is as new as any."""
    came = put(tmp_path, "old.jsonl", "123", modified=0)
    assert Folder(str(tmp_path)).size(since=came - 1) == 3
