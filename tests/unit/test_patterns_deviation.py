import json
from itertools import product
from uuid import UUID

import pytest
from pyspark.sql import functions as F

from deadletter.patterns.deviation import HEALTHY, NO_PROFILE, UNSEEN, deviations
from deadletter.patterns.linking import pattern_keys, with_signature
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
    "encoding": "encoding replacement characters",
    "missing inside": "$.customer.email missing",
    "empty": "$.currency empty text",
    "negative": "$.amount negative number",
    "healthy": HEALTHY,
    "truncated": "$ truncated",
    "broken": "$ broken",
    "plain": "$ plain text",
    "list": "$ array",
    "bomb": "$ broken",
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


def test_what_is_missing_is_told_also_where_its_key_has_dots_and_what_comes_after_the_whole(spark):
    healthy = [json.dumps({"customer.email": "a", "http": {"a.b": n}}) for n in range(30)]
    rows = [("orders", payload) for payload in healthy]
    usual = profile(spark.createDataFrame(rows, "queue STRING, payload STRING"), "payload", ["queue"])
    dead = {"top": '{"http": {"a.b": 7}}', "below": '{"customer.email": "a", "http": {}}', "more": healthy[0] + "}"}
    found = keys(spark, usual, dead)
    assert found["top"] == (r"$.customer\.email missing", [r"$.customer\.email is missing"])
    assert found["below"] == (r"$.http.a\.b missing", [r"$.http.a\.b is missing"])
    assert found["more"] == ("$ followed by more", ["the payload is followed by more"])


def of_stock(number, **changed):
    """An order that says how many there are of things: most of these are in one message alone."""
    named = {f"thing-{chr(97 + number % 26)}{chr(97 + number // 26)}": number, "lamp": number}
    return {"id": number, "stock": named, "flags": {"new": True}} | changed


def usual_in(spark, healthy):
    rows = [("q", json.dumps(payload)) for payload in healthy]
    return profile(spark.createDataFrame(rows, "queue STRING, payload STRING"), "payload", ["queue"])


def told(spark, healthy, dead):
    """The maps among what is healthy, and the key of each of the dead."""
    usual = usual_in(spark, healthy)
    named = {name: json.dumps(payload) for name, payload in dead.items()}
    return usual.first()["maps"], {name: key for name, (key, _) in keys(spark, usual, named, "q").items()}


def test_a_key_of_a_map_is_a_value_and_tells_a_fault_only_by_an_unusual_kind(spark):
    healthy = [of_stock(number) for number in range(200)]
    # what few messages have makes no map of what all others have
    healthy += [{"id": 7, "stock": {}, "flags": {"new": True, "gift": True}}] * 3
    dead = {
        "another thing": of_stock(1, stock={"chair": 3, "lamp": 2}),
        "without a number": of_stock(1, stock={"chair": None, "table": None, "lamp": 2}),
        "seen once, as a number": of_stock(1, stock={"thing-ca": None, "lamp": 2}),
        "an object": of_stock(1, stock={"chair": {"seats": [1]}, "lamp": 2}),
        "usual key": of_stock(1, stock={"lamp": "many", "chair": 2}),
        "without it": of_stock(1, stock={"chair": 2}),
        "new beside it": of_stock(1, callback="http"),
        "no map": of_stock(1, flags={"new": True, "sale": True}),
    }
    maps, found = told(spark, healthy, dead)
    assert maps == ["$.stock"]
    assert found == {
        "another thing": HEALTHY,
        "without a number": "$.stock.<key> null",
        "seen once, as a number": "$.stock.<key> null",
        "an object": "$.stock.<key> object",
        "usual key": "$.stock.lamp text",
        "without it": "$.stock.lamp missing",
        "new beside it": "$.callback new",
        "no map": "$.flags.sale new",
    }
    named = {"object": json.dumps(dead["an object"])}
    sentences = keys(spark, usual_in(spark, healthy), named, "q")["object"][1]
    assert sentences == ["$.stock.<key> is object instead of number"]


