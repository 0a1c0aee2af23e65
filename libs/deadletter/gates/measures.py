"""Figures of a whole table: each rule type's SQL aggregate, and the test that it must meet."""

from __future__ import annotations

from pyspark.sql import DataFrame

from deadletter.gates.catalogue import NUMBER, in_family
from deadletter.gates.outcomes import Outcome
from deadletter.gates.rows import in_set
from deadletter.gates.sql import between
from deadletter.gates.suites import Rule, Suite
from deadletter.spark.sqltext import sql_name

AGGREGATES = {
    "expect_table_row_count_to_be_between": "count(1)",
    "expect_table_row_count_to_equal": "count(1)",
    "expect_column_proportion_of_non_null_values_to_be_between": "try_divide(count({column}), count(1))",
    "expect_column_min_to_be_between": "min({column})",
    "expect_column_max_to_be_between": "max({column})",
    "expect_column_sum_to_be_between": "sum({column})",
    "expect_column_mean_to_be_between": "avg({column})",
    "expect_column_distinct_values_to_contain_set": "array_sort(collect_set(CASE WHEN {known} THEN {column} END))",
    "expect_column_distinct_values_to_equal_set": "array_sort(collect_set(CASE WHEN {known} THEN {column} END))",
}
SCHEMA_TYPES = ("expect_column_values_to_be_of_type", "expect_table_columns_to_match_set")


def figure(rule: Rule) -> str:
    """The SQL aggregate that a rule's figure is; null where there is nothing to measure."""
    column = sql_name(rule.columns[0]) if rule.columns else ""
    return AGGREGATES[rule.type].format(column=column, known=_known(rule, column))


def _known(rule: Rule, column: str) -> str:
    return in_set(column, rule.kwargs) if "value_set" in rule.kwargs else ""


def holds(rule: Rule, suite: Suite) -> str:
    """SQL that is true where the figure is as asked for; null, like GX's failure, where there is none."""
    value, column = figure(rule), sql_name(rule.columns[0]) if rule.columns else ""
    if "value_set" in rule.kwargs:
        complete = f"size({value}) = {len(set(rule.kwargs['value_set']))}"
        other = f"count_if({column} IS NOT NULL AND NOT ({_known(rule, column)})) = 0"
        return f"{complete} AND {other}" if rule.type.endswith("equal_set") else complete
    if "value" in rule.kwargs:
        return f"{value} = {int(rule.kwargs['value'])}"
    test = between(value, rule.kwargs)
    number = bool(rule.columns) and in_family(suite.columns[rule.columns[0]], NUMBER)
    return f"{test} AND NOT isnan(CAST({value} AS DOUBLE))" if number else test


def schema_outcome(df: DataFrame, suite: Suite, rule: Rule) -> Outcome:
    """Judge a rule on the columns themselves: no row is read."""
    wanted: object = rule.kwargs.get("type_")
    found: object
    if rule.type == "expect_table_columns_to_match_set":
        wanted, found = sorted(rule.kwargs["column_set"]), sorted(df.columns)
    else:
        found = type(df.schema[rule.columns[0]].dataType).__name__
    return Outcome(suite.name, rule, wanted == found, 0, int(wanted != found), str(found))
