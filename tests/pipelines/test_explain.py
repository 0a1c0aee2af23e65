"""What ``deadletter explain`` tells of a message, and that the facts of its own queues are enough for it."""

import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.explain.moments import moments
from deadletter.explain.timeline import as_kept, life
from deadletter.gold.scope import Scope
from deadletter.gold.status import message_status
from deadletter.lake import Lake
from deadletter.queues import place_of
from deadletter.rules.zaqar_store import REDIS
from deadletter.snapshot import facts_at, gold_as_of, status_at
from deadletter.spark.session import tune
from tests.command import call

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SYSTEMS = ("zaqar", "rabbitmq", "pulsar")


@pytest.fixture(scope="module")
def dead(lake):
    """A dead letter of each broker that was delivered up to its limit, and its status among those of all messages."""
    tune(lake.spark, 0)  # as in a process of its own, where no run was
    rows = lake.read(tables.DEAD_LETTERS).where("cause = 'delivery_limit' AND dead_letter_queue IS NOT NULL")
    first = {row["system"]: row for row in rows.orderBy(F.desc("message_id")).collect()}
    chosen = [row["message_id"] for row in first.values()]
    statuses = status_at(lake, gold_as_of(lake)).where(F.col("message_id").isin(chosen)).collect()
    return first, statuses


@cache
def told(lake, message_id, *options):
    """What the command prints; the lake stays as it is."""
    return call("explain", message_id, "--lake", lake.root, *options).stdout


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_life(lake, dead, system):
    row, statuses = dead[0][system], dead[1]
    found = json.loads(told(lake, row["message_id"], "--json"))
    (death,) = [death for death in found["deaths"] if death["event_id"] == row["event_id"]]
    assert (death["queue"], death["pattern_id"]) == (row["queue"], row["pattern_id"])
    assert death["traits"] == [trait.asDict() for trait in row["traits"]]
    topic = place_of(row.asDict() | {"subscription": ""})  # Pulsar's posts are to a topic, not to a subscription
    here = [moment["what"] for moment in found["moments"] if moment["queue"] in (topic, place_of(row))]
    assert here[0].startswith("posted")
    limited = [what for what in here if f"[limit {row['max_deliveries']}, to {row['dead_letter_queue']}]" in what]
    assert limited and all(what.startswith("delivery ") for what in limited)
    all_its = standings(it for it in statuses if it["message_id"] == row["message_id"])
    # what a Pulsar subscription received is not also available to nobody
    received = {place: it for place, it in all_its.items() if system != "pulsar" or place[3]}
    assert standings(found["statuses"]) == received and (len(all_its) > len(received)) == (system == "pulsar")
    assert "dead_lettered" in [status["status"] for status in found["statuses"]]


def test_a_message_named_as_clients_print_its_id(lake, dead):
    """Pulsar's ids have as many forms as clients; the dead letter has an id of its own."""
    row = dead[0]["pulsar"]
    message_id, letter = row["message_id"], row["dead_letter_message_id"]
    ledger, entry, partition, *batch = message_id.split(":")
    printed = f"({ledger},{entry},{partition},{batch[0] if batch else -1})"
    forms = [message_id, printed, *([] if batch else [f"{message_id}:-1"])]
    assert {form: as_kept(lake, form) for form in forms} == dict.fromkeys(forms, message_id)
    text = told(lake, printed)
    assert message_id in text and f"went to {row['dead_letter_queue']} as {letter}" in text
    found = json.loads(told(lake, letter, "--json"))
    assert found["message_id"] == message_id
    assert letter in [death["dead_letter_message_id"] for death in found["deaths"]]


def test_a_dead_letter_that_somebody_received(spark, tmp_path):
    """It has a life of its own in the dead letter topic, in which nothing is said of the death."""
    lake, key = Lake(spark, str(tmp_path)), {"system": "pulsar", "tenant": "p/d", "subscription": "s"}
    lake.create_missing()
    received = {"queue": "orders-dead", "message_id": "11:0:-1", "deliveries": [(NOON, "e", None, "ann", 0, None)]}
    died = {"queue": "orders", "message_id": "3:0:-1", "dead_letter_message_id": "11:0:-1"}
    for table, row in {tables.MESSAGE_STATE: received, tables.DEAD_LETTERS: died}.items():
        rows = [[(key | row).get(name) for name in table.column_names]]
        lake.append(spark.createDataFrame(rows, table.ddl), table)
    found = life(lake, "11:0:-1", NOON)
    assert (found.message_id, found.deaths, found.dead_letter_of) == ("11:0:-1", [], "3:0:-1")
    assert [status["status"] for status in found.statuses] == ["claimed"]


