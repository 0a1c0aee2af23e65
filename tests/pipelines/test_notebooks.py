"""Each notebook runs on a lake made from the captures, and shows what it promises."""

from pathlib import Path

import plotly.graph_objects as go
import pytest
from click.testing import CliRunner
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.cli import cli
from deadletter.errors import DeadletterError, UsageError
from deadletter.notebook import views
from deadletter.notebook.cells import HEADER, Cell, cells, execute, widgets_of
from deadletter.notebook.page import as_html, render, write_page

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
DIED = ["place", "reason", "evidence", "cause", "dead_letters", "since", "last", "patterns"]
EXAMPLES = ["place", "message_id", "dead_lettered_at", "reason", "evidence", "claim_count", "error", "payload"]
EXPECTED = {
    "triage_dead_letters": [
        DIED,
        "chart",
        ["pattern_id", "template", "dead_letters", "since", "last", "status", "kind"],
        ["muted_patterns", "dead_letters"],
        EXAMPLES,
        ["system", "tenant", "dead_letter_queue", "dead_letters", "first_expires"],
    ],
    "explore_pattern": [
        tables.POISON_PATTERNS.column_names,
        EXAMPLES,
        "chart",
        DIED,
        ["difference", "dead_letters", "example"],
    ],
    "plan_limit": [
        "chart",
        [*tables.DELIVERY_SURVIVAL.column_names, "place"],
        ["place", "delivered", "stopped", "stopped_though_settled", "deliveries_saved"],
        "chart",
    ],
}


def run(name, lake, monkeypatch, **widgets):
    for key, value in {"lake": lake.root, **widgets}.items():
        monkeypatch.setenv(f"DEADLETTER_{key.upper()}", value)
    return [shown for cell in execute(NOTEBOOKS / f"{name}.py") for shown in cell.shown]


def test_every_notebook_is_expected():
    assert {path.stem for path in NOTEBOOKS.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_source_format(name):
    source = (NOTEBOOKS / f"{name}.py").read_text()
    assert cells(source)[0].prose, "a notebook begins by saying what it is for"
    for cell in cells(source):
        calls = [line for line in cell.source.splitlines() if "views." in line and line.startswith("display")]
        assert cell.prose or len(calls) <= 1, "one look a cell"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_runs_and_shows_its_tables(lake, monkeypatch, name):
    shown = run(name, lake, monkeypatch)
    for found, expected in zip(shown, EXPECTED[name], strict=True):
        if expected == "chart":
            assert isinstance(found, go.Figure)
            assert any(len(trace.x) for trace in found.data)
        else:
            assert found.columns == expected
            assert found.count() > 0


def test_triage_of_one_queue_counts_what_the_table_holds(lake, monkeypatch):
    died = run("triage_dead_letters", lake, monkeypatch, queue="payments")[0]
    expected = lake.read(tables.DEAD_LETTERS).where("queue = 'payments'").count()
    assert expected > 0
    assert died.agg(F.sum("dead_letters")).first()[0] == expected


def test_triage_since_leaves_out_what_died_before(lake, monkeypatch):
    dead = lake.read(tables.DEAD_LETTERS)
    middle = F.timestamp_seconds(F.median(F.unix_seconds("dead_lettered_at")))
    middle = dead.agg(F.date_format(middle, "yyyy-MM-dd'T'HH:mm:ss'Z'")).first()[0]
    died = run("triage_dead_letters", lake, monkeypatch, since=middle)[0]
    expected = dead.where(F.col("dead_lettered_at") >= F.lit(middle).cast("timestamp")).count()
    assert 0 < expected < dead.count()
    assert died.agg(F.sum("dead_letters")).first()[0] == expected


def test_a_pattern_shows_all_its_members_also_by_the_start_of_its_id(lake, monkeypatch):
    smallest = lake.read(tables.POISON_PATTERNS).orderBy("dead_letters", "pattern_id").first()
    shown = run("explore_pattern", lake, monkeypatch, pattern=smallest["pattern_id"][:10])
    assert shown[0].first()["pattern_id"] == smallest["pattern_id"]
    assert shown[3].agg(F.sum("dead_letters")).first()[0] == smallest["dead_letters"]


def test_a_lower_limit_stops_what_was_delivered_more_often(lake, monkeypatch):
    preview = run("plan_limit", lake, monkeypatch, limit="1")[2]
    again = lake.read(tables.MESSAGE_STATE).where("size(deliveries) > 1 AND tenant = 'p1' AND queue = 'orders'").count()
    found = preview.where("place = 'zaqar p1/orders'").first()
    assert found["stopped"] == again > 0
    assert found["stopped_though_settled"] <= found["stopped"] <= found["delivered"]


def test_a_topic_goes_by_its_short_name_too(lake):
    whole = views.dead_letters(lake).where("queue LIKE 'persistent://%'").first()["queue"]
    found = [views.dead_letters(lake, name).count() for name in (whole, whole.split("/")[-1])]
    assert found[0] == found[1] > 0
    assert views.survival(lake, whole.split("/")[-1]).count() > 0


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("triage_dead_letters", ["--set", "qeue=orders"], "has no widget qeue; it has queue, since"),
        ("triage_dead_letters", ["--set", "queue"], "write it as NAME=VALUE"),
        ("triage_dead_letters", ["--set", "since=yesterday"], "since: Invalid isoformat string: 'yesterday'"),
        ("plan_limit", ["--set", "limit=x"], "limit: 'x' is no whole number"),
        ("plan_limit", ["--set", "limit=-1"], "limit: '-1' is less than 1"),
    ],
)
def test_what_the_command_cannot_use_is_told(lake, tmp_path, monkeypatch, name, arguments, told):
    for variable in ("LAKE", "SINCE", "LIMIT"):
        monkeypatch.setenv(f"DEADLETTER_{variable}", "")  # the command sets it for its own process
    call = ["notebook", str(NOTEBOOKS / f"{name}.py"), "--lake", lake.root]
    done = CliRunner().invoke(cli, [*call, "--out", str(tmp_path / "page.html"), *arguments])
    assert isinstance(done.exception, UsageError) and told in str(done.exception)


