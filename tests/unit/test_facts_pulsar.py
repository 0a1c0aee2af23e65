"""Facts of a few of Pulsar's events, and what they mean: what the captures and the generated histories do not hold.

Each story has a tenant of its own; all are judged at once, an hour after their start.
"""

import pytest

from deadletter.gold.at_risk import receivable, waiting
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.health import queue_health
from deadletter.gold.survival import delivery_survival
from deadletter.rules.zaqar_store import REDIS
from tests.pipelines.broken_events import DEAD_TOPIC, TOPIC, origin, pulsar
from tests.unit.stories import Stories, by_story, fates, lives
from tests.unit.timed import START, at

STORIES = Stories("pulsar", tenant="{}/default")
story = STORIES.add


@pytest.fixture(scope="module")
def previewed(facts, dead):
    """``{message: (counted deliveries, claims saved, fate)}`` of a story whose topic allows so many deliveries."""
    lived = lives(facts, dead, "pulsar", "orders")
    return lambda tenant, allowed: fates(lived.where(f"tenant = '{tenant}'"), allowed)


@pytest.fixture(scope="module")
def survived(facts, dead):
    """``gold.delivery_survival`` of a story, by delivery."""
    rows = delivery_survival(facts, dead).orderBy("delivery").collect()
    return by_story(rows).__getitem__


@pytest.fixture(scope="module")
def differences(facts, dead):
    """What brokers and rules say differently of a story."""
    return by_story(discrepancies(facts, dead, REDIS).collect()).__getitem__


def millis(seconds):
    """A time after the start, as brokers tell it."""
    return int(START.timestamp() + seconds) * 1000


POLICY = {"maxRedeliverCount": 1, "deadLetterTopic": DEAD_TOPIC}


def letters(of, *numbers, where="dead", **named):
    told = {"topic": f"{TOPIC}-{where}", "properties": origin(ORIGIN_MESSAGE_ID=f"9:{of}:-1") | named}
    return [pulsar("dead_letter", number, **told) for number in numbers]


def received(number, *by):
    return [pulsar("receive", number, subscription=name, redelivery_count=count) for name, count in by]


RETURNED = pulsar("negative_acknowledge", 9, subscription="b")
ONE_TOPIC = story(
    *(pulsar("subscribe", subscription=name, dead_letter_policy=POLICY) for name in ("a", "b")),
    pulsar("subscribe", subscription="c", dead_letter_policy=POLICY | {"deadLetterTopic": f"{TOPIC}-alone"}),
    # one letter; two of the one that reached its limit; two of both, one read twice; one that is named and one not
    *(*received(1, ("a", 0), ("b", 0), ("a", 1)), *letters(1, 50)),
    *(*received(2, ("a", 0), ("b", 0), ("a", 1)), *letters(2, 52, 53)),
    *(*received(3, ("a", 0), ("a", 1), ("b", 1)), *letters(3, 54, 55, 55)),
    *(*received(4, ("b", 1), ("a", 1)), *letters(4, 56, REAL_SUBSCRIPTION="a"), *letters(4, 57)),
    *(*received(5, ("a", 1)), *letters(5, 58, REAL_SUBSCRIPTION="a"), *letters(5, 59, REAL_SUBSCRIPTION="b")),
    # one that seeks back afterwards; and one of whose policy nothing is known
    *(*received(6, ("b", 0), ("b", 1), ("a", 0), ("a", 1)), *letters(6, 60), *received(6, ("a", 0))),
    *(*received(7, ("c", 1), ("d", 1)), *letters(7, 61, where="alone", REAL_SUBSCRIPTION="c")),
    *letters(7, 62, where="alone"),
    # one that gave the message back, and one that received it later and was done
    *(*received(9, ("a", 0), ("b", 1)), RETURNED, *received(9, ("b", 2)), RETURNED, *letters(9, 65)),
    *(*received(9, ("a", 1), ("a", 2)), pulsar("acknowledge", 9, subscription="a")),
    # a topic that no policy names
    *(*received(8, ("a", 1), ("d", 1)), *letters(8, 63, REAL_SUBSCRIPTION="a"), *letters(8, 64, where="other")),
)


