"""Values as SQL text takes them."""

from __future__ import annotations

from collections.abc import Iterable


def sql_string(value: str) -> str:
    r"""Return ``value`` as a SQL string literal, whatever it holds.

    >>> print(sql_string("it's a \\ queue of ${x}"))
    'it\'s a \\ queue of \u0024{x}'
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + escaped.replace("${", "\\u0024{") + "'"  # ${...} would be taken for a variable


def sql_name(name: str) -> str:
    """Return ``name`` as a SQL identifier.

    >>> sql_name("a `b`")
    '`a ``b```'
    """
    return f"`{name.replace('`', '``')}`"


def sql_list(values: Iterable[str]) -> str:
    """Return ``values`` as what ``IN`` takes.

    >>> print(sql_list(["it's", "b"]))
    ('it\\'s', 'b')
    """
    return f"({', '.join(map(sql_string, values))})"
