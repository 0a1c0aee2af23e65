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


def unescaped(text: Column) -> Column:
    """A text of a path or URI without its percent escapes; as it is where one of them is none.

    >>> df = spark.createDataFrame([("a%20b+c%2B",), ("100%",), (None,)], "text STRING")
    >>> [row[0] for row in df.select(unescaped(F.col("text"))).collect()]
    ['a b+c+', '100%', None]
    """
    plus_kept = F.replace(text, F.lit("+"), F.lit("%2B"))  # in a form, which that function is for, it is a blank
    return F.coalesce(F.try_url_decode(plus_kept), text)


def bound(value: Column, body: Callable[[Column], Column]) -> Column:
    """What ``body`` makes of ``value``, which is worked out once, however often ``body`` names it.

    A column is put wherever it is named. What is made of several such columns, each in a function of an array's
    elements, grows with the product of how often each is named, and so does the time to plan it.

    >>> df = spark.range(3)
    >>> [row[0] for row in df.select(bound(F.col("id") + 1, lambda n: n * n)).collect()]
    [1, 4, 9]
    """
    return F.get(F.transform(F.array(value), body), 0)