def test_of_subscriptions_with_one_dead_letter_topic_those_died_that_reached_their_limit(died):
    """As many as there are letters, each of its own; one that is named has its letter already."""
    told = [(row["message_id"], row["subscription"], row["dead_letter_message_id"]) for row in died(ONE_TOPIC)]
    expected = {(1, "a", 50), (2, "a", 53), (3, "a", 54), (3, "b", 55), (4, "a", 56), (4, "b", 57), (5, "a", 58)}
    expected |= {(5, "b", 59), (6, "a", 60), (7, "c", 61), (7, "d", 62), (8, "a", 63), (8, "d", 64)}
    expected |= {(9, "b", 65)}
    assert sorted(told) == sorted((f"9:{of}:-1", name, f"9:{letter}:-1") for of, name, letter in expected)


def test_what_is_read_from_a_dead_letter_topic_is_no_retry(parsed):
    """Also where the topic has partitions, or another name: its messages keep the properties of their retries."""
    again = origin(RECONSUMETIMES="3")
    named = again | {"REAL_SUBSCRIPTION": "s"}
    cases = [
        (f"{TOPIC}-s-RETRY", again, TOPIC),
        (f"{TOPIC}-again", named, TOPIC),
        *((f"{TOPIC}-s-DLQ{n}", again, f"{TOPIC}-s-DLQ") for n in ("", "-partition-0")),
        (DEAD_TOPIC, again, DEAD_TOPIC),
        (f"{TOPIC}-s-RETRY", named | {"REAL_SUBSCRIPTION": "other"}, f"{TOPIC}-s-RETRY"),
    ]
    events = [pulsar("receive", 7, topic=topic, properties=properties) for topic, properties, _ in cases]
    queues = {row["delivery"]["event_id"]: row["queue"] for row in parsed("pulsar", events).messages.collect()}
    assert [queues[str(number)] for number in range(len(cases))] == [of for *_, of in cases]


def test_a_dead_letter_topic_without_a_name_is_the_default_one(parsed):
    """The Python client's own policy has an empty text there."""
    policies = [{"maxRedeliverCount": 3, "deadLetterTopic": name} for name in ("", " ", None, "persistent://a/b/c")]
    found = parsed("pulsar", [pulsar("subscribe", dead_letter_policy=policy) for policy in policies]).policies.collect()
    assert sorted(row["dead_letter_queue"] for row in found) == ["persistent://a/b/c", *[f"{TOPIC}-s-DLQ"] * 3]


SEEN_LATE = story(
    pulsar("subscribe", dead_letter_policy=POLICY | {"maxRedeliverCount": 3}),
    pulsar("receive", redelivery_count=3),
    pulsar("dead_letter", 50, topic=DEAD_TOPIC, properties=origin()),
)


def test_a_limit_that_was_reached_before_anybody_looked(died, previewed):
    assert [row["claim_count"] for row in died(SEEN_LATE)] == [4]
    assert previewed(SEEN_LATE, 4) == {"9:1:-1": (4, 0, "unchanged")}


LIFE = [pulsar("receive"), pulsar("receive", redelivery_count=1), pulsar("acknowledge")]
SOUGHT_BACK_TO = story(*LIFE, *LIFE)


def test_what_is_settled_and_sought_back_to_is_delivered_anew(previewed, survived):
    """Which counts neither against a limit nor as a later settlement."""
    assert previewed(SOUGHT_BACK_TO, 2) == {"9:1:-1": (2, 0, "alive")}
    told = [
        (row["delivery"], row["reached"], row["settled"])
        for row in survived(SOUGHT_BACK_TO)
        if row["subscription"] == "s"
    ]
    assert told == [(1, 1, 0), (2, 1, 1)]


def test_messages_that_no_broker_keeps_are_silent(parsed):
    topic = {"topic": TOPIC.replace("persistent", "non-persistent"), "message_id": "0:0:-1"}
    told = parsed("pulsar", [pulsar("receive", **topic), pulsar("acknowledge", **topic)])
    assert told.messages.isEmpty() and [row["silent"] for row in told.events.collect()] == [True, True]


PARTITION = f"{TOPIC}-partition-0"
OF_PARTITION = origin(ORIGIN_MESSAGE_ID="(9,1,0,-1)", REAL_TOPIC=PARTITION)
PARTITIONED = story(
    pulsar("subscribe", dead_letter_policy=POLICY | {"maxRedeliverCount": 0}),
    pulsar("receive", topic=PARTITION, message_id="(9,1,0,-1)"),
    pulsar("acknowledge", topic=PARTITION, message_id="9:1:-1"),
    pulsar("dead_letter", 50, topic=f"{DEAD_TOPIC}-partition-1", properties=OF_PARTITION),
)
NAMED_BY_ITS_LETTER = story(pulsar("dead_letter", 51, topic=f"{PARTITION}-fulfil-DLQ", properties=OF_PARTITION))


