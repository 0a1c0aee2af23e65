"""The dashboard file drawn from a real lake: all widgets show data, filters filter, a browser has no complaint."""

import json
import re
import shutil
import socket
import subprocess
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.dashboard.queries import Data
from deadletter.dashboard.server import bundled, server, write
from deadletter.errors import DeadletterError
from deadletter.notebook import views
from deadletter.pages.html import NOTHING
from tests.pipelines.alerts import query_of

PAGES = ["dead-letters", "queues"]


@pytest.fixture(scope="module")
def address(lake):
    with server(lake, bundled(), 0) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_address[1]}/"
        serving.shutdown()


def get(address, page, **filters):
    query = urlencode({"page": page, **{name.replace("_", "-"): value for name, value in filters.items()}}, doseq=True)
    return urlopen(f"{address}?{query}").read().decode()


def inside(page, widget):
    return re.search(rf'<section id="{widget}".*?</section>', page, re.DOTALL)[0]


def figure(page, widget):
    return int(re.search(r'class="figure">([\d,]+)', inside(page, widget))[1].replace(",", ""))


@pytest.mark.parametrize("page", PAGES)
def test_every_widget_shows_data(address, page):
    html = get(address, page)
    (found,) = [p for p in bundled().canvases() if p.name == page]
    for widget in found.widgets:
        shown = inside(html, widget.name)
        assert NOTHING not in shown, widget.name
        if widget.kind in ("bar", "line", "area", "pie"):
            assert "Plotly.newPlot" in shown
        if widget.kind == "table":
            assert "<td" in shown


def test_figures_are_the_tables(address, lake):
    html, dead = get(address, "dead-letters"), lake.read(tables.DEAD_LETTERS)
    assert figure(html, "total") == dead.count()
    assert figure(html, "pattern-count") == dead.select("pattern_id").distinct().count()


def test_what_is_held_was_not_dropped_and_not_removed(lake):
    dead, as_of = lake.read(tables.DEAD_LETTERS).where("dead_letter_queue IS NOT NULL"), lake.progress.of("gold").as_of
    rows = dead.select("dead_letter_queue", "removed_at", F.col("expires_at") <= F.lit(as_of)).collect()
    wanted = Counter(queue for queue, removed, dropped in rows if not removed and not dropped)
    assert any(dropped for *_, dropped in rows) and any(removed for _, removed, _ in rows)
    held = Counter()
    for row in lake.query(bundled().datasets["held"]).collect():
        held[row["dead_letter_queue"]] += row["dead_letters"]
    assert held == wanted
    viewed = Counter()
    for row in views.still_held(lake, dead).collect():
        viewed[row["dead_letter_queue"]] += row["dead_letters"]
    assert viewed == wanted


def test_what_is_held_without_an_end_counts_unless_it_moved_on(lake):
    """Where nobody saw a post, nobody knows when its message expires."""
    dead = lake.read(tables.DEAD_LETTERS).where("system = 'zaqar' AND removed_at IS NULL")
    endless = dead.withColumn("expires_at", F.lit(None).cast("timestamp"))
    assert sum(row["dead_letters"] for row in views.still_held(lake, endless).collect()) == dead.count() > 0
    itself = endless.withColumn("dead_letter_queue", F.col("queue"))
    assert sum(row["dead_letters"] for row in views.still_held(lake, itself).collect()) == dead.count()
    before = itself.withColumn("dead_lettered_at", F.expr("dead_lettered_at - INTERVAL 1 SECOND"))
    assert views.still_held(lake, before).collect() == []


def test_each_queue_has_a_name_of_its_own_the_same_in_dashboard_and_report(lake):
    dead = views.dead_letters(lake)
    places = [row["place"] for row in dead.select(*tables.QUEUE_KEY, "place").distinct().collect()]
    assert len(places) == len(set(places)) > 3
    for name in ("dead_letters", "patterns"):
        found = lake.query(bundled().datasets[name]).select("place").distinct().collect()
        assert {row["place"] for row in found} == set(places), name


def test_a_filter_changes_every_widget(address, lake):
    dead = lake.read(tables.DEAD_LETTERS)
    html = get(address, "dead-letters", filter_system="rabbitmq")
    assert figure(html, "total") == dead.where("system = 'rabbitmq'").count() > 0
    for widget in ("over-time", "by-queue", "patterns", "held"):
        assert "rabbitmq" in inside(html, widget)
        assert "zaqar " not in inside(html, widget)
    assert '<option value="rabbitmq" selected>rabbitmq</option>' in html


def test_what_does_not_fit_a_widget_is_the_oldest_and_is_told(lake, address, monkeypatch):
    (widget,) = [w for page in bundled().canvases() for w in page.widgets if w.name == "over-time"]
    data = Data(lake, bundled())
    every, more = data.rows(widget.queries[0])
    assert not more
    for module in ("queries", "page"):
        monkeypatch.setattr(f"deadletter.dashboard.{module}.MOST_ROWS", 3)
    few, more = data.rows(widget.queries[0])
    data.close()
    (time,) = [name for name, value in every[0].items() if str(value).startswith("2026")]
    assert more and len(few) == 3 < len(every)
    assert sorted(row[time] for row in few) == sorted(row[time] for row in every)[-3:]
    assert "Not more than 3 rows" in inside(get(address, "dead-letters"), "over-time")


