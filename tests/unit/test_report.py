"""The page is safe, complete without rows, and its survival curve is right by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.lake import Lake
from deadletter.pages.charts import survival, unsettled
from deadletter.pages.html import table
from deadletter.pages.rows import MOST_ROWS
from deadletter.queues import place, place_of
from deadletter.report.page import card, render
from deadletter.report.queries import (
    FIRST_DELIVERIES,
    MOST_PATTERNS,
    Figures,
    figures,
    over_time,
    top_patterns,
)
from deadletter.spark.frames import frame_of
from deadletter.tables import MESSAGE_KEY

HOSTILE = "<script>alert(1)</script>"
PATTERN = {
    "template": HOSTILE,
    "kind": "error",
    "dead_letters": 1,
    "status": "new",
    "first_seen": "2026-11-20",
    "last_seen": "2026-11-20",
    "queues": [HOSTILE],
    "example_id": HOSTILE,
    "example_payload": HOSTILE,
    "example_error": HOSTILE,
    "differences": [{"difference": HOSTILE, "dead_letters": 1}],
    "concentrated_in": [{"what": "host", "value": HOSTILE, "dead_letters": 1}],
    "pattern_id": HOSTILE,
}


def empty(**rows):
    names = ("over_time", "by_reason", "survival", "patterns", "health", "delays", "discrepancies", "quarantine")
    names += ("quality_runs", "quality_rules")
    return Figures(headline={}, bucket="hour", **({name: [] for name in names} | rows))


def test_a_page_without_rows():
    page = render(empty())
    assert page.count("Nothing to show.") == 10
    assert "https://" not in page.split("</script>")[-1], "the page must open offline"


def test_hostile_text_is_inert():
    assert HOSTILE not in card(PATTERN)
    assert HOSTILE not in table([{"reason": HOSTILE}], ["reason"])
    bars = [{"time": "2026-11-20 20:00:00", "place": HOSTILE, "n": 1}]
    assert HOSTILE not in render(empty(over_time=bars, quarantine=[]))


def test_two_queues_have_two_names_the_same_in_the_dashboards_sql(spark):
    sql = (Path(__file__).parents[2] / "pipelines" / "dashboards" / "sql" / "parts" / "place.sql").read_text()
    queues = [("/", "orders"), ("/prod", "orders"), ("/", "prod/orders"), ("/prod", "a/b"), ("/prod/a", "b")]
    queues = [("rabbitmq", *queue, "") for queue in [*queues, ("/", "50%"), ("/", "prod%2Forders")]]
    topics = ("persistent://a/b/orders", "non-persistent://a/b/orders-DLQ", "persistent://a/b/c/d")
    queues += [("pulsar", "a/b", topic, subscription) for topic in topics for subscription in ("", "fulfil")]
    rows = spark.createDataFrame(queues, "system STRING, tenant STRING, queue STRING, subscription STRING")
    names = [(place_of(row), *row[4:]) for row in rows.select("*", place(), F.expr(sql)).collect()]
    assert len(set(names)) == len(queues)
    assert all(of_row == ours == theirs for of_row, ours, theirs in names)


def test_many_queues_in_time_are_few_rows_and_every_death(spark):
    """20 queues, the n-th with n deaths: the eight largest have their own colour, nothing is left out."""
    numbers = spark.range(20).selectExpr("id", "explode(sequence(0, id)) AS n")
    times = "timestamp '2026-11-20 20:00:00' + make_interval(0, 0, 0, 0, n) AS dead_lettered_at"
    rows = over_time(numbers.selectExpr("'q' || id AS place", times), "hour").collect()
    assert {row["place"] for row in rows} == {"other queues", *(f"q{n}" for n in range(12, 20))}
    assert sum(row["n"] for row in rows) == sum(range(1, 21))
    assert len(rows) == len({(row["time"], row["place"]) for row in rows})


def test_what_is_left_out_is_told():
    rows = [{"system": "zaqar", "reason": str(n), "n": 1, "example": ""} for n in range(MOST_ROWS + 1)]
    page = render(empty(quarantine=rows))
    assert "The first 500 rows" in page and "<td>499</td>" in page and "<td>500</td>" not in page
    assert "The first 500 rows" not in render(empty(quarantine=rows[1:]))
    patterns = [PATTERN] * (MOST_PATTERNS + 1)
    page = render(empty(patterns=patterns))
    assert "The first 20 patterns" in page and page.count("<article>") == 20
    assert "The first 20 patterns" not in render(empty(patterns=patterns[1:]))
    assert "not listed: 1,234 muted" in render(empty(muted=1234)) and "muted" not in render(empty()).split("<body>")[1]


def test_patterns_that_ask_for_somebody_come_first(spark, tmp_path):
    """Each with its example's error."""
    rows = [("a", 9, "ongoing", False), ("b", 1, "new", False), ("c", 3, "regressed", False), ("d", 99, "new", True)]
    names = "pattern_id STRING, dead_letters BIGINT, status STRING, muted BOOLEAN"
    told = ("'zaqar' AS system", "'p' AS tenant", "'q' AS queue", "'' AS subscription", "pattern_id AS message_id")
    dead = spark.createDataFrame(rows, names).selectExpr(
        "pattern_id", *told, "'{}' AS payload", "'to a@b.example' AS error"
    )
    found = spark.createDataFrame(rows, names).join(
        dead.select("pattern_id", F.struct(*MESSAGE_KEY).alias("example")), "pattern_id"
    )
    lake = SimpleNamespace(read=lambda table: found, folder=str(tmp_path))
    top = top_patterns(lake, dead, reveal=False).collect()
    assert [(row["pattern_id"], row["example_error"]) for row in top] == [(name, "to <email>") for name in "cba"]


