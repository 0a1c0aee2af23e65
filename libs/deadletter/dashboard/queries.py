"""What the widgets ask, as SQL over their data sets, and the rows they get."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from pyspark.sql import functions as F

from deadletter.dashboard.definition import Dashboard, Query, Widget
from deadletter.lake import Lake
from deadletter.pages.rows import rows
from deadletter.spark.parallel import together
from deadletter.spark.session import on_databricks
from deadletter.spark.sqltext import sql_list, sql_name, sql_string

MOST_ROWS = 5000
"""Rows of one widget's query that a page can bear."""
Choice = Mapping[str, Sequence[str]]
"""What is chosen: a filter's name to its values; a date range has two, see :func:`ends`."""


def query_sql(query: Query, source: str, conditions: Sequence[str] = ()) -> str:
    """The SQL of a widget's query over the view ``source``.

    >>> print(query_sql(Query("q", "d", {"place": "`place`", "n": "SUM(`n`)"}, False), "d", ["`place` IN ('a')"]))
    SELECT `place` AS `place`, SUM(`n`) AS `n` FROM d WHERE (`place` IN ('a')) GROUP BY ALL
    """
    wanted = ", ".join(f"{expression} AS {sql_name(name)}" for name, expression in query.fields.items())
    where = f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""
    return f"SELECT {wanted} FROM {source}{where}{'' if query.raw else ' GROUP BY ALL'}"


def conditions(filters: Sequence[Widget], choice: Choice) -> dict[str, list[str]]:
    """For each data set the SQL conditions that the chosen values put on it."""
    found: dict[str, list[str]] = {}
    for widget in filters:
        values = choice.get(widget.name, ())
        if not any(values):
            continue
        for query in widget.queries:
            (expression,) = query.fields.values()
            condition = _condition(widget.kind, expression, values)
            found.setdefault(query.dataset, []).extend([condition] if condition else [])
    return found


def ends(values: Sequence[str]) -> tuple[str, str]:
    """First and last day of a date range, empty where none is chosen: a link can have any number of them, and others.

    >>> ends(["2026-01-01"]), ends(["2026-02-30", "soon"])
    (('2026-01-01', ''), ('', ''))
    """
    first, last, *_ = *map(_day, values), "", ""
    return first, last


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ""


def _condition(kind: str, expression: str, values: Sequence[str]) -> str:
    if kind == "filter-date-range-picker":
        low, high = ends(values)
        bounds = [f"{expression} >= {sql_string(low)}::date"] if low else []
        bounds += [f"{expression} < {sql_string(high)}::date + INTERVAL 1 DAY"] if high else []
        return " AND ".join(bounds)
    return f"{expression} IN {sql_list(values)}"


@dataclass
class Data:
    """The data sets of a dashboard, read at the start and kept until :meth:`close`, so that all pages show one state of
    the lake; times become text. On Databricks each query reads them again: serverless compute refuses to keep a frame.
    """

    lake: Lake
    dashboard: Dashboard
    views: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        kept = []
        for name, sql in self.dashboard.datasets.items():
            self.views[name] = f"dashboard_{uuid.uuid4().hex}"
            df = self.lake.query(sql)
            if not on_databricks():
                df = df.persist()
                kept.append(df)
            df.createOrReplaceTempView(self.views[name])
        together(df.count for df in kept)  # a frame is kept when it is read

    def close(self) -> None:
        """Let go of the data sets: a kept one would be compared with every later plan of the session."""
        for view in self.views.values():
            if not on_databricks():
                self.lake.spark.table(view).unpersist()
            self.lake.spark.catalog.dropTempView(view)

    def rows(self, query: Query, wanted: Sequence[str] = ()) -> tuple[list[dict], bool]:
        """Up to :data:`MOST_ROWS` rows of a widget's query, grouped ones the newest, in the order of their columns; and
        whether there are more."""
        df = self.lake.spark.sql(query_sql(query, self.views[query.dataset], wanted))
        if not query.raw:
            times = [F.desc(sql_name(name)) for name, kind in df.dtypes if kind == "timestamp"]
            df = df.orderBy(*times, *map(sql_name, df.columns))
        found = rows(df, MOST_ROWS + 1)
        shown = found[:MOST_ROWS]
        return shown if query.raw else sorted(shown, key=_nulls_first), len(found) > MOST_ROWS

    def choices(self, widget: Widget) -> tuple[list[str], bool]:
        """The values a filter offers, of all data sets it holds for; and whether there are more."""
        found = [self.rows(query) for query in widget.queries]
        values = {str(value) for shown, _ in found for row in shown for value in row.values()}
        return sorted(values - {"None", ""}), any(more for _, more in found)


def _nulls_first(row: Mapping) -> list[tuple]:
    return [(value is not None, value) for value in row.values()]
