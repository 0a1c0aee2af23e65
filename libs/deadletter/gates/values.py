"""What can be wrong in the value of an argument, e.g. a regular expression that does not read."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from deadletter.gates.catalogue import BOUNDS, COUNT, NUMBER, PLAIN, ROW, SHARE, Expectation, in_family
from deadletter.gates.sql import EXACT
from deadletter.times import utc

IGNORED = {
    "column_A": ("both_values_are_missing", "either_value_is_missing", "neither"),
    "column_list": ("all_values_are_missing", "any_value_is_missing", "never"),
}
LARGEST = 2**63 - 1
DAY = r"\d{4}-\d\d-\d\d"
TIMES = {
    "date": (re.compile(DAY, re.ASCII), "2026-01-31"),
    "timestamp": (
        re.compile(rf"{DAY}([T ]\d\d:\d\d(:\d\d(\.\d{{1,6}})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII),
        "2026-01-31T10:00:00+00:00",
    ),
}
"""How sets and conditions write a time, with an example: Spark reads the text itself, and not all that Python reads."""
ONLY_PYTHON = {
    r"\(\?P<": "a named group is written (?<name>...), its name in letters and digits",
    r"\(\?P=": r"what a named group found is written \k<name>",
    r"\(\?\(": "there is no (?(group)...|...): write both cases out, with | between them",
    r"\(\?#": "there are no comments: meta.why is the place",
    r"\(\?[imsux]*a": r"there is no flag a: \w, \d and \s are ASCII without it",
    r"\{(?!\d+(,\d*)?\})": r"a brace that is no repetition is written \{, and {,n} is written {0,n}",
    r"\[": r"a bracket within brackets is written \[",
}
"""What Python's regular expressions have and Java's have not, and what to write instead."""
OPAQUE = re.compile(r"\\(?:[pPN]\{[^}]*\}|.)|\[\^?\]?(?:\\.|&&\[|[^]\\[])*\]", re.DOTALL)
"""An escaped character or class, and a set of characters: nothing in it is an operator."""
ONLY_JAVA = {
    r"\\[pP]\{\w+\}": r"\\w",
    r"\(\?<(?=[A-Za-z][A-Za-z0-9]*>)": "(?P<",
    r"(?<!\\)\\k<(\w+)>": r"(?P=\1)",
}
"""What Java has and Python has not, and what reads like it in Python."""


def is_parameter(value: Any) -> bool:
    """Whether a value is GX's ``{"$PARAMETER": name}``, given when the rule is judged."""
    return isinstance(value, dict) and list(value) == ["$PARAMETER"] and isinstance(value["$PARAMETER"], str)


def value_mistakes(key: str, value: Any, kinds: list[str]) -> list[str]:
    """What is wrong with the value of an argument; ``kinds`` are the types of the rule's columns."""
    check = CHECKS.get(key)
    return check(value, kinds) if check and not is_parameter(value) else []


def bounds_mistakes(kwargs: dict[str, Any], expectation: Expectation, kinds: list[str]) -> list[str]:
    """What is wrong with ``min_value`` and ``max_value``."""
    given = {key: kwargs[key] for key in BOUNDS[:2] if kwargs.get(key) is not None}
    if not given:
        return ["min_value or max_value is needed"]
    fixed = {key: value for key, value in given.items() if not is_parameter(value)}
    check = _bound_check(expectation, kinds)
    found = [f"{key}: {text}" for key, value in fixed.items() for text in check(value)]
    if not found and len(fixed) == 2 and _instant(fixed["min_value"]) > _instant(fixed["max_value"]):
        found.append("min_value is above max_value")
    return found


def _instant(value: Any) -> Any:
    """A bound as bounds are compared: texts are times, with whatever offset."""
    return utc(value) if isinstance(value, str) else value


def comparison_mistakes(operator: str, value: Any, kind: str) -> list[str]:
    """What is wrong in a row condition that compares a column of the type ``kind`` with ``value``."""
    if not in_family(kind, PLAIN):
        return [f"a column of {kind} cannot be compared; a condition can only ask for its nullity"]
    several = operator in ("IN", "NOT_IN")
    if value is None or (several and isinstance(value, list) and None in value):
        # == and NOT_IN would be true of no row: such a rule could never fail
        return ["nothing can be compared with null; ask for it with nullity and is_null"]
    if several and kind == "boolean":
        return [f"GX takes no true or false in the list of {operator}; use == or !="]
    return _values(value, [kind]) if several else _value(value, kind)


def _bound_check(expectation: Expectation, kinds: list[str]) -> Callable[[Any], list[str]]:
    if expectation.bounds in (COUNT, SHARE):
        return {COUNT: _count, SHARE: _share}[expectation.bounds]
    if in_family(kinds[0], NUMBER):
        return _number
    # GX compares a row's time with an offset, but a table's least or greatest only without
    return lambda value: _time(value, kinds[0] == "timestamp" and expectation.level == ROW)


