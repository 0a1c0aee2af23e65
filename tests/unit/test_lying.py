"""When somebody was done with a dead letter where it lies."""

import pytest

from deadletter.gold.dead_letters import all_deaths
from deadletter.staging import held_if_few
from tests.pipelines.broken_events import DEAD_TOPIC, firehose, origin, pulsar, rabbit
from tests.unit.timed import START, at


def ack(queue):
    delivered = {"headers": {"vhost": "broken", "properties": {"message_id": "r1"}}}
    return rabbit(f"ack.{queue}", delivered, "consumer")


def shown(count):
    death = {"count": count, "reason": "rejected", "queue": "orders", "time": int(START.timestamp()) + 1}
    return firehose("deliver.dlq", {"message_id": "r1"}, {"x-death": [death]})


def since_start(time):
    return time and time.timestamp() - START.timestamp()


def delivered():
    return firehose("deliver.orders", {"message_id": "r1"})


@pytest.mark.parametrize(
    ("events", "removed"),
    [
        pytest.param([at(0, delivered()), at(5, shown(1))], None, id="read"),
        pytest.param([at(0, delivered()), at(5, shown(1)), at(6, ack("dlq"))], 6, id="acknowledged there"),
        pytest.param([at(0, delivered()), at(5, shown(1)), at(6, ack("other"))], None, id="acknowledged elsewhere"),
        pytest.param(
            [at(0, delivered()), at(5, shown(1)), at(6, ack("dlq")), at(60, delivered()), at(65, shown(2))],
            None,
            id="died again",
        ),
    ],
)
def test_a_rabbitmq_dead_letter_is_removed_by_who_acknowledges_it(silver, events, removed):
    (row,) = all_deaths(silver("rabbitmq", events), stage=held_if_few, systems=["rabbitmq"]).collect()
    assert since_start(row["removed_at"]) == removed


def letter(seconds, number):
    """A letter that lies in the dead letter topic since ``seconds``."""
    since = int((START.timestamp() + seconds) * 1000)
    named = origin(ORIGIN_MESSAGE_ID=f"9:{number}:-1", REAL_SUBSCRIPTION="s")
    return at(100, pulsar("dead_letter", 50 + number, topic=DEAD_TOPIC, properties=named, publish_timestamp=since))


def there(seconds, operation, number, subscription):
    return at(seconds, pulsar(operation, 50 + number, topic=DEAD_TOPIC, subscription=subscription))


def test_a_pulsar_dead_letter_is_removed_when_every_subscription_acknowledged_it(silver):
    """Which were there before it, or had to do with it: not one that came later."""
    events = [letter(10, 1), letter(30, 2), letter(50, 3), letter(70, 4)]
    events += [there(20, "acknowledge", 1, "triage")]
    events += [there(40, "acknowledge", 2, "triage"), there(42, "acknowledge", 2, "audit")]
    events += [there(60, "acknowledge", 3, "triage")]
    events += [there(80, "acknowledge", 4, "triage"), there(81, "receive", 4, "audit")]
    dead = all_deaths(silver("pulsar", events, 7200), stage=held_if_few, systems=["pulsar"]).collect()
    after = {row["message_id"]: since_start(row["removed_at"]) for row in dead}
    assert after == {"9:1:-1": 20, "9:2:-1": 42, "9:3:-1": None, "9:4:-1": None}