def test_a_partition_is_its_topic(died):
    """Consumers subscribe to the topic; its messages and dead letters name its partitions."""
    (dead,) = died(PARTITIONED)
    topics = [topic.replace("broken/default", PARTITIONED) for topic in (TOPIC, DEAD_TOPIC)]
    assert [dead["queue"], dead["dead_letter_queue"]] == topics
    assert (dead["subscription"], dead["max_deliveries"], dead["claim_count"]) == ("s", 0, 1)
    assert [row["subscription"] for row in died(NAMED_BY_ITS_LETTER)] == ["fulfil"]


DELAYED = story(pulsar("send", deliver_after_s=60), pulsar("send", 2), pulsar("send", 3, deliver_after_s=0.5))


def test_pulsars_delays_are_counted(facts, dead):
    hours = queue_health(facts, dead, REDIS).where(f"tenant = '{DELAYED}'").collect()
    assert [(row["posted"], row["delayed"]) for row in hours] == [(3, 2)]


NAMES_NOBODY = story(
    *(pulsar("send"), pulsar("receive"), pulsar("acknowledge")),
    pulsar("dead_letter", 50, topic="persistent://broken/default/elsewhere", properties=origin()),
)


def test_a_death_that_names_nobody_is_its_only_receivers(died):
    """An acknowledgement at the origin is no success then (PIP-22)."""
    (dead,) = died(NAMES_NOBODY)
    assert (dead["subscription"], dead["claim_count"]) == (pulsar("receive")["subscription"], 1)


BLANK_AT_LAST = story(
    *(pulsar("send"), pulsar("receive"), pulsar("negative_acknowledge", error="KeyError: 'to'")),
    *(pulsar("receive"), pulsar("negative_acknowledge", error=" \n")),
    pulsar("dead_letter", 50, topic=DEAD_TOPIC, properties=origin()),
)


def test_a_blank_error_hides_none_that_says_something(died):
    (dead,) = died(BLANK_AT_LAST)
    assert dead["error"] == "KeyError: 'to'"


def again(count):
    return {"properties": origin(RECONSUMETIMES=str(count), REAL_SUBSCRIPTION="s")}


def letter_that_is_read(reader):
    return [
        pulsar("subscribe", dead_letter_policy=POLICY | {"maxRedeliverCount": 3}),
        pulsar("receive"),
        *(pulsar("receive", count, topic=f"{TOPIC}-s-RETRY", **again(count)) for count in (1, 2, 3)),
        pulsar("dead_letter", 50, topic=DEAD_TOPIC, **again(4)),
        *(
            pulsar(what, 50, topic=DEAD_TOPIC, subscription=reader, consumer="ann", error="looked at", **again(4))
            for what in ("receive", "negative_acknowledge", "receive", "acknowledge")
        ),
    ]


READ = {
    reader: (story(*letter_that_is_read(reader)), story(*letter_that_is_read(reader), pulsar("receive")))
    for reader in ("s", "auditor")
}


@pytest.mark.parametrize("reader", READ)
def test_reading_a_dead_letter_does_not_deliver_the_dead_message(died, previewed, differences, reader):
    """Nor where the topic is read by the name of the subscription in which it died."""
    name, sought_back = READ[reader]
    (lived,) = died(name)
    assert (lived["subscription"], lived["claim_count"]) == ("s", 4)
    assert (lived["error"], [one["consumer"] for one in lived["deliveries"]]) == (None, ["c"] * 4)
    assert previewed(name, 4) == {"9:1:-1": (4, 0, "unchanged")}
    assert differences(name) == []
    assert [row["claim_count"] for row in died(sought_back)] == [4]


TWO_LIVES = story(
    pulsar("subscribe", dead_letter_policy=POLICY | {"maxRedeliverCount": 2}),
    *(pulsar("receive"), pulsar("receive", redelivery_count=1)),
    *(pulsar("negative_acknowledge", error="the first life"), pulsar("acknowledge")),
    *(pulsar("receive", redelivery_count=count) for count in (0, 1, 2)),
    pulsar("dead_letter", 50, topic=DEAD_TOPIC, publish_timestamp=millis(8), properties=origin()),
    pulsar("receive"),
)


