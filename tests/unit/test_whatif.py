"""A limit or a delay, tried on generated histories and compared with a replay in plain Python."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F
from scipy import stats

from deadletter.whatif.curve import advice, curve, unsettled_after
from deadletter.whatif.delay import delayed
from deadletter.whatif.limit import counted
from deadletter.whatif.preview import by_pattern, expected_saved, limits_held

START = datetime(2026, 11, 20, tzinfo=UTC)
SCHEMA = (
    "system STRING, tenant STRING, queue STRING, subscription STRING, message_id STRING,"
    "posted STRUCT<time: TIMESTAMP, event_id: STRING, position: INT, ttl: BIGINT, delay: BIGINT, producer: STRING>,"
    "times ARRAY<TIMESTAMP>, deliveries BIGINT, outcome STRING, settled_at TIMESTAMP, dead_lettered_at TIMESTAMP,"
    "cause STRING, pattern_id STRING, is_open BOOLEAN, lost BOOLEAN"
)
POLICIES = "system STRING, tenant STRING, queue STRING, subscription STRING, policies ARRAY<STRUCT<" + (
    "valid_from: TIMESTAMP, event_id: STRING, kind: STRING, max_deliveries: BIGINT, dead_letter_queue: STRING,"
    "dead_letter_ttl: BIGINT, default_ttl: BIGINT, default_delay: BIGINT, consumer: STRING>>"
)


def history(chance, number):
    posted = START + timedelta(seconds=chance.uniform(0, 60))
    times = [posted]
    for _ in range(chance.randint(1, 7)):
        times.append(times[-1] + timedelta(seconds=chance.uniform(0.1, 9)))
    outcome = chance.choice(["settled", "dead_lettered", "unknown"])
    stands = chance.choice(["open", "lost", None]) if outcome == "unknown" else None
    end = times[-1] + timedelta(seconds=2)
    died = outcome == "dead_lettered"
    return (
        *("zaqar", "t", "orders", "", str(number)),
        (posted, "e", 0, chance.choice([None, 5, 60]), chance.choice([None, 0, 40]), "p"),
        *(times[1:], len(times) - 1, outcome, end if outcome == "settled" else None, end if died else None),
        chance.choice(["delivery_limit", "ttl"]) if died else None,
        chance.choice(["p1", "p2"]) if died else None,
        *(stands == "open", stands == "lost"),
    )


@pytest.fixture(scope="module")
def lived():
    chance = random.Random(11)
    return [history(chance, number) for number in range(2000)]


def test_the_curve_is_scipys():
    """Which takes one number a message."""
    chance = random.Random(3)
    outcomes = ("settled", "dead_lettered", "unknown")
    exits = [(chance.randint(1, 9), chance.choice(outcomes), chance.randint(1, 30)) for _ in range(40)]
    rows = [dict(zip(("deliveries", "outcome", "messages"), row, strict=True)) for row in [*exits, (10, "settled", 3)]]
    left = [[k for k, told, n in exits for _ in range(n) if (told == "settled") == is_it] for is_it in (True, False)]
    found = stats.ecdf(stats.CensoredData(uncensored=[*left[0], 10, 10, 10], right=left[1])).sf
    bounds = found.confidence_interval()
    points = curve(rows)
    assert points[-1].unsettled == 0 and points[-1].low is points[-1].high is None
    for point in points[:-1]:
        wanted = [float(of.evaluate(point.delivery)) for of in (found, bounds.low, bounds.high)]
        assert [point.unsettled, point.low, point.high] == pytest.approx(wanted, abs=1e-6)


def fate(row, allowed):
    """The document's rule, told message by message."""
    _, deliveries, outcome, _, _, cause, _, is_open, lost = row[6:]
    if outcome == "dead_lettered":
        if deliveries > allowed:
            return "earlier"
        return "put_off" if cause == "delivery_limit" and deliveries < allowed else "unchanged"
    if deliveries > allowed:
        return "false_death" if outcome == "settled" else "lost" if lost else "death_unknown"
    return "at_limit" if is_open and deliveries == allowed else "alive"


@pytest.mark.parametrize("allowed", [1, 3, 7, 9])
def test_a_limit_by_hand(spark, lived, allowed):
    rows = [row.asDict() for row in counted(spark.createDataFrame(lived, SCHEMA), allowed).collect()]
    wanted = {}
    for row in lived:
        wanted[fate(row, allowed)] = wanted.get(fate(row, allowed), 0) + 1
    found = {}
    for row in rows:
        found[row["fate"]] = found.get(row["fate"], 0) + row["messages"]
    assert found == wanted
    early = [row for row in lived if fate(row, allowed) == "earlier"]
    in_vain = early + [row for row in lived if fate(row, allowed) == "lost"]
    assert sum(row["claims_saved"] for row in rows) == sum(row[7] - allowed for row in in_vain)
    seconds = sum((row[10] - row[6][allowed]).total_seconds() for row in early)
    assert sum(row["seconds_earlier"] for row in rows) == pytest.approx(seconds)
    points = curve(rows)
    told = by_pattern(rows, points, allowed, {"p1": "one"})
    assert sum(row["dead_letters"] for row in told) == sum(row[8] == "dead_lettered" for row in lived)
    assert {row["pattern_id"]: row["template"] for row in told} == {"p1": "one", "p2": None}