def test_an_id_that_a_pulsar_client_would_print_for_another_one(spark, tmp_path):
    """Of RabbitMQ it is the publisher's own."""
    lake = Lake(spark, str(tmp_path))
    lake.create_missing()
    state = {"system": "rabbitmq", "tenant": "/", "queue": "orders", "subscription": "", "message_id": "42:7:0"}
    state["deliveries"] = [(NOON, "e", None, "ann", None, None)]
    rows = [[state.get(name) for name in tables.MESSAGE_STATE.column_names]]
    lake.append(spark.createDataFrame(rows, tables.MESSAGE_STATE.ddl), tables.MESSAGE_STATE)
    found = life(lake, "42:7:0", NOON)
    assert found.message_id == "42:7:0" and len(found.moments) == 1


def test_times_of_programs_have_their_offset(lake, dead):
    row = dead[0]["zaqar"]
    found = json.loads(told(lake, row["message_id"], "--json"))
    names = ("dead_lettered_at", "posted_at", "expires_at", "removed_at", "delay_until")
    rows = [*found["statuses"], *found["deaths"]]
    times = [found["as_of"], *[moment["time"] for moment in found["moments"]]]
    times += [time for row in rows for name, time in row.items() if name in names and time]
    assert times and all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", time) for time in times)
    assert f"{row['dead_lettered_at']:%Y-%m-%dT%H:%M:%S.%f}+00:00" in times


def test_what_was_removed_later_is_not_told(lake, dead):
    row = lake.read(tables.DEAD_LETTERS).where("removed_at > dead_lettered_at").orderBy("message_id").first()
    for at, removed in ((row["dead_lettered_at"], False), (row["removed_at"], True)):
        options = ("--as-of", f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", "--json")
        found = json.loads(told(lake, row["message_id"], *options))["deaths"]
        assert [bool(death["removed_at"]) for death in found if death["queue"] == row["queue"]] == [removed]


def standings(rows):
    return {tuple(row[name] for name in tables.MESSAGE_KEY): (row["status"], row["claims_granted"]) for row in rows}


def test_no_death_is_told_before_what_led_to_it(lake):
    """RabbitMQ tells of it in whole seconds."""
    dead = lake.read(tables.DEAD_LETTERS).where("system = 'rabbitmq'")
    queues = Scope(frozenset(map(tuple, dead.select(*tables.QUEUE).distinct().collect())))
    facts = facts_at(lake, gold_as_of(lake), queues)
    status = message_status(facts, dead, REDIS, chosen=facts.state.join(dead, list(tables.MESSAGE_KEY), "left_semi"))
    lives = defaultdict(list)
    for row in moments(status, facts, dead, REDIS).collect():
        lives[row["tenant"], row["queue"], row["message_id"]].append(row["what"])
    assert len(lives) == dead.count() > 200
    assert all(whats[0].startswith("posted") for whats in lives.values())
    assert all(whats[-1].startswith("the broker reports a death: ") for whats in lives.values())


def test_for_a_person(lake, dead):
    row = dead[0]["zaqar"]
    text = told(lake, row["message_id"])
    assert f"as of {gold_as_of(lake):%Y-%m-%dT%H:%M:%S.%f} UTC" in text
    place = f"zaqar {row['tenant']}/{row['queue']}"
    assert f"Died {row['dead_lettered_at']:%Y-%m-%d %H:%M:%S.%f} in {place}: max_claim_count" in text
    counted = f"{row['claim_count']} claims counted against a limit of {row['max_deliveries']}"
    for part in (counted, f"went to {row['dead_letter_queue']}", f"pattern {row['pattern_id']}", "change 4.3"):
        assert part in text
    assert "None" not in text


def test_before_it_died(lake, dead):
    """At an earlier time nothing is known of what came later."""
    row = dead[0]["zaqar"]
    found = json.loads(told(lake, row["message_id"], "--json", "--as-of", row["posted_at"].isoformat() + "+00:00"))
    assert [moment["what"].split(",")[0] for moment in found["moments"]] == ["posted"]
    assert found["deaths"] == []
    assert [status["status"] for status in found["statuses"]] in (["available"], ["delayed"])


def test_an_unknown_message(lake):
    with pytest.raises(UsageError, match="no event until .* names a message nobody"):
        told(lake, "nobody")


def test_what_no_claim_holds_is_claimed_until_no_time(dead):
    ends = {row["system"]: row["claimed_until"] for row in dead[1]}
    assert (ends["rabbitmq"], ends["pulsar"]) == (None, None)
    assert ends["zaqar"] is None or ends["zaqar"].year == 2026
