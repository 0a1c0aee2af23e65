"""Which RabbitMQ messages died, where they went and when they were removed: what the captures do not hold.

Each story has a vhost of its own; all are judged at once, two hours after their start.
"""

from itertools import permutations

import pytest

from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.status import message_status
from deadletter.gold.survival import outcomes
from deadletter.rules.zaqar_store import REDIS
from tests.pipelines.broken_events import firehose, limited, queue_created, rabbit, to
from tests.unit.rabbitmq_events import WORK, acked, deleted, entry, posted, read, rejected, returned
from tests.unit.stories import TENANT, Stories, by_story
from tests.unit.timed import START, at

LATER = 9000
STORIES = Stories("rabbitmq", seconds=7200)
story = STORIES.add


ONCE = entry("orders", 1)
COLLECTED_LATE = [
    (
        story(read(0.5 + late, "orders"), read(0.6 + late, "dlq", ONCE)),
        story(read(0.5 + late, "orders"), read(0.6 + late, "dlq", ONCE), read(0.7 + late, "orders")),
    )
    for late in (0, 0.9, 3600)
]


@pytest.mark.parametrize(("dies", "lives"), COLLECTED_LATE)
def test_events_that_are_collected_late_take_back_no_death(died, dies, lives):
    """The broker's clock tells of a death, the collector's of a delivery."""
    (row,) = died(dies)
    assert (row["reason"], row["dead_letter_queue"], row["claim_count"]) == ("rejected", "dlq", 1)
    assert not died(lives)


REDRIVEN = [read(0, "orders"), read(1, "dlq", ONCE), read(2, "orders", ONCE)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(story(*REDRIVEN, read(3, "dlq", entry("orders", 9))), id="its header begins anew: RabbitMQ 4"),
        pytest.param(story(*REDRIVEN, read(3, "dlq", entry("orders", 1, count=2))), id="it counts on: RabbitMQ 3"),
    ],
)
def test_a_redriven_message_that_dies_again_is_dead(died, name):
    assert len(died(name)) == 1


IS_BACK = story(*REDRIVEN)
OF_ANOTHER_SERIES = story(
    *(read(70, "dlq", entry("orders", 60, "expired")), read(140, "dlq", entry("orders", 60, "expired", 2))),
    *(read(210, "dlq", entry("orders", 200, "expired")), read(215, "orders", entry("orders", 200, "expired"))),
)
"""RabbitMQ 3: it counted on, until it was sent without its headers."""


def test_a_redriven_message_is_not_dead(died):
    assert not died(IS_BACK) and not died(OF_ANOTHER_SERIES)


RETRIED = [
    read(0, "orders"),
    read(12, "orders", entry("retry", 11), ONCE),
    read(25, "orders", entry("slow", 24), entry("orders", 1, count=2), entry("retry", 11)),
]
STILL_TRIED = story(*RETRIED)
GAVE_UP = story(*RETRIED, read(30, "dlq", entry("orders", 1, count=3), entry("slow", 24), entry("retry", 11)))


def test_a_message_that_came_back_from_a_retry_queue_did_not_die_there(died):
    """It expired there to be tried again, and its last death is that of its work queue."""
    assert not died(STILL_TRIED)
    (row,) = died(GAVE_UP)
    assert (row["queue"], row["dead_letter_queue"]) == ("orders", "dlq")


DIED_TWICE = story(read(0, "orders"), read(9, "grave", entry("dlq", 5), ONCE))


def test_a_message_that_died_again_where_it_lay_dead_went_there(died):
    """Nobody read the first dead letter queue: the next entry of ``x-death`` names it."""
    assert {(row["queue"], row["dead_letter_queue"]) for row in died(DIED_TWICE)} == {
        ("orders", "dlq"),
        ("dlq", "grave"),
    }


TWICE = entry("orders", 1, count=2)
"""RabbitMQ keeps the time of the first death."""
TWO_DEATHS = [read(0.5, "orders"), read(2, "dlq", ONCE), read(300, "orders", ONCE), read(302, "dlq", TWICE)]
DEAD_AGAIN, POSTED_ANEW = story(*TWO_DEATHS), story(*TWO_DEATHS, read(3600, "orders"))
BACK_FROM_THE_FIRST = story(*TWO_DEATHS, read(303, "orders", ONCE))


