"""Pulsar's names: a topic's own says its tenant and namespace, wherever messages come to it from."""

from __future__ import annotations


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
