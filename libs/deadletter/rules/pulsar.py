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
    :func:`without_reads`; they have ``deliveries``, ``dead_lettered_at`` (null: not dead) and ``max_deliveries``."""
    mine = without_reads(*map(F.col, (told, "deliveries", "dead_lettered_at", "max_deliveries")))
    return F.when(F.col("system") == "pulsar", mine).otherwise(F.col(told))


def without_reads(told: Column, deliveries: Column, died: Column, limit: Column) -> Column:
    """The ``told`` deliveries or failures of a message in a subscription, without those of its dead letter.

    A dead letter keeps the properties of its message's retries. Whoever reads a dead letter topic by the name of the
    subscription in which the message ``died`` looks like one that retries it: nothing in an event tells a retry topic
    from a dead letter topic of any other name. But what is dead comes again only where its subscription seeks back, and
    counts anew then. So once a delivery until the death had the count of the ``limit``, what comes later with no lower
    one is of the dead letter, up to the first that has one. Where none had reached the limit by then, the clocks differ
    or a policy is not known: then all count.

    >>> lives = [([0, 1, 2], 1, 1), ([0, 1, 1, 0, 1], 1, 1), ([0, 1, 2], 1, 2), ([0, 1, 2], 1, None), ([0, 1], None, 1)]
    >>> df = spark.createDataFrame(lives, "counts array<int>, died int, most int")
    >>> delivered = F.transform("counts", lambda count, n: F.struct(
    ...     F.timestamp_seconds(n).alias("time"), count.alias("broker_count")))
    >>> left = without_reads(delivered, delivered, F.timestamp_seconds("died"), F.col("most"))
    >>> [row["left"] for row in df.select(left["broker_count"].alias("left")).collect()]
    [[0, 1], [0, 1, 0, 1], [0, 1, 2], [0, 1, 2], [0, 1]]
    """

    def until_death(delivery: Column) -> Column:
        return F.unix_millis(delivery["time"]) <= F.unix_millis(died)  # brokers' clocks tell milliseconds

    later = F.filter(deliveries, lambda d: ~until_death(d))
    read = F.get(later, 0)["time"]
    back = F.get(F.filter(later, lambda d: d["broker_count"] < limit), 0)["time"]
    reached = F.exists(deliveries, lambda d: until_death(d) & (d["broker_count"] >= limit))
    left = F.filter(told, lambda fact: (fact["time"] < read) | F.coalesce(fact["time"] >= back, F.lit(False)))
    return F.when(reached & read.isNotNull(), left).otherwise(told)
