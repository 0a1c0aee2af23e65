"""Pulsar's names: a topic's own says its tenant and namespace, wherever messages come to it from."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def topic_tenant(topic: str) -> str:
    """SQL for ``tenant/namespace`` of a topic's full name; empty where it is none."""
    return f"regexp_extract({topic}, '^(?:non-)?persistent://([^/]+/[^/]+)/.+$', 1)"


def whole_topic(topic: str) -> str:
    """SQL for the topic that a partition is of: consumers subscribe to ``orders``, and its messages, dead letters too,
    name ``orders-partition-0``. Any other name stays as it is.

    >>> df = spark.createDataFrame([("persistent://a/b/t-partition-12",), ("persistent://a/b/t",)], "t string")
    >>> df.selectExpr(whole_topic("t") + " AS topic").show()
    +------------------+
    |             topic|
    +------------------+
    |persistent://a/b/t|
    |persistent://a/b/t|
    +------------------+
    """
    return f"regexp_replace({topic}, '-partition-[0-9]+$', '')"


def full_name(topic: str) -> str:
    """SQL for a topic's full name, which clients take two shorter ones for: ``topic`` in the default namespace, and
    ``tenant/namespace/topic``. Any other name stays as it is.

    >>> df = spark.createDataFrame([("dead",), ("shop/orders/dead",), ("non-persistent://a/b/c",), ("",)], "t string")
    >>> df.selectExpr(full_name("t") + " AS name").show(truncate=False)
    +--------------------------------+
    |name                            |
    +--------------------------------+
    |persistent://public/default/dead|
    |persistent://shop/orders/dead   |
    |non-persistent://a/b/c          |
    |                                |
    +--------------------------------+
    """
    return (
        f"CASE WHEN {topic} RLIKE '^[^/]+$' THEN concat('persistent://public/default/', {topic})"
        f" WHEN {topic} RLIKE '^[^/:]+/[^/]+/[^/]+$' THEN concat('persistent://', {topic}) ELSE {topic} END"
    )


def tenant_of(queue: str) -> str:
    """SQL for the tenant of a ``queue`` that a row names beside its own, such as its dead letter queue: the row's
    ``tenant``, but on Pulsar the one in the topic's name.

    >>> rows = [("pulsar", "a/b", "persistent://c/d/dead"), ("pulsar", "a/b", "?"), ("rabbitmq", "/", "dead")]
    >>> df = spark.createDataFrame(rows, "system string, tenant string, target string")
    >>> df.selectExpr("target", tenant_of("target") + " AS there").show()
    +--------------------+-----+
    |              target|there|
    +--------------------+-----+
    |persistent://c/d/...|  c/d|
    |                   ?|  a/b|
    |                dead|    /|
    +--------------------+-----+
    """
    return f"CASE WHEN system = 'pulsar' THEN coalesce(nullif({topic_tenant(queue)}, ''), tenant) ELSE tenant END"


def own(told: str) -> Column:
    """Of rows with the death of each message, the column ``told`` (deliveries or failures), on Pulsar
    :func:`of_last_life`; they have ``deliveries``, ``settled``, ``dead_lettered_at`` (null: not dead) and
    ``max_deliveries``."""
    mine = of_last_life(*map(F.col, (told, "deliveries", "settled.time", "dead_lettered_at", "max_deliveries")))
    return F.when(F.col("system") == "pulsar", mine).otherwise(F.col(told))


def of_last_life(told: Column, deliveries: Column, settled: Column, died: Column, limit: Column) -> Column:
    """The ``told`` deliveries or failures of a message in a subscription that led to its death there.

    What is settled or dead comes again where its subscription seeks back, and counts anew then. So those do not
    count that were before the message was ``settled``, where it was delivered between that and its death. Nor does what
    comes after the message ``died``, once a delivery until then had the count of the ``limit``: it is of a new life, or
    of the dead letter, which keeps the properties of its message's retries. Whoever reads a dead letter topic by the
    name of the subscription in which the message died looks like one that retries it: nothing in an event tells a retry
    topic from a dead letter topic of any other name. Where none had reached the limit by then, the clocks differ or a
    policy is not known: then all count.

    >>> lives = [([0, 1, 2], None, 1, 1), ([0, 1, 1, 0, 1], None, 1, 1), ([0, 1, 2], None, 1, 2),
    ...     ([0, 1], None, 1, None), ([0, 1], 0, None, 1), ([0, 1, 0, 1, 2], 1, 3, 1), ([0, 1], 1, 1, 1)]
    >>> df = spark.createDataFrame(lives, "counts array<int>, settled int, died int, most int")
    >>> delivered = F.transform("counts", lambda count, n: F.struct(
    ...     F.timestamp_seconds(n).alias("time"), count.alias("broker_count")))
    >>> times = map(F.timestamp_seconds, ("settled", "died"))
    >>> left = of_last_life(delivered, delivered, *times, F.col("most"))
    >>> [row["left"] for row in df.select(left["broker_count"].alias("left")).collect()]
    [[0, 1], [0, 1], [0, 1, 2], [0, 1], [0, 1], [0, 1], [0, 1]]
    """

    def until(delivery: Column, time: Column) -> Column:
        return F.unix_millis(delivery["time"]) <= F.unix_millis(time)  # brokers' clocks tell milliseconds

    read = F.get(F.filter(deliveries, lambda d: ~until(d, died)), 0)["time"]
    back = F.get(F.filter(deliveries, lambda d: ~until(d, settled) & until(d, died)), 0)["time"]
    reached = F.exists(deliveries, lambda d: until(d, died) & (d["broker_count"] >= limit))
    end = F.when(reached, read)
    in_time = F.filter(
        told, lambda fact: F.coalesce(fact["time"] >= back, F.lit(True)) & F.coalesce(fact["time"] < end, F.lit(True))
    )
    return F.when(back.isNotNull() | end.isNotNull(), in_time).otherwise(told)