def test_what_was_settled_before_a_death_is_of_another_life(died, previewed, survived):
    """The subscription sought back to it, and it died of what it lived through then."""
    assert [(row["claim_count"], row["error"]) for row in died(TWO_LIVES)] == [(3, None)]
    assert previewed(TWO_LIVES, 3) == {"9:1:-1": (3, 0, "unchanged")}
    assert [(row["reached"], row["dead_lettered"]) for row in survived(TWO_LIVES)] == [(1, 0), (1, 0), (1, 1)]


LOOKED_AT = {"topic": f"{TOPIC}-s-DLQ", "subscription": "triage"}
DIED_TWICE = [
    pulsar("receive"),
    *(
        pulsar("dead_letter", number, topic=LOOKED_AT["topic"], publish_timestamp=millis(at), properties=origin())
        for number, at in ((50, 1), (57, 2))
    ),
    pulsar("acknowledge", 50, **LOOKED_AT),
]
ONE_LETTER_REMOVED, BOTH_REMOVED = story(*DIED_TWICE), story(*DIED_TWICE, pulsar("acknowledge", 57, **LOOKED_AT))


def test_what_died_again_lies_where_its_last_letter_is(died):
    """The first one was acknowledged. That it died is known since the first."""
    (dead,) = died(ONE_LETTER_REMOVED)
    assert (dead["dead_letter_message_id"], dead["removed_at"]) == ("9:57:-1", None)
    assert dead["dead_lettered_at"].timestamp() * 1000 == millis(1)
    (dead,) = died(BOTH_REMOVED)
    assert dead["removed_at"] is not None


def test_clients_write_one_id_in_several_ways(parsed):
    """Go's clients give a message that is in no batch the index 0."""
    sent = [pulsar("send", message_id=text) for text in ("(9,1,-1,-1)", "9:1:0:0", "9:1:-1:0", "9:1:0")]
    assert [row["message_id"] for row in parsed("pulsar", sent).messages.collect()] == ["9:1:-1"] * 4
    (second,) = parsed("pulsar", [pulsar("send", message_id="9:1:0:1")]).messages.collect()
    assert second["message_id"] == "9:1:-1:1"


def test_a_retry_that_is_given_back_counts_on(parsed):
    """A client dead-letters by the copy's own count, too."""
    retry = {"topic": f"{TOPIC}-s-RETRY", "properties": origin(RECONSUMETIMES="1", REAL_SUBSCRIPTION="s")}
    told = parsed("pulsar", [pulsar("receive", redelivery_count=count, **retry) for count in (0, 3)])
    assert sorted(row["delivery"]["broker_count"] for row in told.messages.collect()) == [1, 3]


def test_only_what_is_given_back_message_by_message_dies(parsed):
    policy = {"maxRedeliverCount": 1, "deadLetterTopic": DEAD_TOPIC}
    types = ("Shared", "Key_Shared", None, 1, "Exclusive", "FAILOVER")
    told = parsed("pulsar", [pulsar("subscribe", subscription_type=it, dead_letter_policy=policy) for it in types])
    limits = {row["event_id"]: (row["max_deliveries"], row["dead_letter_queue"]) for row in told.policies.collect()}
    assert [limits[str(n)] for n in range(len(types))] == [(1, DEAD_TOPIC)] * 4 + [(None, None)] * 2
    retries = policy | {"retryLetterTopic": f"{TOPIC}-s-RETRY"}
    (row,) = parsed(
        "pulsar", [pulsar("subscribe", subscription_type="Failover", dead_letter_policy=retries)]
    ).policies.collect()
    assert (row["max_deliveries"], row["dead_letter_queue"]) == (1, DEAD_TOPIC), "a retry topic asks for no type"


MOVED_EARLY = story(
    *(pulsar("subscribe", dead_letter_policy=POLICY), pulsar("receive")),
    pulsar("dead_letter", 50, topic=DEAD_TOPIC, properties=origin()),
    pulsar("subscribe", subscription="late", dead_letter_policy={"maxRedeliverCount": 3}),
    *(pulsar("receive", 2, subscription="late", redelivery_count=3), *letters(2, 51, where="late-DLQ")),
)