@pytest.fixture(scope="module")
def of_two_queues(spark, tmp_path_factory):
    """The figures of a lake where one message was delivered a thousand times, and one came after gold's time."""
    lake, at = Lake(spark, str(tmp_path_factory.mktemp("report") / "lake")), datetime(2026, 11, 20, tzinfo=UTC)
    lake.create_missing()
    key = ("zaqar", "p", "looping", "")
    survival = [(*key, delivery, 1, 0, 0, 0) for delivery in range(1, 2 * MOST_ROWS + 1)]
    survival += [("zaqar", "p", "other", "", delivery, 2, 1, 0, 0) for delivery in (1, 2)]
    lake.append(frame_of(spark, survival, tables.DELIVERY_SURVIVAL.ddl), tables.DELIVERY_SURVIVAL)
    seen = [(f"m{hours}", at + timedelta(hours=hours)) for hours in (-1, 0, 1)]
    messages = frame_of(spark, seen, "message_id STRING, seen TIMESTAMP")
    own = dict(zip(tables.QUEUE_KEY, key, strict=True))
    given = {name: F.lit(value) for name, value in own.items()}
    death = F.struct(F.col("seen").alias("time"), *[F.lit(None).alias(name) for name in "abcdefg"])
    given |= {"deaths": F.array(death), "seen": F.when(F.col("message_id") != "m-1", F.col("seen"))}
    made = {}
    for column in tables.MESSAGE_STATE.columns:
        value = given.get(column.name, F.col(column.name) if column.name in messages.columns else F.lit(None))
        made[column.name] = value.cast(column.type)
    lake.append(messages.select(*[value.alias(name) for name, value in made.items()]), tables.MESSAGE_STATE)
    lake.progress.note("gold", 1, at)
    return figures(lake)


def test_messages_count_that_were_known_at_the_time_of_the_dead_letters(of_two_queues):
    assert of_two_queues.headline["messages"] == 2 and of_two_queues.headline["as of"] == "2026-11-20 00:00:00 UTC"


def test_a_message_that_loops_hides_no_other_queues_survival(of_two_queues):
    last = {row["place"].rpartition("/")[2]: row["delivery"] for row in of_two_queues.survival}
    assert last == {"looping": FIRST_DELIVERIES, "other": 2}
    assert len(survival(of_two_queues.survival).data) == 2


def test_survival_by_hand():
    """10 reached delivery 1 and 6 were settled; 3 went on, 1 is open; 1 of the 3 was settled at delivery 2."""
    rows = [{"delivery": 1, "reached": 10, "settled": 6}, {"delivery": 2, "reached": 3, "settled": 1}]
    assert [(k, round(share, 6)) for k, share in unsettled(rows)] == [(0, 1.0), (1, 0.4), (2, round(0.4 * 2 / 3, 6))]


def test_rows_of_one_delivery_are_added_up():
    rows = [{"delivery": 1, "reached": 10, "settled": 6}, {"delivery": 1, "reached": 30, "settled": 4}]
    assert unsettled(rows) == [(0, 1.0), (1, 0.75)]


def test_quality_through_time():
    runs = [
        {"time": "2026-11-20 20:00:00", "severity": "critical", "n": 0},
        {"time": "2026-11-21 20:00:00", "severity": "critical", "n": 2},
    ]
    rule = {"table_name": "silver.claims", "rule": HOSTILE, "severity": "critical", "runs": 1}
    rule |= {"last_failed": "2026-11-21 20:00:00", "observed": "3 rows", "expected": "0", "then": "run stopped"}
    page = render(empty(quality_runs=runs, quality_rules=[rule]), "../my lake/quality/data_docs/index.html")
    assert HOSTILE not in page and "run stopped" in page and "rules that failed" in page
    assert 'href="../my%20lake/quality/data_docs/index.html"' in page


def test_no_link_without_data_docs():
    assert "Data Docs" not in render(empty())
