"""A notebook's cells, and a way to run them.

A notebook is a ``.py`` file in Databricks' source format: cells divided by ``# COMMAND ----------``, prose in
lines that begin with ``# MAGIC``. Databricks gives it ``display``; :func:`execute` does the same here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deadletter.errors import DeadletterError, UsageError, first_line

HEADER = "# Databricks notebook source"
DIVIDER = re.compile(r"^# COMMAND -+$", re.MULTILINE)
MAGIC = re.compile(r"^# MAGIC ?", re.MULTILINE)
COMMAND = re.compile(r"^# MAGIC +(%\S+)", re.MULTILINE)
TITLE = re.compile(r"\A# DBTITLE [^\n]*\n+")
"""A cell's title, before what is in it."""


@dataclass(frozen=True)
class Cell:
    """One cell: prose or code, and what it displayed."""

    source: str
    prose: bool
    shown: list[object] = field(default_factory=list)


def cells(source: str) -> list[Cell]:
    """The cells of a notebook's source; :class:`UsageError` where one is neither Python nor ``%md``.

    >>> for cell in cells("# Databricks notebook source\\n# DBTITLE 1,Welcome\\n# MAGIC %md\\n# MAGIC # Hello\\n\\n"
    ...                   "# COMMAND ----------\\n\\nx = 1\\n"):
    ...     print(cell.prose, repr(cell.source))
    True '# Hello'
    False 'x = 1'
    """
    if not source.startswith(HEADER):
        raise UsageError(f"not a notebook: its first line is not {HEADER!r}")
    parts = [part.strip() for part in DIVIDER.split(source.removeprefix(HEADER))]
    return [_cell(number, part) for number, part in enumerate(filter(None, parts), 1)]


def _cell(number: int, text: str) -> Cell:
    first = COMMAND.search(text)
    if first and first[1] != "%md":
        raise UsageError(
            f"cell {number} begins with {first[1]}: only Python and %md are understood here. Say it in Python, "
            "e.g. lake.query(...) for SQL, or run the notebook on Databricks."
        )
    text = TITLE.sub("", text)
    prose = text.startswith("# MAGIC")
    return Cell(MAGIC.sub("", text).removeprefix("%md").strip() if prose else text, prose)


def widgets_of(path: str | Path) -> set[str]:
    """The names of the widgets that a notebook asks for; :class:`UsageError` where it is none."""
    try:
        code = [ast.parse(cell.source) for cell in cells(_source(path)) if not cell.prose]
    except SyntaxError as error:
        raise UsageError(f"{path}: not Python: {error.msg}: {error.text}") from None
    calls = (node for tree in code for node in ast.walk(tree) if isinstance(node, ast.Call))
    asks = [call for call in calls if ast.unparse(call.func).endswith("widget")]
    asked = [argument for call in asks for argument in call.args[:1]]
    asked += [keyword.value for call in asks for keyword in call.keywords if keyword.arg == "name"]
    return {str(name.value) for name in asked if isinstance(name, ast.Constant)}


def _source(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as a notebook: {first_line(error)}") from None


def execute(path: str | Path, shown: Callable[[object], object] = lambda value: value) -> list[Cell]:
    """Run a notebook's cells in order, each with what it displayed; :class:`DeadletterError` names one that fails.

    A last line that is an expression is shown too, as Databricks does. ``shown`` makes what is kept of what is
    displayed, at once: a frame fails when it is read, and the next cell can change what it reads.
    """
    done = cells(_source(path))
    space: dict = {"__name__": "__main__"}
    for number, cell in enumerate(done, 1):
        if not cell.prose:
            space["display"] = lambda value, cell=cell: cell.shown.append(shown(value))
            name = f"{Path(path).name}, cell {number}"
            try:
                _run(cell, name, space)
            except DeadletterError:
                raise
            except Exception as error:
                raise DeadletterError(f"{name}: {type(error).__name__}: {first_line(error)}") from error
    return done


def _run(cell: Cell, name: str, space: dict) -> None:
    tree = ast.parse(cell.source, name)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, name, "exec"), space)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), space)
        if value is not None:
            space["display"](value)
