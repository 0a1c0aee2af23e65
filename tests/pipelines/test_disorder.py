"""However events arrive, the tables are the same."""

import gzip
import random

import pytest

from deadletter import steps, tables
from deadletter.lake import Lake
from tests.pipelines.conftest import BUNDLED, capture_files, quiet

COMPARED = (
    tables.MESSAGE_STATE,
    tables.CLAIMS,
    tables.CLAIM_ATTEMPTS,
    tables.QUEUE_POLICIES,
    tables.DEAD_LETTERS,
    tables.POISON_PATTERNS,
    tables.QUEUE_HEALTH,
    tables.DELIVERY_SURVIVAL,
)


def assert_same_tables(one, other):
    """Every silver and gold table holds the same rows, each as often."""
    for table in COMPARED:
        left, right = one.read(table), other.read(table)
        extra, missing = left.exceptAll(right).limit(3).collect(), right.exceptAll(left).limit(3).collect()
        assert (extra, missing) == ([], []), table.full_name


def lines_of(path):
    with gzip.open(path, "rb") as file:
        return file.read().splitlines(keepends=True)


def write(folder, name, lines):
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / name, "wb") as file:
        file.writelines(lines)


def test_shuffled_duplicated_split_and_late(spark, lake, tmp_path):
    """Three runs over shuffled batches with one line in ten sent again, against one run over the captures."""
    chance = random.Random(7)
    landing, other = tmp_path / "landing", Lake(spark, str(tmp_path / "lake"))
    batches = [{} for _ in range(3)]
    for system in ("zaqar", "rabbitmq", "pulsar"):
        lines = [line for path in capture_files(system) for line in lines_of(path)]
        lines += chance.sample(lines, len(lines) // 10)
        chance.shuffle(lines)
        for line in lines:
            chance.choice(batches).setdefault(system, []).append(line)
    for number, batch in enumerate(batches):
        for system, lines in batch.items():
            write(landing / system, f"batch-{number}.jsonl.gz", lines)
        steps.run(other, str(landing), tell=quiet)
    assert_same_tables(lake, other)


def test_the_same_files_under_other_names(spark, tmp_path):
    """A resend is byte-identical: nothing changes, not even a table's version."""
    landing, other = tmp_path / "landing", Lake(spark, str(tmp_path / "lake"))
    lines = lines_of(BUNDLED / "pulsar" / "orders-a.jsonl.gz")
    write(landing / "pulsar", "one.jsonl.gz", lines)
    steps.run(other, str(landing), tell=quiet)
    before = {table: other.version(table) for table in COMPARED[:4]}
    write(landing / "pulsar" / "deeper", "again.jsonl.gz", lines)
    summary = steps.run(other, str(landing), tell=quiet)
    assert summary.events_in == len(lines)
    assert sum(row["dead_letters"] for row in summary.dead_letters) == 257
    assert {table: other.version(table) for table in COMPARED[:4]} == before


@pytest.mark.parametrize("system", ["zaqar", "rabbitmq"])
def test_one_broker_alone(spark, lake, tmp_path, system):
    """A lake of one broker holds the same dead letters as that broker's part of all."""
    landing, alone = tmp_path / "landing", Lake(spark, str(tmp_path / "lake"))
    for path in capture_files(system):
        write(landing / system, path.name, lines_of(path))
    steps.run(alone, str(landing), tell=quiet)
    mine = alone.read(tables.DEAD_LETTERS).drop("pattern_id")
    all_of_it = lake.read(tables.DEAD_LETTERS).where(f"system = '{system}'").drop("pattern_id")
    assert mine.exceptAll(all_of_it).count() == all_of_it.exceptAll(mine).count() == 0
