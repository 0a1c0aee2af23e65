"""SQL text for the values and conditions of a rule: the same text makes the gate and the command that shows rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from deadletter.errors import DeadletterError
from deadletter.spark.sqltext import sql_name, sql_string
from deadletter.times import utc

EXACT = 2**53
"""GX holds bounds as doubles, which are exact up to here."""
OPERATORS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "IN": "IN", "NOT_IN": "NOT IN"}


def literal(value: Any) -> str:
    r"""A JSON value as a SQL literal.

    >>> literal("it's ${x}"), literal(2), literal(0.5), literal(True), literal(None)
    ("'it\\'s \\u0024{x}'", '2', '0.5D', 'TRUE', 'NULL')
    """
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return sql_string(value)
    return f"{value!r}D" if isinstance(value, float) else str(value)


def bound(value: Any) -> str:
    """A bound: a number, a day, or a time; a time without an offset is UTC.

    >>> bound(3.0), bound("2026-01-31"), bound("2026-01-31T10:00:00+01:00")
    ('3', "DATE'2026-01-31'", "TIMESTAMP'2026-01-31 09:00:00.000000+00:00'")
    """
    if isinstance(value, int | float):
        return str(int(value)) if float(value).is_integer() else f"{value!r}D"
    if isinstance(value, str) and len(value) == 10:
        return f"DATE'{date.fromisoformat(value)}'"
    return f"TIMESTAMP'{utc(value).isoformat(sep=' ', timespec='microseconds')}'"


def between(value: str, kwargs: Mapping[str, Any]) -> str:
    """SQL for ``value`` within the bounds of ``kwargs``; a strict bound is outside.

    >>> between("`n`", {"min_value": 0, "max_value": 5, "strict_max": True})
    '`n` >= 0 AND `n` < 5'
    """
    tests = []
    if kwargs.get("min_value") is not None:
        tests.append(f"{value} {'>' if kwargs.get('strict_min') else '>='} {bound(kwargs['min_value'])}")
    if kwargs.get("max_value") is not None:
        tests.append(f"{value} {'<' if kwargs.get('strict_max') else '<='} {bound(kwargs['max_value'])}")
    return " AND ".join(tests)


def condition(tree: dict[str, Any]) -> tuple[str, list[str]]:
    """A GX ``row_condition`` as SQL, and the columns it names.

    Takes GX's own form: ``comparison``, ``nullity``, ``and``, ``or``. Raises :class:`DeadletterError`.

    >>> condition({"type": "comparison", "column": {"name": "n"}, "operator": ">", "parameter": 1})
    ('`n` > 1', ['n'])
    """
    try:
        return _condition(tree)
    except (KeyError, TypeError, AttributeError):
        raise DeadletterError(
            "row_condition must be GX's comparison, nullity, and or or: "
            '{"type": "comparison", "column": {"name": ...}, "operator": "==", "parameter": ...}'
        ) from None


def _condition(tree: dict[str, Any]) -> tuple[str, list[str]]:
    if tree["type"] in ("and", "or"):
        parts = [_condition(part) for part in tree["conditions"]]
        text = f" {tree['type'].upper()} ".join(sql for sql, _ in parts)
        return f"({text})", [column for _, columns in parts for column in columns]
    column = tree["column"]["name"]
    if tree["type"] == "nullity":
        return f"{sql_name(column)} IS {'' if tree['is_null'] else 'NOT '}NULL", [column]
    if tree["type"] != "comparison":
        raise KeyError(tree["type"])
    operator, value = OPERATORS[tree["operator"]], tree["parameter"]
    shown = f"({', '.join(map(literal, value))})" if isinstance(value, list) else literal(value)
    return f"{sql_name(column)} {operator} {shown}", [column]
