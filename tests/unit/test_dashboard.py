"""Dashboard files are read strictly, filters become SQL safely, widgets are drawn as they are described."""

import json
import re
import socket
import struct
import threading
from http.server import ThreadingHTTPServer
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from deadletter.dashboard.definition import Query, Widget, load
from deadletter.dashboard.draw import draw, pie, series, xy
from deadletter.dashboard.page import _control, control
from deadletter.dashboard.queries import Data, conditions, query_sql
from deadletter.dashboard.server import bundled, handler
from deadletter.errors import UsageError
from deadletter.pages.charts import by_reason, over_time, survival

HOSTILE = "<script>alert(1)</script>"


def widget(kind="bar", encodings=None, queries=(), lines=(), name="w"):
    return Widget(name, kind, "Title", tuple(lines), tuple(queries), encodings or {}, False, (0, 0, 6, 4))


def test_the_bundled_dashboard_has_every_kind_of_widget():
    kinds = {w.kind for page in bundled().pages for w in page.widgets}
    assert kinds >= {"text", "counter", "bar", "line", "pie", "table"}
    assert {w.kind for w in bundled().filters(bundled().canvases()[0])} == {
        "filter-single-select",
        "filter-multi-select",
        "filter-date-range-picker",
    }


def test_a_sum_of_no_rows_is_counted_as_none():
    told = [draw(widget("counter", {"value": {"fieldName": "n"}}), rows) for rows in ([{"n": None}], [], [{"n": 7}])]
    assert [re.sub("<[^>]*>", "", html) for html in told] == ["0", "0", "7"]


NO_DASHBOARDS = ("", "[]", "{}", '{"datasets": [{"name": "a"}], "pages": []}', '{"datasets": [], "pages": ["a"]}')


@pytest.mark.parametrize("text", NO_DASHBOARDS)
def test_what_is_no_dashboard_is_refused(tmp_path, text):
    path = tmp_path / "x.lvdash.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="not a dashboard file"):
        load(path)


def test_a_widget_that_cannot_be_drawn_is_named(tmp_path):
    item = {"widget": {"name": "w1", "spec": {"widgetType": "sankey", "encodings": {}}}, "position": {}}
    page = {"name": "p", "displayName": "P", "layout": [item]}
    path = tmp_path / "x.lvdash.json"
    path.write_text(json.dumps({"datasets": [], "pages": [page]}))
    with pytest.raises(UsageError, match="w1: sankey"):
        load(path)


SHOWN = {"widgetType": "bar", "encodings": {"x": {"fieldName": "a"}, "y": {"fieldName": "b"}}}
CHOSEN = {"widgetType": "filter-single-select", "encodings": {}}


@pytest.mark.parametrize(
    ("spec", "asked", "data", "told"),
    [
        (SHOWN, ["a", "b"], "gone", "widget w: there is no data set gone"),
        (SHOWN, ["a"], "d", "widget w: its y names no field that it asks for"),
        (SHOWN | {"encodings": {"x": {"fieldName": "a"}}}, ["a", "b"], "d", "widget w: its y names no field"),
        (SHOWN | {"encodings": {"x": {"scale": {}}, "y": None}}, ["a"], "d", "widget w: its x names no field"),
        (SHOWN | {"encodings": {"x": [], "y": {}}}, ["a"], "d", "widget w: its x names no field"),
        (SHOWN | {"encodings": {"x": ["a"], "y": {}}}, ["a"], "d", "is not a dashboard file"),
        ({"widgetType": "table", "encodings": {}}, ["a"], "d", "widget w: its columns names no field"),
        (CHOSEN, ["a", "b"], "d", "widget w: a filter asks for one field"),
        (CHOSEN, [], None, "widget w: a filter asks for one field"),
    ],
)
def test_an_unfinished_widget_is_named(tmp_path, spec, asked, data, told):
    fields = [{"name": name, "expression": f"`{name}`"} for name in asked]
    query = {"name": "q", "query": {"datasetName": data, "fields": fields, "disaggregated": False}}
    at = {"x": 0, "y": 0, "width": 1, "height": 1}
    item = {"widget": {"name": "w", "spec": spec, "queries": [query] if data else []}, "position": at}
    path = tmp_path / "x.lvdash.json"
    page = {"name": "p", "displayName": "P", "layout": [item]}
    path.write_text(json.dumps({"datasets": [{"name": "d", "queryLines": ["SELECT 1"]}], "pages": [page]}))
    with pytest.raises(UsageError, match=told):
        load(path)


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ""])
def test_a_page_is_called_as_a_file_can_be(tmp_path, name):
    """``--out`` writes it as one, into its folder."""
    path = tmp_path / "x.lvdash.json"
    path.write_text(json.dumps({"datasets": [], "pages": [{"name": name, "displayName": "P", "layout": []}]}))
    with pytest.raises(UsageError, match="no file can be called by the page's name"):
        load(path)


