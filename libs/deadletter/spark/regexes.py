"""Regular expressions that people and brokers write, and Spark is to read."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from deadletter.spark.frames import frame_of


def unreadable(spark: SparkSession, patterns: Sequence[str]) -> list[str]:
    """Those of the ``patterns`` that Spark cannot read: one of them would end every query that uses it.

    Spark itself is asked, as it alone knows its dialect (Java's), and where a server shares its JVM no query may call
    Java. It is asked for all at once, and where it refuses, for each half.

    >>> unreadable(spark, ["^a+$", "(?P<name>x)", "b.*", "^{eu}-"])
    ['(?P<name>x)', '^{eu}-']
    """
    if not patterns:
        return []
    try:
        rows = frame_of(spark, [(pattern,) for pattern in patterns], "pattern STRING")
        rows.agg(F.count_if(F.expr("'' RLIKE pattern"))).collect()
    except PySparkException as error:
        if not (error.getCondition() or "").startswith("INVALID_PARAMETER_VALUE"):
            raise
        middle = len(patterns) // 2
        return [*unreadable(spark, patterns[:middle]), *unreadable(spark, patterns[middle:])] if middle else [*patterns]
    return []
