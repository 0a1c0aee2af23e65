"""What only waited in a RabbitMQ queue for its TTL to be over, and went to a work queue: it did not die there.

Each story has a vhost of its own; all are judged at once, two hours after their start.
"""

import pytest
from pyspark.sql import functions as F

from deadletter.gold.status import message_status
from deadletter.rules.zaqar_store import REDIS
from tests.pipelines.broken_events import firehose, limited, policy_set, queue_created, to
from tests.unit.rabbitmq_events import WORK, acked, entry, posted, read
from tests.unit.stories import Stories
from tests.unit.timed import at

STORIES = Stories("rabbitmq", seconds=7200)
story = STORIES.add


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(story(*WORK, posted(1, "delay"), read(7, "orders", entry("delay", 6, "expired"))), id="delayed"),
        pytest.param(
            story(*WORK, posted(1, "l5"), read(12, "orders", entry("l3", 11, "expired"), entry("l5", 8, "expired"))),
            id="delayed in two steps",
        ),
        pytest.param(
            story(
                *(*WORK, posted(1, "l5")),
                read(15, "orders", *(entry(queue, at, "expired") for queue, at in (("l1", 13), ("l3", 12), ("l5", 8)))),
            ),
            id="delayed in three steps",
        ),
        pytest.param(
            story(
                *WORK,
                *(read(2, "orders"), acked(3, "orders"), posted(3, "retry")),
                read(9, "orders", entry("retry", 8, "expired")),
            ),
            id="acknowledged and posted to be tried again",
        ),
        pytest.param(
            story(
                *WORK,
                read(1, "orders"),
                read(20, "orders", entry("far", 19, "expired"), entry("near", 5, "expired"), entry("orders", 2)),
            ),
            id="retried by two steps",
        ),
        pytest.param(
            story(
                *WORK, read(10.1, "orders"), read(10.8, "orders", entry("retry", 10, "expired"), entry("orders", 10))
            ),
            id="retried within a second",
        ),
    ],
)
def test_what_waited_and_came_to_its_work_queue_did_not_die(died, name):
    assert not died(name)


ALL_DELAYED = [WORK[0], posted(1, "delay"), read(7, "orders", entry("delay", 6, "expired"))]
SEEMS_DEAD = story(*ALL_DELAYED)
REFUSED = story(
    *ALL_DELAYED, at(9, firehose("deliver.dlq", {"message_id": "other"}, headers={"x-death": [entry("orders", 8)]}))
)


OVERFLOWN = [entry("orders", 8, "maxlen")]
DROPPED = story(*ALL_DELAYED, at(9, firehose("deliver.dlq", {"message_id": "other"}, headers={"x-death": OVERFLOWN})))


def test_a_queue_to_which_all_is_delayed_is_known_by_what_it_refuses(died):
    """Until then it may as well be a dead letter queue with one of its own, also if that runs over."""
    assert [row["queue"] for row in died(SEEMS_DEAD)] == ["delay"]
    assert sorted(row["queue"] for row in died(DROPPED)) == ["delay", "orders"]
    assert [(row["queue"], row["message_id"]) for row in died(REFUSED)] == [("orders", "other")]


PASSED_ON = story(*WORK, posted(1, "delay"), read(7, "orders", entry("delay", 6, "expired")), acked(8, "orders"))


def test_what_was_delayed_is_no_longer_in_its_delay_queue(facts, dead):
    rows = (
        message_status(facts, dead, REDIS).where(F.col("tenant") == PASSED_ON).select("queue", "message_id", "status")
    )
    told = {tuple(row) for row in rows.collect()}
    assert told == {("delay", "r1", "expired_unseen"), ("orders", "r1", "settled"), ("orders", "other", "available")}


@pytest.mark.parametrize(
    ("name", "went"),
    [
        pytest.param(
            story(*WORK, posted(1, "idle"), read(7, "dlq", entry("idle", 6, "expired"))),
            ("idle", "dlq"),
            id="nobody consumes it",
        ),
        pytest.param(
            story(
                *WORK,
                *(posted(1, "idle", "other"), at(2, firehose("deliver.idle", {"message_id": "other"}))),
                *(posted(3, "idle"), read(9, "orders", entry("idle", 8, "expired"))),
            ),
            ("idle", "orders"),
            id="its TTL is over before anybody takes it",
        ),
        pytest.param(
            story(*WORK, read(1, "orders"), read(9, "grave", entry("dlq", 8, "expired"), entry("orders", 8))),
            ("orders", "dlq"),
            id="dead again in the same second",
        ),
    ],
)
def test_what_went_elsewhere_died(died, name, went):
    assert went in {(row["queue"], row["dead_letter_queue"]) for row in died(name)}