def test_a_message_that_is_posted_anew_is_no_longer_dead(died):
    """Nor is it later: ``gold.dead_letters`` has no headers to post with it."""
    (row,) = died(DEAD_AGAIN)
    assert row["dead_lettered_at"].timestamp() == START.timestamp() + 300
    assert not died(POSTED_ANEW)
    assert len(died(BACK_FROM_THE_FIRST)) == 1


YET_TO_COME = [
    (story(*known), story(*known, read(LATER, "orders", shown)))
    for known, shown in ((TWO_DEATHS, TWICE), (TWO_DEATHS[:2], ONCE))
]


@pytest.mark.parametrize(("before", "after"), YET_TO_COME)
def test_a_return_that_is_yet_to_come_changes_no_death(died, before, after):
    """It shows the death as well, and is read from the queue where the message died."""
    own = {"tenant", "event_id", "payload_event_id", "failed_in"}

    def plain(row):
        deliveries = [it.asDict() | {"event_id": None} for it in row["deliveries"]]
        return {name: value for name, value in row.asDict().items() if name not in own} | {"deliveries": deliveries}

    told = [list(map(plain, died(which))) for which in (before, after)]
    assert told[0] == told[1] and [row["dead_letter_queue"] for row in told[0]] == ["dlq"]


LOOPED = story(
    at(0, queue_created()),
    read(1, "orders"),
    *(read(1 + n, "orders", entry("orders", 1, count=n)) for n in range(1, 5)),
)


def test_a_retry_loop_uses_up_no_deliveries(at_risk):
    """A quorum queue counts anew when a message comes back from its death."""
    (row,) = at_risk(LOOPED)
    assert (row["claim_count"], len(row["deliveries"])) == (1, 5)


WAITS = story(
    *(at(0, queue_created(*to("retry", limit=2))), at(0, queue_created(*to("orders", ttl=60_000), name="retry"))),
    *(read(1, "orders", **{"x-delivery-count": 0}), read(2, "orders", **{"x-delivery-count": 1}), rejected(3)),
)


def test_what_waits_for_its_next_try_has_all_deliveries_left(at_risk):
    """It comes back as a new message to its queue."""
    (row,) = at_risk(WAITS)
    assert (row["claim_count"], row["deliveries_left"]) == (0, 3)


COUNTED = story(at(0, queue_created(*to("dlq", limit=3))), read(1, "orders", **{"x-delivery-count": 3}))


def test_a_delivery_that_shows_a_count_was_not_the_first(at_risk):
    """However few deliveries before it were seen."""
    (row,) = at_risk(COUNTED)
    assert (row["claim_count"], row["deliveries_left"]) == (4, 0)


def delivered(seconds, *, before, **headers):
    """A delivery of which the broker says whether it made one ``before``."""
    return at(seconds, firehose("deliver.orders", headers=headers, redelivered=int(before)))


PUBLISHED_AGAIN = [
    *(posted(0, "orders"), delivered(1, before=False), delivered(2, before=True), delivered(3, before=True)),
    *(posted(4, "orders"), delivered(5, before=False)),
]
DONE_AGAIN, OPEN_AGAIN = story(*PUBLISHED_AGAIN), story(*PUBLISHED_AGAIN, delivered(6, before=True))
DIES_AGAIN = story(*PUBLISHED_AGAIN, delivered(6, before=True), read(8, "dlq", entry("orders", 7)))
DIED_BEFORE = story(*PUBLISHED_AGAIN, read(8, "dlq", entry("orders", 3, "delivery_limit")))
FAILED_LATER = story(*PUBLISHED_AGAIN, returned(5.5), read(8, "dlq", entry("orders", 3, "delivery_limit")))
SETTLED_BEFORE = story(*PUBLISHED_AGAIN, acked(4, "orders"))
BEFORE_ALL_EVENTS = story(at(1, firehose("deliver.orders", redelivered=True)))
AT_ONE_TIME = [story(delivered(1, before=False), delivered(1, before=True) | {"n": n}) for n in range(4)]