def test_a_few_messages_make_a_map_of_keys_that_each_had_once(spark):
    healthy = [{"id": n, "to": {f"{chr(97 + n)}-desk": {"seats": n}}} for n in range(20)]
    desks = {
        "other": {"z-desk": {"seats": 1}},
        "seen, with less in it": {"a-desk": {"legs": 4}},
        "null": {"a-desk": None},
    }
    maps, found = told(spark, healthy, {name: {"id": 3, "to": to} for name, to in desks.items()} | {"new": {"of": 1}})
    assert maps == ["$.to"]
    assert (found["other"], found["seen, with less in it"]) == (HEALTHY, HEALTHY)
    assert (found["null"], found["new"]) == ("$.to.<key> null", "$.id missing; $.of new; $.to missing")


def event(kind, number, **more):
    fields = {f"{kind}_total": number, f"{kind}_reason": "some text", f"{kind}_due": "2026-11-20"}
    return {"id": number * 1009, "type": kind} | fields | more


KINDS = [f"k{chr(97 + n)}" for n in range(24)]
EVENTS = [event(KINDS[n % 4 if n % 5 else 4 + n // 5 % 20], n) for n in range(600)]
"""Four kinds that are common, and twenty that are rare."""


def test_many_kinds_of_events_are_no_map(spark):
    """All that was seen is usual where much of it is rare; what was not is told all the same."""
    dead = {
        "rare kind": event(KINDS[9], 7),
        "its null": event(KINDS[9], 7, kj_due=None),
        "its text": event(KINDS[9], 7, kj_due="soon"),
        "new": event(KINDS[0], 7, callback="http"),
        "new of rare kind": event(KINDS[9], 7, callback="http"),
    }
    maps, found = told(spark, EVENTS, dead)
    assert maps == []
    assert found == {
        "rare kind": HEALTHY,
        "its null": "$.kj_due null",
        "its text": "$.kj_due text",
        "new": "$.callback new",
        "new of rare kind": "$.callback new",
    }


def test_what_lies_in_an_array_is_told_by_the_messages_that_have_it(spark):
    tagged = [row | {f"{row['type']}_tags": ["new"], "lines": [{"sku": row["id"]}]} for row in EVENTS]
    rare = event(KINDS[9], 7, kj_tags=["new"], lines=[{"sku": 7}])
    dead = {
        "rare kind": rare,
        "no lines": rare | {"lines": []},
        "new in a line": rare | {"lines": [{"sku": 7, "gift": 1}]},
        "no array": rare | {"kj_tags": "new"},
    }
    assert told(spark, tagged, dead) == (
        [],
        {
            "rare kind": HEALTHY,
            "no lines": "$.lines[] missing",
            "new in a line": "$.lines[].gift new",
            "no array": "$.kj_tags text",
        },
    )


def test_what_one_message_of_many_kinds_has_is_not_usual(spark):
    settled = [event(KINDS[0], 9, callback="http")]
    dead = {"callback": event(KINDS[0], 7, callback="http")}
    assert told(spark, EVENTS + settled, dead)[1] == {"callback": "$.callback new"}
    assert told(spark, EVENTS + settled * 2, dead)[1] == {"callback": HEALTHY}


def test_a_maps_other_keys_are_no_values(spark):
    """A tenth of the messages is enough, also of few."""
    healthy = [{"id": n, "attrs": {f"{chr(97 + n % 26)}{chr(97 + n // 26)}-x": n}} for n in range(100)]
    healthy = [row | ({"attrs": row["attrs"] | {"dim": {"w": 3}}} if row["id"] < 15 else {}) for row in healthy]
    dead = {
        "fault below": {"id": 1, "attrs": {"dim": {"w": None}}},
        "value below": {"id": 1, "attrs": {"chair": 7, "dim": {"w": 2}}},
        "key of an array's name": {"id": 1, "attrs": {"chair[]": 7, "a.b": 3}},
    }
    assert told(spark, healthy, dead) == (
        ["$.attrs"],
        {"fault below": "$.attrs.dim.w null", "value below": HEALTHY, "key of an array's name": HEALTHY},
    )


def test_large_maps_of_objects(spark):
    def name(number):
        return "".join(chr(97 + int(digit)) for digit in str(number))

    healthy = [{"stock": {f"{name(n)}-{name(k)}": {"qty": k, "loc": "a"} for k in range(40)}} for n in range(100)]
    many = {"stock": {f"new-{name(k)}": {"qty": k, "loc": "a"} for k in range(70)}}
    assert told(spark, healthy, {"many": many}) == (["$.stock"], {"many": HEALTHY})


def test_one_odd_message_makes_no_map_and_a_rare_objects_keys_are_told_by_that_object(spark):
    plain = [{"id": n * 1009, "qty": n} for n in range(30)]
    odd = {"id": 7, "note": "as agreed", "coupon": "SUM", "gift": True, "vat": 3, "bill": dict.fromkeys("abcdefgh", 1)}
    assert told(spark, [*plain, odd], {"new": plain[0] | {"callback": "http"}}) == ([], {"new": "$.callback new"})
    more, debug = plain * 4, {f"debug-{chr(97 + n)}": n for n in range(24)}
    assert told(spark, [*more, odd | debug], {"new": plain[0] | {"callback": 1}}) == ([], {"new": "$.callback new"})
    billed = [
        {"id": n, "bill": {"name": "Low"} | ({"vat": 19} if n % 80 else {})} if n % 40 == 0 else {"id": n}
        for n in range(800)
    ]
    dead = {"usual": {"id": 1, "bill": {"name": "Low", "vat": 7}}, "new": {"id": 1, "bill": {"name": "Low", "vta": 7}}}
    assert told(spark, billed, dead) == ([], {"usual": HEALTHY, "new": "$.bill.vta new"})


def payloads():
    named = {name: json.dumps(body) for name, body in POISON.items()}
    whole = named["healthy"]
    return named | {
        "truncated": whole[:70],
        "broken": "{'a': 1}",
        "plain": "hello",
        "list": "[1]",
        "bomb": '{"a":' * 100_000 + "1" + "}" * 100_000,
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


PRIVATE = {
    "value": ({"customer_name": "Ada Low"}, HEALTHY),
    "digits": ({"reply_to": "li.wei@163.com"}, HEALTHY),
    "token": ({"reply_to": "AKIAIOSFODNN7EXAMPLE"}, HEALTHY),
    "number": ({"reply_to": "desk 7"}, "$.reply_to = desk #"),
    "both": ({"reply_to": "desk 7 or ada7@b.example"}, "$.reply_to = desk # or <email>"),
    "key": ({"balances": {"ada@example.org": 5}}, "$.balances.<email> new"),
    "key with dots": ({"balances": {"ada.lovelace@example.org": 5}}, "$.balances.<email> new"),
    "attribute": ({"@attributes": {"n": None}}, "$.@attributes.n null"),
    "a key of two names": ({"customer.name": "Ada Low"}, HEALTHY),
    "a secret with a dot": ({"db.password": "hunter"}, HEALTHY),
    "somebody's name": ({"customer": {"name": "Ada Low"}}, HEALTHY),
    "a secret's parts": ({"password": {"hint": "ada's dog"}}, HEALTHY),
    "a thing's name": ({"product": {"name": "lamp"}}, "$.product.name = lamp"),
    "ones of a number": ({"schema": 1}, "$.schema = 1"),
    "more ones of a number": ({"schema": 101}, "$.schema = 101"),
}
"""What a payload has in place of a healthy one's, and the key that is shown: a name is nobody's vocabulary."""


def test_nobody_is_named_in_a_key(spark):
    """Some values are private by their key, and some keys are somebody's address; @attributes is none."""
    names, desks = ("Bob", "Eve"), ("shop@example.org", "help@example.org")
    healthy = [
        {"customer_name": names[n % 2], "reply_to": desks[n % 2], "@attributes": {"n": n}, "balances": {}}
        | {"customer": {"name": ("Bern AG", "Lyon SA")[n % 2]}, "password": {"hint": "my dog"}}
        | {"customer.name": names[n % 2], "db.password": ("x", "y")[n % 2]}
        | {"product": {"name": "desk"}, "schema": 2 + n % 2}
        for n in range(60)
    ]
    rows = [("orders", json.dumps(body)) for body in healthy]
    usual = profile(spark.createDataFrame(rows, "queue STRING, payload STRING"), "payload", ["queue"])
    dead = {name: json.dumps(healthy[0] | wrong) for name, (wrong, _) in PRIVATE.items()}
    dead["two keys"] = json.dumps(healthy[0] | {"balances": {"ada@example.org": 5, "bob@example.org": 5}})
    found = keys(spark, usual, dead)
    assert found.pop("two keys") == found["key"]
    assert {name: key for name, (key, _) in found.items()} == {name: key for name, (_, key) in PRIVATE.items()}
    assert "ada" not in str([told for _, told in found.values()]).lower()
    alone = keys(spark, usual.where("false"), {"a": '{"ada@example.org": 1}'})
    assert alone["a"][0].startswith(NO_PROFILE + "$ object, $.<email> number;")


def test_keys_that_are_ids_are_one_path(spark):
    ids = [str(UUID(int=n * 2**100 + 7)) for n in range(1, 62)] + ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "5f3a9c0e1b"]
    rows = [("orders", json.dumps({"by_id": {key: {"qty": 1}}})) for key in ids]
    usual = profile(spark.createDataFrame(rows[:60], "queue STRING, payload STRING"), "payload", ["queue"])
    found = keys(spark, usual, {f"{n}": payload for n, (_, payload) in enumerate(rows[60:])})
    assert {key for key, _ in found.values()} == {HEALTHY}


def test_of_many_departures_those_at_the_top_are_told(spark, usual):
    keys_of_maps = ["".join(letters) for letters in product("abcdef", repeat=2)]
    maps = {key: dict.fromkeys(keys_of_maps, 1) for key in keys_of_maps}
    found = keys(spark, usual, {"maps": json.dumps(order(1, extra=maps))})
    assert found["maps"][0] == "$.extra new; length too long"


def test_with_too_few_healthy_messages_the_shape_is_the_key(spark, usual):
    """Other queues' say nothing of it."""
    found = keys(spark, usual, {"a": '{"b": [1]}', "c": '{"b": ['}, queue="tiny")
    assert [row["queue"] for row in usual.collect()] == ["orders"]
    assert found["a"][0] == NO_PROFILE + "$ object, $.b array, $.b[] number; ASCII; 4^1 bytes"
    assert found["c"][0] == NO_PROFILE + "$ truncated; ASCII; 4^1 bytes"


def test_order_and_partitions_of_the_healthy_change_nothing(spark, usual):
    rows = [("orders", json.dumps(order(number))) for number in reversed(range(60))]
    rows = [("tiny", "hello"), ("orders", json.dumps(order(99, customer=None))), *rows]
    again = profile(spark.createDataFrame(rows, "queue STRING, payload STRING").repartition(5), "payload", ["queue"])
    assert again.collect() == usual.collect()


def test_errors_and_deviations_become_one_pattern_where_they_go_together(spark):
    rows = [(f"KeyError: 'currency' while pricing order {n}", "$.currency missing") for n in range(9)]
    rows += [(None, "$.currency missing"), (None, HEALTHY)]
    rows += [(f"ConnectionResetError: [Errno 104] by 10.0.0.{n}", HEALTHY) for n in range(3)]
    rows += [(f"TypeError: order {n}", "$.customer null") for n in range(3)]
    rows += [(f"ValueError: order {n}", "$.customer null") for n in range(3)]
    dead = with_signature(spark.createDataFrame(rows, "error STRING, deviation_key STRING"))
    summary = dead.groupBy("signature", "deviation_key").agg(F.count("*").alias("dead_letters"))
    found = pattern_keys(summary).groupBy("kind", "pattern_key").agg(F.sum("dead_letters").alias("dead_letters"))
    counted = {row.pattern_key: row.dead_letters for row in found.collect()}
    assert counted == {
        "$.currency missing": 10,
        HEALTHY: 1,
        "ConnectionResetError : [ Errno 104 ] by <*>": 3,
        "TypeError : order <*>": 3,
        "ValueError : order <*>": 3,
    }
    kinds = {(row.kind, row.pattern_key) for row in found.collect()}
    assert {key for kind, key in kinds if kind == "payload"} == {"$.currency missing", HEALTHY}
