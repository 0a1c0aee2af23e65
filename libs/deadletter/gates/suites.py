"""Suites of rules as :mod:`deadletter.gates` works with them, read from Great Expectations' own JSON.

GX itself is not imported here: that takes seconds, and a gate needs only what its file says.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from deadletter import tables
from deadletter.errors import DeadletterError
from deadletter.gates.catalogue import ROW, TYPES
from deadletter.gates.checks import document_mistakes
from deadletter.gates.sql import condition
from deadletter.tables import Table

FOLDER = Path(__file__).parent / "expectations"
"""Where the suites lie, in the repository as in an installed package."""
SHORTER = ("expect_column_", "expect_multicolumn_", "expect_table_", "expect_")


@dataclass(frozen=True)
class Rule:
    """One expectation. ``severity``: critical (refuse the row, or stop the run), warning or info (count it)."""

    id: str
    type: str
    kwargs: Mapping[str, Any] = field(hash=False)
    severity: str
    why: str = field(repr=False)  # texts for people: other words are no other rule
    what_to_do: str = field(repr=False)

    @property
    def critical(self) -> bool:
        """A row that breaks it is refused; a table that breaks it stops the run."""
        return self.severity == "critical"

    @property
    def on_rows(self) -> bool:
        """Each row has a verdict; with ``mostly`` below 1 only the share over the table has one."""
        return TYPES[self.type].level == ROW and float(self.kwargs.get("mostly", 1)) == 1

    @property
    def columns(self) -> list[str]:
        """The columns it is about; a row condition's are not among them."""
        named = [self.kwargs[key] for key in TYPES[self.type].columns]
        return list(named[0]) if named and isinstance(named[0], list | tuple) else named

    @property
    def name(self) -> str:
        """What a person calls it, e.g. ``values_to_not_be_null(raw)``."""
        prefix = next(part for part in (*SHORTER, "") if self.type.startswith(part))
        return f"{self.type.removeprefix(prefix)}({', '.join(self.columns)})"

    @property
    def reason(self) -> str:
        """Why a row is refused, as ``silver.quarantine`` tells it: ``code: explanation``."""
        return f"{self.name}: {self.why}"

    @property
    def expected(self) -> str:
        """What was asked for, beyond the name: e.g. ``min_value=0``."""
        named = TYPES[self.type].columns
        parts = [f"{key}={_shown(key, value)}" for key, value in self.kwargs.items() if key not in named]
        return ", ".join(parts) or "every row"


def _shown(key: str, value: Any) -> str:
    if key == "row_condition":
        return condition(value)[0]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if key == "unexpected_rows_query" else json.dumps(value, default=str, ensure_ascii=False)


@dataclass(frozen=True)
class Suite:
    """The rules of one table. ``columns`` maps its columns to their Spark types (simple strings)."""

    name: str
    rules: tuple[Rule, ...]
    columns: Mapping[str, str] = field(hash=False)
    key: tuple[str, ...] = ()

    @property
    def row_rules(self) -> list[Rule]:
        """The critical rules that refuse single rows."""
        return [rule for rule in self.rules if rule.on_rows and rule.critical]

    def bind(self, parameters: Mapping[str, Any]) -> Suite:
        """The suite with every ``{"$PARAMETER": name}`` replaced. Raises where one is not given."""
        return dataclasses.replace(self, rules=tuple(_bind(self.name, rule, parameters) for rule in self.rules))


def _bind(suite: str, rule: Rule, parameters: Mapping[str, Any]) -> Rule:
    kwargs = dict(rule.kwargs)
    for key, value in rule.kwargs.items():
        if isinstance(value, dict) and "$PARAMETER" in value:
            wanted = value["$PARAMETER"]
            if wanted not in parameters:
                raise DeadletterError(f"{suite}: rule {rule.name} ({rule.id}) needs the parameter {wanted}")
            kwargs[key] = parameters[wanted]
    return dataclasses.replace(rule, kwargs=kwargs)


def load(path: str | Path) -> Suite:
    """Read one suite file; its name tells the table.

    Raises :class:`DeadletterError` that lists every mistake with file, place and what is wrong.
    """
    path = Path(path)
    table = tables.find(path.stem)
    document, mistakes = _document(path)
    if table is None:
        mistakes.append(f"no table {path.stem}; a suite's file is called <layer>.<table>.json")
    columns = {column.name: column.type for column in table.columns} if table else {}
    if table and not mistakes:
        mistakes = document_mistakes(document, table.full_name, columns)
    if mistakes or not table:
        raise DeadletterError(f"{path}: " + f"\n{path}: ".join(mistakes))
    return parse(document, columns, table.key)


def _document(path: Path) -> tuple[Any, list[str]]:
    try:
        return json.loads(path.read_text("utf-8"), parse_constant=_no_constant), []
    except OSError as error:
        return None, [f"cannot be read: {error.strerror}"]
    except json.JSONDecodeError as error:
        return None, [f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}"]
    except ValueError as error:
        return None, [f"not JSON: {error}"]


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


def parse(document: dict[str, Any], columns: Mapping[str, str], key: tuple[str, ...] = ()) -> Suite:
    """A suite from a document without mistakes."""
    rules = [
        Rule(r["id"], r["type"], r["kwargs"], r["severity"], r["meta"]["why"], r["meta"]["what_to_do"])
        for r in document["expectations"]
    ]
    return Suite(document["name"], tuple(rules), columns, key)


@cache
def load_all(folder: Path = FOLDER) -> Mapping[str, Suite]:
    """Every suite by its table's full name; raises on the first file with a mistake, or an id used twice."""
    suites = [load(path) for path in sorted(Path(folder).glob("*.json"))]
    if not suites:
        raise DeadletterError(f"no suite in {folder}: the installation is not complete")
    seen: dict[str, str] = {}
    for suite in suites:
        for rule in suite.rules:
            if rule.id in seen:
                raise DeadletterError(f"{suite.name}: the id {rule.id} is also in {seen[rule.id]}; ids are unique")
            seen[rule.id] = suite.name
    return {suite.name: suite for suite in suites}


def suite_of(table: Table) -> Suite:
    """The suite of a table; one without rules where it has none."""
    columns = {column.name: column.type for column in table.columns}
    return load_all().get(table.full_name, Suite(table.full_name, (), columns, table.key))
