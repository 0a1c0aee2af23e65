"""The page: figures and charts put into one HTML file that opens offline."""

from __future__ import annotations

import os
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from urllib.parse import quote

from plotly.offline import get_plotlyjs

from deadletter.errors import DeadletterError
from deadletter.lake import Lake
from deadletter.pages import charts
from deadletter.pages.html import NOTHING, chart, cut_note, first, first_rows, plain, pretty
from deadletter.pages.rows import MOST_ROWS
from deadletter.report.queries import MOST_PATTERNS, Figures, figures

HEADINGS = {
    "n": "how many",
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
    told = partial(first_rows, headings=HEADINGS)
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
        delays=told(shown.delays, ("place", "posted", "delayed", "expired_unseen")),
        health=told(shown.health, ("place", "posted", "claimed", "settled", "dead_lettered")),
        discrepancies=told(shown.discrepancies, ("place", "kind", "n", "example")),
        quality_runs=chart(shown.quality_runs, charts.failing_rules),
        quality_rules=told(
            shown.quality_rules,
            ("table_name", "rule", "severity", "runs", "last_failed", "observed", "expected", "then"),
        ),
        docs=f'<p><a href="{escape(quote(docs))}">Every rule of the latest runs (Data Docs)</a></p>' if docs else "",
        quarantine=told(shown.quarantine, ("system", "reason", "n", "example")),
        plotly=get_plotlyjs(),
    )


def muted_note(muted: int) -> str:
    """A word where patterns were left out because people muted them."""
    told = f"Counted above but not listed: {muted:,} muted; <code>deadletter patterns list --all</code> has all."
    return f'<p class="nothing">{told}</p>' if muted else ""


def card(pattern: dict) -> str:
    """A pattern with its example."""
    queues = ", ".join(pattern["queues"])
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
