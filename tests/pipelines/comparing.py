"""Whether two frames, or two lakes, hold the same rows."""

from chispa import assert_df_equality
from chispa.dataframe_comparer import DataFramesNotEqualError
from chispa.schema_comparer import SchemasNotEqualError

from deadletter import tables

SILVER = (tables.MESSAGE_STATE, tables.CLAIMS, tables.CLAIM_ATTEMPTS, tables.QUEUE_POLICIES)
"""What is merged of good events."""
GOLD = (
    tables.DEAD_LETTERS,
    tables.POISON_PATTERNS,
    tables.QUEUE_HEALTH,
    tables.DELIVERY_SURVIVAL,
    tables.DISCREPANCIES,
    tables.AT_RISK,
    tables.SUSPECTS,
    tables.QUEUE_OUTLOOK,
    tables.QUEUE_PROFILE,
    tables.DEAD_LETTER_COUNTS,
    tables.HEALTHY_SAMPLE,
)
"""What is derived, of whatever events."""
COMPARED = (*SILVER, *GOLD, tables.COLLATERAL)
"""What the same good events give, whatever was refused beside them."""


def assert_same_rows(one, other, what=""):
    """Both have the same columns and hold the same rows, each as often."""
    try:
        assert_df_equality(one, other, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)
    except (DataFramesNotEqualError, SchemasNotEqualError) as error:
        error.add_note(what)
        raise


def assert_same_tables(one, other, compared):
    """The tables of two lakes hold the same rows, each as often, whatever file an event came in."""
    for table in compared:
        assert_same_rows(*[lake.read(table).drop("source_file") for lake in (one, other)], table.full_name)