def test_what_is_no_notebook_or_no_place_for_a_page(tmp_path):
    (tmp_path / "latin.py").write_bytes(b"# Databricks notebook source\n# MAGIC caf\xe9\n")
    with pytest.raises(UsageError, match="latin.py cannot be read as a notebook"):
        widgets_of(tmp_path / "latin.py")
    (tmp_path / "short.py").write_text(f"{HEADER}\n1 +\n")
    with pytest.raises(UsageError, match="short.py: not Python"):
        widgets_of(tmp_path / "short.py")
    (tmp_path / "good.py").write_text(f"{HEADER}\n1\n")
    with pytest.raises(DeadletterError, match="cannot write the page to .*good.py.page.html: "):
        write_page(tmp_path / "good.py", tmp_path / "good.py" / "page.html")


def test_a_cell_that_fails_is_told_in_one_line(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text(f"{HEADER}\n1\n\n# COMMAND ----------\n\nraise ValueError('no such column\\nProject [plan]')\n")
    with pytest.raises(DeadletterError) as failed:
        execute(path)
    assert str(failed.value) == "bad.py, cell 2: ValueError: no such column"


def test_a_frame_fails_in_the_cell_that_shows_it(spark, tmp_path):
    path = tmp_path / "bad.py"
    df = "__import__('pyspark').sql.SparkSession.getActiveSession().range(3)"
    path.write_text(f"{HEADER}\n1\n\n# COMMAND ----------\n\ndisplay({df}.selectExpr('CAST(id || \"x\" AS INT)'))\n")
    with pytest.raises(DeadletterError, match="^bad.py, cell 2: NumberFormatException: .*CAST_INVALID_INPUT"):
        execute(path, as_html)


def test_a_widget_may_be_asked_for_by_keywords(tmp_path):
    path = tmp_path / "asks.py"
    path.write_text(f"{HEADER}\nwidget('a', '', '')\nwidget(default='', name='b', label='')\n")
    assert widgets_of(path) == {"a", "b"}


@pytest.mark.parametrize("magic", ["%sql", "%run", "%pip"])
def test_a_cell_that_is_neither_python_nor_prose_is_told(tmp_path, magic):
    path = tmp_path / "other.py"
    path.write_text(f"{HEADER}\n# MAGIC %md\n# MAGIC 50 %off\n\n# COMMAND ----------\n\n# MAGIC {magic} x\n")
    with pytest.raises(UsageError, match=f"cell 2 begins with {magic}: only Python and %md"):
        execute(path)


def test_nested_values_are_json_and_times_utc(spark):
    time = "TIMESTAMP'2026-11-20 20:53:01Z'"
    df = spark.sql(f"SELECT true AS sure, {time} AS at, array(named_struct('at', {time}, 'who', 'ann')) AS told")
    page = render("t", [Cell("df", False, [as_html(df)])]).split("<body>")[1]
    assert "<td>true</td><td>2026-11-20 20:53:01</td>" in page
    assert "<td>[{&quot;at&quot;:&quot;2026-11-20 20:53:01&quot;,&quot;who&quot;:&quot;ann&quot;}]</td>" in page


def test_a_frame_that_is_cut_says_so(spark):
    for count, told in ((50, False), (51, True)):
        shown = as_html(spark.range(count).withColumnRenamed("id", "a.b"))
        page = render("t", [Cell("df", False, [shown])])
        assert ("The first 50 rows" in page) == told and page.count("<td") == 50


def test_an_executed_notebook_is_a_page(lake, monkeypatch, tmp_path):
    monkeypatch.setenv("DEADLETTER_LAKE", lake.root)
    page = write_page(NOTEBOOKS / "plan_limit.py", tmp_path / "made" / "plan.html").read_text(encoding="utf-8")
    assert "<h1>Plan a delivery limit</h1>" in page
    assert page.count("Plotly.newPlot(") == 2
    assert "<td>zaqar p1/orders</td>" in page and "<th>place</th>" in page, "columns are called what they are"
    assert 'src="http' not in page[page.index("<body>") :], "the page must open offline"
