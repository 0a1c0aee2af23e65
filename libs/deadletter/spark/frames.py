"""Rows that Python has, as a frame."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def frame_of(spark: SparkSession, rows: Iterable[tuple], schema: str) -> DataFrame:
    """The ``rows``, of no nested values, in columns as ``schema`` has them (``name type, …``); times have a zone.

    Spark plans with such a frame's values, as with those of a query. What ``createDataFrame`` makes of a list it works
    out each time the frame is read, in tasks of their own, and knows nothing of.

    >>> frame_of(spark, [("a", 1), ("b", None)], "name STRING, n BIGINT").show()
    +----+----+
    |name|   n|
    +----+----+
    |   a|   1|
    |   b|NULL|
    +----+----+
    >>> frame_of(spark, [], "name STRING").isEmpty()
    True
    """
    fields = struct_of(schema)
    named = [dict(zip(fields.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(named, to_arrow_schema(fields)), fields)


def struct_of(schema: str) -> StructType:
    """The columns ``name type, …`` as Spark's type.

    >>> struct_of("name STRING, n BIGINT").names
    ['name', 'n']
    """
    fields = StructType.fromDDL(schema)
    assert isinstance(fields, StructType)  # a DDL of one column without a name is that column's type
    return fields


def only_row(df: DataFrame) -> Row:
    """The row of a query that has one, such as an aggregate of a whole frame.

    >>> only_row(spark.range(3).selectExpr("count(*) AS n")).n
    3
    """
    row = df.first()
    assert row is not None, "the query has no row"
    return row
