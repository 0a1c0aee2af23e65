"""Facts of a few of Pulsar's events, and what they mean: what the captures and the generated histories do not hold."""

import pytest

from deadletter.gold import pulsar as gold_pulsar
from deadletter.gold.at_risk import receivable, waiting
from deadletter.gold.dead_letters import placed_deaths
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.health import queue_health
from deadletter.gold.survival import delivery_survival
from tests.pipelines.broken_events import DEAD_TOPIC, TOPIC, origin, pulsar
from tests.unit.stories import deaths, previewed
from tests.unit.timed import START, at


def millis(seconds):
    """A time after the start, as brokers tell it."""
    return int(START.timestamp() + seconds) * 1000


def test_of_subscriptions_with_one_dead_letter_topic_those_died_that_reached_their_limit(silver):
    """As many as there are letters, each of its own; one that is named has its letter already."""
    policy = {"maxRedeliverCount": 1, "deadLetterTopic": DEAD_TOPIC}
    events = [pulsar("subscribe", subscription=name, dead_letter_policy=policy) for name in ("a", "b")]
    alone = {"maxRedeliverCount": 1, "deadLetterTopic": f"{TOPIC}-alone"}
    events += [pulsar("subscribe", subscription="c", dead_letter_policy=alone)]

    def lives(number, *received):
        return [pulsar("receive", number, subscription=name, redelivery_count=count) for name, count in received]

    def letters(of, *numbers, where="dead", **named):
        told = {"topic": f"{TOPIC}-{where}", "properties": origin(ORIGIN_MESSAGE_ID=f"9:{of}:-1") | named}
        return [pulsar("dead_letter", number, **told) for number in numbers]

    # one letter; two of the one that reached its limit; two of both, one read twice; one that is named and one not
    events += [*lives(1, ("a", 0), ("b", 0), ("a", 1)), *letters(1, 50)]
    events += [*lives(2, ("a", 0), ("b", 0), ("a", 1)), *letters(2, 52, 53)]
    events += [*lives(3, ("a", 0), ("a", 1), ("b", 1)), *letters(3, 54, 55, 55)]
    events += [*lives(4, ("b", 1), ("a", 1)), *letters(4, 56, REAL_SUBSCRIPTION="a"), *letters(4, 57)]
    events += [*lives(5, ("a", 1)), *letters(5, 58, REAL_SUBSCRIPTION="a"), *letters(5, 59, REAL_SUBSCRIPTION="b")]
    # one that seeks back afterwards; and one of whose policy nothing is known
    events += [*lives(6, ("b", 0), ("b", 1), ("a", 0), ("a", 1)), *letters(6, 60), *lives(6, ("a", 0))]
    events += [*lives(7, ("c", 1), ("d", 1)), *letters(7, 61, where="alone", REAL_SUBSCRIPTION="c")]
    events += letters(7, 62, where="alone")
    # one that gave the message back, and one that received it later and was done
    returned = pulsar("negative_acknowledge", 9, subscription="b")
    events += [*lives(9, ("a", 0), ("b", 1)), returned, *lives(9, ("b", 2)), returned]
    events += [*letters(9, 65), *lives(9, ("a", 1), ("a", 2)), pulsar("acknowledge", 9, subscription="a")]
    # a topic that no policy names
    events += [*lives(8, ("a", 1), ("d", 1)), *letters(8, 63, REAL_SUBSCRIPTION="a"), *letters(8, 64, where="other")]
    dead = gold_pulsar.deaths(silver("pulsar", events)).collect()
    told = {(row["message_id"], row["subscription"], row["dead_letter_message_id"]) for row in dead}
    expected = {(1, "a", 50), (2, "a", 53), (3, "a", 54), (3, "b", 55), (4, "a", 56), (4, "b", 57), (5, "a", 58)}
    expected |= {(5, "b", 59), (6, "a", 60), (7, "c", 61), (7, "d", 62), (8, "a", 63), (8, "d", 64)}
    expected |= {(9, "b", 65)}
    assert told == {(f"9:{of}:-1", name, f"9:{letter}:-1") for of, name, letter in expected}
    assert len(dead) == len(told)


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


def test_a_limit_that_was_reached_before_anybody_looked(silver):
    policy = {"maxRedeliverCount": 3, "deadLetterTopic": DEAD_TOPIC}
    letter = pulsar("dead_letter", 50, topic=DEAD_TOPIC, properties=origin())
    late = pulsar("receive", redelivery_count=3)
    facts = silver("pulsar", [pulsar("subscribe", dead_letter_policy=policy), late, letter])
    assert [row["claim_count"] for row in gold_pulsar.deaths(facts).collect()] == [4]
    assert previewed(facts, "pulsar", TOPIC, 4) == {"9:1:-1": (4, 0, "unchanged")}