def test_a_field_without_a_name_for_people_is_called_by_its_own():
    bar = widget(encodings={"x": {"fieldName": "hour"}, "y": {"fieldName": "deaths"}})
    assert {"hour", "deaths"} <= set(re.findall("[a-z]+", draw(bar, [{"hour": 1, "deaths": 2}]).split("<script")[-1]))
    several = widget(encodings={"x": {"fieldName": "hour"}, "y": {"fields": [{"fieldName": "deaths"}]}})
    assert series(several, [{"hour": 1, "deaths": 2}]) == [("deaths", [(1, 2)])]
    table = widget("table", {"columns": [{"fieldName": "deaths"}]})
    assert "<th>deaths</th>" in draw(table, [{"deaths": 2}])


def test_a_filter_tells_that_there_are_more_values():
    def of(more):
        data = MagicMock(choices=lambda _: (["a  b "], more))
        return _control(data, widget("filter-single-select"), ["a  b "])

    gone = _control(MagicMock(choices=lambda _: (["a"], False)), widget("filter-single-select"), ["gone"])
    assert '<option value="gone" selected>' in gone, "it filters, so it shows"
    assert '<option value="a  b " selected>' in of(False)  # a browser would put the spaces of a text together
    assert ("Not more than" in of(True), "Not more than" in of(False)) == (True, False)


def test_a_dashboard_of_filters_alone_has_nothing_to_show(tmp_path):
    page = {"name": "p", "displayName": "P", "layout": [], "pageType": "PAGE_TYPE_GLOBAL_FILTERS"}
    path = tmp_path / "x.lvdash.json"
    path.write_text(json.dumps({"datasets": [], "pages": [page]}))
    with pytest.raises(UsageError, match="without a page to show"):
        load(path)


def test_a_missing_file_is_said():
    with pytest.raises(UsageError, match="cannot read the dashboard /no/such"):
        load("/no/such")


def test_raw_rows_are_not_grouped():
    assert query_sql(Query("q", "d", {"a": "`a`"}, True), "v") == "SELECT `a` AS `a` FROM v"


def test_filters_hold_for_the_data_sets_they_name_and_no_other():
    queries = [Query("q1", "one", {"place": "`place`"}, False), Query("q2", "two", {"queue": "`queue`"}, False)]
    chosen = widget("filter-multi-select", queries=queries, name="f")
    assert conditions([chosen], {"f": ["a", "it's"]}) == {
        "one": [r"`place` IN ('a', 'it\'s')"],
        "two": [r"`queue` IN ('a', 'it\'s')"],
    }
    assert conditions([chosen], {"f": [""], "other": ["x"]}) == {}


@pytest.mark.parametrize("there", [False, True])
def test_serverless_compute_is_asked_to_keep_nothing(there, monkeypatch):
    """It refuses; elsewhere each data set is read once."""
    monkeypatch.setattr("deadletter.dashboard.queries.on_databricks", lambda: there)
    lake = MagicMock()
    data = Data(lake, SimpleNamespace(datasets={"one": "SELECT 1"}))
    (view,) = data.views.values()
    read = lake.query.return_value
    made = read if there else read.persist.return_value
    made.createOrReplaceTempView.assert_called_once_with(view)
    data.close()
    lake.spark.catalog.dropTempView.assert_called_once_with(view)
    assert (read.persist.called, lake.spark.table.return_value.unpersist.called) == (not there, not there)
    assert read.persist.return_value.count.called == (not there), "at the start, not when it is first shown"


