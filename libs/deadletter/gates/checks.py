"""What can be wrong in a suite's file, each told with its place."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from deadletter.errors import DeadletterError
from deadletter.gates.catalogue import BOUNDS, COLUMN, LIST, ROW, TYPES, Expectation, in_family
from deadletter.gates.sql import condition
from deadletter.gates.values import bounds_mistakes, comparison_mistakes, is_parameter, value_mistakes
from deadletter.tables import ALL_TABLES, MESSAGE_STATE, QUALITY_METRICS

READ_IN_GOLD = {MESSAGE_STATE, *(table for table in ALL_TABLES if table.layer == "gold")} - {QUALITY_METRICS}
"""The tables that a query of gold's suites can read beside the one that it judges."""
PARAMETERS = ("as_of",)
"""What a suite of gold is given when its rules are judged: the time that gold stands for."""
SEVERITIES = ("critical", "warning", "info")
SUITE_KEYS = {"name", "id", "expectations", "meta", "notes"}
RULE_KEYS = {"type", "kwargs", "meta", "id", "severity", "description", "notes"}
Columns = Mapping[str, str]


def document_mistakes(document: Any, name: str, columns: Columns) -> list[str]:
    """Every mistake in a suite's document, for the table ``name`` with ``columns``; empty if there is none."""
    if not isinstance(document, dict) or not isinstance(document.get("expectations"), list):
        return ["not a suite: an object with a list of expectations is needed"]
    found = [f"unknown key {key}" for key in sorted(set(document) - SUITE_KEYS)]
    if document.get("name") != name:
        found.append(f"name is {document.get('name')!r}, not {name!r}")
    found += [f"id: {text}" for text in _uuid(document.get("id"))]
    parameters = PARAMETERS if name.startswith("gold.") else ()
    seen: dict[str, int] = {}
    for index, rule in enumerate(document["expectations"]):
        identity = rule.get("id") if isinstance(rule, dict) else None
        mistakes = rule_mistakes(rule, columns, parameters) or _unread(rule["kwargs"], name)
        found += [f"expectations[{index}] (id {identity}): {text}" for text in mistakes]
        if isinstance(identity, str) and identity in seen:
            found.append(f"expectations[{index}] (id {identity}): the same id as expectations[{seen[identity]}]")
        seen.setdefault(str(identity), index)
    return found


def rule_mistakes(rule: Any, columns: Columns, parameters: Sequence[str] = PARAMETERS) -> list[str]:
    """Every mistake in one expectation of a suite that is given these ``parameters``."""
    if not isinstance(rule, dict):
        return ["not an object"]
    found = [f"unknown key {key}" for key in sorted(set(rule) - RULE_KEYS)] + _uuid(rule.get("id"))
    if rule.get("severity") not in SEVERITIES:
        found.append(f"severity is {rule.get('severity')!r}, not one of {', '.join(SEVERITIES)}")
    told = rule.get("meta")
    meta = told if isinstance(told, dict) else {}
    missing = [key for key in ("why", "what_to_do") if not (isinstance(meta.get(key), str) and meta[key].strip())]
    found += [f"meta.{key} is missing: a text is needed" for key in missing]
    expectation = TYPES.get(rule["type"]) if isinstance(rule.get("type"), str) else None
    if expectation is None:
        return [*found, f"type {rule.get('type')!r} cannot be used in a gate. Supported: {', '.join(TYPES)}"]
    if not isinstance(rule.get("kwargs"), dict):
        return [*found, "kwargs is missing"]
    return found + _kwargs(expectation, rule["kwargs"], columns, parameters)


def _unread(kwargs: dict[str, Any], name: str) -> list[str]:
    """The tables that a query names and that are not there when the table ``name`` is judged."""
    read = READ_IN_GOLD if name.startswith("gold.") else ()
    query = str(kwargs.get("unexpected_rows_query", ""))
    unread = [table.full_name.replace(".", "_") for table in ALL_TABLES if table not in read]
    named = [written for written in unread if re.search(rf"\b{written}\b", query)]
    told = "only gold's suites read other tables, those of gold and silver_message_state"
    return [f"unexpected_rows_query: {written}: {told}" for written in named]


def _uuid(value: Any) -> list[str]:
    try:
        uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        return [f"the id {value!r} is no UUID; a rule keeps one id for life"]
    return []


def _kwargs(expectation: Expectation, kwargs: dict[str, Any], columns: Columns, parameters: Sequence[str]) -> list[str]:
    allowed = expectation.allowed
    found = [f"unknown argument {key}; it takes {', '.join(allowed)}" for key in kwargs if key not in allowed]
    found += [f"{key} is missing" for key in (*expectation.columns, *expectation.required) if key not in kwargs]
    if found:
        return found
    kinds = []
    for name in _named(expectation, kwargs):
        found += _column(name, expectation.family, columns)
        kinds.append(columns.get(name, "") if isinstance(name, str) else "")
    if found:
        return found
    if expectation.columns == LIST and len(set(kwargs["column_list"])) < 2 and expectation.level == ROW:
        return ["column_list needs two columns at least"]
    if expectation.bounds:
        found += bounds_mistakes(kwargs, expectation, kinds)
    times = expectation.level == ROW and expectation.bounds == COLUMN and kinds == ["timestamp"]
    for key, value in kwargs.items():
        known = parameters if times and key in BOUNDS[:2] else ()
        if is_parameter(value) and value["$PARAMETER"] not in known:
            told = " or ".join(PARAMETERS)
            found.append(f"{key}: only in gold a row's time can be held against a parameter, {told}")
        found += [f"{key}: {text}" for text in value_mistakes(key, value, kinds)]
    return found + (_row_condition(kwargs["row_condition"], columns) if "row_condition" in kwargs else [])


def _row_condition(tree: Any, columns: Columns) -> list[str]:
    try:
        _, named = condition(tree)
    except DeadletterError as error:
        return [str(error)]
    unknown = [f"unknown column {name!r}" for name in named if name not in columns]
    return [f"row_condition: {text}" for text in unknown or _condition(tree, columns)]


def _condition(tree: dict[str, Any], columns: Columns) -> list[str]:
    """What is wrong in a condition that has GX's form and known columns."""
    if tree["type"] in ("and", "or"):
        if not isinstance(tree["conditions"], list) or not tree["conditions"]:
            return [f"{tree['type']} needs a list with one condition at least"]
        return [text for part in tree["conditions"] for text in _condition(part, columns)]
    column = tree["column"]["name"]
    if tree["type"] == "nullity":
        flag = isinstance(tree["is_null"], bool)
        return [] if flag else [f"{column}: is_null is {tree['is_null']!r}, not true or false"]
    found = comparison_mistakes(tree["operator"], tree["parameter"], columns[column])
    return [f"{column}: {text}" for text in found]


def _named(expectation: Expectation, kwargs: dict[str, Any]) -> list:
    values = [kwargs[key] for key in expectation.columns]
    if expectation.columns == LIST:
        return values[0] if isinstance(values[0], list) and values[0] else [None]
    return values


def _column(name: Any, family: str, columns: Columns) -> list[str]:
    if not isinstance(name, str) or name not in columns:
        return [f"unknown column {name!r}; there are {', '.join(columns)}"]
    if not in_family(columns[name], family):
        return [f"column {name} is {columns[name]}, which this type does not work on"]
    return []