def test_what_is_published_again_counts_anew(at_risk, died):
    """To its queue it is another message, whatever its publisher calls it."""
    (row,) = at_risk(OPEN_AGAIN)
    assert (row["claim_count"], len(row["deliveries"])) == (2, 5)
    (row,) = died(DIES_AGAIN)
    assert row["claim_count"] == 2


def test_what_is_published_again_later_counts_for_no_end(died, facts, dead):
    """A dead letter that nobody read so far, and what a consumer wrote down."""
    (row,) = died(DIED_BEFORE)
    assert row["claim_count"] == 3
    (row,) = died(FAILED_LATER)
    assert (row["claim_count"], row["error"], len(row["deliveries"])) == (3, None, 3)
    ends = by_story(outcomes(facts, dead).collect())
    for name, outcome in ((SETTLED_BEFORE, "settled"), (DIED_BEFORE, "dead_lettered")):
        told = [(row["deliveries"], row["outcome"]) for row in ends[name]]
        assert (3, outcome) in told and len(told) == 1 + (outcome == "dead_lettered")  # who read it has a dead letter


def test_what_was_last_delivered_for_the_first_time_counts_as_done(at_risk):
    """Of one that was delivered before it is known that it came back."""
    assert not at_risk(DONE_AGAIN)
    assert len(at_risk(BEFORE_ALL_EVENTS)) == 1
    assert [len(at_risk(name)) for name in AT_ONE_TIME] == [1] * len(AT_ONE_TIME)


IN_MEMORY = rabbit(
    "queue.created",
    {"headers": {"name": "orders", "vhost": TENANT, "type": "rabbit_classic_queue", "arguments": []}},
    "event_exchange",
)
FLAG = rabbit(
    "feature.flag.enabled", {"headers": {"name": "classic_delivery_limits", "vhost": TENANT}}, "event_exchange"
)
COUNT_LOST, COUNT_ANEW = (
    story(
        *(at(0, FLAG), at(0, IN_MEMORY), delivered(1, before=False, **{"x-delivery-count": 0})),
        *(delivered(2, before=before, **{"x-delivery-count": 0}), delivered(3, before=True, **{"x-delivery-count": 1})),
    )
    for before in (True, False)
)


def test_a_count_that_begins_with_a_message_was_not_lost(facts, dead):
    told = by_story(discrepancies(facts, dead, REDIS).collect())
    assert [row["kind"] for row in told[COUNT_LOST]] == ["lost_counter"]
    assert COUNT_ANEW not in told


BROUGHT_TO_CLASSIC = story(
    *(at(0, IN_MEMORY), delivered(1, before=False, **{"x-delivery-count": 2})),
    *(delivered(second, before=True, **{"x-delivery-count": 2}) for second in (2, 3, 4)),
)
BROUGHT_TO_QUORUM = story(
    at(0, queue_created(limited(3))),
    *(delivered(second, before=second > 1, **{"x-delivery-count": count}) for second, count in ((1, 21), (2, 1))),
)


def test_a_count_that_a_message_brings_is_not_its_queues(facts, dead, at_risk):
    """It was moved with its headers: a classic queue leaves them, a quorum queue until it delivers it again."""
    told = by_story(discrepancies(facts, dead, REDIS).collect())
    assert BROUGHT_TO_CLASSIC not in told and BROUGHT_TO_QUORUM not in told
    (row,) = at_risk(BROUGHT_TO_QUORUM)
    assert (row["claim_count"], row["deliveries_left"]) == (2, 2)
    (row,) = at_risk(BROUGHT_TO_CLASSIC)
    assert row["claim_count"] == 4


OVER_ITS_LIMIT = entry("orders", 1, "delivery_limit")
DEAD_IN_QUORUM = story(
    *(at(0, queue_created(*to("dlq", limit=3))), at(0, queue_created(limited(3), name="dlq")), read(0.5, "orders")),
    at(5, firehose("deliver.dlq", headers={"x-delivery-count": 4, "x-death": [OVER_ITS_LIMIT]}, redelivered=True)),
)
WORK_LOOP = story(
    *(at(0, queue_created(limited(3))), read(0, "orders")),
    *(read(n, "orders", entry("orders", 1, count=n), **{"x-delivery-count": n}) for n in range(1, 6)),
)
BACK_BEFORE_ALL_EVENTS = story(
    at(0, queue_created(limited(3))), read(5, "orders", entry("orders", 1, count=5), **{"x-delivery-count": 5})
)


