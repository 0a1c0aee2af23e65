"""The page: figures and charts put into one HTML file that opens offline."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from plotly.offline import get_plotlyjs

from deadletter.errors import DeadletterError
from deadletter.lake import Lake
from deadletter.report import charts
from deadletter.report.queries import MOST_PATTERNS, MOST_ROWS, Figures, figures

NOTHING = '<p class="nothing">Nothing to show.</p>'
HEADINGS = {
    "place": "queue",
    "dead_lettered": "dead letters",
    "expired_unseen": "expired unseen",
    "delayed": "posted with a delay",
    "kind": "what differs",
    "table_name": "table",
    "runs": "failed in runs",
    "last_failed": "last failed (UTC)",
    "then": "what happened then",
}
"""What people call the columns of the report's tables."""


def write_report(lake: Lake, out: str, reveal: bool = False) -> str:
    """Write ``out/index.html`` from the lake's gold tables; returns its path.

    Private values in examples are masked unless ``reveal``.
    """
    folder = Path(out)
    page = render(figures(lake, reveal), _docs_link(lake, folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(page, encoding="utf-8")
    except OSError as error:
        raise DeadletterError(f"cannot write the report to {folder}: {error.strerror}") from None
    return str(folder / "index.html")


def _docs_link(lake: Lake, out: Path) -> str:
    """The Data Docs' address as seen from the page; empty where the lake has none."""
    docs = Path(lake.folder, "quality", "data_docs", "index.html")
    return os.path.relpath(docs, out.absolute()) if docs.is_file() else ""


def render(shown: Figures, docs: str = "") -> str:
    """The whole page as text. ``docs``: where the Data Docs are, relative to the page; empty: nowhere."""
    template = files("deadletter.report").joinpath("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        headline="".join(
            f"<div><dt>{escape(k)}</dt><dd>{escape(plain(v))}</dd></div>" for k, v in shown.headline.items()
        ),
        over_time=chart(shown.over_time, lambda rows: charts.over_time(rows, shown.bucket)),
        by_reason=first(shown.by_reason, MOST_ROWS, partial(chart, draw=charts.by_reason)),
        survival=first(shown.survival, MOST_ROWS, partial(chart, draw=charts.survival)),
        patterns="".join(card(row) for row in shown.patterns[:MOST_PATTERNS]) or NOTHING,
        left_out=cut_note(shown.patterns, MOST_PATTERNS, "patterns") + muted_note(shown.muted),
        delays=first_rows(shown.delays, ("place", "posted", "delayed", "expired_unseen")),
        health=first_rows(shown.health, ("place", "posted", "claimed", "settled", "dead_lettered")),
        discrepancies=first_rows(shown.discrepancies, ("place", "kind", "n", "example")),
        quality_runs=chart(shown.quality_runs, charts.failing_rules),
        quality_rules=first_rows(
            shown.quality_rules,
            ("table_name", "rule", "severity", "runs", "last_failed", "observed", "expected", "then"),
        ),
        docs=f'<p><a href="{escape(quote(docs))}">Every rule of the latest runs (Data Docs)</a></p>' if docs else "",
        quarantine=first_rows(shown.quarantine, ("system", "reason", "n", "example")),
        plotly=get_plotlyjs(),
    )


def first(rows: list[dict], most: int, draw: Callable[[list[dict]], str]) -> str:
    """The first ``most`` rows, drawn, and a word where there are others."""
    return draw(rows[:most]) + cut_note(rows, most)


def first_rows(
    rows: list[dict], names: Sequence[str], most: int = MOST_ROWS, headings: Mapping[str, str] = HEADINGS
) -> str:
    """The first ``most`` rows as a :func:`table`, and a word where there are others."""
    return first(rows, most, partial(table, names=names, headings=headings))


def cut_note(rows: Sequence, most: int, what: str = "rows") -> str:
    """A word where rows are left out: there are more than a page takes."""
    return f'<p class="nothing">The first {most:,} {what}; the table has all.</p>' if len(rows) > most else ""


def muted_note(muted: int) -> str:
    """A word where patterns were left out because people muted them."""
    told = f"Counted above but not listed: {muted:,} muted; <code>deadletter patterns list --all</code> has all."
    return f'<p class="nothing">{told}</p>' if muted else ""


def chart(rows: list[dict], draw: Callable) -> str:
    """A chart's HTML, or a word where there are no rows. The script is in the page once."""
    if not rows:
        return NOTHING
    return draw(rows).to_html(
        full_html=False, include_plotlyjs=False, config={"displayModeBar": False, "responsive": True}
    )


def table(rows: list[dict], names: Sequence[str], headings: Mapping[str, str] = HEADINGS) -> str:
    """An HTML table of some columns, every value escaped.

    >>> print(table([{"place": "<b>", "n": 1200}], ("place", "n")))
    <div class="wide"><table><thead><tr><th>queue</th><th>n</th></tr></thead>
    <tbody><tr><td>&lt;b&gt;</td><td class="number">1,200</td></tr></tbody></table></div>
    """
    if not rows:
        return NOTHING
    head = "".join(f"<th>{escape(headings.get(name, name))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(row[name]) for name in names)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    return f"<td{kind_of(value)}>{escape(plain(value))}</td>"


def kind_of(value: object) -> str:
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


def card(pattern: dict) -> str:
    """A pattern with its example."""
    queues = ", ".join(q.replace("persistent://", "") for q in pattern["queues"])
    seen = f"first {pattern['first_seen']}, last {pattern['last_seen']}"
    facts = f"{pattern['dead_letters']:,} dead letters · {pattern['status']} · {seen}"
    told = [f"{one['difference']} ({one['dead_letters']:,})" for one in pattern["differences"][:MOST_TOLD]]
    told += [
        f"{one['what']} {one['value']} ({one['dead_letters']:,})" for one in pattern["concentrated_in"][:MOST_TOLD]
    ]
    error = pattern["example_error"]
    return (
        f"<article><h3><code>{escape(pattern['template'])}</code></h3>"
        f"<p>{escape(facts)}</p><p>in {escape(queues)}</p>"
        + (f"<p>{escape('; '.join(told))}</p>" if told else "")
        + f"<details><summary>Example: message {escape(str(pattern['example_id']))}</summary>"
        f"<pre>{escape(pretty(pattern['example_payload']))}</pre>"
        + (f"<pre>{escape(error[:LONGEST_ERROR])}</pre>" if error else "")
        + "</details>"
        f'<p class="id">pattern {escape(pattern["pattern_id"])}, by {escape(pattern["kind"])}</p></article>'
    )


MOST_TOLD = 3
"""Differences, and concentrations, that a card tells."""
LONGEST_ERROR = 2000
PLACEHOLDER = re.compile("<[a-z_]+>")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}\[\],:]|[^\s"{}\[\],:]+')


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
    depth, parts = 0, []
    for token in TOKEN.findall(text):
        depth += (token in ("{", "[")) - (token in ("}", "]"))
        feed = "\n" + "  " * depth
        if token in ("}", "]"):
            parts += feed, token
        else:
            parts += token, feed if token in ("{", "[", ",") else " " if token == ":" else ""
    return "".join(parts)
