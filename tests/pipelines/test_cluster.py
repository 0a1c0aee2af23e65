"""The main job on a cluster of two workers, one of them killed in the middle: the tables are those of a laptop."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from deadletter import tables
from deadletter.lake import Lake
from tests.pipelines.comparing import SILVER, assert_same_rows
from tests.pipelines.conftest import capture_files

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
LOCAL = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
SECONDS = 240
COMPARED = (*SILVER, tables.DEAD_LETTERS, tables.QUEUE_HEALTH, tables.DELIVERY_SURVIVAL)
"""What one broker's events imply whether or not there are others."""
SYSTEM = "rabbitmq"


def start(log, *arguments):
    """A Spark daemon in a process group of its own, so that its executors die with it."""
    with log.open("w") as sink:
        return subprocess.Popen(
            [str(SPARK_CLASS), *arguments], stdout=sink, stderr=sink, env=os.environ | LOCAL, start_new_session=True
        )


def awaited(log, pattern, times=1):
    """The first match of ``pattern``, once the log has ``times`` of them."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = re.findall(pattern, log.read_text())
        if len(found) >= times:
            return found[0]
        time.sleep(0.2)
    raise AssertionError(f"no {pattern!r} after {SECONDS} s in:\n{log.read_text()[-2000:]}")


def kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture()
def cluster(tmp_path):
    """The master's address, its log, and two workers."""
    daemons, log = [], tmp_path / "master.log"
    try:
        listening = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        daemons.append(start(log, "org.apache.spark.deploy.master.Master", *listening))
        address = awaited(log, r"Starting Spark master at (spark://\S+)")
        for number in (1, 2):
            place = ("--work-dir", str(tmp_path / f"work{number}"), "--cores", "1", "--memory", "1g")
            worker = "org.apache.spark.deploy.worker.Worker"
            daemons.append(start(tmp_path / f"worker{number}.log", worker, *listening, *place, address))
        awaited(log, r"Registering worker", times=2)
        yield address, log, daemons[1:]
    finally:
        for daemon in daemons:
            kill(daemon)


@pytest.fixture()
def landing(tmp_path):
    """One broker's captures."""
    folder = tmp_path / "landing" / SYSTEM
    folder.mkdir(parents=True)
    for path in capture_files(SYSTEM):
        shutil.copy(path, folder)
    return tmp_path / "landing"


def run_on(address, landing, lake, log):
    environment = os.environ | LOCAL | {"SPARK_MASTER": address, "DEADLETTER_DRIVER_MEMORY": "1g"}
    environment.pop("SPARK_REMOTE", None)
    command = [sys.executable, "-m", "deadletter", "run", "--landing", str(landing), "--lake", str(lake)]
    with log.open("w") as sink:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sink, env=environment)


@pytest.mark.soak
def test_a_killed_worker_changes_no_row(lake, cluster, landing, tmp_path):
    """One broker alone on a cluster gives what the same events give among others on one machine."""
    address, master_log, (victim, survivor) = cluster
    run_log = tmp_path / "run.log"
    run = run_on(address, landing, tmp_path / "clustered", run_log)
    try:
        awaited(run_log, r"silver: merging")
        kill(victim)
        assert run.wait(timeout=480) == 0, run_log.read_text()[-3000:]
    finally:
        run.kill()
    assert survivor.poll() is None
    awaited(master_log, r"Removing worker|worker \S+ because we got no heartbeat|got disassociated, removing it")
    assert len(list(tmp_path.glob("work*/app-*/*"))) >= 2, "both workers had an executor"

    clustered = Lake(lake.spark, str(tmp_path / "clustered"))
    for table in COMPARED:
        here, there = (one.read(table).where(f"system = '{SYSTEM}'").drop("pattern_id") for one in (lake, clustered))
        assert_same_rows(here, there, table.full_name)
    assert clustered.read(tables.DEAD_LETTERS).count() > 100