def test_a_count_that_comes_with_a_dead_letter_was_held_against_no_limit_there(facts, dead):
    """Nor one that is brought back: a quorum queue looks at it when a message returns."""
    told = by_story(discrepancies(facts, dead, REDIS).collect())
    brought = (DEAD_IN_QUORUM, WORK_LOOP, BACK_BEFORE_ALL_EVENTS)
    assert "delivered_over_limit" not in {row["kind"] for name in brought for row in told[name]}


EARLY = story(posted(1, "orders"), rejected(1.4), read(1.5, "orders"))
EARLY_AND_BACK = story(posted(1, "orders"), rejected(1.4), read(1.5, "orders"), read(9, "orders"))
BEFORE_THE_CAPTURE = story(rejected(1.4), read(1.5, "orders"))


def test_a_reject_is_not_before_the_delivery_that_it_is_about(died):
    """A consumer is done at once, and the collector lags. Where the post was not seen, a delivery may not have been."""
    (row,) = died(EARLY)
    assert (row["reason"], row["claim_count"]) == ("rejected", 1)
    assert not died(EARLY_AND_BACK) and not died(BEFORE_THE_CAPTURE)


IN_A_STREAM = story(at(0, queue_created(kind="rabbit_stream_queue")), read(1, "orders"), rejected(2))


def test_what_is_rejected_in_a_stream_stays_there(died):
    assert not died(IN_A_STREAM)


UNDECLARED = story(read(1, "orders"), read(2, "orders", **{"x-delivery-count": 0}))


def test_nobody_knows_where_an_undeclared_queue_keeps_its_count(facts, dead):
    """A quorum queue's is in its log, and leaves out what is returned on purpose."""
    assert UNDECLARED not in by_story(discrepancies(facts, dead, REDIS).collect())


READ_AGAIN = story(read(0, "orders"), read(2, "dlq", ONCE), read(101, "orders"), read(200, "dlq", ONCE))


def test_a_dead_letter_that_is_read_again_is_no_other_death(died):
    """It was posted anew meanwhile."""
    assert not died(READ_AGAIN)


BROKER_AHEAD = story(
    *(*WORK, read(1, "orders"), read(5, "dlq", entry("orders", 121)), acked(6, "dlq")),
    read(60, "parking", entry("orders", 121)),
)


def test_a_death_is_told_by_who_reads_of_it_first_whatever_the_brokers_clock_says(died):
    (row,) = died(BROKER_AHEAD)
    assert row["dead_letter_queue"] == "dlq"
    assert [row[name].timestamp() - START.timestamp() for name in ("dead_lettered_at", "removed_at")] == [5, 6]


FIRST_BY_LIMIT = entry("dlq", 10, "expired"), entry("orders", 1, "delivery_limit")
DEAD_FOR_ANOTHER_REASON = story(
    *(read(0.5, "orders"), read(12, "archive", *FIRST_BY_LIMIT), read(20, "orders", *FIRST_BY_LIMIT)),
    read(31, "dlq", entry("orders", 30), *FIRST_BY_LIMIT),
)


def test_a_queue_where_a_message_died_after_it_first_died_here_is_not_where_it_came_back_to(died):
    (row,) = died(DEAD_FOR_ANOTHER_REASON)
    assert (row["queue"], row["dead_letter_queue"], row["reason"]) == ("orders", "dlq", "rejected")


MOVED_ON = [
    story(*WORK, read(1, "orders"), *reads)
    for reads in permutations([read(5, "dlq", entry("orders", 2)), read(9, "parking", entry("orders", 2))])
]


@pytest.mark.parametrize("name", MOVED_ON)
def test_a_dead_letter_that_somebody_moved_on_went_where_it_was_read_first(died, name):
    """Whatever the order of the events' ids."""
    assert [row["dead_letter_queue"] for row in died(name)] == ["dlq"]


