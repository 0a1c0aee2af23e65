"""What lies in a landing folder: what is read, what is told not to be, and what no run can read."""

import pytest

from deadletter.errors import UsageError
from deadletter.sources.landing import Folder, landing_files


@pytest.fixture
def landing(tmp_path):
    (tmp_path / "zaqar").mkdir()
    for name in ("a.jsonl", "b.jsonl.gz", ".c.jsonl", "_d.jsonl"):
        (tmp_path / "zaqar" / name).touch()
    return tmp_path


def test_files_of_other_kinds_are_told(landing):
    assert [path.name for path in landing_files(str(landing))] == ["a.jsonl", "b.jsonl.gz"]
    assert Folder(str(landing)).ignored() == []
    (landing / "zaqar" / "e.json").touch()
    (landing / "zaqar" / "f.jsonl.zst").touch()
    (told,) = Folder(str(landing)).ignored()
    assert told.startswith(f"{landing}: 2 files are not read, e.g. {landing}/zaqar/e.json: only .jsonl and .jsonl.gz")


def test_a_name_that_spark_cannot_open(landing):
    (landing / "zaqar" / "2026-11-20T21:00:00Z.jsonl").touch()
    with pytest.raises(UsageError, match="takes no ':' in a file's name. Rename it; nothing was taken in"):
        landing_files(str(landing))