def test_days_include_the_last():
    queries = [Query("q", "d", {"time": "`time`"}, False)]
    chosen = widget("filter-date-range-picker", queries=queries, name="f")
    both = "`time` >= '2026-01-01'::date AND `time` < '2026-01-02'::date + INTERVAL 1 DAY"
    assert conditions([chosen], {"f": ["2026-01-01", "2026-01-02"]}) == {"d": [both]}
    for first_only in (["2026-01-01", ""], ["2026-01-01"]):  # a link may name one day only
        assert conditions([chosen], {"f": first_only}) == {"d": ["`time` >= '2026-01-01'::date"]}
        assert control(chosen, [], first_only).count('value="2026-01-01"') == 1
    assert conditions([chosen], {"f": ["2026-01-01", "2026-01-02", "2026-01-03"]}) == {"d": [both]}
    assert control(chosen, [], ()).count('value=""') == 2
    for none in (["soon"], ["2026-02-30", ""]):  # or days that there are not
        assert conditions([chosen], {"f": none}) == {"d": []}


def test_series_by_colour_and_by_field():
    rows = [{"t": 1, "q": "a", "n": 5}, {"t": 1, "q": "b", "n": 6}, {"t": 2, "q": "a", "n": 7}]
    by_colour = {"x": {"fieldName": "t"}, "y": {"fieldName": "n"}, "color": {"fieldName": "q"}}
    assert series(widget(encodings=by_colour), rows) == [("a", [(1, 5), (2, 7)]), ("b", [(1, 6)])]
    by_field = {"x": {"fieldName": "q"}, "y": {"fields": [{"fieldName": "n", "displayName": "N"}]}}
    assert series(widget(encodings=by_field), rows[:2]) == [("N", [("a", 5), ("b", 6)])]


def test_hostile_text_is_inert():
    x = {"fieldName": "x", "displayName": HOSTILE}
    y = {"fieldName": "y", "displayName": "n"}
    rows = [{"x": HOSTILE, "y": 1}]
    drawn = [
        draw(widget("table", {"columns": [x]}), rows),
        draw(widget("bar", {"x": x, "y": y}), rows),
        draw(widget("pie", {"color": x, "angle": y}), rows),
        draw(widget("counter", {"value": x}), rows),
        draw(widget("text", lines=[HOSTILE]), []),
    ]
    assert all(HOSTILE not in html for html in drawn)


def test_charts_show_a_name_that_looks_like_a_tag():
    """Plotly would leave ``<eu>`` out."""
    x, y = {"fieldName": "x", "displayName": "queue"}, {"fieldName": "y", "displayName": "n"}
    rows = [{"x": "orders<eu>&co", "y": 1}]
    shown = "orders&lt;eu>&amp;co"
    (bar,) = xy(widget("bar", {"x": x, "y": y, "color": x}), rows).data
    (slices,) = pie(widget("pie", {"color": x, "angle": y}), rows).data
    assert (bar.name, *bar.x, *slices.labels) == (shown, shown, shown)
    figure = by_reason([{"place": "orders<eu>&co", "reason": "<x>", "n": 1}])
    (reason,) = figure.data
    assert (reason.name, *reason.y, *figure.layout.yaxis.categoryarray) == ("&lt;x>", shown, shown)
    lines = [over_time([rows[0] | {"place": "<q>", "time": "t", "n": 1}], "hour")]
    lines.append(survival([{"place": "<q>", "delivery": 1, "reached": 1, "settled": 1}]))
    assert [figure.data[0].name for figure in lines] == ["&lt;q>", "&lt;q>"]


def test_what_is_no_address_is_a_bad_request():
    answering = handler(SimpleNamespace(dashboard=bundled()))
    with ThreadingHTTPServer(("127.0.0.1", 0), answering) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        with socket.create_connection(serving.server_address) as browser:
            browser.sendall(b"GET http://[bad/ HTTP/1.0\r\n\r\n")
            assert browser.recv(100).split()[1] == b"400"
        serving.shutdown()


def test_a_browser_that_leaves_early_is_no_fault(monkeypatch):
    asked, left, faults = threading.Event(), threading.Event(), []

    def render(*_):
        asked.set()
        left.wait(10)
        return "x" * 10_000_000

    monkeypatch.setattr("deadletter.dashboard.server.render", render)
    answering = handler(SimpleNamespace(dashboard=bundled()))
    with ThreadingHTTPServer(("127.0.0.1", 0), answering) as serving:
        serving.daemon_threads = False  # closing waits for the answer
        serving.handle_error = lambda *_: faults.append("a stack trace on the terminal")
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        with socket.create_connection(serving.server_address) as browser:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            browser.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert asked.wait(10)
        left.set()
        serving.shutdown()
    assert faults == []
