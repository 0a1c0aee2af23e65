"""A pattern's id through time: more members, a wider template, late facts, merges and splits."""

import hashlib
import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.decisions import Decisions, Move, standing
from deadletter.gold.identity import aliases, decided, with_pattern
from deadletter.gold.patterns import grouped, judged, summarised
from deadletter.patterns.linking import with_signature
from deadletter.triage import current_ids

START = datetime(2026, 11, 20, tzinfo=UTC)
NONE = Decisions()
CITIES = ["Bern", "Lyon", "Oslo", "Riga", "Rome", "Cork", "Kiel", "Nice"]
SCHEMA = (
    "system STRING, tenant STRING, queue STRING, subscription STRING, message_id STRING,"
    "dead_lettered_at TIMESTAMP, error STRING, deviation_key STRING"
)


def death(number, error, deviation="looks healthy", queue="orders"):
    at = START + timedelta(minutes=number)
    return ("pulsar", "t", queue, "s", f"m{number:03}", at, error, deviation)


def closed(numbers):
    return [death(n, f"no route from depot {CITIES[n % 8]} to customer") for n in numbers]


OTHERS = [death(90 + n, None, "$.to missing", ["orders", "mail"][n % 2]) for n in range(6)]
OTHERS += [death(80, "queue full"), death(81, "timeout after 3 s")]


class Found(NamedTuple):
    """Dead letters, and what they say."""

    members: DataFrame
    said: DataFrame


@pytest.fixture(scope="module")
def found(spark):
    def of(rows, partitions=1):
        dead = with_signature(spark.createDataFrame(rows, SCHEMA).repartition(partitions)).localCheckpoint()
        return Found(dead, grouped(summarised(dead)).localCheckpoint())

    return of


def ids(found, decisions=NONE):
    placed = with_pattern(found.members, decided(found.said, decisions))
    return {row["message_id"]: row["pattern_id"] for row in placed.select("message_id", "pattern_id").collect()}


def pattern_of(key):
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def none_known(spark):
    return spark.createDataFrame([], "alias STRING, pattern_id STRING")


def published(found):
    example = F.min(F.struct(*[F.col(name) for name in tables.MESSAGE_KEY])).alias("example")
    part = F.lit(None).cast("string").alias("part_of")
    placed = with_pattern(found.members, found.said)
    return placed.groupBy("pattern_id").agg(example).select("pattern_id", "example", part)


def names_after(now, before, known):
    named = aliases(now.said, now.members, published(before), known)
    return {row["alias"]: row["pattern_id"] for row in named.collect()}


def templates(said):
    return {row["pattern_id"]: row["template"] for row in said.select("pattern_id", "template").distinct().collect()}


def test_an_error_with_a_deviation_has_no_other_deviations_name(spark, found):
    """Its one letter that looks healthy goes along; what else looks healthy was never called so."""
    said = found([death(n, "no key", "looks healthy" if n == 3 else "$.to missing") for n in range(9)])
    assert set(ids(said).values()) == {pattern_of("$.to missing")}
    assert names_after(said, said, none_known(spark)) == {pattern_of("no key"): pattern_of("$.to missing")}


def test_an_id_survives_more_members_and_a_wider_template(spark, found):
    few, many = found(closed([0, 8]) + OTHERS), found(closed(range(20)) + OTHERS)
    before, after = ids(few), ids(many)
    assert templates(few.said)[before["m000"]] == "no route from depot Bern to customer"
    assert templates(many.said)[after["m000"]] == "no route from depot <*> to customer"
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == 4


def test_patterns_that_come_together_leave_their_names(spark, found):
    """Two cities are two patterns; all eight are one, and the second city's old id leads to it."""
    two, all_of_it = found(closed([0, 1]) + OTHERS), found(closed(range(8)) + OTHERS)
    before, after = ids(two), ids(all_of_it)
    assert before["m000"] != before["m001"]
    names = names_after(all_of_it, two, none_known(spark))
    assert names[before["m001"]] == after["m001"] == after["m000"] == before["m000"]
    assert not set(names) & set(after.values())


