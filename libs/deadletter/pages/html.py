"""HTML that pages are made of: tables, charts, payloads, and a word where something is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape

import plotly.graph_objects as go

from deadletter.pages.rows import MOST_ROWS, cut

NOTHING = '<p class="nothing">Nothing to show.</p>'
NO_OTHERS: Mapping[str, str] = {}
PLACEHOLDER = re.compile("<[a-z_]+>")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}\[\],:]|[^\s"{}\[\],:]+')


def first(rows: list[dict], most: int, draw: Callable[[list[dict]], str]) -> str:
    """The first ``most`` rows, drawn, and a word where there are others."""
    return draw(rows[:most]) + cut_note(rows, most)


def first_rows(
    rows: list[dict], names: Sequence[str], most: int = MOST_ROWS, headings: Mapping[str, str] = NO_OTHERS
) -> str:
    """The first ``most`` rows as a :func:`table`, and a word where there are others."""
    return first(rows, most, partial(table, names=names, headings=headings))


def cut_note(rows: Sequence, most: int, what: str = "rows") -> str:
    """A word where rows are left out: there are more than a page takes."""
    return f'<p class="nothing">The first {most:,} {what}; the table has all.</p>' if len(rows) > most else ""


def chart(rows: list[dict], draw: Callable) -> str:
    """A chart's HTML, or a word where there are no rows. The script is in the page once."""
    return figure(draw(rows)) if rows else NOTHING


def figure(drawn: go.Figure) -> str:
    """A figure's HTML, without the script."""
    return drawn.to_html(full_html=False, include_plotlyjs=False, config={"displayModeBar": False, "responsive": True})


def table(
    rows: list[dict], names: Sequence[str], headings: Mapping[str, str] = NO_OTHERS, longest: int | None = None
) -> str:
    """An HTML table of some columns, every value escaped; ``headings``: what people call them, if not so; ``longest``:
    characters of a value that are shown, else all.

    >>> print(table([{"place": "<b>", "n": 1200}], ("place", "n"), {"place": "queue"}))
    <div class="wide"><table><thead><tr><th>queue</th><th>n</th></tr></thead>
    <tbody><tr><td>&lt;b&gt;</td><td class="number">1,200</td></tr></tbody></table></div>
    """
    if not rows:
        return NOTHING
    head = "".join(f"<th>{escape(headings.get(name, name))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(row[name], longest) for name in names)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(value: object, longest: int | None) -> str:
    text = plain(value)
    return f"<td{_kind_of(value)}>{escape(cut(text, longest) if longest else text)}</td>"


def _kind_of(value: object) -> str:
    """The class of a cell: numbers stand right."""
    return ' class="number"' if isinstance(value, int) and not isinstance(value, bool) else ""


def plain(value: object) -> str:
    """A value as text.

    >>> plain(1200), plain(True), plain(None)
    ('1,200', 'true', '')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else "" if value is None else str(value)


def pretty(payload: str | None) -> str:
    """A payload with line breaks where it is JSON, masked or not, at most 2,000 characters.

    All but the spaces stays as it is: a key that is there twice, or a number too large, may be what is wrong with it.

    >>> print(pretty('{"id":7, "id":8, "by":<name>, "n":[1e400, {}]}'))
    {
      "id": 7,
      "id": 8,
      "by": <name>,
      "n": [
        1e400,
        {}
      ]
    }
    >>> pretty("[" * 1500) == "[" * 1500
    True
    """
    text = payload or ""
    try:
        json.loads(PLACEHOLDER.sub("0", text))
        text = _indented(text)
    except (ValueError, RecursionError):
        pass
    return text if len(text) <= 2000 else text[:2000] + " …"


def _indented(text: str) -> str:
    depth = 0
    parts: list[str] = []
    for token in TOKEN.findall(text):
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        feed = "\n" + "  " * depth
        if token in ("}", "]"):
            parts += feed, token
        else:
            parts += token, feed if token in ("{", "[", ",") else " " if token == ":" else ""
    return "".join(parts)
