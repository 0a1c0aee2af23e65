"""Row rules as Spark columns, with the verdicts that Great Expectations itself gives.

GX calls a row unexpected where its condition is false; where the condition is null, it is not. A column rule
looks at rows with a value only, the rules about nulls at all; rules on several columns follow ``ignore_row_if``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gates.catalogue import LIST, PAIR, TYPES
from deadletter.gates.sql import between, condition, literal
from deadletter.gates.suites import Rule, Suite
from deadletter.spark.sqltext import sql_name

Kwargs = Mapping[str, Any]
INTEGRAL = ("tinyint", "smallint", "int", "bigint")


def in_set(column: str, kwargs: Kwargs) -> str:
    """SQL that is true for the values of a rule's ``value_set``."""
    return f"{column} IN ({', '.join(map(literal, kwargs['value_set']))})"


def _regex(column: str, kwargs: Kwargs) -> str:
    return f"{column} RLIKE {literal(kwargs['regex'])}"


def _regexes(column: str, kwargs: Kwargs) -> str:
    if kwargs.get("match_on", "any") == "any":
        return f"{column} RLIKE {literal('|'.join(kwargs['regex_list']))}"
    return " AND ".join(f"{column} RLIKE {literal(regex)}" for regex in kwargs["regex_list"])


def _no_regexes(column: str, kwargs: Kwargs) -> str:
    return " AND ".join(f"NOT ({column} RLIKE {literal(regex)})" for regex in kwargs["regex_list"])


def _length(column: str, kwargs: Kwargs) -> str:
    """The byte length is stored, the character length must be counted. A character has one to four bytes, so the byte
    length alone settles most texts. CASE, not OR: what two rules have in common Spark works out before either, for
    every row, unless only a branch needs it."""
    tests = []
    for bound, enough in (("min", lambda n: f">= {4 * (n + 1)}"), ("max", lambda n: f"<= {n - 1}")):
        limit = kwargs.get(f"{bound}_value")
        if limit is not None:
            exact = {name: kwargs.get(name) for name in (f"{bound}_value", f"strict_{bound}")}
            counted = between(f"length({column})", exact)
            tests.append(f"CASE WHEN octet_length({column}) {enough(limit)} THEN TRUE ELSE {counted} END")
    return " AND ".join(tests)


SINGLE: dict[str, Callable[[str, Kwargs], str]] = {
    "expect_column_values_to_not_be_null": lambda column, kwargs: f"{column} IS NOT NULL",
    "expect_column_values_to_be_null": lambda column, kwargs: f"{column} IS NULL",
    "expect_column_values_to_be_in_set": in_set,
    "expect_column_distinct_values_to_be_in_set": in_set,
    "expect_column_values_to_not_be_in_set": lambda column, kwargs: f"NOT ({in_set(column, kwargs)})",
    "expect_column_values_to_be_between": between,
    "expect_column_values_to_match_regex": _regex,
    "expect_column_values_to_not_match_regex": lambda column, kwargs: f"NOT ({_regex(column, kwargs)})",
    "expect_column_values_to_match_regex_list": _regexes,
    "expect_column_values_to_not_match_regex_list": _no_regexes,
    "expect_column_value_lengths_to_be_between": _length,
    "expect_column_value_lengths_to_equal": lambda column, kwargs: f"length({column}) = {int(kwargs['value'])}",
}
"""Rules on one column: the condition a good row meets, as SQL. Distinct values are judged row by row too."""


def _greater(columns: list[str], kwargs: Kwargs, kinds: list[str]) -> str:
    a, b = columns
    return f"{a} >= {b} OR {a} <=> {b}" if kwargs.get("or_equal") else f"{a} > {b}"


def _pair_in_set(columns: list[str], kwargs: Kwargs, kinds: list[str]) -> str:
    a, b = columns
    pairs = kwargs["value_pairs_set"]
    return " OR ".join(f"({a} <=> {literal(left)} AND {b} <=> {literal(right)})" for left, right in pairs)


