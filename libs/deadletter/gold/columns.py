"""What Python knows, as a column."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F


def looked_up(values: Mapping[str, object], key: Column) -> Column:
    """What ``values`` has for ``key``; null where it has nothing.

    >>> df = spark.createDataFrame([("a",), ("b",), (None,)], "key STRING")
    >>> [row[0] for row in df.select(looked_up({"a": 1}, F.col("key"))).collect()]
    [1, None, None]
    >>> df.select(looked_up({}, F.col("key"))).first()[0] is None
    True
    """
    if not values:  # an empty map has no type that a key could be of
        return F.lit(None)
    pairs = F.create_map(*[F.lit(part) for pair in sorted(values.items()) for part in pair])
    return F.try_element_at(pairs, key)
