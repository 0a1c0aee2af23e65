"""The compiled rules give the verdicts that Great Expectations gives on Spark, row for row.

GX runs each rule over the same generated rows; its list of unexpected rows is compared with ours.
"""

import os
import random
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from deadletter.gates.catalogue import ROW, TYPES
from deadletter.gates.checks import rule_mistakes
from deadletter.gates.judging import judge
from deadletter.gates.rows import broken
from deadletter.gates.suites import Rule, Suite

SCHEMA = (
    "i int, n bigint, m bigint, d double, e double, c decimal(20,4), s string, t string, b boolean, day date, "
    "time timestamp, later timestamp"
)
COLUMNS = dict(part.strip().split(" ") for part in SCHEMA.replace("decimal(20,4)", "decimal").split(","))
NUMBERS = [None, 0, 1, -1, 2, 5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 7, 100]
DOUBLES = [None, 0.0, -0.0, 1.0, 0.5, -1.5, 5.0, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324]
TEXTS = [
    None, "", " ", "a", "A", "abc", "queue-1", "ü", "日本語", "👩‍🚀", "e\u0301", "it's", '"', "\\", "\\d", "a\nb", "\t",
    "${x}", "%", "'; DROP TABLE t; --", "0" * 64, "f" * 64, "x" * 5000, "null", "NaN", "1", "a|b", "{batch}",
]  # fmt: skip
TIMES = [
    None,
    datetime(1, 1, 2, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2000, 1, 1, tzinfo=UTC),
    datetime(2026, 11, 20, 20, 53, 48, 700000, tzinfo=UTC),
    datetime(9999, 12, 30, tzinfo=UTC),
]
DAYS = [None, date(1, 1, 2), date(1970, 1, 1), date(2000, 1, 1), date(2026, 11, 20), date(9999, 12, 31)]
ROWS = 400


def generated(seed=20261120):
    pick = random.Random(seed).choice
    decimals = [None, Decimal("0"), Decimal("0.1"), Decimal("5"), Decimal("-9999999999999999.9999")]
    small = [None, 0, 1, 2, 5, -(2**31), 2**31 - 1]
    return [
        (
            row, pick(small), pick(NUMBERS), pick(NUMBERS), pick(DOUBLES), pick(DOUBLES), pick(decimals),
            pick(TEXTS), pick(TEXTS), pick([None, True, False]), pick(DAYS), pick(TIMES), pick(TIMES),
        )
        for row in range(ROWS)
    ]  # fmt: skip


def when(column, operator, parameter):
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": parameter}


