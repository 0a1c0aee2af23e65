"""Rules judged on a whole table or batch, all of a suite in one pass of one Spark job.

Rows are looked at a second time only for an example, and only where something failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from deadletter.errors import DeadletterError, first_line
from deadletter.gates.catalogue import ROW, TYPES
from deadletter.gates.examples import with_examples
from deadletter.gates.measures import SCHEMA_TYPES, figure, holds, schema_outcome
from deadletter.gates.outcomes import Outcome
from deadletter.gates.rows import domain, failing
from deadletter.gates.suites import Rule, Suite
from deadletter.spark.frames import only_row
from deadletter.spark.sqltext import sql_name

QUERY = "unexpected_rows_expectation"


def judge(
    df: DataFrame,
    suite: Suite,
    tables: Mapping[str, DataFrame] | None = None,
    parameters: Mapping[str, Any] | None = None,
    refused: bool = False,
) -> list[Outcome]:
    """Judge ``df`` by every rule of its suite; one outcome a rule, in the suite's order.

    ``tables``: other tables by full name, which queries read as ``layer_table``. ``parameters``: the values
    of ``{"$PARAMETER": name}``. ``refused``: ``df`` is a batch before :func:`deadletter.gates.rows.split`, so
    rows that break a critical row rule are taken out and stop nothing. Raises :class:`DeadletterError` where a
    parameter or table is missing.
    """
    suite = suite.bind(parameters or {})
    measured = [rule for rule in suite.rules if rule.type not in SCHEMA_TYPES]
    queries = _queries(df, suite, tables or {})
    row = _measure(df, suite, measured, queries)
    outcomes = [_outcome(suite, rule, row, refused) for rule in measured]
    outcomes = with_examples(df, suite, outcomes, queries)
    outcomes += [schema_outcome(df, suite, rule) for rule in suite.rules if rule.type in SCHEMA_TYPES]
    order = [rule.id for rule in suite.rules]
    return sorted(outcomes, key=lambda outcome: order.index(outcome.rule.id))


def is_counted(rule: Rule) -> bool:
    """Whether its failing rows can be told one by one."""
    return TYPES[rule.type].level == ROW or rule.type == "expect_column_distinct_values_to_be_in_set"


def _measure(df: DataFrame, suite: Suite, rules: list[Rule], queries: dict[str, DataFrame]) -> dict[str, Any]:
    """One row with every rule's figures: ``rows_<id>``, ``failing_<id>``, ``figure_<id>``, ``holds_<id>``."""
    try:
        parts = [df.selectExpr("count(1) AS total", *[text for rule in rules for text in _figures(suite, rule)])]
        parts += [_duplicates(df, rule) for rule in rules if TYPES[rule.type].across]
        parts += [found.selectExpr(f"count(1) AS `failing_{rule_id}`") for rule_id, found in queries.items()]
        return only_row(reduce(DataFrame.crossJoin, parts)).asDict()
    except PySparkException as error:
        raise DeadletterError(f"{suite.name}: {_cause(df, suite, rules, error)}") from error


def _cause(df: DataFrame, suite: Suite, rules: list[Rule], error: PySparkException) -> str:
    """What cannot be judged, and why: the first rule that Spark does not even plan by itself, else the suite."""
    for rule in rules:
        try:
            _planned(df, suite, rule)
        except PySparkException as own:
            return f"rule {rule.name} ({rule.id}) cannot be judged: {first_line(own)}"
    return f"its suite cannot be judged: {first_line(error)}"


def _planned(df: DataFrame, suite: Suite, rule: Rule) -> StructType:
    """The columns of one rule's figures; raises where Spark does not take its SQL, and reads no row."""
    figures = _duplicates(df, rule) if TYPES[rule.type].across else df.selectExpr("1", *_figures(suite, rule))
    return figures.schema


def _figures(suite: Suite, rule: Rule) -> list[str]:
    """The aggregates of one rule, as SQL."""
    if is_counted(rule):
        counted = [f"count_if({failing(rule, suite.columns)}) AS `failing_{rule.id}`"]
        # a share is of the rows the rule looks at; elsewhere all rows will do, and each count costs
        return counted + ([f"count_if({domain(rule)}) AS `rows_{rule.id}`"] if "mostly" in rule.kwargs else [])
    if TYPES[rule.type].across or rule.type == QUERY:
        return []
    value = figure(rule)
    return [
        f"CAST({value} AS STRING) AS `figure_{rule.id}`",
        f"coalesce({holds(rule, suite)}, FALSE) AS `holds_{rule.id}`",
    ]


def _duplicates(df: DataFrame, rule: Rule) -> DataFrame:
    """One row with how many rows there are, and how many have the key of another one.

    64-bit hashes tell the usual case, no duplicate, at a fraction of the cost of the keys themselves. Where two
    are equal the keys may still differ, so :func:`~deadletter.gates.examples.with_examples` counts those keys exactly.
    """
    hashed = df.where(domain(rule)).selectExpr(f"xxhash64({', '.join(map(sql_name, rule.columns))}) AS h")
    return hashed.selectExpr(f"count(1) AS `rows_{rule.id}`", f"count(1) - count(DISTINCT h) AS `failing_{rule.id}`")


def _queries(df: DataFrame, suite: Suite, tables: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The rows that each query of the suite finds, by rule id."""
    frames = {full_name.replace(".", "_"): other for full_name, other in tables.items()}
    queries = {rule.id: rule.kwargs["unexpected_rows_query"] for rule in suite.rules if rule.type == QUERY}
    try:
        return {rule_id: _found(df, query, frames) for rule_id, query in queries.items()}
    except PySparkException as error:
        raise DeadletterError(f"{suite.name}: a query of its suite does not work: {first_line(error)}") from error


def _found(df: DataFrame, query: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows that a query finds. Spark binds what is in braces; GX knows no other such name than ``{batch}``, so
    suites write those of ``frames`` without."""
    for written in frames:
        query = re.sub(rf"\b{written}\b", f"{{{written}}}", query)
    return df.sparkSession.sql(query, args=None, batch=df, **frames)


def _outcome(suite: Suite, rule: Rule, row: dict[str, Any], refused: bool) -> Outcome:
    total, count = row["total"], row.get(f"failing_{rule.id}")
    if count is None:
        passed, shown = row[f"holds_{rule.id}"], row[f"figure_{rule.id}"]
        return Outcome(suite.name, rule, passed, total, int(not passed), "no value" if shown is None else shown)
    rows = row.get(f"rows_{rule.id}", total)
    share = (rows - count) / rows if rows else float(count == 0)  # a query may find what is missing
    where = failing(rule, suite.columns) if is_counted(rule) else ""
    return Outcome(
        suite.name,
        rule,
        count == 0 or share >= float(rule.kwargs.get("mostly", 1)),
        rows,
        count,
        f"{count:,} of {rows:,} rows" if rule.type != QUERY else f"{count:,} rows found",
        where=where,
        refused=refused and rule.on_rows and rule.critical,
    )
