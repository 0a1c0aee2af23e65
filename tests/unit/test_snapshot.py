"""Which queues are looked at together."""

from datetime import UTC, datetime

from deadletter import tables
from deadletter.gold.scope import affected
from deadletter.lake import Lake
from deadletter.snapshot import dead_letter_links

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
