"""The rows that a page shows, and a text that is too long for people."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.spark.sqltext import sql_name

MOST_ROWS = 500
"""Rows of one figure that a page can bear."""


def rows(df: DataFrame, most: int | None = None) -> list[dict]:
    """Up to ``most`` rows, or all; times as text in UTC, which a collected one is not.

    >>> rows(spark.sql("SELECT timestamp'2026-11-20 21:00:00' AS `a.b`, 1 AS `c``d`"))
    [{'a.b': '2026-11-20 21:00:00', 'c`d': 1}]
    """
    columns = [(name, kind, F.col(sql_name(name))) for name, kind in df.dtypes]
    told = [F.date_format(at, "yyyy-MM-dd HH:mm:ss") if kind == "timestamp" else at for _, kind, at in columns]
    shown = df.select(*[value.alias(name) for value, (name, *_) in zip(told, columns, strict=True)])
    return [row.asDict() for row in (shown.limit(most) if most else shown).collect()]


def cut(text: str, length: int) -> str:
    """At most ``length`` characters, with a mark where something is left out.

    >>> cut("poison message", 7)
    'poison…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"