def _number(value: Any, kinds: list[str] | None = None) -> list[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [f"{value!r} is no number"]
    return [] if abs(value) < EXACT else [f"{value!r} is not below 2^53: GX would round it"]


def _count(value: Any, kinds: list[str] | None = None) -> list[str]:
    whole = isinstance(value, float) and value.is_integer() or isinstance(value, int) and not isinstance(value, bool)
    return [] if whole and 0 <= value < EXACT else [f"{value!r} is no whole number from 0"]


def _share(value: Any, kinds: list[str] | None = None) -> list[str]:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    return [] if number and 0 <= value <= 1 else [f"{value!r} is no share from 0 to 1"]


def _time(value: Any, offset: bool) -> list[str]:
    try:
        if isinstance(value, str) and len(value) == 10:
            date.fromisoformat(value)
            return []
        time = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        return [f"{value!r} is neither a day nor a time in ISO 8601"]
    if bool(time.tzinfo) != offset:
        return [f"{value!r} needs {'an offset, e.g. +00:00' if offset else 'to be in UTC, without an offset'}"]
    return []


def _flag(value: Any, kinds: list[str]) -> list[str]:
    return [] if isinstance(value, bool) else [f"{value!r} is not true or false"]


def _values(value: Any, kinds: list[str]) -> list[str]:
    if not isinstance(value, list) or not value:
        return ["a list with one value at least is needed"]
    # SQL's IN with a null is never false: such a rule could never fail
    return [text for item in value for text in _value(item, kinds[0])]


def _value(value: Any, kind: str) -> list[str]:
    if kind in TIMES:
        written, example = TIMES[kind]
        return [] if _is_time(value, written) else [f"{value!r} is no {kind} as Spark reads it, e.g. {example}"]
    if in_family(kind, NUMBER):
        fits = not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= LARGEST
    else:
        fits = isinstance(value, bool if kind == "boolean" else str)
    return [] if fits else [f"{value!r} is no value of a {kind} column"]


def _is_time(value: Any, written: re.Pattern[str]) -> bool:
    if not isinstance(value, str) or not written.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:  # e.g. the 30th of February
        return False
    return True


def _pairs(value: Any, kinds: list[str]) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return ["a list of pairs is needed"]
    return [
        text for pair in value for item, kind in zip(pair, kinds, strict=True) if item is not None
        for text in _value(item, kind)
    ]  # fmt: skip


def _regex(value: Any, kinds: list[str]) -> list[str]:
    if not isinstance(value, str) or not value:
        return ["a regular expression is needed"]
    read = value
    for written, alike in ONLY_JAVA.items():
        read = re.sub(written, alike, read)
    try:
        re.compile(read)
    except (re.error, OverflowError) as error:
        return [f"{value!r} is no regular expression: {error}"]
    operators = OPAQUE.sub("_", value)
    found = [text for written, text in ONLY_PYTHON.items() if re.search(written, operators)]
    return [f"{value!r} is no regular expression of Java, which Spark reads: {text}" for text in found]


def _regexes(value: Any, kinds: list[str]) -> list[str]:
    if not isinstance(value, list) or not value:
        return ["a list with one regular expression at least is needed"]
    return [text for item in value for text in _regex(item, kinds)]


def _names(value: Any, kinds: list[str]) -> list[str]:
    names = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return [] if names else ["a list of names is needed"]


def _query(value: Any, kinds: list[str]) -> list[str]:
    try:
        fields = {part[1] for part in string.Formatter().parse(value)} - {None}
    except (ValueError, TypeError):
        return ["no query, or a brace without its pair"]
    return [] if fields == {"batch"} else ["the query must read from {batch}, and take no other field"]


def _one_of(*choices: str) -> Callable[[Any, list[str]], list[str]]:
    return lambda value, kinds: [] if value in choices else [f"{value!r} is not one of {', '.join(choices)}"]


CHECKS: dict[str, Callable[[Any, list[str]], list[str]]] = {
    "mostly": _share,
    "strict_min": _flag,
    "strict_max": _flag,
    "or_equal": _flag,
    "value_set": _values,
    "value_pairs_set": _pairs,
    "regex": _regex,
    "regex_list": _regexes,
    "match_on": _one_of("any", "all"),
    "value": _count,
    "sum_total": _number,
    "ignore_row_if": _one_of(*IGNORED["column_A"], *IGNORED["column_list"]),
    "type_": _one_of("StringType", "LongType", "IntegerType", "DoubleType", "BooleanType", "DateType", "TimestampType"),
    "column_set": _names,
    "unexpected_rows_query": _query,
}
