"""Generated histories: the pipeline's verdicts are those of an independent model, field by field."""

import gzip
import os
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables
from deadletter.gold.at_risk import OPEN, dead_letter_queues, receivable, waiting
from deadletter.gold.collateral import collateral
from deadletter.gold.dead_letters import all_deaths
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.facts import each
from deadletter.gold.health import queue_health
from deadletter.gold.healthy import sampled
from deadletter.gold.profile import queue_profile
from deadletter.gold.status import message_status
from deadletter.gold.survival import delivery_survival
from deadletter.gold.uneventful import split
from deadletter.gold.zaqar import counting_attempts, place, replayed_queues, with_first_granted
from deadletter.lake import Lake
from deadletter.patterns.deviation import HEALTHY
from deadletter.rules.zaqar_store import DOCUMENT, MONGODB, REDIS, STORES
from deadletter.snapshot import facts_at
from tests.models import pulsar, rabbitmq, zaqar
from tests.models.clock import SECOND, START, iso
from tests.pipelines.comparing import assert_same_rows
from tests.pipelines.conftest import quiet

SEED = int(os.environ.get("DEADLETTER_SEED", "4"))
MESSAGES = int(os.environ.get("DEADLETTER_HISTORIES", "10000"))
CUT = 150
SHARES = {"document": 0.45, "redis": 0.15, "rabbitmq": 0.2, "pulsar": 0.2, "mongodb": 0.1}
FIELDS = ("dead_letter_queue", "reason", "claim_count", "max_deliveries", "posted_at", "died", "removed_at", "cause")


@dataclass
class Histories:
    """Raw lines a system, and the truth at the cut and at the end."""

    lines: dict
    at_cut: dict
    at_end: dict
    end: int


def generate(seed, messages):
    """Many small queues of every kind; each with a tenant of its own."""
    chance, lines, cut, functions = random.Random(seed), {}, {}, []
    for kind, share in SHARES.items():
        left, number = int(messages * share), 0
        while left > 0:
            number, size = number + 1, min(left, chance.randint(15, 60))
            left -= size
            own, tenant = random.Random(f"{seed}-{kind}-{number}"), f"{kind}-{number}"
            if kind in STORES:
                events, truth_at_cut, truth = zaqar.history(own, tenant, kind, size, CUT)
                cut |= truth_at_cut
            elif kind == "rabbitmq":
                events, truth = rabbitmq.history(own, tenant, size)
                cut |= truth(START + CUT * SECOND)
            else:
                events, truth = pulsar.history(own, f"public/{tenant}", size, number)
                cut |= truth(START + CUT * SECOND)
            lines.setdefault("zaqar" if kind in STORES else kind, []).extend(events)
            functions.append(truth)
    end = max(line.split('"captured_at": "')[1][:26] for part in lines.values() for line in part)
    end = int((datetime.fromisoformat(end + "+00:00") - datetime.fromtimestamp(0, UTC)) / timedelta(microseconds=1))
    rows = {key: row for truth in functions for key, row in truth(end).items()}
    return Histories(lines, cut, rows, end)


@pytest.fixture(scope="module")
def histories():
    return generate(SEED, MESSAGES)


@pytest.fixture(scope="module")
def lake(spark, histories, tmp_path_factory):
    landing = tmp_path_factory.mktemp("histories")
    for system, lines in histories.lines.items():
        (landing / system).mkdir()
        with gzip.open(landing / system / "all.jsonl.gz", "wt", compresslevel=1) as file:
            file.writelines(f"{line}\n" for line in lines)
    made = Lake(spark, str(tmp_path_factory.mktemp("lake")))
    summary = steps.run(made, str(landing), habits=DOCUMENT, tell=quiet)
    assert summary.events_quarantined == 0
    return made


def time(micros):
    return datetime.fromisoformat(iso(micros))


def facts_until(lake, at):
    """Staged, and every message is judged."""
    return each(facts_at(lake, time(at)), lake.stage)


def dead_rows(dead):
    """``{key: row}`` of dead letters, times in microseconds."""
    times = [
        F.unix_micros(column).alias(name)
        for name, column in {
            "died": "dead_lettered_at",
            "posted_at": "posted_at",
            "removed_at": "removed_at",
            "expires_at": "expires_at",
        }.items()
    ]
    found = dead.select(
        *tables.MESSAGE_KEY, "dead_letter_queue", "reason", "cause", "claim_count", "max_deliveries", *times
    ).toPandas()
    records = found.astype(object).where(found.notna(), None).to_dict("records")
    return {(r["tenant"], r["queue"], r["subscription"], r["message_id"]): r for r in records}


