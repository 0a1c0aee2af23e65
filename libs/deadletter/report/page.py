"""The page: figures and charts put into one HTML file that opens offline."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from deadletter.errors import DeadletterError
from deadletter.lake import Lake
from deadletter.report import charts
from deadletter.report.queries import MOST_PATTERNS, MOST_ROWS, Figures, figures

NOTHING = '<p class="nothing">Nothing to show.</p>'


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
        by_reason=chart(shown.by_reason, charts.by_reason) + cut_note(shown.by_reason, MOST_ROWS),
        survival=chart(shown.survival, charts.survival) + cut_note(shown.survival, MOST_ROWS),
        patterns="".join(card(row) for row in shown.patterns) or NOTHING,
        left_out=cut_note(shown.patterns, MOST_PATTERNS, "patterns") + muted_note(shown.muted),
        delays=table(
            [r for r in shown.health if r["delayed"] or r["expired_unseen"]],
            ("place", "posted", "delayed", "expired_unseen"),
        ),
        health=table(shown.health, ("place", "posted", "claimed", "settled", "dead_lettered"))
        + cut_note(shown.health, MOST_ROWS),
        discrepancies=table(shown.discrepancies, ("place", "kind", "n", "example"))
        + cut_note(shown.discrepancies, MOST_ROWS),
        quality_runs=chart(shown.quality_runs, charts.failing_rules),
        quality_rules=table(
            shown.quality_rules,
            ("table_name", "rule", "severity", "runs", "last_failed", "observed", "expected", "then"),
        ),
        docs=f'<p><a href="{escape(quote(docs))}">Every rule of the latest runs (Data Docs)</a></p>' if docs else "",
        quarantine=table(shown.quarantine, ("system", "reason", "n", "example"))
        + cut_note(shown.quarantine, MOST_ROWS),
        plotly=_plotly_script(),
    )


def _plotly_script() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def cut_note(rows: Sequence, most: int, what: str = "rows") -> str:
    """A word where rows were left out: there are as many as a page takes."""
    return f'<p class="nothing">The first {most:,} {what}; the table has all.</p>' if len(rows) == most else ""


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


def table(rows: list[dict], names: Sequence[str]) -> str:
    """An HTML table of some columns, every value escaped.

    >>> print(table([{"queue": "<b>", "n": 1200}], ("queue", "n")))
    <div class="wide"><table><thead><tr><th>queue</th><th>n</th></tr></thead>
    <tbody><tr><td>&lt;b&gt;</td><td class="number">1,200</td></tr></tbody></table></div>
    """
    if not rows:
        return NOTHING
    head = "".join(f"<th>{escape(HEADINGS.get(name, name))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(_cell(row[name]) for name in names)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


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


def _cell(value) -> str:
    return f"<td{kind_of(value)}>{escape(plain(value))}</td>"


def kind_of(value) -> str:
    """The class of a cell: numbers stand right."""
    return ' class="number"' if isinstance(value, int) and not isinstance(value, bool) else ""


def plain(value) -> str:
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
    return (
        f"<article><h3><code>{escape(pattern['template'])}</code></h3>"
        f"<p>{escape(facts)}</p><p>in {escape(queues)}</p>"
        f"<details><summary>Example: message {escape(str(pattern['example_id']))}</summary>"
        f"<pre>{escape(pretty(pattern['example_payload']))}</pre></details>"
        f'<p class="id">pattern {escape(pattern["pattern_id"])}, by {escape(pattern["kind"])}</p></article>'
    )


def pretty(payload: str | None) -> str:
    """A payload with line breaks where it is JSON, at most 2,000 characters.

    >>> pretty('{"a":1}')
    '{\\n  "a": 1\\n}'
    >>> pretty('{"a": "\\\\ud800"}') == '{"a": "\\\\ud800"}', pretty("[" * 1500) == "[" * 1500
    (True, True)
    """
    try:
        text = json.dumps(json.loads(payload or ""), indent=2, ensure_ascii=False)
        text.encode()  # an escape can stand for half a character, which no page can hold
    except (ValueError, RecursionError):
        text = payload or ""
    return text if len(text) <= 2000 else text[:2000] + " …"