def test_a_death_before_its_limit_is_told(differences):
    """Not of a limit that was reached before anybody looked."""
    assert [row["kind"] for row in differences(MOVED_EARLY)] == ["moved_early"]


COPY = {"topic": f"{TOPIC}-s-RETRY", "properties": origin(RECONSUMETIMES="1", REAL_SUBSCRIPTION="s")}
FALLS_BACK = story(
    *(*(pulsar("receive", redelivery_count=count) for count in (0, 1, 2)), pulsar("receive", 7, **COPY)),
    *(pulsar("receive", 2, subscription="exclusive") for _ in range(3)),
    *(pulsar("receive", 3, redelivery_count=count) for count in (0, 1, 2, 0, 1)),
    # both seek back: to what they settled, and to what died there
    *(pulsar("receive", 4, redelivery_count=1), pulsar("acknowledge", 4), pulsar("receive", 4)),
    *(pulsar("receive", 5, redelivery_count=1), *letters(5, 50, where="s-DLQ"), pulsar("receive", 5)),
)


def test_a_counter_is_lost_where_it_falls_back_to_nothing(differences):
    """A copy in a retry topic has its own, and a subscription that is exclusive has none."""
    names = ("message_id", "kind", "broker_says", "rules_say")
    told = [tuple(row[name] for name in names) for row in differences(FALLS_BACK)]
    assert told == [("9:3:-1", "lost_counter", "0", "2")]


IN_TURN = [(name, count) for count in range(4) for name in ("s1", "s2")]
IN_ONE_GRAVE = story(
    *(*received(1, *IN_TURN), *letters(1, 40, 41, where="grave")),
    *(*received(2, *IN_TURN), *letters(2, 40, where="grave")),
)


def test_letters_in_a_topic_that_no_policy_names_are_all_receivers(died):
    """One for each; of fewer letters than receivers nobody knows whose they are."""
    names = ("message_id", "subscription", "dead_letter_message_id", "claim_count")
    told = sorted(tuple(row[name] for name in names) for row in died(IN_ONE_GRAVE))
    assert told == [("9:1:-1", "s1", "9:40:-1", 4), ("9:1:-1", "s2", "9:41:-1", 4), ("9:2:-1", "", "9:40:-1", 0)]


OVER_ITS_LIMIT = story(
    pulsar("subscribe", dead_letter_policy=POLICY | {"maxRedeliverCount": 0}),
    at(5, pulsar("send")),
    *(pulsar("receive", redelivery_count=count) for count in (0, 1, 2)),
)


def test_who_is_at_risk_was_posted_to_the_topic(facts, dead):
    """And has no fewer deliveries left than none, even if it was delivered beyond its limit."""
    waits = receivable(waiting(facts, dead, REDIS), facts, dead, REDIS)
    (row,) = waits.where(f"tenant = '{OVER_ITS_LIMIT}'").collect()
    assert (row["posted_at"].timestamp(), row["claim_count"], row["deliveries_left"]) == (START.timestamp() + 5, 3, 0)


def test_a_whole_number_may_be_written_as_a_decimal(parsed):
    """As tables write a column that lacks a value somewhere."""
    policy = {"maxRedeliverCount": 3.0}
    events = [pulsar("subscribe", dead_letter_policy=policy)]
    events += [pulsar("receive", redelivery_count=1.0, publish_timestamp=1782900000000.0)]
    events += [pulsar("receive", topic=f"{TOPIC}-s-RETRY", properties=origin(RECONSUMETIMES=2.0))]
    told = parsed("pulsar", events)
    assert [row["reasons"] for row in told.events.collect()] == [[]] * 3
    assert [row["max_deliveries"] for row in told.policies.collect()] == [3]
    received = told.messages.orderBy("delivery.broker_count").collect()
    assert [row["delivery"]["broker_count"] for row in received] == [1, 2]
    assert received[0]["created_at"].timestamp() == 1782900000
    half = parsed("pulsar", [pulsar("receive", redelivery_count=1.5)]).events.collect()
    assert [reason.split(":")[0] for row in half for reason in row["reasons"]] == ["bad_redelivery_count"]


def test_a_long_payload_is_no_broken_line(parsed):
    """A reader of JSON left to itself takes no text of more than twenty million characters."""
    told = parsed("pulsar", [pulsar("send", payload="x" * 20_000_001)])
    assert [row["reasons"] for row in told.events.select("reasons").collect()] == [[]]
