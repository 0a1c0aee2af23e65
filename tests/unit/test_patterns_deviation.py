import json

import pytest

from deadletter.patterns.deviation import HEALTHY, NO_PROFILE, UNSEEN, deviations
from deadletter.patterns.grouping import add_signature
from deadletter.patterns.linking import pattern_keys
from deadletter.patterns.profile import profile

CURRENCIES = ["EUR", "USD", "NZD"]


def order(number, **changed):
    made = {
        "event": ["order.created", "order.paid", "order.shipped"][number % 3],
        "order_id": number * 7919,
        "customer": {"id": f"c-{number}", "email": f"u{number}@example.org"},
        "amount": number + 0.5,
        "currency": CURRENCIES[number % 3],
        "created_at": f"2026-11-{number % 28 + 1:02}T13:38:00Z",
        "schema_version": 2,
    }
    made.update(changed)
    return {key: value for key, value in made.items() if value != "gone"}


POISON = {
    "null customer": order(1, customer=None),
    "missing currency": order(2, currency="gone"),
    "bad amount": order(3, amount="49.35 EUR"),
    "bad time": order(4, created_at="1/8/2026 0:25"),
    "unknown event": order(5, event="order.merged"),
    "new schema": order(6, schema_version=3, lines=[{"sku": "S915", "qty": 8}]),
    "callback": order(7, callback="http://10.0.0.1:8080/hook/42"),
    "oversized": order(8, note="x" * 4000),
    "encoding": order(9, customer={"id": "c-1", "email": "m\u00fc\ufffdller@example.org"}),
    "missing inside": order(10, customer={"id": "c-1"}),
    "empty": order(11, currency=""),
    "negative": order(12, amount=-4.5),
    "healthy": order(13),
}
KEYS = {
    "null customer": "$.customer null",
    "missing currency": "$.currency missing",
    "bad amount": "$.amount text",
    "bad time": "$.created_at date",
    "unknown event": "$.event = order.merged",
    "new schema": "$.lines new; $.schema_version = 3",
    "callback": "$.callback new",
    "oversized": "$.note new; length too long",
    "encoding": "$.customer.email = <email>; encoding replacement characters",
    "missing inside": "$.customer.email missing",
    "empty": "$.currency empty text",
    "negative": "$.amount negative number",
    "healthy": HEALTHY,
    "truncated": "$ truncated",
    "broken": "$ broken",
    "plain": "$ plain text",
    "list": "$ array",
    "null": UNSEEN,
    "nothing": "$ empty",
}


@pytest.fixture(scope="module")
def usual(spark):
    rows = [("orders", json.dumps(order(number))) for number in range(60)]
    rows += [("orders", json.dumps(order(99, customer=None)))]  # one poisoned message that was settled
    rows += [("tiny", "hello")]
    return profile(spark.createDataFrame(rows, "queue STRING, payload STRING"), "payload", ["queue"]).cache()


def keys(spark, usual, named, queue="orders"):
    rows = [(queue, name, payload) for name, payload in named.items()]
    dead = spark.createDataFrame(rows, "queue STRING, name STRING, payload STRING")
    found = deviations(dead, usual, "payload", ["queue"])
    assert found.columns == [*dead.columns, "deviation_key", "deviation"]
    return {row.name: (row.deviation_key, row.deviation) for row in found.collect()}


def payloads():
    named = {name: json.dumps(body) for name, body in POISON.items()}
    whole = named["healthy"]
    return named | {
        "truncated": whole[:70],
        "broken": "{'a': 1}",
        "plain": "hello",
        "list": "[1]",
        "null": None,
        "nothing": "",
    }


def test_every_family_has_its_key_and_healthy_ones_none(spark, usual):
    found = keys(spark, usual, payloads())
    assert {name: key for name, (key, _) in found.items()} == KEYS
    assert found["healthy"][1] == []
    assert found["bad amount"][1] == ["$.amount is text instead of number"]
    assert found["missing currency"][1] == ["$.currency is missing"]
    assert found["truncated"][1] == ["the payload is truncated"]