AT_ONCE = story(
    *WORK,
    *(read(10, "orders", **{"x-delivery-count": count}) for count in (2, 1)),
    read(12, "dlq", entry("orders", 11, "delivery_limit")),
)


def test_deliveries_of_one_moment_count(died):
    assert [row["claim_count"] for row in died(AT_ONCE)] == [3]


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        pytest.param(story(read(0, "orders"), read(5, "dlq", ONCE)), None, id="read"),
        pytest.param(story(read(0, "orders"), read(5, "dlq", ONCE), acked(6, "dlq")), 6, id="acknowledged there"),
        pytest.param(
            story(read(0, "orders"), read(5, "dlq", ONCE), acked(6, "other")), None, id="acknowledged elsewhere"
        ),
        pytest.param(
            story(
                *(read(0, "orders"), read(5, "dlq", ONCE), acked(6, "dlq")),
                *(read(60, "orders"), read(65, "dlq", TWICE)),
            ),
            None,
            id="died again",
        ),
    ],
)
def test_a_dead_letter_is_removed_by_who_acknowledges_it(died, name, removed):
    (row,) = died(name)
    assert (row["removed_at"] and row["removed_at"].timestamp() - START.timestamp()) == removed


TO_DLQ = at(0, queue_created(*to("dlq", exchange="dlx")))
REJECT = [at(0, firehose("deliver.orders")), rejected(1.5)]
BACK = at(0, queue_created(*to("orders", ttl=1000), name="dlq"))
ITS_OWN_NAME = at(0, queue_created(*to("orders", 60_000, exchange="dlx")))
REJECTED = {
    "to a dead letter queue": story(TO_DLQ, *REJECT),
    "to nowhere": story(at(0, queue_created()), *REJECT),
    "and shown": story(TO_DLQ, *REJECT, read(5, "dlq", ONCE)),
    "to a queue with a TTL": story(TO_DLQ, at(0, queue_created(*to("grave", ttl=1000), name="dlq")), *REJECT),
    "by a key that is its own queue's name": story(ITS_OWN_NAME, *REJECT),
    "to what was a retry queue before": story(
        *(TO_DLQ, BACK, at(0.5, deleted("dlq")), at(0.6, queue_created(name="dlq"))), *REJECT
    ),
    "to a retry queue, from where somebody takes it": story(TO_DLQ, BACK, *REJECT, read(5, "dlq", ONCE)),
}
NOT_DEAD = {
    "delivered again": story(TO_DLQ, *REJECT, read(9, "orders")),
    "to a retry queue": story(TO_DLQ, BACK, *REJECT),
}


def test_a_reject_is_a_death_with_the_consumers_error(died):
    """A consumer writes it down, as RabbitMQ tells none. The queue's arguments say where it went. The post was not
    seen: the record holds the payload, too."""
    (row,) = died(REJECTED["to a dead letter queue"])
    assert (row["reason"], row["cause"], row["evidence"]) == ("rejected", "rejected", "derived")
    assert (row["dead_letter_queue"], row["error"], row["claim_count"]) == ("dlq", "KeyError: amount", 1)
    assert row["payload_event_id"] == row["event_id"]
    (dropped,) = died(REJECTED["to nowhere"])
    assert dropped["dead_letter_queue"] is None


def test_only_the_default_exchange_sends_by_the_queues_name(died):
    """What is bound by the name of the queue itself is another one."""
    (row,) = died(REJECTED["by a key that is its own queue's name"])
    assert row["dead_letter_queue"] is None


def test_the_brokers_word_comes_first(died):
    """It is the same death, and keeps the error."""
    (row,) = died(REJECTED["and shown"])
    assert (row["evidence"], row["dead_letter_queue"], row["error"]) == ("observed", "dlq", "KeyError: amount")


def test_what_waits_in_a_retry_queue_is_not_dead(died):
    """Its TTL sends it back; nor is what is delivered again. A dead letter queue with a TTL that leads elsewhere is no
    retry queue."""
    assert [told for told, name in NOT_DEAD.items() if died(name)] == []
    (row,) = died(REJECTED["to a queue with a TTL"])
    assert row["dead_letter_queue"] == "dlq"
    (row,) = died(REJECTED["to what was a retry queue before"])
    assert row["dead_letter_queue"] == "dlq"
    (taken,) = died(REJECTED["to a retry queue, from where somebody takes it"])
    assert taken["evidence"] == "observed"