def test_an_earlier_death_that_came_late_leaves_the_old_name(spark, found):
    late, all_of_it = found(closed(range(1, 9))), found(closed(range(9)))
    before, after = ids(late)["m001"], ids(all_of_it)["m001"]
    assert before != after
    assert names_after(all_of_it, late, none_known(spark))[before] == after
    older = spark.createDataFrame([("0" * 16, before)], "alias STRING, pattern_id STRING")
    assert names_after(all_of_it, late, older)["0" * 16] == after
    known = aliases(all_of_it.said, all_of_it.members, published(late), older)
    assert current_ids(known, [before, "f" * 16]) == {before: after}


def test_a_pattern_that_has_no_dead_letter_for_a_while_keeps_its_former_ids(spark, found):
    """As of a time before its first death there is none of it; its name comes back with it."""
    none, all_of_it = found(OTHERS), found(closed(range(9)) + OTHERS)
    present = ids(all_of_it)["m001"]
    older = spark.createDataFrame([("0" * 16, present)], "alias STRING, pattern_id STRING")
    kept = aliases(none.said, none.members, published(all_of_it), older)
    assert names_after(all_of_it, none, kept)["0" * 16] == present


def test_order_and_partitions_change_nothing(found):
    rows = closed(range(20)) + OTHERS
    shuffled = random.Random(3).sample(rows, len(rows))
    assert ids(found(rows)) == ids(found(shuffled, 20))


def test_an_error_that_reads_like_a_healthy_payload_is_a_pattern_of_its_own(found):
    """And the payloads that look healthy keep the id that they always had."""
    df = found([death(1, "looks healthy"), death(2, None), death(3, "looks healthy")])
    base, healthy = ids(df), hashlib.sha256(b"looks healthy").hexdigest()[:16]
    assert base["m001"] == base["m003"] != base["m002"] == healthy


def test_decisions_move_dead_letters_and_lose_none(found):
    df = found(closed(range(8)) + OTHERS)
    base = ids(df)
    missing, depot, full = base["m090"], base["m000"], base["m080"]
    held = standing([made("merge", full, target=depot), made("split", missing, along="queue")])
    after = decided(df.said, held)
    moved = ids(df, held)
    assert len(moved) == len(base) == after.agg(F.sum("dead_letters")).first()[0]
    assert moved["m080"] == depot == moved["m001"]
    assert moved["m090"] == missing != moved["m091"] == moved["m093"]
    called = templates(after)
    assert len(called) == len(set(moved.values())) == 4
    assert called[depot] == "no route from depot <*> to customer"
    assert ids(df, held) == moved
    assert ids(df) == base


def test_what_was_merged_into_a_pattern_is_split_with_it(found):
    """And what is merged into it later is not: a part is not asked again."""
    df = found(closed(range(8)) + OTHERS + [death(82, "queue full", queue="mail"), death(83, "timeout after 9 s")])
    base = ids(df)
    full, depot, late = base["m080"], base["m000"], base["m081"]
    before = [made("merge", full, target=depot), made("split", depot, along="queue")]
    moved = ids(df, standing([*before, made("merge", late, target=depot)]))
    assert moved["m080"] == depot == moved["m000"] == moved["m081"]
    assert moved["m082"] not in (depot, full)


def test_a_part_keeps_its_id_when_its_pattern_gets_another(found):
    """An earlier death that came late names the pattern anew; who muted a part still has it muted."""
    mail = [death(n, f"no route from depot {CITIES[n % 8]} to customer", queue="mail") for n in range(20, 28)]
    few, more = found(closed(range(1, 9)) + mail), found(closed(range(9)) + mail)
    before, after = ids(few)["m001"], ids(more)["m001"]
    assert before != after
    split = made("split", before, along="queue")
    parts = ids(few, standing([split])), ids(more, standing([split], {before: after}))
    assert parts[0]["m020"] == parts[1]["m020"] not in (before, after)


@pytest.mark.parametrize(
    ("along", "keeps", "late"),
    [
        ("queue", "pulsar t orders", death(0, "queue full", queue="mail")),
        ("deviation", "looks healthy", death(0, "queue full", "$.to missing")),
    ],
)
def test_a_death_that_came_late_does_not_give_the_id_to_another_part(found, along, keeps, late):
    rows = [death(1, "queue full"), death(2, "queue full", "$.to missing", "mail"), death(3, "queue full", "$.id null")]
    before, after = found(rows), found([*rows, late])
    whole = ids(before)["m001"]
    for noted in (keeps, None, "nobody says so now"):
        held = standing([made("split", whole, along=along, target=noted)])
        assert ids(before, held)["m001"] == whole != ids(before, held)["m002"]
        assert (ids(after, held)["m001"] == whole) is (noted == keeps)
        assert ids(after, held)["m000"] == ids(after, held)["m002"]