def test_what_is_settled_and_sought_back_to_is_delivered_anew(silver):
    """Which counts neither against a limit nor as a later settlement."""
    life = [pulsar("receive"), pulsar("receive", redelivery_count=1), pulsar("acknowledge")]
    facts = silver("pulsar", [*life, *life])
    assert previewed(facts, "pulsar", TOPIC, 2) == {"9:1:-1": (2, 0, "alive")}
    rows = delivery_survival(facts, deaths(facts, "pulsar")).where("subscription = 's'").collect()
    assert sorted((row["delivery"], row["reached"], row["settled"]) for row in rows) == [(1, 1, 0), (2, 1, 1)]


def test_messages_that_no_broker_keeps_are_silent(parsed):
    topic = {"topic": TOPIC.replace("persistent", "non-persistent"), "message_id": "0:0:-1"}
    told = parsed("pulsar", [pulsar("receive", **topic), pulsar("acknowledge", **topic)])
    assert told.messages.isEmpty() and [row["silent"] for row in told.events.collect()] == [True, True]


def test_a_partition_is_its_topic(silver):
    """Consumers subscribe to the topic; its messages and dead letters name its partitions."""
    one, policy = f"{TOPIC}-partition-0", {"maxRedeliverCount": 0, "deadLetterTopic": DEAD_TOPIC}
    origins = origin(ORIGIN_MESSAGE_ID="(9,1,0,-1)", REAL_TOPIC=one)
    events = [
        pulsar("subscribe", dead_letter_policy=policy),
        pulsar("receive", topic=one, message_id="(9,1,0,-1)"),
        pulsar("acknowledge", topic=one, message_id="9:1:-1"),
        pulsar("dead_letter", 50, topic=f"{DEAD_TOPIC}-partition-1", properties=origins),
    ]
    (dead,) = gold_pulsar.deaths(silver("pulsar", events)).collect()
    assert (dead["queue"], dead["subscription"], dead["max_deliveries"], dead["claim_count"]) == (TOPIC, "s", 0, 1)
    assert dead["dead_letter_queue"] == DEAD_TOPIC
    named = pulsar("dead_letter", 51, topic=f"{one}-fulfil-DLQ", properties=origins)
    assert [row["subscription"] for row in gold_pulsar.deaths(silver("pulsar", [named])).collect()] == ["fulfil"]


def test_pulsars_delays_are_counted(silver):
    facts = silver("pulsar", [pulsar("send", deliver_after_s=60), pulsar("send", 2)])
    hours = queue_health(facts, deaths(facts, "pulsar")).collect()
    assert [(row["posted"], row["delayed"]) for row in hours] == [(2, 1)]


def test_a_death_that_names_nobody_is_its_only_receivers(silver):
    """An acknowledgement at the origin is no success then (PIP-22)."""
    letter = pulsar("dead_letter", 50, topic="persistent://broken/default/elsewhere", properties=origin())
    events = [pulsar("send"), pulsar("receive"), pulsar("acknowledge"), letter]
    facts = silver("pulsar", events)
    (dead,) = deaths(facts, "pulsar").collect()
    assert (dead["subscription"], dead["claim_count"]) == (pulsar("receive")["subscription"], 1)


@pytest.mark.parametrize("reader", ["s", "auditor"])
def test_reading_a_dead_letter_does_not_deliver_the_dead_message(silver, reader):
    """Nor where the topic is read by the name of the subscription in which it died."""

    def again(count):
        return {"properties": origin(RECONSUMETIMES=str(count), REAL_SUBSCRIPTION="s")}

    events = [pulsar("subscribe", dead_letter_policy={"maxRedeliverCount": 3, "deadLetterTopic": DEAD_TOPIC})]
    events += [pulsar("receive"), *(pulsar("receive", n, topic=f"{TOPIC}-s-RETRY", **again(n)) for n in (1, 2, 3))]
    events += [pulsar("dead_letter", 50, topic=DEAD_TOPIC, **again(4))]
    read = ("receive", "negative_acknowledge", "receive", "acknowledge")
    events += [
        pulsar(what, 50, topic=DEAD_TOPIC, subscription=reader, consumer="ann", error="looked at", **again(4))
        for what in read
    ]
    facts = silver("pulsar", events)
    dead = deaths(facts, "pulsar")
    assert [(row["subscription"], row["claim_count"]) for row in dead.collect()] == [("s", 4)]
    (lived,) = placed_deaths(dead, facts).collect()
    assert (lived["error"], [one["consumer"] for one in lived["deliveries"]]) == (None, ["c"] * 4)
    assert previewed(facts, "pulsar", TOPIC, 4) == {"9:1:-1": (4, 0, "unchanged")}
    assert discrepancies(facts, dead).isEmpty()
    sought_back = silver("pulsar", [*events, pulsar("receive")])
    assert [row["claim_count"] for row in gold_pulsar.deaths(sought_back).collect()] == [4]


