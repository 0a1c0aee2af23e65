"""Rows to charts."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import plotly.graph_objects as go

# Okabe and Ito's colours and then Tol's, which people with any colour vision can tell apart; without their yellow,
# which hardly shows on white
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F"),
    *("#332288", "#117733", "#882255", "#44AA99", "#999933", "#AA4499"),
)
MOST_TICKS = 30
"""Deliveries up to which an axis names each."""


def literal(value: object) -> object:
    """A text that plotly shows as it is, which else takes ``<word>`` for a tag and leaves it out.

    >>> literal("orders<eu>"), literal(7)
    ('orders&lt;eu>', 7)
    """
    return value.replace("&", "&amp;").replace("<", "&lt;") if isinstance(value, str) else value


def over_time(rows: list[dict], bucket: str) -> go.Figure:
    """Dead letters in time, one colour a queue."""
    figure = go.Figure()
    for number, (place, members) in enumerate(_by(rows, "place")):
        figure.add_bar(
            name=literal(place),
            x=[row["time"] for row in members],
            y=[row["n"] for row in members],
            marker_color=COLOURS[number % len(COLOURS)],
        )
    return styled(figure, f"{bucket} (UTC)", "dead letters", barmode="stack")


SEVERITIES = {"critical": "#D55E00", "warning": "#E69F00", "info": "#56B4E9"}


def failing_rules(rows: list[dict]) -> go.Figure:
    """Rules that failed, run by run, one colour a severity; a run in which all held is an empty place."""
    figure = go.Figure()
    for severity, members in _by(rows, "severity"):
        figure.add_bar(
            name=severity,
            x=[row["time"] for row in members],
            y=[row["n"] for row in members],
            marker_color=SEVERITIES.get(severity, COLOURS[0]),
        )
    figure.update_xaxes(type="category")  # runs stand side by side, however far apart in time
    figure.update_yaxes(rangemode="tozero", tickformat="d")
    return styled(figure, "run (UTC)", "rules that failed", barmode="stack", height=260)


def by_reason(rows: list[dict]) -> go.Figure:
    """Dead letters of each queue, one colour a reason."""
    figure = go.Figure()
    places = list(dict.fromkeys(literal(row["place"]) for row in rows))
    for number, (reason, members) in enumerate(_by(rows, "reason")):
        figure.add_bar(
            name=literal(reason),
            orientation="h",
            y=[literal(row["place"]) for row in members],
            x=[row["n"] for row in members],
            marker_color=COLOURS[number % len(COLOURS)],
        )
    figure.update_yaxes(categoryorder="array", categoryarray=places[::-1], automargin=True)
    return styled(figure, "dead letters", None, barmode="stack", height=140 + 34 * len(places))


def survival(rows: list[dict]) -> go.Figure:
    """For each queue the share of messages that delivery k has not settled, see :func:`unsettled`."""
    figure = go.Figure()
    for number, (place, members) in enumerate(_by(rows, "place")):
        points = unsettled(members)
        figure.add_scatter(
            name=literal(place),
            x=[k for k, _ in points],
            y=[share for _, share in points],
            mode="lines+markers",
            line={"shape": "hv", "color": COLOURS[number % len(COLOURS)]},
        )
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    if all(row["delivery"] <= MOST_TICKS for row in rows):
        figure.update_xaxes(dtick=1)
    return styled(figure, "deliveries", "not settled yet")


def unsettled(rows: list[dict]) -> list[tuple[int, float]]:
    """Kaplan and Meier's estimate: the share of messages not settled after k deliveries.

    A message that died or whose outcome is not known leaves the count after its last delivery (censored).
    Rows of the same delivery are added up.

    >>> unsettled([{"delivery": 1, "reached": 10, "settled": 5}, {"delivery": 2, "reached": 4, "settled": 1}])
    [(0, 1.0), (1, 0.5), (2, 0.375)]
    """
    share, points = 1.0, [(0, 1.0)]
    for delivery, members in groupby(sorted(rows, key=itemgetter("delivery")), key=itemgetter("delivery")):
        at_k = list(members)
        reached, settled = (sum(row[name] for row in at_k) for name in ("reached", "settled"))
        share *= 1 - settled / reached
        points.append((delivery, share))
    return points


def limits(rows: list[dict]) -> go.Figure:
    """For each limit the deliveries it would have saved, and the messages it would have killed for nothing."""
    figure = go.Figure()
    for number, (name, key) in enumerate(
        (("deliveries saved", "deliveries_saved"), ("killed though settled later", "stopped_though_settled"))
    ):
        figure.add_bar(
            name=name, x=[row["limit"] for row in rows], y=[row[key] for row in rows], marker_color=COLOURS[number]
        )
    figure.update_xaxes(dtick=1)
    return styled(figure, "limit (deliveries)", None, barmode="group")


def _by(rows: list[dict], name: str) -> list[tuple[str, list[dict]]]:
    ordered = sorted(rows, key=itemgetter(name))
    return [(value, list(members)) for value, members in groupby(ordered, key=itemgetter(name))]


def styled(figure: go.Figure, x: str | None, y: str | None, height: int = 380, **layout) -> go.Figure:
    """The figure in the look of all charts; ``x`` and ``y`` are the axes' titles."""
    figure.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        xaxis_title=x,
        yaxis_title=y,
        font={"family": "system-ui, sans-serif", "size": 13},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        **layout,
    )
    return figure
