"""What a run derives: the queues that something changed, and everything where that reaches further.

Pulsar topics come one after another: with errors that one pattern takes in, and with dead letters in another namespace
than their topic's, which a policy names in the short form.
"""

import json
import os
import random
from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables, triage
from deadletter.errors import DeadletterError
from deadletter.gold.patterns import judged
from deadletter.lake import Lake
from deadletter.lake.progress import WRITING
from deadletter.snapshot import gold_as_of
from deadletter.spark import session
from tests.command import call
from tests.models.clock import SECOND, START, iso
from tests.models.pulsar import Topic
from tests.pipelines.comparing import COMPARED

CITIES = ("Bern", "Lyon", "Oslo", "Riga", "Rome", "Cork", "Kiel", "Nice")
NAMED, DEAD, TENANT = "shop/dead/orders", "persistent://shop/dead/orders", "shop/dead"
DIED = 4
HEALTHY = 25


def topic(name, start, cities):
    """Lines of a topic with a yardstick of its own, and one death for each city: its error names the city."""
    made = Topic(random.Random(name), f"public/{name}", len(name))
    made.retry, now = False, start
    made.subscribe(now, "s", 0, f"{made.name}-dead")
    for number in range(HEALTHY + len(cities)):
        now += SECOND
        made.send(now)
        message = made.messages[-1]
        consumer = made.receive(now + 1, "s", message)
        if number < HEALTHY:
            made.acknowledge(now + 2, "s", message)
        else:
            made.fail(now + 2, "s", message, consumer)
            failed = next(event for event in reversed(made.events) if "error" in event)
            failed["error"] = f"no route from depot {cities[number - HEALTHY]} to customer"
    made.read_dead(now + SECOND)
    return [json.dumps(event) for event in made.events]


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
    """Somebody receives each dead letter, once; and acknowledges every second one."""
    now, common = START + 60 * SECOND, {"topic": DEAD, "subscription": "triage"}
    policy = {"maxRedeliverCount": 0}
    read = [{"operation": "subscribe", "consumer": "triage-1", "dead_letter_policy": policy} | common]
    done = []
    for number, letter in enumerate(letters):
        one = {key: letter[key] for key in ("message_id", "properties", "payload")} | common
        published = {"publish_timestamp": letter["publish_timestamp"], "redelivery_count": 0, "consumer": "triage-1"}
        read.append({"operation": "send", "producer": "client"} | one)
        read.append({"operation": "receive"} | one | published)
        done += [{"operation": "acknowledge"} | one] if number % 2 else []
    timed = [json.dumps({"captured_at": iso(now + at)} | event) for at, event in enumerate(read + done)]
    return timed[: len(read)], timed[len(read) :]


