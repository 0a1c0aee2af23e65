"""A message that is published again under its id, days later, is the same message however the events come."""

import json
import random

from deadletter import steps, tables
from deadletter.lake import Lake
from tests.models.clock import SECOND, START
from tests.models.rabbitmq import Queue
from tests.pipelines.conftest import quiet
from tests.pipelines.test_disorder import assert_same_tables

DAYS = 4 * 86400 * SECOND
NAME = "orders-${ENV}"
"""A queue's name that Spark would read as a variable."""


def published(now):
    """A line for each message of a queue that was posted at ``now``: the same ids whatever the time."""
    queue = Queue(random.Random("again"), "shop", True, None, None, False)
    for number in range(3):
        queue.publish(now + number * SECOND)
    return [json.dumps(event).replace('["q"]', json.dumps([NAME])) for event in queue.events]


def test_in_two_runs_and_in_one(spark, tmp_path):
    lakes = {name: Lake(spark, str(tmp_path / name / "lake")) for name in ("at once", "in turn")}
    for number, now in enumerate((START - DAYS, START)):
        for name, lake in lakes.items():
            landing = tmp_path / name / "landing" / "rabbitmq"
            landing.mkdir(parents=True, exist_ok=True)
            (landing / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in published(now)))
            if name == "in turn" or number:
                steps.run(lake, str(landing.parent), tell=quiet)
    state = lakes["in turn"].read(tables.MESSAGE_STATE)
    assert sorted(row["queue"] for row in state.collect()) == [NAME] * 3
    assert_same_tables(*lakes.values())
