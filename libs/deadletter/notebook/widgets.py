"""What a notebook asks its reader, and the lake it looks at."""

from __future__ import annotations

import os

from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.spark.session import get_spark, on_databricks


def widget(name: str, default: str, label: str) -> str:
    """What the reader typed into a widget; off Databricks the variable ``DEADLETTER_<NAME>``, else ``default``.

    >>> widget("queue_of_doctest", "orders", "Queue")
    'orders'
    """
    if on_databricks():
        from databricks.sdk.runtime import dbutils  # every Databricks runtime has it

        dbutils.widgets.text(name, default, label)
        return dbutils.widgets.get(name)
    return os.environ.get(f"DEADLETTER_{name.upper()}", default)


def number_widget(name: str, default: str, label: str) -> int:
    """The number, 1 or more, that the reader typed into a :func:`widget`; :class:`UsageError` where it is none.

    >>> number_widget("limit_of_doctest", "2", "Limit")
    2
    """
    given = widget(name, default, label)
    try:
        number = int(given)
    except ValueError:
        raise UsageError(f"{name}: {given!r} is no whole number") from None
    if number < 1:
        raise UsageError(f"{name}: {given!r} is less than 1")
    return number


def open_lake(root: str) -> Lake:
    """The lake at ``root``, a folder or ``catalog:NAME``, in the session that runs."""
    if not root:
        raise UsageError("no lake: fill in the widget 'lake', or set DEADLETTER_LAKE to a folder or catalog:NAME")
    lake = Lake(get_spark(), root)
    lake.tune()
    return lake
