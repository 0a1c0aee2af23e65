"""A lake made from every capture, once for all tests that only read it."""

import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from deadletter import steps
from deadletter.lake import Lake

TESTS = Path(__file__).parent.parent / "captures"
BUNDLED = Path(str(files("deadletter") / "captures"))


def quiet(text):
    """Progress that nobody reads."""


def capture_files(system):
    return sorted([*BUNDLED.glob(f"{system}/*.jsonl.gz"), *TESTS.glob(f"{system}/*.jsonl.gz")])


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
    """The lake of :func:`all_captures`; tests only read it."""
    made = Lake(spark, str(tmp_path_factory.mktemp("lake")))
    made_summary = steps.run(made, str(all_captures), tell=quiet)
    assert made_summary.events_quarantined == 0
    return made
