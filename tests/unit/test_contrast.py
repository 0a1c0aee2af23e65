"""What sets a pattern's members apart, against the same counted in plain Python: some hundred patterns in one frame."""

import random
import statistics
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.contrast import (
    LEAST,
    LIFT,
    MOST_KEPT,
    SIGMAS,
    UNSEEN,
    concentrated_in,
    differences,
    examples,
    trend,
)
from deadletter.gold.dead_letter_counts import EXAMPLES, HOURS, dead_letter_counts, named_members, said
from deadletter.gold.patterns import summarised
from deadletter.gold.traits import PEOPLE
from tests.pipelines.comparing import assert_same_rows

START = datetime(2026, 11, 20, tzinfo=UTC)
TRAITS = ("consumer", "producer", "host", "version")
SCHEMA = (
    "system STRING, tenant STRING, queue STRING, subscription STRING, message_id STRING, pattern_id STRING,"
    f" dead_lettered_at TIMESTAMP, payload STRING, traits {tables.TRAITS}, signature STRING, deviation_key STRING,"
    " deviation ARRAY<STRING>"
)
PROFILES = ", ".join(f"{column.name} {column.type}" for column in tables.QUEUE_PROFILE.columns)


def members(rng):
    """Dead letters of many patterns: ties in time and in length, payloads nobody saw, several subscriptions."""
    for pattern in range(300):
        for number in range(rng.choice([1, 2, 3, 10, 40])):
            system = rng.choice(["zaqar", "pulsar"])
            queue, message = f"q{rng.randrange(3)}", f"m{number % 25:03}"
            subscription = f"s{number // 25}" if system == "pulsar" else ""
            at = START + timedelta(minutes=rng.randrange(1 + pattern) * 7)
            payload = rng.choice([None, "x" * rng.randrange(6), "y" * rng.randrange(30)])
            # a message has one payload, whichever subscriptions it died in
            of_payload = random.Random(f"{pattern}/{system}/{queue}/{message}")
            values = {what: f"{what}-{rng.randrange(3)}" for what in PEOPLE}
            values |= {what: f"{what}-{of_payload.randrange(3)}" for what in TRAITS[2:]}
            told = [(what, value) for what, value in values.items() if number % 5 or what != "host"]
            # a pattern says several things, each of them in one pattern only
            signature, key = rng.choice([None, f"error of p{pattern:03}"]), f"odd like p{pattern:03}-{number % 2}"
            odd = rng.sample(["$.to missing", "$.n text", "not UTF-8", "too long"], rng.randrange(4))
            yield (system, "t", queue, subscription, message, f"p{pattern:03}", at, payload, told, signature, key, odd)


def profiles(rng):
    """What is usual in some of the queues, as ``control.queue_profile`` counts it."""
    for system in ("zaqar", "pulsar"):
        for queue in ("q0", "q1"):
            yield (system, "t", queue, "", "kind", "encoding", "ASCII", 50)
            for what in TRAITS[2:]:
                yield from (
                    (system, "t", queue, "", "field", what, f"{what}-{n}", rng.randrange(1, 90)) for n in (0, 1)
                )
            for subscription in ("", "s0", "s1"):
                for what in PEOPLE:
                    values = [(f"{what}-{n}", rng.randrange(1, 90)) for n in (0, 1)]
                    yield from ((system, "t", queue, subscription, what, "", value, n) for value, n in values)


@pytest.fixture(scope="module")
def dead(spark):
    rows = list({row[:6]: row for row in members(random.Random(11))}.values())
    return rows, spark.createDataFrame(random.Random(5).sample(rows, len(rows)), SCHEMA).repartition(3).cache()


@pytest.fixture(scope="module")
def counts(dead):
    return dead_letter_counts(dead[1]).cache()


def by_pattern(rows):
    found = defaultdict(list)
    for row in rows:
        found[row[5]].append(row)
    return found


