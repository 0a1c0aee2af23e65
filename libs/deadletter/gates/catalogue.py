"""The Great Expectations types a suite may use: what each takes, and on which columns it works."""

from __future__ import annotations

from dataclasses import dataclass

ROW, TABLE = "row", "table"
COLUMN, COUNT, SHARE = "column", "count", "share"
ANY, STRING, NUMBER, ORDERED, PLAIN = "any", "string", "number", "ordered", "plain"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TIMES = ("date", "timestamp")
_PLAIN = (*_NUMBERS, *_TIMES, "string", "boolean")
FAMILIES = {STRING: ("string",), NUMBER: _NUMBERS, ORDERED: (*_NUMBERS, *_TIMES), PLAIN: _PLAIN}
"""Which Spark types a family takes; ``any`` takes all. GX works on top-level columns, so nested types are no key."""


@dataclass(frozen=True)
class Expectation:
    """One type of expectation.

    ``level``: ``row`` where each row has a verdict of its own, else ``table``. ``columns``: the keywords that
    name its columns. ``family``: the column types it takes. ``bounds``: it takes ``min_value`` and
    ``max_value``, of the column's type, a count or a share. ``across``: it compares rows with each other.
    """

    level: str
    columns: tuple[str, ...] = ("column",)
    family: str = ANY
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    bounds: str = ""
    across: bool = False

    @property
    def allowed(self) -> tuple[str, ...]:
        """Every keyword it takes."""
        names = [*self.columns, *self.required, *self.optional, *(BOUNDS if self.bounds else ())]
        if self.level == ROW:
            names.append("mostly")
        if self.level == ROW or self.across:
            names.append("row_condition")
            names += ["ignore_row_if"] if self.columns in (PAIR, LIST) else []
        return tuple(names)


BOUNDS = ("min_value", "max_value", "strict_min", "strict_max")
PAIR, LIST, NONE = ("column_A", "column_B"), ("column_list",), ()

TYPES: dict[str, Expectation] = {
    "expect_column_values_to_not_be_null": Expectation(ROW),
    "expect_column_values_to_be_null": Expectation(ROW),
    "expect_column_values_to_be_in_set": Expectation(ROW, family=PLAIN, required=("value_set",)),
    "expect_column_values_to_not_be_in_set": Expectation(ROW, family=PLAIN, required=("value_set",)),
    "expect_column_values_to_be_between": Expectation(ROW, family=ORDERED, bounds=COLUMN),
    "expect_column_values_to_match_regex": Expectation(ROW, family=STRING, required=("regex",)),
    "expect_column_values_to_not_match_regex": Expectation(ROW, family=STRING, required=("regex",)),
    "expect_column_values_to_match_regex_list": Expectation(
        ROW, family=STRING, required=("regex_list",), optional=("match_on",)
    ),
    "expect_column_values_to_not_match_regex_list": Expectation(ROW, family=STRING, required=("regex_list",)),
    "expect_column_value_lengths_to_be_between": Expectation(ROW, family=STRING, bounds=COUNT),
    "expect_column_value_lengths_to_equal": Expectation(ROW, family=STRING, required=("value",)),
    "expect_column_pair_values_a_to_be_greater_than_b": Expectation(ROW, PAIR, ORDERED, optional=("or_equal",)),
    "expect_column_pair_values_to_be_equal": Expectation(ROW, PAIR, PLAIN),
    "expect_column_pair_values_to_be_in_set": Expectation(ROW, PAIR, PLAIN, ("value_pairs_set",)),
    "expect_multicolumn_sum_to_equal": Expectation(ROW, LIST, NUMBER, ("sum_total",)),
    "expect_multicolumn_values_to_be_equal": Expectation(ROW, LIST, PLAIN),
    "expect_select_column_values_to_be_unique_within_record": Expectation(ROW, LIST, PLAIN),
    "expect_column_values_to_be_unique": Expectation(TABLE, family=PLAIN, across=True),
    "expect_compound_columns_to_be_unique": Expectation(TABLE, LIST, PLAIN, across=True),
    "expect_table_row_count_to_be_between": Expectation(TABLE, NONE, bounds=COUNT),
    "expect_table_row_count_to_equal": Expectation(TABLE, NONE, required=("value",)),
    "expect_column_proportion_of_non_null_values_to_be_between": Expectation(TABLE, bounds=SHARE),
    "expect_column_distinct_values_to_be_in_set": Expectation(TABLE, family=PLAIN, required=("value_set",)),
    "expect_column_distinct_values_to_contain_set": Expectation(TABLE, family=PLAIN, required=("value_set",)),
    "expect_column_distinct_values_to_equal_set": Expectation(TABLE, family=PLAIN, required=("value_set",)),
    "expect_column_min_to_be_between": Expectation(TABLE, family=ORDERED, bounds=COLUMN),
    "expect_column_max_to_be_between": Expectation(TABLE, family=ORDERED, bounds=COLUMN),
    "expect_column_sum_to_be_between": Expectation(TABLE, family=NUMBER, bounds=COLUMN),
    "expect_column_mean_to_be_between": Expectation(TABLE, family=NUMBER, bounds=COLUMN),
    "expect_column_values_to_be_of_type": Expectation(TABLE, required=("type_",)),
    "expect_table_columns_to_match_set": Expectation(TABLE, NONE, required=("column_set",)),
    "unexpected_rows_expectation": Expectation(TABLE, NONE, required=("unexpected_rows_query",)),
}
"""Everything a suite may use. A type that is not here is refused when its file is loaded."""


def in_family(kind: str, family: str) -> bool:
    """Whether a Spark type (simple string) belongs to a family.

    >>> in_family("decimal(10,2)", NUMBER), in_family("string", ORDERED), in_family("array<string>", ANY)
    (True, False, True)
    """
    return family == ANY or kind.partition("(")[0] in FAMILIES[family]
