"""What judging a rule gave, and the error that stops a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from deadletter.errors import GateError
from deadletter.gates.sql import literal
from deadletter.gates.suites import Rule


@dataclass(frozen=True)
class Outcome:
    """One rule judged on one table or batch.

    ``rows``: how many rows it looked at; ``failing``: how many of them break it (0 or 1 for a figure of the
    whole table, such as a row count). ``example``: one failing row's key and values, JSON, empty if none.
    ``where``: SQL that finds the failing rows, empty if no predicate does. ``refused``: its failing rows were
    taken out of the batch, so it does not stop the run.
    """

    table: str
    rule: Rule
    passed: bool
    rows: int
    failing: int
    observed: str
    example: str = ""
    where: str = ""
    refused: bool = False
    lake: str = ""

    @property
    def stops(self) -> bool:
        """Whether it stops the run."""
        return not self.passed and self.rule.critical and not self.refused

    @property
    def is_kept(self) -> bool:
        """Whether the failing rows can be looked at: what stops a run is not written, but bronze is before it."""
        return not self.stops or self.table.startswith("bronze.")

    @property
    def command(self) -> str:
        """The command that shows the failing rows."""
        where, table = self.where, self.table
        if self.refused:
            table, where = "silver.quarantine", f"exists(reasons, r -> startswith(r, {literal(self.rule.name)}))"
        lake = f" --lake {_shell(self.lake)}" if self.lake else ""
        return f"deadletter show {table}{lake}" + (f" --where {_shell(where)}" if where else "")

    @property
    def message(self) -> str:
        """What a person needs: table, rule, observed against expected, rows, an example, what to do."""
        lines = [
            f"{self.table}: {self.rule.name} failed ({self.rule.severity}, rule {self.rule.id})",
            f"  observed  {self.observed}",
            f"  expected  {self.rule.expected}",
            f"  rows      {self.failing:,} of {self.rows:,}",
            f"  example   {self.example}" if self.example else "",
            f"  why       {self.rule.why}",
            f"  do        {self.rule.what_to_do}",
            f"  see       {self.command}" if self.is_kept else "",
        ]
        return "\n".join(line for line in lines if line)


def _shell(text: str) -> str:
    r"""Text as one argument of a shell; in double quotes where it has single ones, as SQL mostly has.

    >>> print(_shell("a = 'x'"), _shell("`a` IS NULL"))
    "a = 'x'" '`a` IS NULL'
    """
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)


def enforce(outcomes: Iterable[Outcome]) -> list[str]:
    """The warnings, one text each; what is for information only is in the history.

    Raises :class:`GateError` (exit code 3) where a rule stops the run.
    """
    outcomes = list(outcomes)
    stopping = [outcome for outcome in outcomes if outcome.stops]
    if stopping:
        told = "\n".join(outcome.message for outcome in stopping)
        raise GateError(
            f"stopped by a data quality gate; what was written stays, the next layer was not touched.\n{told}\n"
            "Start the run again once the cause is gone: it picks up where it stopped."
        )
    return [warning(outcome) for outcome in outcomes if not outcome.passed and outcome.rule.severity != "info"]


def warning(outcome: Outcome) -> str:
    """One line for a rule that failed and lets the run go on: what is wrong, how much of it, and where to look."""
    rule, rows = outcome.rule, "rows refused" if outcome.refused else "rows"
    asked = f" (expected {rule.expected})" if rule.expected else ""
    found = f"{outcome.failing:,} of {outcome.rows:,} {rows}" if outcome.where else f"{outcome.observed}{asked}"
    example = f", e.g. {outcome.example}" if outcome.example else ""
    see = f" See: {outcome.command}" if outcome.where else ""
    return f"{outcome.table}: {rule.why}: {found}{example}. Rule {rule.name}.{see}"
