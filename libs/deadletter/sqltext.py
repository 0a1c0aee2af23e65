"""Values as SQL text takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from deadletter.rules.rabbitmq import EVERY

Queue = tuple[str, str, str]
"""System, tenant, queue; :data:`EVERY` in place of the queue: all of the tenant."""
MOST = 5000
"""Queues that a query names; so many more are nearly all, and it would be slow to plan."""


def sql_string(value: str) -> str:
    r"""Return ``value`` as a SQL string literal, whatever it holds.

    >>> print(sql_string("it's a \\ queue of ${x}"))
    'it\'s a \\ queue of \u0024{x}'
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("${", "\\u0024{") + "'"  # ${...} would be taken for a variable


def of_queues(queues: Iterable[Queue], column: str = "queue", table: str = "") -> str:
    """The rows whose ``column`` names one of these queues, as a predicate of literals: only such ones let Delta skip
    files.

    >>> of_queues([("zaqar", "p", "b"), ("zaqar", "p", "a"), ("pulsar", "t/n", EVERY)])
    "(system = 'pulsar' AND tenant = 't/n') OR (system = 'zaqar' AND tenant = 'p' AND queue IN ('a', 'b'))"
    >>> of_queues([("zaqar", "p", "a")], table="t.")
    "(t.system = 'zaqar' AND t.tenant = 'p' AND t.queue IN ('a'))"
    >>> of_queues([])
    'false'
    """
    by_tenant = defaultdict(set)
    for system, tenant, queue in queues:
        by_tenant[system, tenant].add(queue)
    tenants = (_of_tenant(*at, f"{table}{column}", names, table) for at, names in sorted(by_tenant.items()))
    return " OR ".join(tenants) or "false"


def _of_tenant(system: str, tenant: str, column: str, queues: set[str], table: str) -> str:
    whole = f"{table}system = {sql_string(system)} AND {table}tenant = {sql_string(tenant)}"
    named = f" AND {column} IN ({', '.join(sql_string(queue) for queue in sorted(queues))})"
    return f"({whole}{'' if EVERY in queues else named})"
