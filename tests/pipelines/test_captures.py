"""The dead letters of every capture are those that the broker held."""

from datetime import datetime

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold import zaqar
from deadletter.gold.at_risk import OPEN
from deadletter.gold.facts import each, until
from deadletter.gold.status import message_status
from deadletter.rules.zaqar_store import DOCUMENT, REDIS
from tests.pipelines import truth

TENANTS = {"orders-a": "p1", "orders-b": "p4", "midflight-a": "m11", "midflight-b": "m12"}


def rows(lake, system):
    columns = ("tenant", "queue", "message_id", "dead_letter_queue", "reason", "claim_count", "evidence")
    return lake.read(tables.DEAD_LETTERS).where(F.col("system") == system).select(*columns).collect()


def facts_of(lake, as_of, those):
    """The facts that ``those`` rows of silver tell until ``as_of``."""
    silver = (tables.MESSAGE_STATE, tables.CLAIMS, tables.CLAIM_ATTEMPTS, tables.QUEUE_POLICIES)
    return each(until(*[lake.read(table).where(those) for table in silver], as_of), lake.stage)


def judged_at(lake, as_of, tenant, habits=REDIS):
    """``{(dead letter queue, message id): claim count}`` that Zaqar's store shows at ``as_of``."""
    facts = facts_of(lake, as_of, F.col("tenant") == tenant)
    shown = f"coalesce(expires_at > '{as_of}', true) AND coalesce(removed_at > '{as_of}', true)"
    found = (
        zaqar.deaths(facts, habits, lake.stage)
        .where(shown)
        .select("dead_letter_queue", "message_id", "claim_count")
        .collect()
    )
    assert len(found) == len({row[:2] for row in found}), "a dead letter stands twice"
    return {(row["dead_letter_queue"], row["message_id"]): row["claim_count"] for row in found}


@pytest.mark.parametrize("name", ["orders-a", "orders-b"])
def test_zaqar_store(lake, name):
    found = [row for row in rows(lake, "zaqar") if row["tenant"] == TENANTS[name]]
    assert {(row["dead_letter_queue"], row["message_id"]): row["claim_count"] for row in found} == (
        truth.zaqar_dead(truth.read(f"zaqar/{name}.truth.json"))
    )
    assert {row["evidence"] for row in found} == {"derived"}


def test_rabbitmq_dead_letter_queues(lake):
    found = rows(lake, "rabbitmq")
    assert sorted((row["queue"], row["message_id"], row["reason"]) for row in found) == truth.rabbitmq_dead()
    limits = {"orders": 3, "payments": 1}
    for row in found:
        if row["reason"] == "delivery_limit":
            assert row["claim_count"] == limits[row["queue"]] + 1


def test_pulsar_dead_letter_topics(lake):
    found = rows(lake, "pulsar")
    assert sorted((row["dead_letter_queue"], row["message_id"]) for row in found) == truth.pulsar_dead()
    limits = {"fulfil-DLQ": 3, "ledger-dead": 1, "settle-DLQ": 2}
    for row in found:
        limit = next(limit for end, limit in limits.items() if row["dead_letter_queue"].endswith(end))
        assert row["claim_count"] == limit + 1


SOME = (3, 8, 11)
SNAPSHOTS = [place if place in SOME else pytest.param(place, marks=pytest.mark.soak) for place in range(12)]


@pytest.mark.parametrize("name", ["midflight-a", "midflight-b"])
@pytest.mark.parametrize("place", SNAPSHOTS)
def test_zaqar_store_in_flight(lake, name, place):
    """With the Redis store's habits: at most 2 % missing or extra at a snapshot, every count right."""
    at, want = truth.zaqar_snapshots(f"zaqar/{name}.truth.json.gz")[place]
    have = judged_at(lake, at, TENANTS[name])
    wrong = set(want) ^ set(have)
    assert len(wrong) <= 0.02 * len(want), sorted(wrong)
    assert {key: have[key] for key in want.keys() & have.keys()} == {
        key: want[key] for key in want.keys() & have.keys()
    }


@pytest.mark.parametrize("name", ["midflight-a", "midflight-b"])
def test_what_a_purge_spared_in_flight(lake, name):
    """Of the messages that lay in the queue just before the purge; the snapshot is from 12 seconds later."""
    snapshots = truth.read(f"zaqar/{name}.truth.json.gz")
    before, after = (set(snapshots[place]["queues"]["audit"]) for place in (7, 8))
    at = datetime.fromisoformat(snapshots[8]["at"])
    facts = facts_of(lake, at, (F.col("tenant") == TENANTS[name]) & (F.col("queue") == "audit"))
    found = message_status(facts, lake.read(tables.DEAD_LETTERS).where("false"), REDIS).where(
        F.col("status").isin(*OPEN)
    )
    have = {row["message_id"] for row in found.select("message_id").collect()}
    spared = before & after
    assert have & before == spared and 0 < len(spared) < len(before)


def test_the_document_alone_counts_right_in_flight(lake):
    """Without the store's habits other messages are reached, but no count differs."""
    at, want = truth.zaqar_snapshots("zaqar/midflight-b.truth.json.gz")[5]
    have = judged_at(lake, at, "m12", DOCUMENT)
    both = want.keys() & have.keys()
    assert len(both) >= 0.85 * len(want)
    assert all(have[key] == want[key] for key in both)


def test_every_dead_letter_has_a_payload_and_a_pattern(lake):
    dead = lake.read(tables.DEAD_LETTERS)
    assert dead.where("payload IS NULL OR pattern_id IS NULL").count() == 0
    counted = lake.read(tables.POISON_PATTERNS).agg(F.sum("dead_letters")).first()[0]
    assert counted == dead.count()


def test_nothing_died_before_the_first_event(lake):
    first = lake.read(tables.QUEUE_EVENTS).agg(F.min("captured_at").alias("first"))
    dead = lake.read(tables.DEAD_LETTERS).join(first)
    assert dead.where("dead_lettered_at >= first").count() == dead.count() > 0