def _all_equal(columns: list[str], kwargs: Kwargs, kinds: list[str]) -> str:
    return " AND ".join(f"{columns[0]} <=> {other}" for other in columns[1:])


def _all_different(columns: list[str], kwargs: Kwargs, kinds: list[str]) -> str:
    return "NOT (" + " OR ".join(f"{a} <=> {b}" for a, b in combinations(columns, 2)) + ")"


def _sum(columns: list[str], kwargs: Kwargs, kinds: list[str]) -> str:
    """The widest decimal, so that whole numbers do not overflow; a missing value counts 0."""
    parts = [
        f"CAST(coalesce({column}, 0) AS DECIMAL(38, 0))" if kind in INTEGRAL else f"coalesce({column}, 0)"
        for column, kind in zip(columns, kinds, strict=True)
    ]
    return f"{' + '.join(parts)} = {literal(float(kwargs['sum_total']))}"


SEVERAL: dict[str, Callable[[list[str], Kwargs, list[str]], str]] = {
    "expect_column_pair_values_a_to_be_greater_than_b": _greater,
    "expect_column_pair_values_to_be_equal": _all_equal,
    "expect_column_pair_values_to_be_in_set": _pair_in_set,
    "expect_multicolumn_sum_to_equal": _sum,
    "expect_multicolumn_values_to_be_equal": _all_equal,
    "expect_select_column_values_to_be_unique_within_record": _all_different,
}
"""Rules on several columns."""


def domain(rule: Rule) -> str:
    """SQL for the rows that a rule looks at; never null."""
    columns = [sql_name(column) for column in rule.columns]
    tests = [f"coalesce({condition(rule.kwargs['row_condition'])[0]}, FALSE)"] if "row_condition" in rule.kwargs else []
    if TYPES[rule.type].columns in (PAIR, LIST):
        tests += _not_ignored(columns, rule.kwargs.get("ignore_row_if", "all"))
    elif not rule.type.endswith("_be_null"):
        tests.append(f"{columns[0]} IS NOT NULL")
    return " AND ".join(tests) or "TRUE"


def _not_ignored(columns: list[str], when: str) -> list[str]:
    if when in ("neither", "never"):
        return []
    joint = " AND " if when in ("either_value_is_missing", "any_value_is_missing") else " OR "
    return ["(" + joint.join(f"{column} IS NOT NULL" for column in columns) + ")"]


def failing(rule: Rule, columns: Mapping[str, str]) -> str:
    """SQL that is true for the rows that break a row rule; null counts as false.

    ``columns`` maps names to Spark types (simple strings).
    """
    named = [sql_name(column) for column in rule.columns]
    if rule.type in SINGLE:
        good = SINGLE[rule.type](named[0], rule.kwargs)
    else:
        good = SEVERAL[rule.type](named, rule.kwargs, [columns[column] for column in rule.columns])
    looked_at = domain(rule)
    return f"NOT ({good})" if looked_at == "TRUE" else f"{looked_at} AND NOT ({good})"


def broken(suite: Suite, told: Callable[[Rule], str] = lambda rule: rule.id) -> Column:
    """The array of what ``told`` says (default: the id) of each critical row rule that a row breaks."""
    found = [F.when(F.expr(failing(rule, suite.columns)), F.lit(told(rule))) for rule in suite.row_rules]
    return F.array_compact(F.array(*found)) if found else F.array().cast("array<string>")


def reasons(suite: Suite) -> Column:
    """What :func:`broken` gives, as ``code: explanation``: what ``silver.quarantine.reasons`` holds."""
    return broken(suite, lambda rule: rule.reason)


def split(df: DataFrame, suite: Suite) -> tuple[DataFrame, DataFrame]:
    """The good rows of ``df``, and those that break a critical row rule; :func:`broken` tells which.

    Rules that only warn let a row through; :func:`deadletter.gates.judging.judge` counts them.
    """
    bad = " OR ".join(f"coalesce({failing(rule, suite.columns)}, FALSE)" for rule in suite.row_rules) or "FALSE"
    return df.where(f"NOT ({bad})"), df.where(bad)
