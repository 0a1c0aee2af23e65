"""Columns that Spark's own functions have no word for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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


def bound(value: Column, body: Callable[[Column], Column]) -> Column:
    """What ``body`` makes of ``value``, which is worked out once, however often ``body`` names it.

    A column is put wherever it is named. What is made of several such columns, each in a function of an array's
    elements, grows with the product of how often each is named, and so does the time to plan it.

    >>> df = spark.range(3)
    >>> [row[0] for row in df.select(bound(F.col("id") + 1, lambda n: n * n)).collect()]
    [1, 4, 9]
    """
    return F.get(F.transform(F.array(value), body), F.lit(0))