def test_nobody_is_named_in_a_key(spark):
    """Some values are private by their key, and some keys are somebody's address; @attributes is none."""
    healthy = [{"customer_name": ("Bob", "Eve")[n % 2], "@attributes": {"n": n}, "balances": {}} for n in range(60)]
    rows = [("orders", json.dumps(body)) for body in healthy]
    usual = profile(spark.createDataFrame(rows, "queue STRING, payload STRING"), "payload", ["queue"])
    dead = {
        "value": healthy[0] | {"customer_name": "Ada Low"},
        "key": healthy[0] | {"balances": {"ada@example.org": 5}},
        "attribute": healthy[0] | {"@attributes": {"n": None}},
    }
    found = keys(spark, usual, {name: json.dumps(body) for name, body in dead.items()})
    assert {name: key for name, (key, _) in found.items()} == {
        "value": "$.customer_name = <name>",
        "key": "$.balances.<email> new",
        "attribute": "$.@attributes.n null",
    }
    assert "ada" not in str([told for _, told in found.values()]).lower()
    alone = keys(spark, usual.where("false"), {"a": '{"ada@example.org": 1}'})
    assert alone["a"][0].startswith(NO_PROFILE + "$ object, $.<email> number;")


def test_a_small_queue_is_measured_by_all_queues(spark, usual):
    found = keys(spark, usual, {"a": json.dumps(POISON["null customer"])}, queue="tiny")
    assert found["a"][0] == "$.customer null"
    assert keys(spark, usual, {"a": json.dumps(order(3))}, queue=None)["a"][0] == HEALTHY


def test_without_healthy_messages_the_shape_is_the_key(spark, usual):
    found = keys(spark, usual.where("false"), {"a": '{"b": [1]}', "c": '{"b": ['})
    assert found["a"][0] == NO_PROFILE + "$ object, $.b array, $.b[] number; ASCII; 4^1 bytes"
    assert found["c"][0] == NO_PROFILE + "$ truncated; ASCII; 4^1 bytes"


def test_order_and_partitions_of_the_healthy_change_nothing(spark, usual):
    rows = [("orders", json.dumps(order(number))) for number in reversed(range(60))]
    rows = [("tiny", "hello"), ("orders", json.dumps(order(99, customer=None))), *rows]
    again = profile(spark.createDataFrame(rows, "queue STRING, payload STRING").repartition(5), "payload", ["queue"])
    ordered = ["everywhere", "queue"]
    assert again.orderBy(*ordered).collect() == usual.orderBy(*ordered).collect()


def test_errors_and_deviations_become_one_pattern_where_they_go_together(spark):
    rows = [(f"KeyError: 'currency' while pricing order {n}", "$.currency missing") for n in range(9)]
    rows += [(None, "$.currency missing"), (None, HEALTHY)]
    rows += [(f"ConnectionResetError: [Errno 104] by 10.0.0.{n}", HEALTHY) for n in range(3)]
    rows += [(f"TypeError: order {n}", "$.customer null") for n in range(3)]
    rows += [(f"ValueError: order {n}", "$.customer null") for n in range(3)]
    found = pattern_keys(add_signature(spark.createDataFrame(rows, "error STRING, deviation_key STRING"), "error"))
    counted = {row.pattern_key: row["count"] for row in found.groupBy("pattern_key").count().collect()}
    assert counted == {
        "$.currency missing": 10,
        HEALTHY: 1,
        "ConnectionResetError : [ Errno <*> ] by <*>": 3,
        "TypeError : order <*>": 3,
        "ValueError : order <*>": 3,
    }
    kinds = {(row.kind, row.pattern_key) for row in found.collect()}
    assert {key for kind, key in kinds if kind == "payload"} == {"$.currency missing", HEALTHY}
