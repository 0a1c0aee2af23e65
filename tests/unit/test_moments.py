"""What explain tells of a message, in order."""

import pytest
from pyspark.sql import functions as F

from deadletter.explain.moments import moments
from deadletter.rules.zaqar_store import REDIS
from deadletter.spark.staging import held_if_few
from tests.pipelines.broken_events import (
    DEAD_TOPIC,
    death,
    declare,
    firehose,
    origin,
    post,
    pulsar,
    queue_created,
    rabbit,
    zaqar,
)
from tests.unit.timed import START, at, grant


@pytest.fixture
def lived(silver):
    """What is told of messages: (second, queue or subscription, what) in order."""

    def told(system, events):
        facts = silver(system, events)
        rows = facts.state.withColumn("expires_at", F.lit(None).cast("timestamp"))
        dead = held_if_few(rows.where("false").withColumnRenamed("expires_at", "dead_lettered_at"))
        found = moments(rows, facts, dead, REDIS).collect()
        return [
            (row["micros"] / 1e6 - START.timestamp(), row["subscription"] or row["queue"], row["what"]) for row in found
        ]

    return told


def looped(seconds, times):
    """A delivery after so many rounds through a retry queue; the first began at 1 s."""
    of = {"orders": ("rejected", 1), "retry": ("expired", 5)}
    told = {
        queue: {"queue": queue, "reason": reason, "count": times, "time": int(START.timestamp()) + first}
        for queue, (reason, first) in of.items()
    }
    return at(seconds, firehose("deliver.orders", headers={"x-death": [told["retry"], told["orders"]]}))


def test_each_death_is_told_once_after_what_led_to_it(lived):
    """RabbitMQ keeps the header on the message, and its deaths have whole seconds; a limit may have no target."""
    message = {"properties": {"message_id": "r1"}, "vhost": "broken"}
    returned = rabbit("requeue.orders", {"headers": message}, "consumer")
    deleted = rabbit("queue.deleted", {"headers": {"name": "orders", "vhost": "broken"}}, "event_exchange")
    events = [
        at(0, queue_created('{<<"x-delivery-limit">>,signedint,3}')),
        *(at(1.25, firehose()), at(1.5, firehose("deliver.orders")), looped(10.25, 1), looped(20, 2)),
        *(at(20.5, returned), looped(21, 2), at(30, deleted), at(31, deleted)),
    ]
    died = "the broker reports a death:"
    assert [(second, what.replace(" to c (1)", "")) for second, _, what in lived("rabbitmq", events)] == [
        (1.25, "posted"),
        (1.5, "delivery 1 [limit 3]"),
        (1, f"{died} rejected, to retry"),
        (10.25, "delivery 2 [limit 3]"),
        (10, f"{died} rejected, to retry"),
        (20, "delivery 3 [limit 3]"),
        (20.5, "negative acknowledgement"),
        (21, "delivery 4 [limit 3]"),
        (30, "the queue was deleted"),
    ]


def test_deaths_of_one_second_stand_in_the_order_of_their_header(lived):
    """Also that of a queue that nobody reads, and whose name comes first."""
    at_once, kinds = int(START.timestamp()) + 1, {"a-retry": "expired", "orders": "rejected"}
    shown = [told for queue, reason in kinds.items() for told in death(queue=queue, reason=reason, time=at_once)]
    last = firehose("deliver.grave", headers={"x-death": shown})
    events = [at(0, queue_created()), at(1.2, firehose()), at(1.25, firehose("deliver.orders")), at(1.71, last)]
    told = [what.split()[-1] if "death" in what else what.split()[0] for _, _, what in lived("rabbitmq", events)]
    assert told == ["posted", "delivery", "a-retry", "grave", "delivery"]


def test_a_dead_letter_that_is_read_twice_is_one_death(lived):
    letter = pulsar("dead_letter", 50, topic=DEAD_TOPIC, properties=origin(REAL_SUBSCRIPTION="s"))
    policy = {"maxRedeliverCount": 0, "deadLetterTopic": DEAD_TOPIC}
    events = [pulsar("subscribe", dead_letter_policy=policy), pulsar("receive"), letter, letter | {"consumer": "other"}]
    told = [what for _, where, what in lived("pulsar", events) if where == "s"]
    died = f"the broker reports a death: max_redeliver_count, to {DEAD_TOPIC}"
    assert told == [f"delivery 1 to c, broker counts 0 [limit 0, to {DEAD_TOPIC}]", died]


def test_what_was_done_to_its_claims_and_its_queue_is_told(lived):
    """As long as the message was there; a limit without a dead letter queue counts nothing."""
    of_claim = {"path": "/v2/queues/orders/claims/k1", "status": 204}
    events = [
        at(0, declare({"_max_claim_count": 5})),
        *(at(1, post(1)), at(2, zaqar("POST", "/v2/queues/orders/purge", 204, {"resource_types": ["subscriptions"]}))),
        *(grant(5, "k1"), at(6, zaqar("PATCH", request={"ttl": 70, "grace": 60}, **of_claim))),
        *(at(7, zaqar("DELETE", **of_claim)), at(8, zaqar("DELETE", **of_claim))),
        *(at(second, zaqar("POST", "/v2/queues/orders/purge", 204)) for second in (9, 11)),
        *(at(10, post(2)), at(12, zaqar("DELETE", "/v2/queues/orders", 204))),
    ]
    assert lived("zaqar", events) == [
        (1, "orders", "posted, TTL 300 s"),
        (5, "orders", "delivery 1 in claim k1 to c1"),
        (6, "orders", "claim k1 renewed for 70 s"),
        (7, "orders", "claim k1 released"),
        (9, "orders", "the queue was purged"),
        (10, "orders", "posted, TTL 300 s"),
        (11, "orders", "the queue was purged"),
    ]