EITHER, NEITHER = "either_value_is_missing", "neither"
POSITIVE, NO_TEXT = when("n", ">", 0), {"type": "nullity", "column": {"name": "s"}, "is_null": True}
CASES = {
    "expect_column_values_to_not_be_null": [
        *({"column": name} for name in COLUMNS),
        {"column": "s", "row_condition": POSITIVE},
        {"column": "t", "row_condition": when("time", ">=", "2000-01-01T01:00:00+01:00")},
        {"column": "t", "row_condition": when("time", "<", "2026-11-20")},
        {"column": "n", "row_condition": {"type": "or", "conditions": [POSITIVE, NO_TEXT]}},
        {"column": "d", "row_condition": {"type": "and", "conditions": [POSITIVE, when("s", "IN", ["a", "ü"])]}},
    ],
    "expect_column_values_to_be_null": [{"column": "s"}, {"column": "d", "row_condition": NO_TEXT}],
    "expect_column_values_to_be_in_set": [
        {"column": "s", "value_set": ["a", "", "ü", "it's", "\\", "${x}"]},
        {"column": "n", "value_set": [0, 1, 2**53 + 1, 2**63 - 1]},
        {"column": "d", "value_set": [0.5, 1, -1.5]},
        {"column": "b", "value_set": [True]},
        {"column": "day", "value_set": ["2000-01-01"]},
        {"column": "time", "value_set": ["2000-01-01", "2026-11-20T21:53:48.7+01:00"]},
        {"column": "later", "value_set": ["2000-01-01 00:00"], "row_condition": when("day", "NOT_IN", ["2026-11-20"])},
        {"column": "i", "value_set": [1, 2], "row_condition": when("b", "==", True)},
    ],
    "expect_column_values_to_not_be_in_set": [
        {"column": "s", "value_set": ["a", "", "👩‍🚀", "a\nb"]},
        {"column": "n", "value_set": [0, 2**53]},
        {"column": "d", "value_set": [0]},
    ],
    "expect_column_values_to_be_between": [
        {"column": "n", "min_value": 0},
        {"column": "n", "min_value": 0, "strict_min": True, "max_value": 5, "strict_max": True},
        {"column": "n", "max_value": 2**53 - 1, "min_value": 1},
        {"column": "i", "max_value": 1.5},
        {"column": "d", "min_value": 0, "max_value": 5},
        {"column": "d", "max_value": 0.5, "strict_max": True},
        {"column": "d", "min_value": -1.5, "strict_min": True},
        {"column": "c", "min_value": 0.1},
        {"column": "day", "min_value": "2000-01-01", "max_value": "2026-11-20", "strict_max": True},
        {"column": "time", "min_value": "2000-01-01"},
        {"column": "time", "min_value": "2000-01-01T01:00:00+01:00", "strict_min": True},
        {"column": "time", "max_value": "2026-11-20T20:53:48.700000+00:00"},
    ],
    "expect_column_values_to_match_regex": [
        {"column": "s", "regex": "^[0-9a-f]{64}$"},
        {"column": "s", "regex": "\\\\|'|\\d"},
        {"column": "s", "regex": "^\\p{L}+$"},
        {"column": "s", "regex": "^$|\\$\\{x\\}"},
        {"column": "s", "regex": "^(?<first>.)\\k<first>+$"},
    ],
    "expect_column_values_to_not_match_regex": [{"column": "s", "regex": "[\\t\\n]"}, {"column": "s", "regex": "ü|日"}],
    "expect_column_values_to_match_regex_list": [
        {"column": "s", "regex_list": ["^a", "b$"]},
        {"column": "s", "regex_list": ["a", "b"], "match_on": "all"},
        {"column": "s", "regex_list": ["^$", "^.$"]},
    ],
    "expect_column_values_to_not_match_regex_list": [{"column": "s", "regex_list": ["^a", "\\\\", "'"]}],
    "expect_column_value_lengths_to_be_between": [
        {"column": "s", "min_value": 1},
        {"column": "s", "min_value": 0, "strict_min": True, "max_value": 3, "strict_max": True},
        {"column": "s", "max_value": 4999},
    ],
    "expect_column_value_lengths_to_equal": [{"column": "s", "value": 1}, {"column": "s", "value": 0}],
    "expect_column_pair_values_a_to_be_greater_than_b": [
        {"column_A": "n", "column_B": "m"},
        {"column_A": "n", "column_B": "m", "or_equal": True, "ignore_row_if": NEITHER},
        {"column_A": "d", "column_B": "e", "or_equal": True},
        {"column_A": "d", "column_B": "e", "ignore_row_if": EITHER},
        {"column_A": "later", "column_B": "time", "or_equal": True, "row_condition": POSITIVE},
        {"column_A": "n", "column_B": "i"},
    ],
    "expect_column_pair_values_to_be_equal": [
        {"column_A": "s", "column_B": "t"},
        {"column_A": "d", "column_B": "e", "ignore_row_if": NEITHER},
        {"column_A": "n", "column_B": "m", "ignore_row_if": EITHER},
    ],
    "expect_column_pair_values_to_be_in_set": [
        {"column_A": "s", "column_B": "t", "value_pairs_set": [["a", "abc"], ["it's", ""], ["ü", None]]},
        {"column_A": "n", "column_B": "b", "value_pairs_set": [[1, True], [2, False]], "ignore_row_if": EITHER},
    ],
    "expect_multicolumn_sum_to_equal": [
        {"column_list": ["n", "m"], "sum_total": 1},
        {"column_list": ["n", "m", "i"], "sum_total": 0, "ignore_row_if": "any_value_is_missing"},
        {"column_list": ["d", "e"], "sum_total": 0.5, "ignore_row_if": "never"},
        {"column_list": ["c", "d"], "sum_total": 5},
    ],
    "expect_multicolumn_values_to_be_equal": [
        {"column_list": ["n", "m", "i"]},
        {"column_list": ["s", "t"], "ignore_row_if": "never"},
        {"column_list": ["d", "e"], "ignore_row_if": "any_value_is_missing", "row_condition": POSITIVE},
    ],
    "expect_select_column_values_to_be_unique_within_record": [
        {"column_list": ["n", "m", "i"]},
        {"column_list": ["s", "t"], "ignore_row_if": "any_value_is_missing"},
        {"column_list": ["d", "e"], "ignore_row_if": "never"},
    ],
}
FOUND = "SELECT row FROM {batch} WHERE"
TABLE_CASES = [
    ("expect_column_values_to_be_unique", {"column": "n"}),
    ("expect_column_values_to_be_unique", {"column": "row"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["n", "m"]}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["row", "s"]}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["n", "s"], "ignore_row_if": "any_value_is_missing"}),
    ("expect_table_row_count_to_be_between", {"min_value": 1, "max_value": ROWS}),
    ("expect_table_row_count_to_be_between", {"min_value": ROWS, "strict_min": True}),
    ("expect_table_row_count_to_equal", {"value": ROWS}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "s", "min_value": 0.9}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "b", "min_value": 0.9}),
    ("expect_column_distinct_values_to_be_in_set", {"column": "i", "value_set": [0, 1, 2, 5, -(2**31), 2**31 - 1]}),
    ("expect_column_distinct_values_to_be_in_set", {"column": "s", "value_set": ["a"]}),
    ("expect_column_distinct_values_to_contain_set", {"column": "s", "value_set": ["a", "ü"]}),
    ("expect_column_distinct_values_to_contain_set", {"column": "s", "value_set": ["a", "missing"]}),
    ("expect_column_distinct_values_to_equal_set", {"column": "b", "value_set": [True, False]}),
    ("expect_column_distinct_values_to_equal_set", {"column": "i", "value_set": [0, 1]}),
    ("expect_column_max_to_be_between", {"column": "i", "max_value": 2**31}),
    ("expect_column_max_to_be_between", {"column": "time", "max_value": "2026-11-20T00:00:00"}),
    ("expect_column_max_to_be_between", {"column": "d", "max_value": 5}),
    ("expect_column_min_to_be_between", {"column": "day", "min_value": "2000-01-01"}),
    ("expect_column_min_to_be_between", {"column": "row", "min_value": 0, "strict_min": True}),
    ("expect_column_sum_to_be_between", {"column": "row", "min_value": 79800, "max_value": 79800}),
    ("expect_column_mean_to_be_between", {"column": "row", "max_value": 199.5, "strict_max": True}),
    ("expect_column_values_to_not_be_null", {"column": "s", "mostly": 0.9}),
    ("expect_column_values_to_be_between", {"column": "n", "min_value": 0, "mostly": 0.5}),
    ("expect_column_pair_values_to_be_equal", {"column_A": "s", "column_B": "t", "mostly": 0.01}),
    ("expect_column_values_to_be_of_type", {"column": "s", "type_": "StringType"}),
    ("expect_column_values_to_be_of_type", {"column": "n", "type_": "StringType"}),
    ("expect_table_columns_to_match_set", {"column_set": ["row", *COLUMNS]}),
    ("expect_table_columns_to_match_set", {"column_set": ["row"]}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": f"{FOUND} n > 100 AND s RLIKE '^.{{{{3}}}}$'"}),
    ("unexpected_rows_expectation", {"unexpected_rows_query": f"{FOUND} row < 0"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark):
    df = spark.createDataFrame(generated(), f"row int, {SCHEMA}").coalesce(1).persist()
    yield df
    df.unpersist()


@pytest.fixture(scope="module")
def validator(rows):
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("parity").add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": rows})
    return lambda suite: batch.validate(
        gx.ExpectationSuite(name=suite.name, expectations=[_gx(rule) for rule in suite.rules]),
        result_format={"result_format": "COMPLETE", "unexpected_index_column_names": ["row"]},
    )


def _gx(rule):
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    configuration = ExpectationConfiguration(type=rule.type, kwargs=dict(rule.kwargs), meta={"id": rule.id})
    return configuration.to_domain_obj()


def suite_of(cases):
    columns = COLUMNS | {"row": "int"}
    rules = []
    for number, (kind, kwargs) in enumerate(cases):
        identity = str(uuid.UUID(int=number + 1))
        meta = {"why": "w", "what_to_do": "d"}
        written = {"type": kind, "kwargs": kwargs, "id": identity, "severity": "critical", "meta": meta}
        assert rule_mistakes(written, columns) == [], (kind, kwargs)
        rules.append(Rule(identity, kind, kwargs, "critical", "w", "d"))
    return Suite("parity", tuple(rules), columns, ("row",))


def test_every_row_type_is_compared():
    assert set(CASES) == {name for name, expectation in TYPES.items() if expectation.level == ROW}


def test_row_verdicts_are_those_of_gx(rows, validator):
    suite = suite_of([(kind, kwargs) for kind, several in CASES.items() for kwargs in several])
    ours = {rule.id: set() for rule in suite.rules}
    for row in rows.select("row", broken(suite).alias("broken")).collect():
        for identity in row["broken"]:
            ours[identity].add(row["row"])
    theirs = {}
    for result in validator(suite).results:
        assert not result.exception_info.get("raised_exception"), (result.expectation_config, result.exception_info)
        found = result.result.get("unexpected_index_list") or []
        theirs[result.expectation_config.meta["id"]] = {row["row"] for row in found}
    different = [(rule.name, rule.expected, ours[rule.id] ^ theirs[rule.id]) for rule in suite.rules]
    assert [found for found in different if found[2]] == []
    assert all(len(found) > 0 for found in ours.values()), "a rule that nothing breaks shows nothing"


def test_table_verdicts_are_those_of_gx(rows, validator):
    suite = suite_of(TABLE_CASES)
    ours = {outcome.rule.id: outcome.passed for outcome in judge(rows, suite)}
    results = validator(suite).results
    assert [r.exception_info for r in results if r.exception_info.get("raised_exception")] == []
    theirs = {result.expectation_config.meta["id"]: result.success for result in results}
    different = [(rule.type, rule.kwargs, ours[rule.id]) for rule in suite.rules if ours[rule.id] != theirs[rule.id]]
    assert different == []