def mute(lake, pattern):
    as_of = gold_as_of(lake)
    triage.write_down(lake, pattern, "mute", "ann", "known", as_of)
    triage.rejudge(lake, as_of)


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """A lake that got the earlier topic after the later one, whose pattern was muted then, then the dead letter topic's
    readers, and last what they are done with. What its runs but the first told, and its landing folder."""
    folder, told = tmp_path_factory.mktemp("due"), []
    elsewhere, letters = lines_of_the_topic()
    read, done = lines_of_triage(letters)
    later = topic("later", START + 3600 * SECOND, CITIES[1:2])
    parts = {
        "first": later + elsewhere,
        "second": topic("sooner", START, CITIES),
        "third": read,
        "fourth": done,
    }
    lake, landing = Lake(spark, str(folder / "lake")), folder / "landing" / "pulsar"
    landing.mkdir(parents=True)
    for name, lines in parts.items():
        (landing / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        if name != "first":  # a copy that keeps its original's time is new all the same
            os.utime(landing / f"{name}.jsonl", (0, 0))
        told.append([])
        steps.run(lake, str(landing.parent), tell=told[-1].append)
        if name == "first":
            mute(lake, lake.read(tables.DEAD_LETTERS).where("tenant = 'public/later'").first()["pattern_id"])
    return lake, told[1:], landing.parent


def test_a_pattern_that_widens_takes_other_queues_dead_letters_along(runs):
    """The earliest member gives a pattern its id: one that comes late, in another queue, changes all members' ids."""
    lake, (told, *_), _ = runs
    assert [text for text in told if "in 2 of the queues" in text]  # the topic and its dead letter topic
    assert [text for text in told if "another id" in text]
    dead = lake.read(tables.DEAD_LETTERS).where("tenant LIKE 'public/%'")
    errors = dead.select("pattern_id", "tenant").distinct().collect()
    assert len({row["pattern_id"] for row in errors}) == 1
    assert len(errors) == 2


def test_what_was_decided_follows_a_pattern_to_its_other_id(runs):
    lake, (told, *_), _ = runs
    assert [text for text in told if "another id" in text]
    (decided,) = {row["pattern_id"] for row in lake.read(tables.PATTERN_DECISIONS).collect()}
    dead = lake.read(tables.DEAD_LETTERS).where("tenant = 'public/later'").first()
    held = triage.standing_decisions(lake, triage.by_grouping(lake), gold_as_of(lake))
    ((present, (template,)),) = held.muted.items()
    assert present == dead["pattern_id"] != decided
    patterns = lake.read(tables.POISON_PATTERNS)
    assert patterns.where("muted").isEmpty()  # it says more than what was muted
    as_then = judged(patterns.withColumn("template", F.lit(template)), gold_as_of(lake), held).where("muted").collect()
    assert [row["pattern_id"] for row in as_then] == [present]


def test_dead_letters_elsewhere_died_in_their_topic(runs):
    dead = runs[0].read(tables.DEAD_LETTERS).where("tenant LIKE 'shop/%'").collect()
    assert {(row["tenant"], row["subscription"], row["dead_letter_queue"]) for row in dead} == {
        ("shop/orders", "fulfil", DEAD)
    }
    assert len(dead) == len(lines_of_the_topic()[1])


def test_messages_lie_there(runs):
    assert not runs[0].read(tables.MESSAGE_STATE).where(f"tenant = '{TENANT}'").isEmpty()


@pytest.mark.parametrize("table", [tables.AT_RISK, tables.SUSPECTS], ids=lambda table: table.full_name)
def test_what_lies_there_is_not_at_risk(runs, table):
    assert runs[0].read(table).where(f"tenant = '{TENANT}'").isEmpty()


def test_what_lies_there_is_not_healthy(runs):
    payloads = runs[0].read(tables.QUEUE_PROFILE).where("what IN ('path', 'kind', 'value', 'field')")
    assert payloads.where(f"tenant = '{TENANT}'").isEmpty()


def test_new_events_of_a_dead_letter_topic_find_what_went_there(runs):
    """That topic is due, and the one where its own dead letters would go, not the one where they died: until some of
    them are acknowledged."""
    lake, (_, read, done), _ = runs
    assert [text for text in read if text.startswith("gold: judging") and "in 2 of the queues" in text]
    assert [text for text in done if text.startswith("gold: judging") and "in 3 of the queues" in text]
    dead = lake.read(tables.DEAD_LETTERS).where("tenant = 'shop/orders'").orderBy("message_id").collect()
    assert [row["removed_at"] is None for row in dead] == [True, False] * (DIED // 2)


@pytest.mark.soak
def test_time_alone_makes_a_pattern_quiet(runs, monkeypatch):
    """No queue is due; nor has silver anything to do where bronze's files were only tidied.

    All dead letters are other queues', and as with many of them nothing is held in memory.
    """
    monkeypatch.setitem(session.TINY, session.HELD_ROWS, "0")
    lake, _, landing = runs
    lake.vacuum(tables.QUEUE_EVENTS, 168)
    assert lake.version(tables.QUEUE_EVENTS) > lake.progress.of("silver").source_version
    before = {row["status"] for row in lake.read(tables.POISON_PATTERNS).collect()}
    told, later = [], lake.progress.of("gold").as_of + timedelta(days=30)
    summary = steps.run(lake, str(landing), as_of=later, tell=told.append)
    assert "silver: no new events" in told
    assert [text for text in summary.warnings if "captured_at" in text] == []
    assert before == {"new"} and {row["status"] for row in lake.read(tables.POISON_PATTERNS).collect()} == {"quiet"}


def test_the_same_tables_as_when_everything_is_derived_after_a_write_that_was_not_finished(runs):
    lake, _, landing = runs
    before, told = {table: lake.read(table).collect() for table in COMPARED}, []
    lake.progress.note(WRITING, 1, None)
    name = before[tables.POISON_PATTERNS][0]["pattern_id"]
    with pytest.raises(DeadletterError, match="Nothing was decided"):
        call("patterns", "mute", name, "--lake", lake.root, "--by", "ann", "--why", "known")
    assert "some are older than others" in call("patterns", "list", "--lake", lake.root).stderr
    steps.run(lake, str(landing), as_of=lake.progress.of("gold").as_of, tell=told.append)
    assert [text for text in told if text.startswith("gold: judging") and "queues" not in text]
    for table in COMPARED:
        after = lake.read(table).collect()
        assert sorted(map(str, before[table])) == sorted(map(str, after)), table.full_name