def test_the_part_of_the_noted_signature_keeps_the_id_as_its_template_widens(found):
    merged = [death(1, "timeout after 3 s"), *closed([9])]
    wider = [death(0, "queue full"), *merged, *closed(range(10, 16))]
    for rows, members in ((merged, ("m001", "m009")), (wider, ("m000", "m001", "m009"))):
        df = found(rows)
        base, signature = ids(df), df.members.where("message_id = 'm009'").first()["signature"]
        depot, others = base["m009"], sorted({base[member] for member in members} - {base["m009"]})
        joined = [made("merge", other, target=depot) for other in others]
        moved = ids(df, standing([*joined, made("split", depot, along="error", target=signature)]))
        assert moved["m009"] == depot, "not the part with the earliest member"
        assert len({moved[member] for member in members}) == len(members)


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
    assert (held.muted, held.resolved) == ({}, {"new": START})
    assert [tuple(move) for move in held.moves] == [
        ("merge", "a", "b", "a", None),
        ("merge", "new", "c", "old", None),
        ("split", "d", "queue", "d", None),
    ]
    undone = standing([made("merge", "a", target="b"), made("split", "a"), made("split", "d", along="error")])
    assert (undone.merged, undone.moves) == ({}, (Move("split", "d", "error", "d"),))


@pytest.mark.parametrize(
    ("first", "last", "resolved", "status"),
    [
        (-1, 0, None, "new"),
        (-50, -1, None, "ongoing"),
        (-50, -30, None, "quiet"),
        (-50, -30, -30, "resolved"),
        (-50, -1, -30, "regressed"),
    ],
)
def test_status(spark, first, last, resolved, status):
    """Hours from as_of."""
    first, last = (START + timedelta(hours=hours) for hours in (first, last))
    times = "first_seen TIMESTAMP, last_seen TIMESTAMP"
    row = spark.createDataFrame([("p", "t", first, last)], f"pattern_id STRING, template STRING, {times}")
    held = Decisions(resolved={} if resolved is None else {"p": START + timedelta(hours=resolved)})
    assert judged(row, START, held).first()["status"] == status


def test_a_mute_holds_for_what_the_pattern_said(found):
    """Another fault can come into its template later: whoever muted it did not see that one. What says less is still
    what was muted."""
    bern = closed([0])
    before = found(bern + OTHERS).said.select("pattern_id", "template").distinct()
    rows = before.withColumns(dict.fromkeys(("first_seen", "last_seen"), F.lit(START)))
    seen = {row["template"]: row["pattern_id"] for row in before.collect()}
    template = "no route from depot Bern to customer"
    muted = [made("mute", seen[template], target=template), made("mute", seen["queue full"])]
    held = standing(muted)
    told = {row["template"]: row["muted"] for row in judged(rows, START, held).collect()}
    assert {name for name, quiet in told.items() if quiet} == {template, "queue full"}
    wider = rows.withColumn("template", F.replace("template", F.lit("Bern"), F.lit("<*>")))
    told = {row["template"]: row["muted"] for row in judged(wider, START, held).collect()}
    assert {name for name, quiet in told.items() if quiet} == {"queue full"}  # an older version noted no template
    narrower = standing([made("mute", seen[template], target=template.replace("Bern", "<*>"))])
    told = {row["template"]: row["muted"] for row in judged(rows, START, narrower).collect()}
    assert {name for name, quiet in told.items() if quiet} == {template}
    several = standing([made("mute", seen["queue full"], target=text) for text in ("queue full", "another")])
    told = {row["template"]: row["muted"] for row in judged(rows, START, several).collect()}
    assert told["queue full"], "two that were muted apart are one now"
    undone = judged(rows, START, standing([*muted, made("unmute", seen[template])]))
    assert not undone.where(F.col("template") == template).first()["muted"]
