"""A dashboard file (``*.lvdash.json``) as Databricks keeps it: data sets, pages, widgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deadletter.errors import UsageError

KINDS = (
    *("text", "counter", "bar", "line", "area", "pie", "table"),
    *("filter-single-select", "filter-multi-select", "filter-date-range-picker"),
)
"""The widgets that can be drawn here."""
DRAWN = {
    "counter": ("value",),
    "table": ("columns",),
    "pie": ("color", "angle"),
    **dict.fromkeys(("bar", "line", "area"), ("x", "y")),
}
"""What must be said of each kind which fields it shows."""
ASSOCIATIVITY = "_associativity"
"""How Databricks names the field of a filter that says which of its values still have rows."""


@dataclass(frozen=True)
class Query:
    """What a widget asks of a data set: ``fields`` (name to expression); ``raw`` rows, or grouped ones."""

    name: str
    dataset: str
    fields: dict[str, str]
    raw: bool


@dataclass(frozen=True)
class Widget:
    """One widget: ``encodings`` say which field is drawn as what; ``position`` is x, y, width, height in cells."""

    name: str
    kind: str
    title: str
    lines: tuple[str, ...]
    queries: tuple[Query, ...]
    encodings: dict
    grouped: bool
    position: tuple[int, int, int, int]

    @property
    def is_filter(self) -> bool:
        """Whether the widget chooses what others show."""
        return self.kind.startswith("filter-")


@dataclass(frozen=True)
class Page:
    """One page; a page of global filters shows on all others."""

    name: str
    title: str
    is_global: bool
    widgets: tuple[Widget, ...]


@dataclass(frozen=True)
class Dashboard:
    """A whole dashboard: data sets (name to SQL) and pages."""

    datasets: dict[str, str]
    pages: tuple[Page, ...]

    def canvases(self) -> list[Page]:
        """The pages a reader can turn to."""
        return [page for page in self.pages if not page.is_global]

    def filters(self, page: Page) -> list[Widget]:
        """The filters that hold on ``page``: its own and the global ones."""
        shown = [*[p for p in self.pages if p.is_global], page]
        return [widget for p in shown for widget in p.widgets if widget.is_filter]


def load(path: str | Path) -> Dashboard:
    """Read a dashboard file. Raises :class:`UsageError` for a file that is none, and for a widget or a page that cannot
    be shown."""
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
        datasets = {data["name"]: "".join(data["queryLines"]) for data in told["datasets"]}
        dashboard = Dashboard(datasets, tuple(_page(page) for page in told["pages"]))
        for page in dashboard.pages:
            _check_page(page, datasets)
    except OSError as error:
        raise UsageError(f"cannot read the dashboard {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a dashboard file (.lvdash.json): {error!r}") from None
    if not dashboard.canvases():
        raise UsageError(f"{path} is a dashboard without a page to show")
    return dashboard


def _page(page: dict) -> Page:
    is_global = page.get("pageType") == "PAGE_TYPE_GLOBAL_FILTERS"
    return Page(page["name"], page["displayName"], is_global, tuple(_widget(item) for item in page["layout"]))


def _widget(item: dict) -> Widget:
    widget, at = item["widget"], item["position"]
    spec = widget.get("spec", {"widgetType": "text", "encodings": {}})
    if spec["widgetType"] not in KINDS:
        raise UsageError(f"widget {widget['name']}: {spec['widgetType']} cannot be drawn here, only {', '.join(KINDS)}")
    return Widget(
        widget["name"],
        spec["widgetType"],
        spec.get("frame", {}).get("title", ""),
        tuple(widget.get("multilineTextboxSpec", {}).get("lines", ())),
        tuple(_query(query["name"], query["query"]) for query in widget.get("queries", ())),
        spec["encodings"],
        spec.get("mark", {}).get("layout") == "group",
        (at["x"], at["y"], at["width"], at["height"]),
    )


def _check_page(page: Page, datasets: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` where the page or one of its widgets cannot be shown."""
    if page.name in ("", ".", "..") or Path(page.name).name != page.name:
        raise UsageError(f"no file can be called by the page's name {page.name!r}")
    for widget in page.widgets:
        _check(widget, datasets)


def _check(widget: Widget, datasets: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` where the widget asks for what there is not, or shows what it does not ask for."""
    unknown = [query.dataset for query in widget.queries if query.dataset not in datasets]
    if unknown:
        raise UsageError(f"widget {widget.name}: there is no data set {unknown[0]}")
    if widget.is_filter and not (widget.queries and all(len(query.fields) == 1 for query in widget.queries)):
        raise UsageError(f"widget {widget.name}: a filter asks for one field")
    asked = {name for query in widget.queries for name in query.fields}
    for part in (*DRAWN.get(widget.kind, ()), *widget.encodings.keys() & {"color"}):
        shown = _shown(part, widget.encodings.get(part))
        if not shown or not asked.issuperset(shown):
            raise UsageError(f"widget {widget.name}: its {part} names no field that it asks for; finish or remove it")


def _shown(part: str, encoding: dict | list | None) -> list[str | None]:
    """The fields that a part of a widget shows: one, or of ``columns`` and ``y`` several."""
    if isinstance(encoding, list):
        several = encoding
    else:
        one = encoding or {}
        several = one["fields"] if part == "y" and "fields" in one else [one]
    return [each.get("fieldName") for each in several]


def _query(name: str, query: dict) -> Query:
    fields = {
        field["name"]: field["expression"] for field in query["fields"] if not field["name"].endswith(ASSOCIATIVITY)
    }
    return Query(name, query["datasetName"], fields, query["disaggregated"])
