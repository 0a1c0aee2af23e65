"""What a Zaqar exchange's path names: clients may escape any letter of it, and some taps keep the query with it."""

import json

from deadletter.parsing import zaqar as parser
from deadletter.parsing.envelope import with_captured_at
from deadletter.spark.frames import frame_of
from tests.pipelines.broken_events import declare, zaqar
from tests.unit.conftest import LATER

QUERY_IN_PATH = next(rule for rule in parser.RULES if rule.startswith("query_in_path"))
BAD_NAME = next(rule for rule in parser.RULES if rule.startswith("bad_queue_name"))
DELETE = ("DELETE", "/v2/queues/plain/messages?ids=n2", 204)
PATHS = {
    "/v1.1/queues/legacy%2Dq": ("legacy-q", []),
    "/v2/queues/%71": ("q", []),
    "/v2/queues/a+b": ("a+b", [BAD_NAME]),
    "/v2/queues/a%2B+b": ("a++b", [BAD_NAME]),
    "/v2/queues/a%2Fb": ("a/b", [BAD_NAME]),
    "/v2/queues/a%3Fb": ("a?b", [BAD_NAME]),
    "/v2/queues/a%zz": ("a%zz", [BAD_NAME]),
    "/v2/queues/a%2": ("a%2", [BAD_NAME]),
    "/v2/queues/a?b=1": ("", [QUERY_IN_PATH]),
    "/v2/flavors/a?b=1": ("", [QUERY_IN_PATH]),
}


def test_names_are_read_as_the_broker_reads_them(spark):
    events = [(str(n), "zaqar", json.dumps(declare({}, path=path)), LATER) for n, path in enumerate(PATHS)]
    bronze = frame_of(spark, events, "event_id STRING, system STRING, raw STRING, ingested_at TIMESTAMP")
    rows = parser.parse(with_captured_at(bronze)).select("event_id", "queue", "reasons").collect()
    told = {path: tuple(row[1:]) for path, row in zip(PATHS, sorted(rows, key=lambda row: int(row[0])), strict=True)}
    assert told == PATHS


def test_a_message_is_named_with_escapes(parsed):
    events = [zaqar("DELETE", "/v2/queues/q%2Da/messages/n%2D2", 204), zaqar(*DELETE), zaqar("GET", *DELETE[1:])]
    found = parsed("zaqar", events)
    assert [tuple(row) for row in found.messages.select("queue", "message_id").collect()] == [("q-a", "n-2")]
    rows = found.events.orderBy("event_id").select("silent", "reasons").collect()
    assert [tuple(row) for row in rows] == [(False, []), (True, [QUERY_IN_PATH]), (True, [])]
