"""RabbitMQ's count of a message's deliveries in a classic queue: kept in memory, so it can fall behind the true one."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.rules.policy import policy_at
from deadletter.rules.rabbitmq import COUNTER_KINDS
from deadletter.rules.rabbitmq_deaths import is_first

STEP = "struct<time:timestamp,kind:string,node:string,broker_count:bigint>"
DELIVERY, FIRST = "delivery", "first delivery"
"""Kinds of steps; the others are of :data:`~deadletter.rules.rabbitmq.COUNTER_KINDS`, or ``deleted``."""
SAVED = "array<struct<node:string,count:bigint>>"


def read_count(count: Column) -> Column:
    """The delivery count of a message's properties, whichever version of the record it is.

    v1 message properties have no count, which reads as 0; a record becomes v2 when it is first counted, so both
    lie side by side in a queue (delivery limits: notes, and the reviewers' wish to convert only when needed).

    >>> records = spark.sql("SELECT * FROM VALUES ('v1', NULL), ('v2', 0L), ('v2', 3L) AS t(version, count)")
    >>> records.select("version", "count", read_count(F.col("count")).alias("read")).show()
    +-------+-----+----+
    |version|count|read|
    +-------+-----+----+
    |     v1| NULL|   0|
    |     v2|    0|   0|
    |     v2|    3|   3|
    +-------+-----+----+
    """
    return F.coalesce(count, F.lit(0)).cast("bigint")


def counter(deliveries: Column, policies: Column, until: Column) -> Column:
    """The broker's own count of ``deliveries`` at ``until``, as its queue's events imply it.

    A delivery counts while the feature flag is on (notes). A restart, or paging to disk, begins at 0 again; a
    promoted mirror has the count of its last full synchronisation, 0 if there was none (delivery limits, replies
    on mirrors). A queue that is deleted takes its counts along. Where a delivery shows ``x-delivery-count``, that is
    the count before it. One that is no redelivery is of a message that no copy knows of yet.

    >>> queue = spark.sql('''SELECT
    ...     transform(array(1, 2, 3, 7, 9, 10), t -> named_struct('time', timestamp_seconds(t), 'broker_count',
    ...         CAST(NULL AS bigint), 'redelivered', t < 10)) AS deliveries,
    ...     transform(array(named_struct('at', 0, 'kind', 'declared', 'counts', false),
    ...                     named_struct('at', 2, 'kind', 'updated', 'counts', true),
    ...                     named_struct('at', 4, 'kind', 'mirror_synchronised', 'counts', true),
    ...                     named_struct('at', 5, 'kind', 'recovered', 'counts', true),
    ...                     named_struct('at', 6, 'kind', 'mirror_promoted', 'counts', true),
    ...                     named_struct('at', 8, 'kind', 'deleted', 'counts', true)),
    ...         p -> named_struct('valid_from', timestamp_seconds(p.at), 'kind', p.kind, 'counts', p.counts,
    ...             'node', CASE WHEN p.kind LIKE 'mirror%' THEN 'b' END)) AS policies,
    ...     explode(sequence(1, 10)) AS second''')
    >>> count = counter(F.col("deliveries"), F.col("policies"), F.timestamp_seconds("second"))
    >>> queue.select(count.alias("count")).toPandas()["count"].tolist()
    [0, 1, 2, 2, 0, 2, 3, 0, 1, 1]
    """
    return count_at(counter_steps(deliveries, policies), until)


def counter_steps(deliveries: Column, policies: Column) -> Column:
    """All that changes the broker's count of a message, in time order, as :data:`STEP`: the ``deliveries`` that count,
    and what its queue's history tells of losses."""
    counted = F.filter(deliveries, lambda d: F.coalesce(policy_at(policies, d["time"])["counts"], F.lit(False)))
    return F.array_sort(
        F.concat(
            F.transform(counted, lambda d: _step(d["time"], _kind(d), F.lit(None), d["broker_count"])),
            F.transform(told_losses(policies), lambda p: _step(p["valid_from"], p["kind"], p["node"], F.lit(None))),
        )
    )


def count_at(steps: Column, until: Column) -> Column:
    """The count after those of the :func:`counter_steps` that were before ``until`` or then."""
    start = F.struct(F.lit(None).cast("bigint").alias("count"), F.array().cast(SAVED).alias("saved"))
    in_time = F.filter(steps, lambda step: step["time"] <= until)
    return F.aggregate(in_time, start, _after, lambda record: read_count(record["count"]))


def counting_classic(policy: Column) -> Column:
    """Whether ``policy`` is of a classic queue that counts deliveries."""
    return policy["counts"] & (policy["queue_type"] == "classic")


def told_losses(policies: Column) -> Column:
    """The steps of a queue's history that can change its counters without a delivery; a queue that is deleted takes
    them along."""
    return F.filter(policies, lambda p: p["kind"].isin(*COUNTER_KINDS, "deleted"))


def _kind(delivery: Column) -> Column:
    return F.when(is_first(delivery), FIRST).otherwise(DELIVERY)


def _step(time: Column, kind: Column, node: Column, broker_count: Column) -> Column:
    return F.struct(time, kind, node, broker_count).cast(STEP)


def _after(record: Column, step: Column) -> Column:
    """The message's record, and its copies in mirrors, after a step."""
    here = F.get(F.filter(record["saved"], lambda copy: copy["node"] == step["node"]), 0)["count"]
    count = (
        F.when(step["kind"] == DELIVERY, read_count(F.coalesce(step["broker_count"], record["count"])) + 1)
        .when(step["kind"] == FIRST, read_count(step["broker_count"]) + 1)
        .when(step["kind"] == "mirror_promoted", here)
        .when(step["kind"].isin("recovered", "deleted"), F.lit(0).cast("bigint"))
        .otherwise(record["count"])
    )
    others = F.filter(record["saved"], lambda copy: copy["node"] != step["node"])
    copied = F.concat(others, F.array(F.struct(step["node"], record["count"]).cast("struct<node:string,count:bigint>")))
    saved = (
        F.when(step["kind"] == "mirror_synchronised", copied)
        .when(step["kind"].isin("deleted", FIRST), F.array().cast(SAVED))
        .otherwise(record["saved"])
    )
    return F.struct(count.alias("count"), saved.alias("saved"))
