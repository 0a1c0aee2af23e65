"""Zaqar's pools: a dead letter queue lies in its queue's pool, or the limit does not hold."""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.spark.columns import bound

FLAVOR = "flavor"
"""The kind of ``silver.queue_policies`` that says which pools a flavor stands for; ``queue`` is ``*``."""
TOLD = "struct<_flavor:string,flavor:string,pools:array<string>>"


def in_other_pool(own: Column, target: Column) -> Column:
    """Whether a dead letter queue, in one of the ``target`` pools, cannot be in its queue's pool, one of ``own``.

    Dead Letter Queue, change 2: both have to be in the same pool. Pools that nobody told (null) are taken as the same.

    >>> rows = spark.sql("SELECT * FROM VALUES (array('a', 'b'), array('b')), (array('a'), array('b')),"
    ...                  " (array('a'), NULL) AS t(own, target)")
    >>> rows.withColumn("other", in_other_pool(F.col("own"), F.col("target"))).show()
    +------+------+-----+
    |   own|target|other|
    +------+------+-----+
    |[a, b]|   [b]|false|
    |   [a]|   [b]| true|
    |   [a]|  NULL|false|
    +------+------+-----+
    """
    return F.coalesce(~F.arrays_overlap(own, target), F.lit(False))


def told() -> Column:
    """A row that tells of a pool as ``struct<valid_from, queue, flavor, pools>``: a queue that was created with a
    flavor (no pools) or deleted (no flavor either), or a flavor (no queue); null for any other row."""
    attributes = F.from_json("attributes", TOLD)
    created = (F.col("kind") == "declared") & attributes["_flavor"].isNotNull()
    tells = created | F.col("kind").isin(FLAVOR, "deleted")
    row = F.struct(
        "valid_from",
        F.when(F.col("kind") != FLAVOR, F.col("queue")).alias("queue"),
        F.coalesce(attributes["flavor"], attributes["_flavor"]).alias("flavor"),
        attributes["pools"].alias("pools"),
    )
    return F.when((F.col("system") == "zaqar") & tells, row)


def without_foreign_limits(policies: Column, told: Column, queue: Column) -> Column:
    """A queue's history with the limits whose dead letter queue is in another pool moved to ``ignored_limit``.

    ``told`` are the rows of :func:`told` of its project, in time order. A queue's pool is one of those of the flavor it
    was created with; one that was deleted, and created again without a flavor, can be in any.
    """

    def judged(policy: Column) -> Column:
        pools = [_pools(told, name, policy["valid_from"]) for name in (queue, policy["dead_letter_queue"])]
        return bound(in_other_pool(*pools), partial(_moved, policy))

    return F.transform(policies, judged)


def _moved(policy: Column, other: Column) -> Column:
    """A step of a history whose limit does not hold where its dead letter queue is in an ``other`` pool."""
    limit = policy["max_deliveries"]
    held, ignored = F.when(~other, limit), F.when(other, limit)
    return policy.withField("max_deliveries", held).withField("ignored_limit", ignored)


def _pools(told: Column, queue: Column, time: Column) -> Column:
    """The pools that a queue can be in at ``time``; null where nobody told."""
    flavor = _latest(F.filter(told, lambda t: t["queue"] == queue), time)["flavor"]

    def of(flavor: Column) -> Column:
        return _latest(F.filter(told, lambda t: t["queue"].isNull() & (t["flavor"] == flavor)), time)["pools"]

    return bound(flavor, of)


def _latest(rows: Column, time: Column) -> Column:
    """The latest of ``rows`` until ``time``; before the first, the first."""

    def latest(rows: Column) -> Column:
        until = F.filter(rows, lambda t: t["valid_from"] <= time)
        return F.coalesce(F.try_element_at(until, F.lit(-1)), F.get(rows, 0))

    return bound(rows, latest)
