"""RabbitMQ queues in which messages only wait: what leaves them did not die there."""

import pytest

from deadletter.gold import rabbitmq
from deadletter.gold.at_risk import receivable, waiting
from deadletter.gold.dead_letters import all_deaths
from deadletter.staging import held_if_few
from tests.pipelines.broken_events import firehose, queue_created, rabbit
from tests.unit.timed import START, at


def to(queue, ttl=None, limit=None):
    """Arguments of a queue that sends its dead letters to another."""
    told = '{<<"x-dead-letter-exchange">>,longstr,<<>>}', f'{{<<"x-dead-letter-routing-key">>,longstr,<<"{queue}">>}}'
    ends = [f'{{<<"x-message-ttl">>,signedint,{ttl}}}'] if ttl else []
    return *told, *ends, *([f'{{<<"x-delivery-limit">>,signedint,{limit}}}'] if limit else [])


def entry(queue, seconds, reason="expired", count=1):
    return {"queue": queue, "reason": reason, "count": count, "time": int(START.timestamp()) + seconds}


def read(seconds, queue, *entries, **more):
    return at(seconds, firehose(f"deliver.{queue}", headers={"x-death": list(entries)} | more))


def posted(seconds, queue, message="r1"):
    return at(seconds, firehose("publish.", {"message_id": message}, routed_queues=[queue]))


def acked(seconds, queue):
    told = {"headers": {"vhost": "broken", "properties": {"message_id": "r1"}}}
    return at(seconds, rabbit(f"ack.{queue}", told, "consumer"))


WORK = [at(0, queue_created(*to("dlq", limit=2))), posted(1, "orders", "other")]


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([posted(1, "delay"), read(7, "orders", entry("delay", 6))], id="delayed"),
        pytest.param(
            [read(2, "orders"), acked(3, "orders"), posted(3, "retry"), read(9, "orders", entry("retry", 8))],
            id="acknowledged and posted to be tried again",
        ),
        pytest.param(
            [
                read(1, "orders"),
                read(20, "orders", entry("far", 19), entry("near", 5), entry("orders", 2, "rejected")),
            ],
            id="retried by two steps",
        ),
        pytest.param(
            [read(10.1, "orders"), read(10.8, "orders", entry("retry", 10), entry("orders", 10, "rejected"))],
            id="retried within a second",
        ),
    ],
)
def test_what_waited_and_came_to_its_work_queue_did_not_die(silver, events):
    assert rabbitmq.deaths(silver("rabbitmq", [*WORK, *events])).isEmpty()


@pytest.mark.parametrize(
    ("events", "died"),
    [
        pytest.param([posted(1, "idle"), read(7, "dlq", entry("idle", 6))], ("idle", "dlq"), id="nobody consumes it"),
        pytest.param(
            [posted(1, "idle", "other"), at(2, firehose("deliver.idle", {"message_id": "other"}))]
            + [posted(3, "idle"), read(9, "orders", entry("idle", 8))],
            ("idle", "orders"),
            id="its TTL is over before anybody takes it",
        ),
        pytest.param(
            [read(1, "orders"), read(9, "grave", entry("dlq", 8), entry("orders", 8, "rejected"))],
            ("orders", "dlq"),
            id="dead again in the same second",
        ),
    ],
)
def test_what_went_elsewhere_died(silver, events, died):
    dead = rabbitmq.deaths(silver("rabbitmq", [*WORK, *events])).collect()
    assert died in {(row["queue"], row["dead_letter_queue"]) for row in dead}


def test_a_delay_queue_makes_no_dead_letter_queue_of_a_work_queue(silver):
    """Its messages are at risk."""
    counts = ({}, {"x-delivery-count": 1}, {"x-delivery-count": 2})
    tries = [at(10 + n, firehose("deliver.orders", headers=count)) for n, count in enumerate(counts)]
    delay = at(0, queue_created(*to("orders", ttl=5000), name="delay"))
    facts = silver("rabbitmq", [*WORK, delay, posted(9, "orders"), *tries])
    dead = all_deaths(facts, stage=held_if_few, systems=["rabbitmq"])
    (row,) = receivable(waiting(facts, dead), facts, dead).where("message_id = 'r1'").collect()
    assert (row["claim_count"], row["deliveries_left"]) == (3, 0)


@pytest.mark.parametrize("number", range(4))
def test_a_dead_letter_that_somebody_moved_on_went_where_it_was_read_first(silver, number):
    """Whatever the ids of the events are."""
    death = entry("orders", 2, "rejected")
    events = [read(1, "orders"), read(5, "dlq", death), read(9, "parking", death, number=number)]
    (dead,) = rabbitmq.deaths(silver("rabbitmq", [*WORK, *events])).collect()
    assert dead["dead_letter_queue"] == "dlq"


def test_deliveries_of_one_moment_count(silver):
    counts = [at(10, firehose("deliver.orders", headers={"x-delivery-count": n})) for n in (2, 1)]
    facts = silver("rabbitmq", [*WORK, *counts, read(12, "dlq", entry("orders", 11, "delivery_limit"))])
    assert [row["claim_count"] for row in rabbitmq.deaths(facts).collect()] == [3]