def test_what_is_kept_says_what_the_dead_letters_say(dead, counts):
    """Each of them is counted once, and whichever is a pattern's example can be found again."""
    rows, df = dead
    columns = summarised(df).columns
    assert_same_rows(said(counts).select(*columns), summarised(df))
    assert counts.agg(F.sum("dead_letters")).first()[0] == len(rows)
    example = examples(counts).select("pattern_id", "example.*")
    assert not example.join(df, ["pattern_id", *tables.MESSAGE_KEY], "left_anti").count()
    assert not example.join(named_members(counts), list(tables.MESSAGE_KEY), "left_anti").count()


def test_examples_are_near_the_median_and_early(dead, counts):
    rows, _ = dead
    told = {row["pattern_id"]: row for row in examples(counts).collect()}
    wanted = by_pattern(rows)
    assert told.keys() == wanted.keys()
    for pattern, its in wanted.items():
        ordered = sorted(its, key=lambda row: (row[6], row[:5]))
        lengths = [len(row[7] or "") for row in ordered]
        middle = statistics.median(lengths)
        best = min(range(len(ordered)), key=lambda n: (abs(lengths[n] - middle), n))
        assert tuple(told[pattern]["example"]) == ordered[best][:5]
        assert told[pattern]["example_message_ids"] == [row[4] for row in ordered[:EXAMPLES]]


def test_differences_are_what_most_members_have(dead, counts):
    told = {row["pattern_id"]: list(map(tuple, row["differences"])) for row in differences(counts).collect()}
    for pattern, its in by_pattern(dead[0]).items():
        counted = Counter(one for row in its for one in row[11])
        assert told.get(pattern, []) == sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def test_trends_are_the_latest_hours(dead, counts):
    rows, _ = dead
    told = {row["pattern_id"]: [(at.astimezone(UTC), n) for at, n in row["trend"]] for row in trend(counts).collect()}
    for pattern, its in by_pattern(rows).items():
        hours = Counter(row[6].replace(minute=0) for row in its)
        assert told[pattern] == [(hour, hours[hour]) for hour in sorted(hours)[-HOURS:]]


def test_what_members_have_more_often_than_their_queues(spark, dead, counts):
    rows, _ = dead
    usual = list(profiles(random.Random(3)))
    found = concentrated_in(counts, spark.createDataFrame(usual, PROFILES)).collect()
    told = {row["pattern_id"]: {(c["what"], c["value"]): c for c in row["concentrated_in"]} for row in found}
    wanted = {name: lifted(its, usual) for name, its in by_pattern(rows).items()}
    assert sum(map(bool, wanted.values())) > 20
    assert told.keys() == {name for name, values in wanted.items() if values}
    for pattern, values in told.items():
        assert len(values) == min(MOST_KEPT, len(wanted[pattern]))
        for value, row in values.items():
            assert (row["dead_letters"], row["expected_share"]) == wanted[pattern][value]


def lifted(its, usual):
    """What stands out among a pattern's members: how many have it, and the share that was to be expected."""
    compared = {row[:3] for row in usual if row[4] == "kind"}
    counted, seen = defaultdict(Counter), set()
    for row in its:
        for what, value in row[8]:
            person = what in PEOPLE
            place = row[:4] if person else row[:3]
            if not person and (place not in compared or (place, row[4], what, value) in seen):
                continue
            seen.add((place, row[4], what, value))
            counted[what][place, value] += 1
    shares = defaultdict(Counter)
    for *place, what, name, value, n in usual:
        shares[tuple(place) if what in PEOPLE else tuple(place[:3]), name or what][value] += n
    found = {}
    for what, values in counted.items():
        total, here, expected, seen_here, missed = values.total(), Counter(), Counter(), Counter(), 0
        unseen = 0 if what in PEOPLE else UNSEEN
        for (place, value), n in values.items():
            here[value] += n
            of = shares[place, what]
            for usual_value in of:
                expected[usual_value] += n * of[usual_value] / of.total()
                seen_here[usual_value] += n * of[usual_value] / (of.total() + unseen)
            missed += n * unseen / (of.total() + unseen) if of else 0
        for value, n in here.items():
            most = seen_here[value] + missed
            if n >= LIFT * most and n - most >= LEAST + SIGMAS * most**0.5:
                found[what, value] = n, pytest.approx(expected[value] / total, abs=6e-5)
    return found