def test_several_queues_and_both_pages(address, lake):
    queues = ["zaqar p1/orders", "rabbitmq /orders"]
    dead = lake.read(tables.DEAD_LETTERS).where("queue = 'orders' AND tenant IN ('p1', '/')").count()
    assert figure(get(address, "dead-letters", filter_queue=queues), "total") == dead
    survival = inside(get(address, "queues", filter_queue=queues), "survival")
    assert set(map(json.loads, re.findall(r'"name":("[^"]+")', survival))) == set(queues)


def test_days(address, lake):
    first = lake.read(tables.DEAD_LETTERS).agg(F.date_format(F.min("dead_lettered_at"), "yyyy-MM-dd")).first()[0]
    total = lake.read(tables.DEAD_LETTERS).where(F.to_date("dead_lettered_at") == first).count()
    assert figure(get(address, "dead-letters", filter_time=[first, first]), "total") == total
    assert figure(get(address, "dead-letters", filter_time=["", "1999-12-31"]), "queue-count") == 0


def test_hostile_filters_find_nothing(address):
    hostile = "x') OR ('1' = '1"
    html = get(address, "dead-letters", filter_system=hostile, filter_queue="<script>alert(1)</script>")
    assert NOTHING in inside(html, "patterns")
    assert "<script>alert" not in html


def test_other_paths_are_not_served(address):
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{address}etc/passwd")


def test_a_page_from_elsewhere_reads_nothing(address):
    """One whose name leads to this machine by now: the browser takes both for one."""
    with pytest.raises(HTTPError, match="403"):
        urlopen(Request(address, headers={"Host": "elsewhere.example:8050"}))
    assert urlopen(Request(address, headers={"Host": "localhost:8050"})).status == 200


def test_survival_is_a_share_that_never_grows(lake):
    query = bundled().datasets["survival"]
    rows = lake.query(query).orderBy("place", "delivery").collect()
    assert len(rows) > 3
    for before, after in zip(rows, rows[1:], strict=False):
        assert 0 <= after["unsettled"] <= 1
        if before["place"] == after["place"]:
            assert after["unsettled"] <= before["unsettled"] + 1e-9


def test_pages_as_files(lake, tmp_path):
    paths = write(lake, bundled(), str(tmp_path / "new"))
    assert [path.stem for path in paths] == PAGES
    text = paths[0].read_text(encoding="utf-8")
    assert '<a href="queues.html"' in text
    assert "<form" not in text, "nobody answers a filter in a file"


def test_a_port_that_is_taken():
    told = pytest.raises(DeadletterError, match="cannot serve on port")
    with socket.create_server(("127.0.0.1", 0)) as taken, told, server(None, bundled(), taken.getsockname()[1]):
        pass


def browse(url, tmp_path):
    """The page after its scripts ran, and what the console said."""
    chromium = shutil.which("chromium")
    if not chromium:
        pytest.skip("chromium is not on the PATH: the page was checked as HTML only, not in a browser")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000", "--timeout=60000", url]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("page", PAGES)
def test_in_a_browser(address, tmp_path, page):
    (found,) = [p for p in bundled().canvases() if p.name == page]
    dom, console = browse(f"{address}?page={page}", tmp_path)
    assert console == []
    charts = [widget.name for widget in found.widgets if widget.kind in ("bar", "line", "area", "pie")]
    for name in charts:
        assert "main-svg" in inside(dom, name), f"{name} was not drawn"


def test_a_filter_changes_what_the_browser_draws(address, tmp_path):
    query = urlencode({"page": "dead-letters", "filter-system": "rabbitmq"})
    dom, console = browse(f"{address}?{query}", tmp_path)
    assert console == []
    assert "rabbitmq /orders" in inside(dom, "by-queue")
    assert "zaqar p1/orders" not in inside(dom, "by-queue")


def test_the_file_has_the_sql_of_its_folder():
    from deadletter.dashboard.assemble import assembled

    for path in (Path(__file__).parents[2] / "pipelines" / "dashboards").glob("*.lvdash.json"):
        assert path.read_text(encoding="utf-8") == assembled(path), "run `make dashboard`"
        names = {data["name"] for data in json.loads(path.read_text(encoding="utf-8"))["datasets"]}
        assert names == {sql.stem for sql in (path.parent / "sql").glob("*.sql")}


def test_the_alert_of_a_quiet_feed_asks_for_the_newest_event(lake):
    (row,) = lake.query(query_of("feed_is_quiet")).collect()
    assert row["hours"] == (datetime.now(UTC) - lake.progress.of("silver").as_of) // timedelta(hours=1)