OWN_KEY = at(0, queue_created(*to("orders", limit=2, exchange="dlx"))), posted(1, "orders", "other")
DELAYED_BY_KEY = story(*OWN_KEY, posted(1, "delay"), read(7, "orders", entry("delay", 6, "expired")))


def test_a_work_queue_need_not_name_a_dead_letter_queue_that_is_known(died):
    """Its dead letters go by its own name to what is bound to an exchange."""
    assert not died(DELAYED_BY_KEY)


DELAYED = story(
    *WORK,
    at(0, queue_created(*to("orders", ttl=5000), name="delay")),
    posted(9, "orders"),
    *(read(10 + count, "orders", **({"x-delivery-count": count} if count else {})) for count in range(3)),
)


def test_a_delay_queue_makes_no_dead_letter_queue_of_a_work_queue(at_risk):
    """Its messages are at risk."""
    (row,) = [row for row in at_risk(DELAYED) if row["message_id"] == "r1"]
    assert (row["claim_count"], row["deliveries_left"]) == (3, 0)


EXCHANGE_ALONE = '{<<"x-dead-letter-exchange">>,longstr,<<"dlx">>}'
BY_EXCHANGE = at(0, queue_created(EXCHANGE_ALONE, limited(2))), posted(1, "orders", "other")
DELAYED_BY_EXCHANGE = story(
    *BY_EXCHANGE,
    at(0, queue_created(*to("orders", ttl=5000), name="delay")),
    *(
        posted(1, "delay"),
        read(7, "orders", entry("delay", 6, "expired")),
        read(8, "orders", **{"x-delivery-count": 2}),
    ),
)


def test_a_work_queue_may_send_by_its_messages_own_keys(died, at_risk):
    """As to an exchange that sends to whatever is bound to it."""
    assert not died(DELAYED_BY_EXCHANGE)
    (row,) = [row for row in at_risk(DELAYED_BY_EXCHANGE) if (row["queue"], row["message_id"]) == ("orders", "r1")]
    assert (row["claim_count"], row["deliveries_left"]) == (3, 0)


PARKED = story(
    *(
        *WORK,
        posted(1, "orders"),
        read(2, "orders"),
        read(7, "orders", entry("retry", 6, "expired"), entry("orders", 2)),
    ),
    *(posted(8, "parking"), read(9, "parking", entry("retry", 6, "expired"), entry("orders", 2))),
)


def test_what_somebody_posted_with_its_headers_did_not_die_where_it_waited_before(died):
    """A consumer gave up, or was done, and sent the message on."""
    assert not died(PARKED)


FOR_ALL = policy_set(pattern=".*", definition={"dead-letter-exchange": "", "dead-letter-routing-key": "dlq"})
EXPIRED_UNREAD = read(90, "dlq", entry("reports", 80, "expired"))
SENT_BY_ALL = story(
    *(at(0, FOR_ALL), at(1, queue_created('{<<"x-message-ttl">>,signedint,60000}', name="reports"))),
    *(at(1, queue_created(name="dlq")), posted(5, "dlq", "another"), posted(20, "reports"), EXPIRED_UNREAD),
)


def test_a_policy_for_all_queues_makes_no_work_queue_of_the_dead_letter_queue(died):
    """It would send its letters to itself; somebody posts there, too. What expires on its way there died."""
    (row,) = died(SENT_BY_ALL)
    assert (row["queue"], row["dead_letter_queue"], row["cause"]) == ("reports", "dlq", "ttl")


BY_POLICY = policy_set(definition={"dead-letter-exchange": "dlx", "dead-letter-routing-key": "orders"})
KEPT_ITS_NAME = story(
    *(at(0, BY_POLICY), at(0, queue_created()), posted(1, "orders", "other"), posted(1, "delay")),
    read(7, "orders", entry("delay", 6, "expired")),
)


def test_a_work_queue_may_keep_its_name_as_the_routing_key_of_a_policy(died):
    """Its exchange sends elsewhere by that; what comes to it after a delay is not dead."""
    assert not died(KEPT_ITS_NAME)
