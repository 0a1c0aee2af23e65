"""An executed notebook as one HTML page that opens offline."""

from __future__ import annotations

from html import escape
from pathlib import Path

import plotly.graph_objects as go
from markdown_it import MarkdownIt
from plotly.offline import get_plotlyjs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.errors import DeadletterError
from deadletter.notebook.cells import Cell, execute
from deadletter.pages import rows
from deadletter.pages.html import NOTHING, figure, first_rows
from deadletter.spark.sqltext import sql_name

MOST_ROWS = 50
NESTED = ("struct<", "array<", "map<")
STYLE = """
body { max-width: 1080px; margin: 24px auto; padding: 0 20px; color: #1d2733; font: 15px/1.5 system-ui, sans-serif; }
pre { background: #f4f6f8; border-left: 3px solid #0072B2; padding: 8px 12px; overflow: auto; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid #dfe4ea; vertical-align: top; }
td { overflow-wrap: anywhere; } .number { text-align: right; } .wide { overflow-x: auto; }
"""


def write_page(path: str | Path, out: str | Path) -> Path:
    """Run the notebook at ``path`` and write what it shows to the file ``out``."""
    page, text = Path(out), render(Path(path).stem, execute(path, as_html))
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DeadletterError(f"cannot write the page to {page}: {error.strerror}") from None
    return page


def render(title: str, done: list[Cell]) -> str:
    """The whole page: prose, code and what the code displayed, :func:`as_html`, in order."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{STYLE}</style><script>{get_plotlyjs()}</script></head>'
        f"<body>{''.join(map(_cell, done))}</body></html>"
    )


def _cell(cell: Cell) -> str:
    if cell.prose:
        return MarkdownIt("js-default").render(cell.source)
    return f"<pre>{escape(cell.source)}</pre>" + "".join(map(str, cell.shown))


def as_html(value: object) -> str:
    """What a cell displayed: a figure, a frame's first rows, or anything as text."""
    if isinstance(value, go.Figure):
        return figure(value) if value.data else NOTHING
    if isinstance(value, DataFrame):
        return first_rows(_rows(value), value.columns, MOST_ROWS)
    return f"<pre>{escape(str(value))}</pre>"


def _rows(df: DataFrame) -> list[dict]:
    """The first rows and one more: times as text, so that they read the same in every time zone, nested values as
    JSON."""
    form = {"timestampFormat": "yyyy-MM-dd HH:mm:ss", "ignoreNullFields": "false"}
    columns = [(name, kind.startswith(NESTED), F.col(sql_name(name))) for name, kind in df.dtypes]
    told = [(F.to_json(value, form) if nested else value).alias(name) for name, nested, value in columns]
    return rows.rows(df.select(*told), MOST_ROWS + 1)