def test_what_was_settled_before_a_death_is_of_another_life(silver):
    """The subscription sought back to it, and it died of what it lived through then."""
    policy = {"maxRedeliverCount": 2, "deadLetterTopic": DEAD_TOPIC}
    events = [pulsar("subscribe", dead_letter_policy=policy), pulsar("receive"), pulsar("receive", redelivery_count=1)]
    events += [pulsar("negative_acknowledge", error="the first life"), pulsar("acknowledge")]
    events += [pulsar("receive", redelivery_count=count) for count in (0, 1, 2)]
    events += [pulsar("dead_letter", 50, topic=DEAD_TOPIC, publish_timestamp=millis(8), properties=origin())]
    facts = silver("pulsar", [*events, pulsar("receive")])
    dead = deaths(facts, "pulsar")
    assert [row["claim_count"] for row in dead.collect()] == [3]
    assert [row["error"] for row in placed_deaths(dead, facts).collect()] == [None]
    assert previewed(facts, "pulsar", TOPIC, 3) == {"9:1:-1": (3, 0, "unchanged")}
    survived = delivery_survival(facts, dead).orderBy("delivery").collect()
    assert [(row["reached"], row["dead_lettered"]) for row in survived] == [(1, 0), (1, 0), (1, 1)]


def test_what_died_again_lies_where_its_last_letter_is(silver):
    """The first one was acknowledged. That it died is known since the first."""
    letters = [
        pulsar("dead_letter", number, topic=f"{TOPIC}-s-DLQ", publish_timestamp=millis(second), properties=origin())
        for number, second in ((50, 1), (57, 2))
    ]
    looked_at = {"topic": f"{TOPIC}-s-DLQ", "subscription": "triage"}
    events = [pulsar("receive"), *letters, pulsar("acknowledge", 50, **looked_at)]
    (dead,) = deaths(silver("pulsar", events), "pulsar").collect()
    assert (dead["dead_letter_message_id"], dead["removed_at"]) == ("9:57:-1", None)
    assert dead["dead_lettered_at"].timestamp() * 1000 == millis(1)
    (dead,) = deaths(silver("pulsar", [*events, pulsar("acknowledge", 57, **looked_at)]), "pulsar").collect()
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


def test_a_counter_is_lost_where_it_falls_back_to_nothing(silver):
    """A copy in a retry topic has its own, and a subscription that is exclusive has none."""
    again = {"topic": f"{TOPIC}-s-RETRY", "properties": origin(RECONSUMETIMES="1", REAL_SUBSCRIPTION="s")}
    events = [*(pulsar("receive", redelivery_count=count) for count in (0, 1, 2)), pulsar("receive", 7, **again)]
    events += [pulsar("receive", 2, subscription="exclusive") for _ in range(3)]
    events += [pulsar("receive", 3, redelivery_count=count) for count in (0, 1, 2, 0, 1)]
    # both seek back: to what they settled, and to what died there
    events += [pulsar("receive", 4, redelivery_count=1), pulsar("acknowledge", 4), pulsar("receive", 4)]
    letter = pulsar("dead_letter", 50, topic=f"{TOPIC}-s-DLQ", properties=origin(ORIGIN_MESSAGE_ID="9:5:-1"))
    events += [pulsar("receive", 5, redelivery_count=1), letter, pulsar("receive", 5)]
    facts = silver("pulsar", events)
    found = discrepancies(facts, deaths(facts, "pulsar"))
    told = found.select("message_id", "kind", "broker_says", "rules_say").collect()
    assert [tuple(row) for row in told] == [("9:3:-1", "lost_counter", "0", "2")]


def test_letters_in_a_topic_that_no_policy_names_are_all_receivers(silver):
    """One for each; of fewer letters than receivers nobody knows whose they are."""
    events = []
    for number in (1, 2):
        received = [(name, count) for count in range(4) for name in ("s1", "s2")]
        events += [pulsar("receive", number, subscription=name, redelivery_count=count) for name, count in received]
        named = {"topic": f"{TOPIC}-grave", "properties": origin(ORIGIN_MESSAGE_ID=f"9:{number}:-1")}
        events += [pulsar("dead_letter", 40 + letter, **named) for letter in range(3 - number)]
    dead = gold_pulsar.deaths(silver("pulsar", events)).collect()
    told = {(row["message_id"], row["subscription"], row["dead_letter_message_id"], row["claim_count"]) for row in dead}
    of_both = {("9:1:-1", "s1", "9:40:-1", 4), ("9:1:-1", "s2", "9:41:-1", 4)}
    assert told == of_both | {("9:2:-1", "", "9:40:-1", 0)} and len(dead) == 3


def test_who_is_at_risk_was_posted_to_the_topic(silver):
    """And has no fewer deliveries left than none, even if it was delivered beyond its limit."""
    policy = {"maxRedeliverCount": 0, "deadLetterTopic": DEAD_TOPIC}
    events = [pulsar("subscribe", dead_letter_policy=policy), at(5, pulsar("send"))]
    events += [pulsar("receive", redelivery_count=count) for count in (0, 1, 2)]
    facts = silver("pulsar", events)
    dead = deaths(facts, "pulsar")
    (row,) = receivable(waiting(facts, dead), facts, dead).collect()
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
