"""Which queues are looked at together."""

from datetime import UTC, datetime

from deadletter import tables
from deadletter.gold.scope import affected
from deadletter.lake import Lake
from deadletter.lake.progress import HABITS, MERGING, RELEASING, STALE, STORE, WRITING, Progress, digest
from deadletter.rules.zaqar_store import MONGODB, REDIS
from deadletter.snapshot import dead_letter_links, habits_of_gold, is_half_written

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TABLE = tables.QUEUE_POLICIES


def test_a_purged_dead_letter_queue_means_its_project(spark, tmp_path):
    """What the purge spared depends on the dead letters of all queues that send there."""
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([TABLE, tables.DEAD_LETTERS])

    def told(queue, kind, target=None):
        named = {"system": "zaqar", "tenant": "p", "queue": queue, "subscription": "", "valid_from": NOON}
        row = named | {"event_id": f"{queue} {kind}", "kind": kind, "dead_letter_queue": target}
        return [row.get(name) for name in TABLE.column_names]

    def scope(*rows):
        lake.append(spark.createDataFrame([told(*row) for row in rows], TABLE.ddl), TABLE)
        return affected([("zaqar", "p", "a")], dead_letter_links(lake)).queues

    declared = [(queue, "declared", "dead") for queue in "ab"]
    assert scope(*declared, ("a", "purged")) == {("zaqar", "p", "a"), ("zaqar", "p", "dead")}
    assert scope(("dead", "purged")) == {("zaqar", "p", "*")}


def test_a_run_that_was_cut_short_left_tables_of_two_times(spark, tmp_path):
    """Silver's or gold's; so did a release."""
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([tables.PROGRESS, tables.PATTERN_DECISIONS])
    assert not is_half_written(lake)
    for step, told in ((MERGING, 1), (WRITING, 1), (RELEASING, 1), ("gold", STALE)):
        lake.progress.note(step, told, None)
        assert is_half_written(lake)
        lake.progress.note(step, 0, None)
        assert not is_half_written(lake)
    lake.progress.note("decisions", 1, None)  # one is written, and none derived
    assert is_half_written(lake)


def test_gold_is_of_the_store_that_it_was_derived_with():
    """Not of the one that a run named which stopped before."""
    chosen = {STORE: Progress(digest(MONGODB.name), None)}
    assert habits_of_gold(chosen | {HABITS: Progress(digest(REDIS), None)}) == REDIS
    assert habits_of_gold(chosen | {HABITS: Progress(7, None)}) == habits_of_gold(chosen) == MONGODB
