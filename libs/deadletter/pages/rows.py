"""The rows that a page shows, a name of a queue for people, and a text that is too long for them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.spark.sqltext import sql_name

MOST_ROWS = 500
"""Rows of one figure that a page can bear."""


def rows(df: DataFrame, most: int | None = None) -> list[dict]:
    """Up to ``most`` rows, or all; times as text in UTC, which a collected one is not.

    >>> rows(spark.sql("SELECT timestamp'2026-11-20 21:00:00' AS `a.b`, 1 AS `c``d`"))
    [{'a.b': '2026-11-20 21:00:00', 'c`d': 1}]
    """
    columns = [(name, kind, F.col(sql_name(name))) for name, kind in df.dtypes]
    told = [F.date_format(at, "yyyy-MM-dd HH:mm:ss") if kind == "timestamp" else at for _, kind, at in columns]
    shown = df.select(*[value.alias(name) for value, (name, *_) in zip(told, columns, strict=True)])
    return [row.asDict() for row in (shown.limit(most) if most else shown).collect()]


def short_name() -> Column:
    """A queue's name, Pulsar's without its prefix."""
    return F.regexp_replace("queue", "^(non-)?persistent://[^/]+/[^/]+/", "")


def place() -> Column:
    """A queue's name for people: system, tenant and queue, subscription. Queues of two tenants are two places.

    A slash in RabbitMQ's names of queues is written as in its own URLs, and so is what marks it: its tenants, the
    vhosts, may have one, too. The dashboard's SQL makes the same name.

    >>> rows = [("zaqar", "p1", "orders", ""), ("rabbitmq", "/", "orders", ""),
    ...         ("rabbitmq", "/prod", "orders", ""), ("rabbitmq", "/", "prod/orders", ""),
    ...         ("rabbitmq", "/", "prod%2Forders", ""),
    ...         ("pulsar", "public/default", "persistent://public/default/orders", "fulfil")]
    >>> queues = spark.createDataFrame(rows, "system STRING, tenant STRING, queue STRING, subscription STRING")
    >>> for row in queues.select(place()).collect():
    ...     print(row[0])
    zaqar p1/orders
    rabbitmq /orders
    rabbitmq /prod/orders
    rabbitmq /prod%2Forders
    rabbitmq /prod%252Forders
    pulsar public/default/orders fulfil
    """
    tenant = F.when(F.col("tenant") == "/", "").otherwise(F.col("tenant"))  # RabbitMQ's default vhost
    escaped = F.replace(short_name(), F.lit("%"), F.lit("%25"))
    queue = F.concat(tenant, F.lit("/"), F.replace(escaped, F.lit("/"), F.lit("%2F")))
    return F.concat_ws(" ", "system", queue, F.nullif("subscription", F.lit("")))


def cut(text: str, length: int) -> str:
    """At most ``length`` characters, with a mark where something is left out.

    >>> cut("poison message", 7)
    'poison…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"
