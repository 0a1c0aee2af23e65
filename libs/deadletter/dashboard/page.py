"""A dashboard's page as HTML: filters above, widgets in a grid of six columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import quote, urlencode

from plotly.offline import get_plotlyjs

from deadletter.dashboard.definition import Page, Widget
from deadletter.dashboard.draw import ROW_HEIGHT, draw
from deadletter.dashboard.queries import MOST_ROWS, Choice, Data, conditions, ends
from deadletter.spark.parallel import together


def render(data: Data, page: Page, choice: Choice, script: str | None = None) -> str:
    """The whole page. ``script``: where the server has plotly's script; ``None`` for a file that opens offline,
    which has the script in it and no filters, as nobody is there to answer them."""
    filters = data.dashboard.filters(page) if script else []
    wanted = conditions(filters, choice)
    drawn: dict[str, str] = {}

    def fill(name: str, make: Callable[[], str]) -> None:
        drawn[name] = make()

    shown = [widget for widget in page.widgets if not widget.is_filter]
    together(
        [
            *[partial(fill, w.name, partial(_draw, data, w, wanted, bool(script))) for w in shown],
            *[partial(fill, w.name, partial(_control, data, w, choice.get(w.name, ()))) for w in filters],
        ]
    )
    template = files("deadletter.dashboard").joinpath("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(page.title),
        script=f'<script src="{script}"></script>' if script else f"<script>{get_plotlyjs()}</script>",
        nav="".join(_tab(other, page, choice, bool(script)) for other in data.dashboard.canvases()),
        form=_form(page, "".join(drawn[widget.name] for widget in filters)) if filters else "",
        row_height=ROW_HEIGHT,
        widgets="".join(_framed(widget, drawn[widget.name]) for widget in shown),
    )


def _draw(data: Data, widget: Widget, wanted: dict[str, list[str]], filtered: bool) -> str:
    found = [data.rows(query, wanted.get(query.dataset, ())) for query in widget.queries]
    cut = any(more for _, more in found)
    others = "; filters show others" if filtered else ""
    note = f'<p class="cut">Not more than {MOST_ROWS:,} rows{others}.</p>' if cut else ""
    return note + draw(widget, [row for rows, _ in found for row in rows])


def _control(data: Data, widget: Widget, chosen: Sequence[str]) -> str:
    offered, cut = ([], False) if widget.kind == "filter-date-range-picker" else data.choices(widget)
    note = f'<p class="cut">Not more than {MOST_ROWS:,} values.</p>' if cut else ""
    # a link can choose what is not offered, or no more: it filters all the same
    others = [value for value in chosen if value and value not in offered]
    return control(widget, offered + others, chosen) + note


def _framed(widget: Widget, inside: str) -> str:
    x, y, width, height = widget.position
    place = f"grid-column:{x + 1}/span {width};grid-row:{y + 1}/span {height}"
    title = f"<h2>{escape(widget.title)}</h2>" if widget.title else ""
    return f'<section id="{escape(widget.name)}" class="{widget.kind}" style="{place}">{title}{inside}</section>'


def _form(page: Page, controls: str) -> str:
    name = escape(page.name)
    return (
        f'<form method="get"><input type="hidden" name="page" value="{name}">{controls}'
        f'<button>Apply</button> <a href="?{escape(urlencode({"page": page.name}))}">Clear</a></form>'
    )


def _tab(other: Page, page: Page, choice: Choice, served: bool) -> str:
    here = ' aria-current="page"' if other.name == page.name else ""
    link = "?" + urlencode({"page": other.name, **choice}, doseq=True) if served else quote(f"{other.name}.html")
    return f'<a href="{escape(link)}"{here}>{escape(other.title)}</a>'


def control(widget: Widget, offered: list[str], chosen: Sequence[str]) -> str:
    r"""A filter as a form's control. Whatever is offered or chosen is escaped.

    >>> from deadletter.dashboard.definition import Widget
    >>> widget = Widget("w", "filter-single-select", "Broker", (), (), {}, False, (0, 0, 1, 1))
    >>> print(control(widget, ["<b>"], ["<b>"]).replace("><o", ">\n<o"))
    <label>Broker <select name="w">
    <option value="">all</option>
    <option value="&lt;b&gt;" selected>&lt;b&gt;</option></select></label>
    """
    name = escape(widget.name)
    if widget.kind == "filter-date-range-picker":
        bounds = "".join(
            f'<input type="date" name="{name}" aria-label="{end}" value="{escape(value)}">'
            for end, value in zip(("from", "to"), ends(chosen), strict=True)
        )
        return f"<fieldset><legend>{escape(widget.title)}, from and to</legend>{bounds}</fieldset>"
    several = widget.kind == "filter-multi-select"
    options = "" if several else '<option value="">all</option>'
    for value in offered:
        # a browser would take the text for the value, with its spaces put together
        options += f'<option value="{escape(value)}"{" selected" if value in chosen else ""}>{escape(value)}</option>'
    start = f'<select name="{name}"{" multiple" if several else ""}>'
    return f"<label>{escape(widget.title)} {start}{options}</select></label>"
