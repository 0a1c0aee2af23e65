"""Values as SQL text takes them."""

from __future__ import annotations


def sql_string(value: str) -> str:
    r"""Return ``value`` as a SQL string literal, whatever it holds.

    >>> print(sql_string("it's a \\ queue"))
    'it\'s a \\ queue'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
