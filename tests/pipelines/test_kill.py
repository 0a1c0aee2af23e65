"""A run that is killed, refused or out of room leaves a lake that the next run completes."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deadletter import steps, tables
from deadletter.errors import DeadletterError
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import DOCUMENT
from tests.pipelines.comparing import GOLD, SILVER, assert_same_tables
from tests.pipelines.conftest import quiet
from tests.properties.arriving import everything, generated, write

KILLS = int(os.environ.get("DEADLETTER_KILLS", "1"))
STAGES = ("bronze:", "gold:", "quality:", "silver:", "gold:")
SOON = {"quality:": 0.5}
"""Seconds after which a stage may be over."""
ROOT = Path(__file__).parent.parent.parent
TABLES = (*SILVER, tables.QUARANTINE, *GOLD, tables.COLLATERAL)


def slices(count):
    """Histories of all brokers, dealt into ``count`` files a system."""
    lines = everything(generated())
    return [{system: part[number::count] for system, part in lines.items()} for number in range(count)]


def start(landing, lake):
    """``deadletter run`` in a process group of its own, its progress on standard error."""
    command = [sys.executable, "-m", "deadletter", "run", "--landing", str(landing), "--lake", str(lake)]
    command += ["--zaqar-store", "document"]
    env = os.environ | {"PYTHONPATH": f"{ROOT / 'libs'}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.Popen(
        command, start_new_session=True, env=env, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )


def kill_in(process, stage, delay):
    """SIGKILL to the whole group ``delay`` seconds after ``stage`` began; false if it ended before."""
    for line in process.stderr:
        if f" s] {stage}" in line:
            time.sleep(delay)
            break
    ended = process.poll() is not None
    if not ended:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return not ended


def test_killed_at_random_moments(spark, tmp_path, quiet_lake):
    """Killed in silver, with more ``KILLS`` in every layer, each time with new events waiting; then one quiet run.

    While the first is at work, another run on its lake says so and changes nothing.
    """
    chance, killed, files = random.Random(5), [], slices(KILLS)
    landing, root = tmp_path / "landing", tmp_path / "lake"
    lake = Lake(spark, str(root))
    for number, part in enumerate(files):
        write(landing, f"{number}.jsonl.gz", part)
        stage = STAGES[number % len(STAGES)]
        run = start(landing, root)
        if number == 0:
            assert any(f" s] {stage}" in line for line in run.stderr)
            with pytest.raises(DeadletterError, match="another run is at work"):
                steps.run(lake, str(landing), tell=quiet)
            stage = "silver:"
        if kill_in(run, stage, chance.uniform(0, SOON.get(stage, 3))):
            killed.append(stage)
    assert len(killed) >= 0.8 * KILLS, killed
    steps.run(lake, str(landing), tell=quiet)  # the store is that of the killed runs
    assert_same_tables(lake, quiet_lake[0], TABLES)


def test_a_lake_that_cannot_be_written(spark, tmp_path):
    (tmp_path / "landing").mkdir()
    with pytest.raises(DeadletterError, match=r"cannot write to the lake /proc/lake: .*Nothing was changed"):
        steps.run(Lake(spark, "/proc/lake"), str(tmp_path / "landing"), tell=quiet)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.soak
def test_a_full_disk(spark, tmp_path, small_disk, quiet_lake):
    """The run says that the disk is full; with more room the next one completes the lake."""
    landing = tmp_path / "landing"
    write(landing, "all.jsonl.gz", slices(1)[0])
    lake = Lake(spark, str(small_disk / "lake"))
    with pytest.raises(DeadletterError, match=r"cannot write to the lake .*: No space left on device"):
        steps.run(lake, str(landing), tell=quiet)
    subprocess.run(["mount", "-o", "remount,size=500m", small_disk], check=True)
    steps.run(lake, str(landing), habits=DOCUMENT, tell=quiet)
    assert_same_tables(lake, quiet_lake[0], TABLES)
