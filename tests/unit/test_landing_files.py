"""What lies in a landing folder: what is read, what is told not to be, and what no run can read."""

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from deadletter import sources
from deadletter.errors import UsageError
from deadletter.sources.landing import Folder, damaged_archives, read_to_end

ROOT = Path(__file__).parents[2]
LINES = b'{"captured_at": "2026-11-20T20:53:01+00:00"}\n' * 100_000
WHOLE = gzip.compress(LINES)
JNU = """
import subprocess
from deadletter.spark import jars, session
session.name_files_in_utf8()
asked = [jars.java_command(), "-XshowSettings:properties", "-version"]
print(subprocess.run(asked, capture_output=True, text=True).stderr)
"""


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


def test_nobody_looks_below_hidden_names(landing):
    """What a collector keeps there need not be readable, or stay."""
    hidden = landing / "zaqar" / ".staging"
    hidden.mkdir()
    (hidden / "a.jsonl").touch()
    (hidden / "endless").symlink_to(landing / "zaqar")
    assert [path.name for path in Folder(str(landing)).files] == ["a.jsonl", "b.jsonl.gz"]


def test_a_name_that_spark_cannot_open(landing):
    (landing / "zaqar" / "2026-11-20T21:00:00Z.jsonl").touch()
    with pytest.raises(UsageError, match="takes no ':' in a file's name. Rename it; nothing was taken in"):
        Folder(str(landing)).files  # noqa: B018


@pytest.mark.parametrize("name", [b"zaqar/caf\xe9.jsonl", b"f\xe9v/a.jsonl"])
def test_a_name_that_is_no_utf8(landing, name):
    """Spark passes over it without a word; the error can be printed."""
    path = os.path.join(os.fsencode(landing), name)  # noqa: PTH118
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        os.close(os.open(path, os.O_CREAT))
    except OSError:
        pytest.skip("this disk has no such names")
    with pytest.raises(UsageError, match=r"\\xe9.*: its name is no UTF-8. Rename it; nothing was taken in.") as error:
        Folder(str(landing)).files  # noqa: B018
    assert str(error.value).encode("ascii")
    os.rename(path, path + b".txt")  # noqa: PTH104
    assert "xe9" in Folder(str(landing)).ignored()[0].encode("ascii").decode()


@pytest.mark.parametrize("setting", [{"LC_ALL": "C"}, {"LANG": "C"}, {"LC_CTYPE": "C", "PYTHONCOERCECLOCALE": "0"}])
def test_names_are_utf8_in_every_locale(setting):
    """What Java takes names for; in such a locale Spark would pass over pulsar/Zürich.jsonl."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}
    env |= setting | {"PYTHONPATH": str(ROOT / "libs")}
    done = subprocess.run([sys.executable, "-c", JNU], env=env, capture_output=True, text=True, check=True)
    assert "sun.jnu.encoding = UTF-8" in done.stdout


@pytest.mark.parametrize("whole", [WHOLE, WHOLE + gzip.compress(b"more\n"), gzip.compress(b""), b""], ids=len)
def test_archives_that_are_whole(tmp_path, whole):
    (tmp_path / "a.jsonl.gz").write_bytes(whole)
    read_to_end(tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        (WHOLE[:-9], "cut off"),
        (WHOLE[:5], "cut off"),
        (WHOLE[:-8] + bytes(8), "incorrect data check"),
        (WHOLE + b"\0", "cut off"),
        (WHOLE + bytes(512), "incorrect header check"),  # Python's gzip reads it to its end, Hadoop does not
        (LINES, "incorrect header check"),
    ],
)
def test_archives_that_are_damaged(tmp_path, damaged, said):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(damaged)
    with pytest.raises((EOFError, zlib.error), match=said):
        read_to_end(path)
    assert said in damaged_archives([path])[path]


def test_a_folder_is_the_same_however_it_is_spelled():
    assert Folder("/tmp/x/../p/").checkpoint == Folder("//tmp/p").checkpoint == Folder("/tmp/p").checkpoint
    assert Folder("/tmp/p").checkpoint != Folder("/tmp/x/p").checkpoint


@pytest.mark.parametrize("landing", ["s3://bucket/landing", "dbfs:/landing", "kafka:/h:9092", "KAFKA://h:9092/a=b", ""])
def test_what_is_no_folder_is_not_to_be_made(landing):
    with pytest.raises(UsageError, match="write a folder's path, or kafka://HOST:PORT"):
        sources.find(landing)
