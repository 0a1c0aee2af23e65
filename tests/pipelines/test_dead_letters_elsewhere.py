"""Pulsar's dead letters in another namespace than their topic, which a policy names in the short form."""

import json
import random

import pytest

from deadletter import steps, tables
from deadletter.lake import Lake
from tests.models.clock import SECOND, START, iso
from tests.models.pulsar import Topic
from tests.pipelines.conftest import quiet
from tests.pipelines.test_disorder import assert_same_tables

NAMED, DEAD, TENANT = "shop/dead/orders", "persistent://shop/dead/orders", "shop/dead"
DIED = 4
HEALTHY = 22
"""So many that the topic is not compared with all others, and so not derived each time."""


def lines_of_the_topic():
    """A topic whose first messages do well and whose last die, and its dead letter topic, read through."""
    topic, now = Topic(random.Random(7), "shop/orders", 1), START
    topic.cxx, topic.retry = True, False  # this client does not name the subscription: its policy tells
    topic.subscribe(now, "fulfil", 0, NAMED)
    for number in range(HEALTHY + DIED):
        now += SECOND
        topic.send(now)
        message = topic.messages[number]
        consumer = topic.receive(now + 1, "fulfil", message)
        if number < HEALTHY:
            topic.acknowledge(now + 2, "fulfil", message)
            continue
        topic.fail(now + 2, "fulfil", message, consumer)
        message[3]["fulfil"].died["topic"] = DEAD
    topic.chance = random.Random(0)
    topic.read_dead(now + SECOND)
    for event in topic.events:
        event.pop("deliver_after_s", None)  # a delay that ends makes a topic due
    return [json.dumps(event) for event in topic.events], [e for e in topic.events if e["operation"] == "dead_letter"]


def lines_of_triage(letters):
    """Somebody receives each dead letter, once, and settles every second one."""
    now, common = START + 60 * SECOND, {"topic": DEAD, "subscription": "triage"}
    policy = {"maxRedeliverCount": 0}
    told = [{"operation": "subscribe", "consumer": "triage-1", "dead_letter_policy": policy} | common]
    for number, letter in enumerate(letters):
        one = {key: letter[key] for key in ("message_id", "properties", "payload")} | common
        published = {"publish_timestamp": letter["publish_timestamp"], "redelivery_count": 0, "consumer": "triage-1"}
        told.append({"operation": "send", "producer": "client"} | one)
        told.append({"operation": "receive"} | one | published)
        if number % 2:
            told.append({"operation": "acknowledge"} | one)
    return [json.dumps({"captured_at": iso(now + at)} | event) for at, event in enumerate(told)]


@pytest.fixture(scope="module")
def lakes(spark, tmp_path_factory):
    """One lake that got all at once, one that got the dead letter topic's readers last; what its last run told."""
    folder, told = tmp_path_factory.mktemp("elsewhere"), []
    first, letters = lines_of_the_topic()
    made = {name: Lake(spark, str(folder / name / "lake")) for name in ("at once", "in turn")}
    for number, lines in enumerate((first, lines_of_triage(letters))):
        for name, lake in made.items():
            landing = folder / name / "landing" / "pulsar"
            landing.mkdir(parents=True, exist_ok=True)
            (landing / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in lines))
            if name == "in turn" or number:
                told.clear()
                steps.run(lake, str(landing.parent), tell=told.append if name == "in turn" else quiet)
    return *made.values(), told


def test_they_died_in_their_topic(lakes):
    dead = lakes[0].read(tables.DEAD_LETTERS).collect()
    assert {(row["tenant"], row["subscription"], row["dead_letter_queue"]) for row in dead} == {
        ("shop/orders", "fulfil", DEAD)
    }
    assert len(dead) == len(lines_of_the_topic()[1])


@pytest.mark.parametrize("table", [tables.AT_RISK, tables.SUSPECTS], ids=lambda table: table.full_name)
def test_what_lies_there_is_not_at_risk(lakes, table):
    assert lakes[0].read(table).where(f"tenant = '{TENANT}'").isEmpty()


def test_what_lies_there_is_not_healthy(lakes):
    payloads = lakes[0].read(tables.QUEUE_PROFILE).where("what IN ('path', 'kind', 'value', 'field')")
    assert payloads.where(f"tenant = '{TENANT}'").isEmpty()


def test_new_events_of_the_dead_letter_topic_find_what_went_there(lakes):
    """That topic is due, and the one where its own dead letters would go, not the one where they died."""
    at_once, in_turn, told = lakes
    assert [text for text in told if text.startswith("gold: judging") and "in 2 of the queues" in text]
    assert_same_tables(at_once, in_turn)
