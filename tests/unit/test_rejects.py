"""RabbitMQ tells no reject, but a consumer can write its own down, with what was wrong."""

import pytest

from deadletter.gold.dead_letters import all_deaths, placed_deaths
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.status import message_status
from deadletter.staging import held_if_few
from tests.pipelines.broken_events import queue_created, rabbit
from tests.unit.test_lying import delivered, shown
from tests.unit.timed import at

TO_DLQ = (
    '{<<"x-dead-letter-exchange">>,longstr,<<"dlx">>}',
    '{<<"x-dead-letter-routing-key">>,longstr,<<"dlq">>}',
)


def reject(error="KeyError: amount"):
    headers = {"vhost": "broken", "properties": {"message_id": "r1"}, "error": error}
    return rabbit("reject.orders", {"headers": headers}, "consumer", payload="the body")


REJECTED = [at(0, delivered()), at(1.5, reject())]


@pytest.fixture
def died(silver):
    """The one dead letter of a few events, or none; they differ in nothing from what the documents say."""

    def dead_letter(*events):
        facts = silver("rabbitmq", events)
        dead = held_if_few(all_deaths(facts, stage=held_if_few, systems=["rabbitmq"]))
        assert discrepancies(facts, dead).isEmpty()
        statuses = message_status(facts, dead).where("queue = 'orders'").select("status").collect()
        rows = placed_deaths(dead, facts).collect()
        assert [row["status"] == "dead_lettered" for row in statuses] == [bool(rows)] * len(statuses)
        return rows[0] if rows else None

    return dead_letter


def test_a_reject_is_a_death_with_the_consumers_error(died):
    """The queue's arguments say where it went. The post was not seen: the record holds the payload, too."""
    dead = died(at(0, queue_created(*TO_DLQ)), *REJECTED)
    assert (dead["reason"], dead["cause"], dead["evidence"]) == ("rejected", "rejected", "derived")
    assert (dead["dead_letter_queue"], dead["error"], dead["claim_count"]) == ("dlq", "KeyError: amount", 1)
    assert dead["payload_event_id"] == dead["event_id"]


def test_what_goes_nowhere_was_dropped(died):
    assert died(at(0, queue_created()), *REJECTED)["dead_letter_queue"] is None


def test_the_brokers_word_comes_first(died):
    """It is the same death, and keeps the error."""
    dead = died(at(0, queue_created(*TO_DLQ)), *REJECTED, at(5, shown(1)))
    assert (dead["evidence"], dead["dead_letter_queue"], dead["error"]) == ("observed", "dlq", "KeyError: amount")


def test_what_is_delivered_again_is_not_dead(died):
    assert died(at(0, queue_created(*TO_DLQ)), *REJECTED, at(9, delivered())) is None


def test_what_waits_in_a_retry_queue_is_not_dead(died):
    """Its TTL sends it back. A dead letter queue with a TTL that leads elsewhere is none."""

    def timed(target):
        back = '{<<"x-dead-letter-exchange">>,longstr,<<>>}', '{<<"x-message-ttl">>,signedint,1000}'
        key = f'{{<<"x-dead-letter-routing-key">>,longstr,<<"{target}">>}}'
        return at(0, queue_created(*back, key, name="dlq"))

    assert died(at(0, queue_created(*TO_DLQ)), timed("orders"), *REJECTED) is None
    assert died(at(0, queue_created(*TO_DLQ)), timed("grave"), *REJECTED)["dead_letter_queue"] == "dlq"
    looped = [at(0, queue_created(*TO_DLQ)), timed("orders"), *REJECTED]
    assert died(*looped, at(5, shown(1)))["evidence"] == "observed"  # somebody takes it from there