def test_a_death_comes_earlier_by_the_deliveries_that_count(spark):
    """Of an earlier life, or of which none was seen: the last ones count, or the first one seen is the latest."""
    times = [START + timedelta(seconds=second) for second in (1, 2, 3, 4)]
    row = ("rabbitmq", "t", "q", "", "m", None, times, 2, "dead_lettered", None, times[3] + timedelta(seconds=6), "x")
    rows = [(*row, "p1", False, False), (*row[:6], times[3:], 4, *row[8:], "p1", False, False)]
    found = counted(spark.createDataFrame(rows, SCHEMA), 1).collect()
    assert [(row["claims_saved"], row["seconds_earlier"]) for row in found] == [(1, 6.0), (3, 6.0)]


def test_limits_that_never_held_are_none(spark):
    """Zaqar counts no claims in a queue without a dead letter queue."""
    policies = [
        (START, "e", "updated", limit, target, *[None] * 4) for limit, target in ((3, None), (5, "d"), (5, "e"))
    ]
    rows = [(system, "t", "q", "", policies) for system in ("zaqar", "pulsar")]
    found = spark.createDataFrame(rows, POLICIES).select("system", limits_held()).collect()
    assert dict(map(tuple, found)) == {"zaqar": [5], "pulsar": [3, 5]}


def test_the_curve_by_hand(lived):
    exits = [{"deliveries": row[7], "outcome": row[8], "messages": 1} for row in lived]
    points = curve(exits)
    share = 1.0
    for delivery in range(1, 8):
        reached = [row for row in lived if row[7] >= delivery]
        share *= 1 - sum(row[7] == delivery and row[8] == "settled" for row in reached) / len(reached)
        assert unsettled_after(points, delivery) == pytest.approx(share, abs=1e-6)
        point = next(point for point in points if point.delivery == delivery)
        assert point.reached == len(reached) == point.settled + point.censored + sum(r[7] > delivery for r in reached)
        assert delivery == 7 or point.low < point.unsettled < point.high
    deaths = {n: {"deliveries": n, "messages": 3, "fate": "put_off"} for n in (6, 7)}
    assert expected_saved([deaths[7]], points, 9) == {"messages_saved": None, "saved_not_known": 3}
    assert expected_saved([deaths[6] | {"fate": "earlier"}], points, 9)["messages_saved"] == 0
    reached = [row for row in lived if row[7] >= 7]
    settled = sum(row[8] == "settled" for row in reached) / len(reached)
    assert expected_saved(deaths.values(), points, 9) == {
        "messages_saved": pytest.approx(3 * settled, abs=0.01),
        "saved_not_known": 3,
    }


def exits(settled, censored):
    rows = [{"deliveries": k, "outcome": "settled", "messages": n} for k, n in settled.items()]
    return rows + [{"deliveries": k, "outcome": "dead_lettered", "messages": n} for k, n in censored.items()]


@pytest.mark.parametrize(
    ("settled", "censored", "one_more", "limit", "told"),
    [
        ({1: 900, 2: 50, 3: 1}, {3: 49}, 0, 2, "an estimated 2.00% would be settled by delivery 3"),
        ({1: 900, 2: 50, 3: 1}, {3: 49}, 1, 1, "an estimated 2.00% would be settled"),
        ({1: 900, 3: 1, 4: 1}, {3: 74, 4: 24}, 0, 1, "(100 were) an estimated 4.96% would be settled by delivery 4"),
        ({1: 100_000, 2: 4_999}, {2: 95_001}, 0, 1, "an estimated 4.99% would be settled"),
        ({1: 5_000_000 - 28, 2: 1}, {2: 27}, 0, 1, "an estimated 3.57% would be settled"),
        ({1: 900, 2: 50, 3: 20}, {3: 30}, 0, 3, "Try a higher limit"),
        ({1: 5}, {}, 0, None, "only 5 messages"),
        ({}, {1: 500}, 0, None, "no settlement is known"),
    ],
)
def test_the_recommended_limit_and_its_reason(settled, censored, one_more, limit, told):
    found = advice(curve(exits(settled, censored)), one_more)
    assert found.limit == limit
    assert told in found.reason


def whole(time):
    return time.replace(microsecond=0)


def test_a_delay_by_hand(spark, lived):
    policies = spark.createDataFrame([("zaqar", "t", "orders", "", [])], POLICIES)
    found = delayed(spark.createDataFrame(lived, SCHEMA), policies, 10).first()
    early, saved, ended, unseen = 0, 0, 0, 0
    for row in lived:
        ttl, own = row[5][3], row[5][4]
        wait = 10 if own is None else own
        if (3600 if ttl is None else ttl) < wait:  # nobody would ever have claimed it
            unseen += 1
            continue
        until = whole(row[5][0]) + timedelta(seconds=wait)
        claims = [time for time in row[6] if wait and whole(time) < until]
        early += len(claims)
        saved += max(len(claims) - (len(claims) == len(row[6])), 0)
        ended += bool(wait and row[10] and row[10] < until)
    assert (found.claims_put_off, found.retries_saved) == (early, saved)
    assert (found.deaths_within_delay, found.never_claimable) == (ended, unseen)
    none = delayed(spark.createDataFrame(lived, SCHEMA).where(F.col("posted.delay").isNull()), policies, 0).first()
    assert (none.claims_put_off, none.seconds_waited) == (0, 0.0)
