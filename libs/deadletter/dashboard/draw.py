"""Widgets and their rows to HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go
from markdown_it import MarkdownIt

from deadletter.dashboard.definition import Widget
from deadletter.pages import html
from deadletter.pages.charts import COLOURS, literal, styled

ROW_HEIGHT = 72
"""Pixels of one cell's height."""
CUT = 160
"""Characters of a table's value that are shown."""


def draw(widget: Widget, rows: list[dict]) -> str:
    """The inside of a widget."""
    if widget.kind == "text":
        return MarkdownIt("js-default").render("".join(widget.lines))
    if widget.kind == "counter":
        return counter(widget, rows)
    if widget.kind == "table":
        return table(widget, rows)
    return html.chart(rows, lambda some: {"pie": pie}.get(widget.kind, xy)(widget, some))


def counter(widget: Widget, rows: list[dict]) -> str:
    """A figure with its name."""
    value = rows[0][widget.encodings["value"]["fieldName"]] if rows else None
    # Databricks takes no COALESCE around a counter's sum, and the sum of no rows is null
    return f'<p class="figure">{escape(html.plain(0 if value is None else value))}</p>'


def table(widget: Widget, rows: list[dict]) -> str:
    """The columns that the widget names, in its order and with its headings."""
    headings = {column["fieldName"]: _name(column) for column in widget.encodings["columns"]}
    return html.table(rows, list(headings), headings, CUT)


def pie(widget: Widget, rows: list[dict]) -> go.Figure:
    """Shares of a whole."""
    label, value = (widget.encodings[name]["fieldName"] for name in ("color", "angle"))
    figure = go.Figure()
    figure.add_pie(
        labels=[literal(row[label]) for row in rows],
        values=[row[value] for row in rows],
        marker={"colors": COLOURS},
        hole=0.5,
    )
    return styled(figure, None, None, height=_height(widget))


def xy(widget: Widget, rows: list[dict]) -> go.Figure:
    """Bars, lines or areas: a series for each value of ``color``, or for each field of ``y``."""
    x, y = widget.encodings["x"], widget.encodings["y"]
    figure = go.Figure()
    for number, (name, points) in enumerate(series(widget, rows)):
        _add(figure, widget.kind, name, points, COLOURS[number % len(COLOURS)])
    mode = {"barmode": "group" if widget.grouped else "stack"} if widget.kind == "bar" else {}
    return styled(figure, _name(x), _name(y), height=_height(widget), **mode)


def series(widget: Widget, rows: list[dict]) -> list[tuple[str, list[tuple]]]:
    """``(name, [(x, y), ...])`` for each series, in the order in which their names first occur."""
    x, y = widget.encodings["x"]["fieldName"], widget.encodings["y"]
    if "fields" in y:
        return [(_name(f), [(row[x], row[f["fieldName"]]) for row in rows]) for f in y["fields"]]
    colour = widget.encodings.get("color", {}).get("fieldName")
    found: dict[str, list[tuple]] = {}
    for row in rows:
        found.setdefault(str(row[colour]) if colour else _name(y), []).append((row[x], row[y["fieldName"]]))
    return list(found.items())


def _add(figure: go.Figure, kind: str, name: str, points: Sequence[tuple], colour: str) -> None:
    xs, ys = [literal(x) for x, _ in points], [literal(y) for _, y in points]
    if kind == "bar":
        figure.add_bar(name=literal(name), x=xs, y=ys, marker_color=colour)
    elif kind == "area":
        # between two bars of time there is nothing: a straight line would tell of deaths that were not
        figure.add_scatter(name=literal(name), x=xs, y=ys, line={"color": colour, "shape": "hvh"}, stackgroup="all")
    else:
        figure.add_scatter(name=literal(name), x=xs, y=ys, mode="lines+markers", line={"color": colour})


def _name(encoding: Mapping) -> str:
    """What people call a field: its own name, where the file has no other; several fields together need have none."""
    return encoding.get("displayName", encoding.get("fieldName"))


def _height(widget: Widget) -> int:
    return widget.position[3] * ROW_HEIGHT - 60