def assert_same_deaths(have, truth, kind):
    want = {key: row["death"] for key, row in truth.items() if row["death"] and of_kind(key, kind)}
    have = {key: row for key, row in have.items() if of_kind(key, kind)}
    assert want, "a history without a death tests nothing"
    missing, extra = want.keys() - have.keys(), have.keys() - want.keys()
    assert not missing, (len(missing), len(want), [(key, want[key]) for key in sorted(missing)[:3]])
    assert not extra, (len(extra), len(want), [(key, have[key]) for key in sorted(extra)[:3]])
    for name in (*FIELDS, "expires_at"):
        wrong = {
            key: (have[key][name], row[name])
            for key, row in want.items()
            if have[key][name] != row[name] and not (name == "expires_at" and row["removed_at"] is not None)
        }
        assert not wrong, (name, len(wrong), len(want), sorted(wrong.items())[:5])


def of_kind(key, kind):
    return key[0].removeprefix("public/").startswith(kind + "-")


@pytest.mark.parametrize("kind", ["document", "rabbitmq", "pulsar"])
def test_dead_letters(lake, histories, kind):
    assert_same_deaths(dead_rows(lake.read(tables.DEAD_LETTERS)), histories.at_end, kind)


def test_payloads_of_first_and_second_deaths(lake, histories):
    dead = lake.read(tables.DEAD_LETTERS).where("tenant LIKE 'document-%'")
    have = {tuple(row[:4]): row["payload"] for row in dead.select(*tables.MESSAGE_KEY[1:], "payload").collect()}
    want = {key: row["payload"] for key, row in histories.at_end.items() if row["death"] and of_kind(key, "document")}
    assert {key[1] for key in want} == {"q", "q-dlq"}
    assert have == want


@pytest.mark.parametrize("habits", [REDIS, MONGODB], ids=lambda habits: habits.name)
def test_dead_letters_with_a_stores_habits(lake, histories, habits):
    dead = all_deaths(split(facts_at(lake, time(histories.end)), 1, lake.stage), habits, lake.stage, ["zaqar"])
    assert_same_deaths(dead_rows(dead), histories.at_end, habits.name)


def test_what_mongodb_counts(lake, histories):
    facts = facts_until(lake, histories.end)
    dead = all_deaths(facts, MONGODB, lake.stage, ["zaqar"])
    found = receivable(waiting(facts, dead, MONGODB), facts, dead, MONGODB).where("tenant LIKE 'mongodb-%'")
    have = {tuple(row[:4]): row[4] for row in found.select(*tables.MESSAGE_KEY[1:], "claim_count").collect()}
    # where its dead letter queue names it, and it names none any more, what lies in it is dead
    named = {row["tenant"] for row in dead_letter_queues(facts, dead).where("queue = 'q'").collect()}
    want = {
        key: row["count"]
        for key, row in histories.at_end.items()
        if of_kind(key, "mongodb") and key[1] == "q" and row["status"] in OPEN and key[0] not in named
    }
    assert have == want and max(want.values()) > 1
    denied = discrepancies(facts, dead, MONGODB).where("kind = 'should_have_been_moved'")
    assert denied.where("tenant LIKE 'mongodb-%'").isEmpty()


def kinds_in(habits):
    """The kinds of histories that these habits are for: other brokers' go with the document's."""
    return [kind for kind in SHARES if (kind if kind in STORES else "document") == habits.name]


def statuses(lake, at, habits):
    """``{key: (status, claims granted)}`` of the messages that live in a store with these habits."""
    kind = F.regexp_extract("tenant", r"(\w+)-\d+$", 1)
    facts = facts_until(lake, at)
    dead = all_deaths(facts, habits, lake.stage, facts.systems())
    rows = message_status(facts, dead, habits).where(kind.isin(*kinds_in(habits)))
    found = rows.select(*tables.MESSAGE_KEY[1:], "status", "claims_granted").toPandas()
    return {tuple(row[:4]): tuple(row[4:]) for row in found.itertuples(index=False, name=None)}


@pytest.mark.parametrize(
    ("habits", "place"),
    [
        pytest.param(DOCUMENT, "cut", id="document-cut"),
        pytest.param(REDIS, "cut", id="redis-cut"),
        pytest.param(MONGODB, "cut", id="mongodb-cut"),
        pytest.param(DOCUMENT, "end", id="document-end", marks=pytest.mark.soak),
        pytest.param(REDIS, "end", id="redis-end", marks=pytest.mark.soak),
        pytest.param(MONGODB, "end", id="mongodb-end", marks=pytest.mark.soak),
    ],
)
def test_status(lake, histories, place, habits):
    at, truth = (START + CUT * SECOND, histories.at_cut) if place == "cut" else (histories.end, histories.at_end)
    have = statuses(lake, at, habits)
    want = {
        key: (row["status"], row["granted"])
        for key, row in truth.items()
        if any(of_kind(key, kind) for kind in kinds_in(habits)) and not row.get("unseen")
    }
    missing, extra = want.keys() - have.keys(), have.keys() - want.keys()
    assert not missing, (len(missing), len(want), [(key, want[key]) for key in sorted(missing)[:3]])
    assert not extra, (len(extra), len(want), [(key, have[key]) for key in sorted(extra)[:3]])
    # where the model leaves a status open the grants count still
    wrong = {key: (have[key], row) for key, row in want.items() if have[key] != (row[0] or have[key][0], row[1])}
    assert not wrong, (len(wrong), len(want), sorted(wrong.items())[:5])


