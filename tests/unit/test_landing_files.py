"""What lies in a landing folder: what is read, what is told not to be, and what no run can read."""

import pytest

from deadletter import sources
from deadletter.errors import UsageError
from deadletter.sources.landing import Folder


@pytest.fixture
def landing(tmp_path):
    (tmp_path / "zaqar").mkdir()
    for name in ("a.jsonl", "b.jsonl.gz", ".c.jsonl", "_d.jsonl"):
        (tmp_path / "zaqar" / name).touch()
    return tmp_path


def test_files_of_other_kinds_are_told(landing):
    assert [path.name for path in Folder(str(landing)).files] == ["a.jsonl", "b.jsonl.gz"]
    assert Folder(str(landing)).ignored() == []
    (landing / "zaqar" / "e.json").touch()
    (landing / "zaqar" / "f.jsonl.zst").touch()
    (told,) = Folder(str(landing)).ignored()
    assert told.startswith(f"{landing}: 2 files are not read, e.g. {landing}/zaqar/e.json: only .jsonl and .jsonl.gz")


def test_a_name_that_spark_cannot_open(landing):
    (landing / "zaqar" / "2026-11-20T21:00:00Z.jsonl").touch()
    with pytest.raises(UsageError, match="takes no ':' in a file's name. Rename it; nothing was taken in"):
        Folder(str(landing)).files  # noqa: B018


def test_a_folder_is_the_same_however_it_is_spelled():
    assert Folder("/tmp/x/../p/").checkpoint == Folder("/tmp/p").checkpoint != Folder("/tmp/x/p").checkpoint


@pytest.mark.parametrize("landing", ["s3://bucket/landing", "dbfs:/landing", "kafka:/h:9092", "KAFKA://h:9092/a=b", ""])
def test_what_is_no_folder_is_not_to_be_made(landing):
    with pytest.raises(UsageError, match="write a folder's path, or kafka://HOST:PORT"):
        sources.find(landing)
