"""However events arrive, the tables are the same."""

import random

import pytest

from deadletter import steps, tables
from deadletter.lake import Lake
from tests.pipelines.comparing import COMPARED, assert_same_rows, assert_same_tables
from tests.pipelines.conftest import capture_files, lines_of, quiet, write


def assert_alone(one, all_of_it, system):
    """A lake of one broker holds the same dead letters as that broker's part of a lake of all. Patterns, and what a
    small queue's payloads are compared with, are those of all brokers; a lake may have masks of its own."""
    of_all = ("pattern_id", "signature", "deviation_key", "deviation")
    mine, theirs = (lake.read(tables.DEAD_LETTERS).drop(*of_all) for lake in (one, all_of_it))
    assert_same_rows(mine, theirs.where(f"system = '{system}'"))


@pytest.mark.soak
def test_shuffled_duplicated_split_and_late(spark, lake, tmp_path):
    """Two runs over shuffled halves, one line in ten twice, against one run over the captures.

    With the second half Pulsar's first one comes again, under another name.
    """
    chance = random.Random(7)
    landing, other = tmp_path / "landing", Lake(spark, str(tmp_path / "lake"))
    batches = [{} for _ in range(2)]
    for system in ("zaqar", "rabbitmq", "pulsar"):
        lines = [line for path in capture_files(system) for line in lines_of(path)]
        lines += chance.sample(lines, len(lines) // 10)
        chance.shuffle(lines)
        for line in lines:
            chance.choice(batches).setdefault(system, []).append(line)
    for number, batch in enumerate(batches):
        for system, lines in batch.items():
            write(landing / system, f"batch-{number}.jsonl.gz", lines)
        if number:
            write(landing / "pulsar" / "deeper", "again.jsonl.gz", batches[0]["pulsar"])
        steps.run(other, str(landing), tell=quiet)
    assert_same_tables(lake, other, COMPARED)


@pytest.mark.soak
def test_one_broker_alone(spark, lake, tmp_path):
    """Zaqar's dead letters are derived from its own events; the other brokers' are compared beside other tests."""
    alone = Lake(spark, str(tmp_path / "lake"))
    for path in capture_files("zaqar"):
        write(tmp_path / "landing" / "zaqar", path.name, lines_of(path))
    steps.run(alone, str(tmp_path / "landing"), tell=quiet)
    assert_alone(alone, lake, "zaqar")