def test_survival_and_health(lake, histories):
    """Counted from the model's verdicts in plain Python, for the queues that follow the document."""
    curve, health = Counter(), Counter()
    for key, row in histories.at_end.items():
        if not of_kind(key, "document"):
            continue
        place, granted, settled = key[:2], row["granted"], row["status"] == "settled"
        posted_here = "never_claimable" in row
        health.update(
            {
                (*place, "posted"): posted_here,
                (*place, "claimed"): granted,
                (*place, "settled"): settled,
                (*place, "dead_lettered"): row["death"] is not None,
                (*place, "expired_unseen"): posted_here and row["status"] == "expired_unseen",
            }
        )
        end = "dead_lettered" if row["death"] else "settled" if settled else "unknown"
        curve.update((*place, delivery, "reached") for delivery in range(1, granted + 1))
        curve.update([(*place, granted, end)] if granted else [])
    names = ["reached", "settled", "dead_lettered", "unknown"]
    rows = lake.read(tables.DELIVERY_SURVIVAL).where("tenant LIKE 'document-%'").collect()
    have = {(r["tenant"], r["queue"], r["delivery"], name): r[name] for r in rows for name in names if r[name]}
    assert have == dict(curve)
    names = ["posted", "claimed", "settled", "dead_lettered", "expired_unseen"]
    hours = lake.read(tables.QUEUE_HEALTH).where("tenant LIKE 'document-%'")
    rows = hours.groupBy("tenant", "queue").agg(*[F.sum(name).alias(name) for name in names]).collect()
    have = {(r["tenant"], r["queue"], name): r[name] for r in rows for name in names if r[name]}
    assert have == {key: count for key, count in health.items() if count}


def first_granted(facts):
    """The place of the first message that each attempt was granted, of those that can move one."""
    state = facts.state.where("system = 'zaqar'").withColumn("place", place(F.col("posted")))
    queues = replayed_queues(facts.policies)
    attempts = with_first_granted(counting_attempts(facts, queues, queues, REDIS), facts, state)
    return attempts.select("tenant", "queue", "event_id", "first_granted").where("first_granted IS NOT NULL")


def test_the_uneventful_are_counted_as_they_would_be_judged(lake, histories):
    """What is derived with the uneventful messages counted is what is derived of every message."""
    sample, dead = 5, lake.read(tables.DEAD_LETTERS)
    whole = facts_until(lake, histories.end)
    counted = split(facts_at(lake, time(histories.end)), sample, lake.stage)
    left_out = whole.state.count() - counted.state.count()
    assert left_out == counted.uneventful.agg(F.sum("messages")).first()[0] > 500
    # the queues have too few healthy messages to be compared with
    looks = F.when(F.xxhash64("message_id") % 2 == 0, HEALTHY).otherwise("$ broken")
    compared = dead.withColumn("deviation_key", looks)
    derived = {
        "first granted": first_granted,
        "health": lambda facts: queue_health(facts, dead, DOCUMENT),
        "survival": lambda facts: delivery_survival(facts, dead),
        "people": lambda facts: queue_profile(facts, lake.read(tables.HEALTHY_SAMPLE).limit(0)),
        "sample": lambda facts: sampled(facts, dead, sample).drop("facts"),
        "collateral": lambda facts: collateral(facts, compared),
        "discrepancies": lambda facts: discrepancies(facts, dead, DOCUMENT),
    }
    for what, derive in derived.items():
        rows = lake.stage(derive(counted))
        assert_same_rows(derive(whole), rows, what)
        assert not rows.isEmpty(), what


def test_no_death_by_a_classic_limit_is_denied(lake):
    denied = lake.read(tables.DISCREPANCIES).where("system = 'rabbitmq' AND kind = 'should_have_been_moved'")
    assert denied.limit(3).collect() == []


@pytest.mark.parametrize("kind", ["lost_counter", "claimed_while_delayed", "never_claimable"])
def test_discrepancies(lake, histories, kind):
    found = lake.read(tables.DISCREPANCIES).where(F.col("kind") == kind)
    have = {tuple(row) for row in found.select(*tables.MESSAGE_KEY[1:]).collect()}
    want = {key for key, row in histories.at_end.items() if row.get(kind)}
    assert want, "a history without one tests nothing"
    assert (sorted(have - want)[:3], sorted(want - have)[:3]) == ([], [])
