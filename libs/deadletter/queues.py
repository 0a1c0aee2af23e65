"""Queues of any broker, and the rows that are of some of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from deadletter.spark.sqltext import sql_list, sql_string
from deadletter.tables import EVERY

Queue = tuple[str, str, str]
"""System, tenant, queue; :data:`EVERY` in place of the queue: all of the tenant."""
MOST_QUEUES = 5000
"""Queues that a query names; so many more are nearly all, and it would be slow to plan."""


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
