"""Whether two frames hold the same rows."""

from chispa import assert_df_equality
from chispa.dataframe_comparer import DataFramesNotEqualError
from chispa.schema_comparer import SchemasNotEqualError


def assert_same_rows(one, other, what=""):
    """Both have the same columns and hold the same rows, each as often."""
    try:
        assert_df_equality(one, other, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)
    except (DataFramesNotEqualError, SchemasNotEqualError) as error:
        error.add_note(what)
        raise
