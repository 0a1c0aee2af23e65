"""Queues of any broker: the rows that are of some of them, and what people call them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from deadletter.spark.sqltext import sql_list, sql_string
from deadletter.tables import EVERY

Queue = tuple[str, str, str]
"""System, tenant, queue; :data:`EVERY` in place of the queue: all of the tenant."""
MOST_QUEUES = 5000
"""Queues that a query names; so many more are nearly all, and it would be slow to plan."""
TOPIC = "^(non-)?persistent://[^/]+/[^/]+/"
"""What a Pulsar topic's name begins with, which its tenant tells, too."""


def all_of_tenant(queue: Queue) -> Queue:
    """All queues of the queue's tenant.

    >>> all_of_tenant(("zaqar", "p", "a"))
    ('zaqar', 'p', '*')
    """
    system, tenant, _ = queue
    return system, tenant, EVERY


def of_queues(queues: Iterable[Queue], table: str = "", tenant: str = "tenant", queue: str = "queue") -> str:
    """The rows whose ``tenant`` and ``queue`` name one of these queues, as a predicate of literals: only such ones let
    Delta skip files. ``table`` is the prefix of columns; without one, ``tenant`` may be any SQL.

    >>> of_queues([("zaqar", "p", "b"), ("zaqar", "p", "a"), ("pulsar", "t/n", EVERY)])
    "(system = 'pulsar' AND tenant = 't/n') OR (system = 'zaqar' AND tenant = 'p' AND queue IN ('a', 'b'))"
    >>> of_queues([("zaqar", "p", "a")], table="t.")
    "(t.system = 'zaqar' AND t.tenant = 'p' AND t.queue IN ('a'))"
    >>> of_queues([])
    'false'
    """
    by_tenant = defaultdict(set)
    for of_system, of_tenant, name in queues:
        by_tenant[of_system, of_tenant].add(name)
    tenants = []
    for (of_system, of_tenant), names in sorted(by_tenant.items()):
        whole = f"{table}system = {sql_string(of_system)} AND {table}{tenant} = {sql_string(of_tenant)}"
        named = f" AND {table}{queue} IN {sql_list(sorted(names))}"
        tenants.append(f"({whole}{'' if EVERY in names else named})")
    return " OR ".join(tenants) or "false"


def short_name() -> Column:
    """A queue's name, Pulsar's without its prefix."""
    return F.regexp_replace("queue", TOPIC, "")


def place() -> Column:
    """A queue's name for people: system, tenant and queue, subscription. Queues of two tenants are two places.

    A slash in RabbitMQ's names of queues is written as in its own URLs, and so is what marks it: its tenants, the
    vhosts, may have one, too. The dashboard's SQL makes the same name, and :func:`place_of` does.

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


def place_of(row: Row | Mapping) -> str:
    """:func:`place` of a row with the columns of a queue's key.

    >>> topic = "persistent://public/default/orders"
    >>> place_of({"system": "pulsar", "tenant": "public/default", "queue": topic, "subscription": "fulfil"})
    'pulsar public/default/orders fulfil'
    """
    tenant = "" if row["tenant"] == "/" else row["tenant"]
    queue = re.sub(TOPIC, "", row["queue"]).replace("%", "%25").replace("/", "%2F")
    return " ".join(filter(None, (row["system"], f"{tenant}/{queue}", row["subscription"])))