def test_who_was_rejected_stands_as_dead_and_differs_in_nothing(facts, dead):
    """From what the documents say."""
    told = {*REJECTED.values(), *NOT_DEAD.values()}
    assert not told & by_story(discrepancies(facts, dead, REDIS).collect()).keys()
    statuses = by_story(message_status(facts, dead, REDIS).where("queue = 'orders'").collect())
    assert told <= statuses.keys()
    dying = {name for name in told if {"dead_lettered"} == {row["status"] for row in statuses[name]}}
    assert dying == set(REJECTED.values())


AHEAD = 8
"""Seconds that the consumer's clock is ahead of the collector's."""
TAKEN_BACK = [
    *(at(0, queue_created(*to("", exchange="retry")[:1])), read(1, "orders"), rejected(1.1 + AHEAD)),
    read(6, "orders", entry("retry", 6, "expired"), entry("orders", 1)),
]
UNKNOWN_YET, DONE_LATER = story(*TAKEN_BACK), story(*TAKEN_BACK, acked(7 + AHEAD, "orders"))
BACK_LATER = story(*TAKEN_BACK, returned(7 + AHEAD))
BEFORE_BY_ANOTHERS_CLOCK = [
    story(
        *(TO_DLQ, read(1, "orders"), returned(1.2 + AHEAD, by=first)),
        *(read(2, "orders"), rejected(2.1, by=second)),
    )
    for first, second in (("ahead", "right"), (None, "right"), ("ahead", None), (None, None))
]


def test_who_is_done_with_a_message_after_its_reject_had_it_back(died):
    """The delivery between seems to be before the reject, by another clock."""
    assert len(died(UNKNOWN_YET)) == 1
    assert not died(DONE_LATER) and not died(BACK_LATER)
    assert [len(died(name)) for name in BEFORE_BY_ANOTHERS_CLOCK] == [1] * 4


def test_what_was_put_back_does_not_wait_for_its_next_try(at_risk):
    assert [row["claim_count"] for row in at_risk(BACK_LATER)] == [1]


TAPPED = [TO_DLQ, read(0, "orders"), read(3, "tap", ONCE), read(600, "dlq", ONCE), acked(601, "dlq")]
TAPPED_ONLY, BOTH_READ = story(*TAPPED[:3]), story(*TAPPED)


def test_of_a_tap_and_a_dead_letter_queue_the_policy_names_the_one(died):
    """A tap has each letter first, and for ever; people look into the dead letter queue."""
    (tapped,), (both,) = died(TAPPED_ONLY), died(BOTH_READ)
    assert (tapped["dead_letter_queue"], tapped["removed_at"]) == ("tap", None)
    assert (both["dead_letter_queue"], both["removed_at"].timestamp()) == ("dlq", START.timestamp() + 601)


TWICE_UNREAD = entry("orders", 1, "expired", 2)
EXPIRED_TWICE = [read(2, "dlq", entry("orders", 1, "expired")), read(300, "dlq", TWICE_UNREAD)]
OF_TWO_KINDS = [
    *(read(2, "dlq", entry("orders", 1, "expired")), read(20, "orders", entry("orders", 1, "expired"))),
    read(25, "dlq", entry("orders", 21), entry("orders", 1, "expired")),
    read(300, "dlq", TWICE_UNREAD, entry("orders", 21)),
]
NOT_DELIVERED = {"one kind": (story(*EXPIRED_TWICE), 2), "two kinds": (story(*OF_TWO_KINDS), 25)}


@pytest.mark.parametrize("kind", NOT_DELIVERED)
def test_a_second_death_without_a_delivery_is_later_than_what_showed_the_first(died, kind):
    """RabbitMQ keeps the time of the first; it was sent back with its headers while nobody consumed."""
    name, since = NOT_DELIVERED[kind]
    (row,) = died(name)
    assert (row["reason"], row["dead_lettered_at"].timestamp() - START.timestamp()) == ("expired", since)
