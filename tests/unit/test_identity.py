"""A pattern's id through time: more members, a wider template, late facts, merges and splits."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.decisions import Decisions, standing
from deadletter.gold.identity import aliases, decided
from deadletter.gold.patterns import grouped, judged

START = datetime(2026, 11, 20, tzinfo=UTC)
CITIES = ["Bern", "Lyon", "Oslo", "Riga", "Rome", "Cork", "Kiel", "Nice"]
SCHEMA = (
    "system STRING, tenant STRING, queue STRING, subscription STRING, message_id STRING,"
    "dead_lettered_at TIMESTAMP, error STRING, deviation_key STRING, pattern_id STRING"
)


def death(number, error, deviation="looks healthy", queue="orders"):
    at = START + timedelta(minutes=number)
    return ("pulsar", "t", queue, "s", f"m{number:03}", at, error, deviation, None)


def closed(numbers):
    return [death(n, f"no route from depot {CITIES[n % 8]} to customer") for n in numbers]


OTHERS = [death(90 + n, None, "$.to missing", ["orders", "mail"][n % 2]) for n in range(6)]
OTHERS += [death(80, "queue full"), death(81, "timeout after 3 s")]


@pytest.fixture(scope="module")
def found(spark):
    def of(rows, partitions=1):
        return grouped(spark.createDataFrame(rows, SCHEMA).repartition(partitions)).localCheckpoint()

    return of


def ids(df):
    return {row["message_id"]: row["pattern_id"] for row in df.select("message_id", "pattern_id").collect()}


def none_known(spark):
    return spark.createDataFrame([], "alias STRING, pattern_id STRING")


def published(df):
    example = F.min(F.struct(*[F.col(name) for name in tables.MESSAGE_KEY])).alias("example")
    part = F.lit(None).cast("string").alias("part_of")
    return df.groupBy("pattern_id").agg(example).select("pattern_id", "example", part)


def test_an_id_survives_more_members_and_a_wider_template(spark, found):
    few, many = found(closed([0, 8]) + OTHERS), found(closed(range(20)) + OTHERS)
    assert {row[0] for row in few.where("message_id = 'm000'").select("template").collect()} == {
        "no route from depot Bern to customer"
    }
    assert {row[0] for row in many.where("message_id = 'm000'").select("template").collect()} == {
        "no route from depot <*> to customer"
    }
    before, after = ids(few), ids(many)
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == 4


def test_patterns_that_come_together_leave_their_names(spark, found):
    """Two cities are two patterns; all eight are one, and the second city's old id leads to it."""
    two, all_of_it = found(closed([0, 1]) + OTHERS), found(closed(range(8)) + OTHERS)
    before, after = ids(two), ids(all_of_it)
    assert before["m000"] != before["m001"]
    names = {row["alias"]: row["pattern_id"] for row in aliases(all_of_it, published(two), none_known(spark)).collect()}
    assert names[before["m001"]] == after["m001"] == after["m000"] == before["m000"]
    assert not set(names) & set(after.values())


def test_an_earlier_death_that_came_late_leaves_the_old_name(spark, found):
    late, all_of_it = found(closed(range(1, 9))), found(closed(range(9)))
    before, after = ids(late)["m001"], ids(all_of_it)["m001"]
    assert before != after
    names = {
        row["alias"]: row["pattern_id"] for row in aliases(all_of_it, published(late), none_known(spark)).collect()
    }
    assert names[before] == after
    older = spark.createDataFrame([("0" * 16, before)], "alias STRING, pattern_id STRING")
    names = {row["alias"]: row["pattern_id"] for row in aliases(all_of_it, published(late), older).collect()}
    assert names["0" * 16] == after


def test_order_and_partitions_change_nothing(found):
    rows = closed(range(20)) + OTHERS
    shuffled = random.Random(3).sample(rows, len(rows))
    assert ids(found(rows)) == ids(found(shuffled, 20))


def test_decisions_move_dead_letters_and_lose_none(found):
    df = found(closed(range(8)) + OTHERS)
    base = ids(df)
    missing, depot, full = base["m090"], base["m000"], base["m080"]
    held = Decisions(merged={full: depot}, split={missing: "queue"})
    after = decided(df, held)
    moved = ids(after)
    assert len(moved) == len(base) == after.count()
    assert moved["m080"] == depot == moved["m001"]
    assert moved["m090"] == missing != moved["m091"] == moved["m093"]
    templates = {r["pattern_id"]: r["template"] for r in after.select("pattern_id", "template").distinct().collect()}
    assert len(templates) == len(set(moved.values())) == 4
    assert templates[depot] == "no route from depot <*> to customer"
    assert ids(decided(df, held)) == moved
    assert ids(decided(df, Decisions())) == base


def made(action, pattern, **more):
    return {"action": action, "pattern_id": pattern, "effective_at": START, "target": None, "along": None} | more


def test_what_stands_after_all_decisions():
    held = standing(
        [
            made("merge", "a", target="b"),
            made("merge", "b", target="a"),
            made("merge", "old", target="c"),
            made("split", "d", along="queue"),
            made("mute", "e"),
            made("unmute", "e"),
            made("resolve", "old"),
            made("resolve", "f"),
            made("reopen", "f"),
        ],
        {"old": "new"},
    )
    assert held.merged == {"a": "b", "new": "c"}
    assert (held.muted, held.split, held.resolved) == (frozenset(), {"d": "queue"}, {"new": START})
    undone = standing([made("merge", "a", target="b"), made("split", "a"), made("split", "d", along="error")])
    assert (undone.merged, undone.split) == ({}, {"d": "error"})


@pytest.mark.parametrize(
    ("first", "last", "resolved", "status"),
    [
        (-1, 0, None, "new"),
        (-50, -1, None, "ongoing"),
        (-50, -30, None, "quiet"),
        (-50, -30, -30, "resolved"),
        (-50, -1, -30, "regressed"),
        (-50, -1, 5, "ongoing"),
    ],
)
def test_status(spark, first, last, resolved, status):
    """Hours from as_of; a resolution after as_of does not count."""
    first, last = (START + timedelta(hours=hours) for hours in (first, last))
    row = spark.createDataFrame([("p", first, last)], "pattern_id STRING, first_seen TIMESTAMP, last_seen TIMESTAMP")
    held = Decisions(resolved={} if resolved is None else {"p": START + timedelta(hours=resolved)})
    assert judged(row, START, held).first()["status"] == status
