"""An example for each rule that failed, and the exact number of rows that share a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gates.catalogue import TYPES
from deadletter.gates.outcomes import Outcome
from deadletter.gates.rows import domain
from deadletter.gates.suites import Rule, Suite
from deadletter.spark.frames import only_row
from deadletter.spark.sqltext import sql_name

LONGEST = 300
"""Characters of an example: a payload can be long, and private."""


def with_examples(
    df: DataFrame, suite: Suite, outcomes: list[Outcome], found: Mapping[str, DataFrame]
) -> list[Outcome]:
    """The outcomes, the failed ones with one failing row as JSON; ``found`` has each query's rows by rule id.

    Nothing is read where nothing failed; otherwise ``df`` is read once, and once more for each query or key
    that failed.
    """
    examples = _of_rows(df, suite, [outcome for outcome in outcomes if outcome.failing and outcome.where])
    return [_with_example(df, outcome, examples, found) for outcome in outcomes]


def _of_rows(df: DataFrame, suite: Suite, failed: list[Outcome]) -> dict[str, str]:
    if not failed:
        return {}
    firsts = [
        F.min(F.when(F.expr(outcome.where), _shown(suite, outcome.rule))).alias(outcome.rule.id) for outcome in failed
    ]
    return only_row(df.agg(*firsts)).asDict()


def _shown(suite: Suite, rule: Rule) -> Column:
    """The row's key and the values the rule is about, as JSON; null values are shown too."""
    names = dict.fromkeys([*suite.key, *rule.columns])
    return F.to_json(F.struct(*[F.col(sql_name(column)) for column in names]), {"ignoreNullFields": "false"})


def _with_example(df: DataFrame, outcome: Outcome, examples: dict[str, str], found: Mapping[str, DataFrame]) -> Outcome:
    rule = outcome.rule
    if not outcome.failing:
        return outcome
    if TYPES[rule.type].across:
        return _with_duplicates(df, outcome)
    example = examples.get(rule.id) or ""
    if rule.id in found:
        example = only_row(found[rule.id].agg(F.min(_as_json())))[0] or ""
    return replace(outcome, example=example[:LONGEST])


def _as_json() -> Column:
    return F.to_json(F.struct("*"), {"ignoreNullFields": "false"})


def _json(rows: DataFrame) -> str:
    row = rows.select(_as_json().alias("row")).first()
    return row["row"] if row else ""


def _with_duplicates(df: DataFrame, outcome: Outcome) -> Outcome:
    """Count the rows that share a key, as GX does: all of them, not all but one."""
    rule = outcome.rule
    keys = [sql_name(column) for column in rule.columns]
    groups = df.where(domain(rule)).groupBy(*keys).agg(F.count("*").alias("rows_with_it")).where("rows_with_it > 1")
    failing = only_row(groups.agg(F.sum("rows_with_it").alias("rows")))["rows"] or 0
    example = _json(groups.orderBy(F.col("rows_with_it").desc(), *keys).limit(1)) if failing else ""
    observed = f"{failing:,} of {outcome.rows:,} rows share their {', '.join(rule.columns)}"
    return replace(outcome, passed=failing == 0, failing=failing, observed=observed, example=example[:LONGEST])
