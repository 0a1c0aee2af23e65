"""Lakes that are made once, for all tests that only read them."""

import gzip
import json
import os
import runpy
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from deadletter import steps
from deadletter.lake import Lake
from deadletter.spark import session

TESTS = Path(__file__).parent.parent / "captures"
BUNDLED = Path(str(files("deadletter") / "captures"))
PIPELINES = Path(__file__).parents[2] / "pipelines"


def task(name):
    """What a task of the scheduled job does, given its parameters."""
    return runpy.run_path(str(PIPELINES / f"{name}.py"))["main"]


def quiet(text):
    """Progress that nobody reads."""


def lines_of(path):
    with gzip.open(path, "rb") as file:
        return file.read().splitlines(keepends=True)


def write(folder, name, lines):
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / name, "wb") as file:
        file.writelines(lines)


ZAQAR = lines_of(BUNDLED / "zaqar" / "orders-a.jsonl.gz")[:200]
PULSAR = lines_of(BUNDLED / "pulsar" / "orders-a.jsonl.gz")[:200]
POST = json.loads(next(line for line in ZAQAR if b'/messages", "query": null' in line))


def post(number, ttl):
    """A post of one message, the last thing that happened."""
    event = POST | {
        "captured_at": f"2026-11-20T22:00:0{number}+00:00",
        "request_body": {"messages": [{"body": "x", "ttl": ttl}]},
        "response_body": {"resources": [f"/v2/queues/orders/messages/m{number}"]},
    }
    return json.dumps(event).encode() + b"\n"


def few_lines(landing, pulsar_folder="pulsar"):
    """The first lines of two brokers, and two posts with a long TTL."""
    write(landing / "zaqar", "first.jsonl.gz", ZAQAR)
    write(landing / "zaqar", "long.jsonl.gz", [post(1, 7201), post(2, 7202)])
    write(landing / pulsar_folder, "first.jsonl.gz", PULSAR)
    return landing


CAPTURES = os.environ.get("DEADLETTER_CAPTURES", "*")
"""Which captures :func:`all_captures` has, by their files' names."""


def capture_files(system):
    files = f"{system}/{CAPTURES}.jsonl.gz"
    return sorted([*BUNDLED.glob(files), *TESTS.glob(files)])


@pytest.fixture(scope="session")
def all_captures(tmp_path_factory):
    """A landing folder with every capture."""
    landing = tmp_path_factory.mktemp("landing")
    for system in ("zaqar", "rabbitmq", "pulsar"):
        (landing / system).mkdir()
        for path in capture_files(system):
            shutil.copy(path, landing / system)
    return landing


@pytest.fixture(scope="session")
def lake(spark, all_captures, tmp_path_factory):
    """The lake of :func:`all_captures`; tests only read it. A classic session's run holds its rows in memory, one over
    Spark Connect writes them, as those of larger batches do."""
    made = Lake(spark, str(tmp_path_factory.mktemp("lake")))
    with pytest.MonkeyPatch.context() as patch:
        if "SPARK_REMOTE" in os.environ:
            patch.setitem(session.TINY, session.HELD_ROWS, "0")
        made_summary = steps.run(made, str(all_captures), tell=quiet)
    assert made_summary.events_quarantined == 0
    return made


@pytest.fixture(scope="session")
def small_lake(spark, tmp_path_factory):
    """The lake of one quiet run over :func:`few_lines`; tests only read it."""
    made = Lake(spark, str(tmp_path_factory.mktemp("small-lake")))
    steps.run(made, str(few_lines(tmp_path_factory.mktemp("few"))), tell=quiet)
    return made
