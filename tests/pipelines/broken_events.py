"""Broken events, one of each kind: what is wrong with it, and how it ends.

How an event ends: ``quarantine CODE``; ``rule: ...``, it counts as a fact, by the rule named; or ``silent: ...``,
it is counted and says nothing of a message. ``docs/broken-events.md`` is made from this table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

AT = "2026-11-20T20:55:00+00:00"
AT_MS = 1795208100000
TOPIC = "persistent://broken/default/orders"
DEAD_TOPIC = f"{TOPIC}-dead"
DEEP = 10_000


@dataclass(frozen=True)
class Case:
    """One kind of broken event. ``system``: its landing folder; ``line``: without the line feed."""

    name: str
    system: str
    line: bytes
    end: str

    @property
    def code(self) -> str | None:
        """The reason code it must have in quarantine; ``None`` where it must not be there."""
        return self.end.removeprefix("quarantine ") if self.end.startswith("quarantine ") else None


def text(event: dict) -> bytes:
    return json.dumps(event).encode()


def without(event: dict, name: str) -> dict:
    return {key: value for key, value in event.items() if key != name}


def zaqar(method="POST", path="/v2/queues/orders/messages", status=201, request=None, response=None, **changes):
    event = {"captured_at": AT, "method": method, "path": path, "query": None, "project_id": "broken"}
    event |= {"client_id": "c1", "request_body": request, "status": status, "response_body": response}
    return event | changes


def post(number, message=None, **changes):
    """A post of one message to its own id."""
    sent = {"messages": [{"ttl": 300, "body": "x"} | (message or {})]}
    made = {"resources": [f"/v2/queues/orders/messages/z{number}"]}
    return zaqar(**({"request": sent, "response": made} | changes))


def claim(message=None, **changes):
    """A claim that was granted one message."""
    href = "/v2/queues/orders/messages/zc?claim_id=k1"
    granted = {"messages": [{"id": "zc", "href": href, "ttl": 300, "age": 1, "body": "x"} | (message or {})]}
    base = {"path": "/v2/queues/orders/claims", "request": {"ttl": 60, "grace": 60}, "response": granted}
    return zaqar(**(base | changes))


def declare(metadata, **changes):
    return zaqar(**({"method": "PUT", "path": "/v2/queues/orders", "request": metadata} | changes))


def firehose(key="publish.", properties=None, headers=None, payload="x", **head):
    """What the firehose tells of one message."""
    inner = {"message_id": "r1", "headers": headers or {}} | (properties or {})
    told = {"exchange_name": "", "properties": inner, "vhost": "broken", "connection": "c", "channel": 1}
    if key.startswith("publish"):
        told["routed_queues"] = ["orders"]
    return rabbit(key, {"headers": told | head}, payload=payload)


def rabbit(key, properties, surface="firehose", **changes):
    event = {"captured_at": AT, "surface": surface, "exchange": "x", "routing_key": key, "properties": properties}
    return event | {"payload": ""} | changes


def queue_created(*arguments, name="orders", vhost="broken", kind="rabbit_quorum_queue"):
    head = {"name": name, "vhost": vhost, "type": kind, "arguments": list(arguments)}
    return rabbit("queue.created", {"headers": head}, "event_exchange")


def to(queue, ttl=None, limit=None, exchange=""):
    """Arguments of a queue that sends its dead letters to another."""
    told = (
        f'{{<<"x-dead-letter-exchange">>,longstr,{f"""<<"{exchange}">>""" if exchange else "<<>>"}}}',
        f'{{<<"x-dead-letter-routing-key">>,longstr,<<"{queue}">>}}',
    )
    ends = [f'{{<<"x-message-ttl">>,signedint,{ttl}}}'] if ttl else []
    return *told, *ends, *([limited(limit)] if limit else [])


def limited(limit):
    """An argument of a queue: its delivery limit."""
    return f'{{<<"x-delivery-limit">>,signedint,{limit}}}'


def policy_set(**changes):
    head = {"name": "limit", "vhost": "broken", "pattern": "^o", "apply-to": "queues", "priority": 0}
    head["definition"] = {"delivery-limit": 2}
    return rabbit("policy.set", {"headers": head | changes}, "event_exchange")


def death(**changes):
    return [{"count": 1, "reason": "rejected", "queue": "orders", "time": AT_MS // 1000} | changes]


def consumer(head, **beside):
    """What a consumer wrote down of a message that it rejected."""
    return rabbit("reject.orders", {"headers": {"vhost": "broken"} | head} | beside, "consumer", payload="x")


def pulsar(operation, number=1, **changes):
    event = {"captured_at": AT, "operation": operation, "topic": TOPIC, "message_id": f"9:{number}:-1"}
    if operation in ("receive", "acknowledge", "negative_acknowledge", "subscribe"):
        event |= {"subscription": "s", "consumer": "c"}
    if operation in ("receive", "dead_letter"):
        event |= {"publish_timestamp": AT_MS}
    return event | ({"redelivery_count": 0} if operation == "receive" else {}) | changes


def origin(**changes):
    return {"ORIGIN_MESSAGE_ID": "9:1:-1", "REAL_TOPIC": TOPIC} | changes


def nested(depth):
    return b"[" * depth + b"]" * depth


ZAQAR = {
    "no JSON": (b"more { garbage", "quarantine not_json"),
    "half an object": (text(post(1))[:80], "quarantine not_json"),
    "NUL bytes": (b"\x00\x01\x02", "quarantine not_json"),
    "bytes that are no UTF-8": (text(post(2, client_id="caf@")).replace(b"@", b"\xe9"), "quarantine not_utf8"),
    "an array of events": (b"[" + text(post(3)) + b"]", "quarantine not_an_object"),
    "a number": (b"42", "quarantine not_json"),
    "two events on a line": (text(post(46)) + text(post(47)), "quarantine not_json"),
    "an event and what a writer left": (text(post(48)) + b" ]", "quarantine not_json"),
    "a brace too many, and another event": (text(post(50)) + b"} " + text(post(51)), "quarantine not_json"),
    "JSON bomb: 10,000 deep body": (
        text(post(4)).replace(b'"x"', nested(DEEP)),
        "quarantine not_json",
    ),
    "JSON bomb: 10,000 open braces": (b'{"a":' * DEEP, "quarantine not_json"),
    "a number of 5,000 digits": (text(post(5)).replace(b"300", b"9" * 5000), "quarantine not_json"),
    "no captured_at": (text(without(post(6), "captured_at")), "quarantine no_captured_at"),
    "captured_at is a number": (text(post(7, captured_at=1795208100)), "quarantine no_captured_at"),
    "captured_at is a time without a day": (text(post(8, captured_at="20:55:00")), "quarantine no_captured_at"),
    "captured_at is 30 February": (
        text(post(9, captured_at="2026-02-30T00:00:00Z")),
        "quarantine no_captured_at",
    ),
    "captured_at in year 1": (text(post(10, captured_at="0001-01-01T00:00:00Z")), "quarantine captured_at_too_early"),
    "captured_at in year 9999": (
        text(post(11, captured_at="9999-12-31T23:59:59Z")),
        "quarantine captured_at_in_future",
    ),
    "two captured_at": (
        text(post(60)).replace(b'"captured_at"', b'"captured_at": "2026-11-20T20:00:00Z", "captured_at"'),
        "quarantine captured_at_twice",
    ),
    "captured_at in year 292278": (
        text(post(12, captured_at="+292278-01-01T00:00:00Z")),
        "quarantine no_captured_at",
    ),
    "no method": (text(without(post(13), "method")), "quarantine no_method"),
    "unknown method": (text(post(14, method="BREW")), "quarantine unknown_method"),
    "method in small letters": (text(post(15, method="post")), "quarantine unknown_method"),
    "no path": (text(post(16, path=None)), "quarantine no_path"),
    "path of another service": (text(post(17, path="/v3/auth/tokens")), "quarantine unknown_path"),
    "path tricks in a queue's name": (
        text(post(18, path="/v2/queues/../../etc/passwd/messages")),
        "quarantine bad_queue_name",
    ),
    "escaped path tricks in a queue's name": (
        text(post(19, path="/v2/queues/%2e%2e%2fetc/messages")),
        "quarantine bad_queue_name",
    ),
    "escapes that are none in a queue's name": (
        text(post(53, path="/v2/queues/x%zz%2/messages")),
        "quarantine bad_queue_name",
    ),
    "escaped letters in a queue's name": (
        text(post(54, path="/v2/queues/legacy%2Dq/messages")),
        "rule: the name is what the escapes stand for, as the broker reads it",
    ),
    "path with a query string": (
        text(zaqar("DELETE", "/v2/queues/orders/messages?ids=z1", 204)),
        "quarantine query_in_path",
    ),
    "SQL in a queue's name": (
        text(post(20, path="/v2/queues/x'; DROP TABLE gold.dead_letters; --/messages")),
        "quarantine bad_queue_name",
    ),
    "control characters in a queue's name": (
        text(post(21, path="/v2/queues/a\x00b\x1b[2J/messages")),
        "quarantine bad_queue_name",
    ),
    "a queue's name of 65 letters": (
        text(post(22, path=f"/v2/queues/{'q' * 65}/messages")),
        "quarantine bad_queue_name",
    ),
    "no tenant": (text(without(post(23), "project_id")), "quarantine no_tenant"),
    "empty tenant": (text(post(24, project_id="")), "quarantine no_tenant"),
    "tenant is an object": (text(post(25, project_id={"id": "p1"})), "quarantine no_tenant"),
    "status is a word": (text(post(26, status="created")), "quarantine bad_status"),
    "status 999": (text(post(27, status=999)), "quarantine bad_status"),
    "query is text": (text(claim(query="limit=5")), "quarantine bad_query"),
    "posted messages are one object": (
        text(post(28, request={"messages": {"ttl": 300}})),
        "quarantine bad_request_body",
    ),
    "request body is text": (text(post(29, request="messages")), "quarantine bad_request_body"),
    "fewer ids than messages": (
        text(post(30, response={"resources": []})),
        "quarantine resources_do_not_match",
    ),
    "post without a response body": (text(post(31, response=None)), "quarantine resources_do_not_match"),
    "empty message id": (
        text(post(32, response={"resources": ["/v2/queues/orders/messages/"]})),
        "quarantine no_message_ids",
    ),
    "TTL below 0": (text(post(33, {"ttl": -60})), "quarantine bad_ttl"),
    "TTL of words": (text(post(34, {"ttl": "an hour"})), "quarantine bad_ttl"),
    "TTL of 9,223,372,036,854,775,807 s": (text(post(35, {"ttl": 2**63 - 1})), "quarantine bad_ttl"),
    "TTL beyond 64 bits": (text(post(36, {"ttl": 10**30})), "quarantine bad_ttl"),
    "claim with a TTL of words": (
        text(claim(request={"ttl": "soon", "grace": 60})),
        "quarantine bad_claim",
    ),
    "claim with a grace of 10^18 s": (
        text(claim(request={"ttl": 60, "grace": 10**18})),
        "quarantine bad_claim",
    ),
    "claim with a limit below 0": (text(claim(query={"limit": -5})), "quarantine bad_claim"),
    "claim whose request is a list": (text(claim(request=[60, 60])), "quarantine bad_claim"),
    "claim that grants a message without id": (text(claim({"id": None})), "quarantine bad_response_body"),
    "claim that grants a message with an empty id": (text(claim({"id": ""})), "quarantine bad_response_body"),
    "claim with an empty answer": (text(claim(response={})), "quarantine bad_response_body"),
    "claim that does not name itself": (
        text(claim({"href": "/v2/queues/orders/messages/zc"})),
        "quarantine no_claim_id",
    ),
    "message 10^15 seconds old": (text(claim({"age": 10**15})), "quarantine bad_age"),
    "age of words": (text(claim({"age": "old"})), "quarantine bad_age"),
    "message that is posted in two days": (text(claim({"age": -172800})), "quarantine bad_age"),
    "delete of no message": (
        text(zaqar("DELETE", status=204, query={"ids": ""})),
        "quarantine no_message_ids",
    ),
    "claim limit of words in a policy": (
        text(declare({"_max_claim_count": "three", "_dead_letter_queue": "d"})),
        "quarantine bad_policy",
    ),
    "policy with a TTL of 10^18 s": (
        text(declare({"_dead_letter_queue_messages_ttl": 10**18})),
        "quarantine bad_policy",
    ),
    "policy that is a list": (text(declare([1, 2])), "quarantine bad_policy"),
    "claim that is an empty text": (text(claim({"id": "ze"}, request="")), "rule: a claim's terms have defaults"),
    "policy that is an empty text": (text(declare("")), "rule: a queue may be declared without a word on it"),
    "change of a queue without an answer": (
        text(zaqar("PATCH", "/v2/queues/orders", 200, [{"op": "remove", "path": "/metadata/_max_claim_count"}])),
        "quarantine no_metadata",
    ),
    "a tab before the object": (b"\t" + text(post(52)), "rule: what JSON passes over may come first"),
    "TTL as text": (text(post(39, {"ttl": "300"})), "rule: a number in quotes is read as the number"),
    "status as text": (text(post(40, status="201")), "rule: a number in quotes is read as the number"),
    "a field twice": (
        text(post(41)).replace(b'"POST"', b'"BREW", "method": "POST"'),
        "rule: the last of two fields of one name counts, as in most JSON readers",
    ),
    "TTL shorter than the delay": (
        text(post(42, {"ttl": 60, "delay": 600})),
        "rule: it expires unseen; discrepancy never_claimable",
    ),
    "delay below 0": (text(post(38, {"delay": -1})), "rule: a queue without delays takes any, and ignores it"),
    "delay of words": (text(post(37, {"delay": "soon"})), "rule: a queue without delays takes any, and ignores it"),
    "claim before any policy or post": (
        text(claim({"id": "zq"}, path="/v2/queues/nobody/claims")),
        "rule: the claim is kept; without a policy nothing dies",
    ),
    "one id posted twice, first body": (text(post(43, {"body": "first"})), "rule: the earliest post of an id counts"),
    "one id posted twice, other body": (
        text(post(43, {"body": "other"}, captured_at="2026-11-20T20:55:01+00:00")),
        "rule: the earliest post of an id counts",
    ),
    "dead letter queue with a path in its name": (
        text(declare({"_max_claim_count": 3, "_dead_letter_queue": "../../etc/passwd"})),
        "rule: kept as text; no name ever becomes a path or SQL",
    ),
    "half a surrogate pair in a body": (
        text(post(44)).replace(b'"x"', rb'"\ud800"'),
        "rule: the body does not matter to the facts",
    ),
    "a number that is none in a body": (
        text(post(55)).replace(b'"x"', b'{"price": NaN}'),
        "rule: Python's writers of JSON write it, so it is read; in the payload it is the text NaN",
    ),
    "flavor without pools": (
        text(zaqar("PUT", "/v2/flavors/gold", 201, {"capabilities": []})),
        "quarantine bad_flavor",
    ),
    "purge of the subscriptions": (
        text(zaqar("POST", "/v2/queues/orders/purge", 204, {"resource_types": ["subscriptions"]})),
        "silent: the messages stay",
    ),
    "pool made": (text(zaqar("PUT", "/v2/pools/a", 201, {"weight": 1})), "silent: says nothing of a queue"),
    "refused by the broker": (text(post(45, status=503, response=None)), "silent: only what the broker granted counts"),
    "listing of messages": (text(zaqar("GET", status=200)), "silent: says nothing of a message's life"),
    "refused queue name": (text(post(49, path="/v2/queues/a b/messages", status=400)), "silent: nothing came of it"),
    "probe without a tenant": (text(zaqar("GET", "/v2/ping", 204, project_id=None)), "silent: nothing came of it"),
    "versions of the API": (text(zaqar("GET", "/", 300, project_id=None)), "silent: nothing came of it"),
    "subscription confirmed": (
        text(zaqar("PUT", "/v2/queues/orders/subscriptions/57692aa6/confirm", 204, {"confirmed": True})),
        "silent: says nothing of a message's life",
    ),
}

RABBITMQ = {
    "no surface": (text(without(firehose(), "surface")), "quarantine unknown_surface"),
    "no routing key": (text(rabbit(None, {"headers": {}})), "quarantine no_routing_key"),
    "unknown routing key of the firehose": (text(firehose("ack.orders")), "quarantine unknown_routing_key"),
    "unknown routing key of a consumer": (
        text(firehose("deliver.orders") | {"surface": "consumer"}),
        "quarantine unknown_routing_key",
    ),
    "mirror promoted on no node": (
        text(rabbit("queue.mirror.promoted", {"headers": {"vhost": "broken", "name": "orders"}}, "event_exchange")),
        "quarantine no_node",
    ),
    "arguments that are a number": (
        text(rabbit("queue.created", {"headers": {"name": "q", "vhost": "broken", "arguments": 3}}, "event_exchange")),
        "quarantine bad_arguments",
    ),
    "policy without a definition": (text(policy_set(definition=None)), "quarantine bad_definition"),
    "policy whose definition is text": (text(policy_set(definition="limit")), "quarantine bad_definition"),
    "policy with a priority of words": (text(policy_set(priority="high")), "quarantine bad_priority"),
    "policy with a limit of words": (text(policy_set(definition={"delivery-limit": "three"})), "quarantine bad_limit"),
    "queue with a limit of words": (text(queue_created(limited('<<"three">>'))), "quarantine bad_limit"),
    "policy with half a TTL": (text(policy_set(definition={"message-ttl": 0.5})), "quarantine bad_ttl"),
    "queue with a TTL below 0": (text(queue_created(*to("dlq", ttl=-1))), "quarantine bad_ttl"),
    "policy without a name": (text(policy_set(name="")), "quarantine no_policy_name"),
    "policy without a pattern": (text(policy_set(pattern=None)), "quarantine bad_pattern"),
    "policy pattern that only Perl reads": (
        text(policy_set(pattern="^{eu}-")),
        "quarantine foreign_pattern",
    ),
    "headers are text": (text(rabbit("publish.", {"headers": "none"})), "quarantine bad_headers"),
    "policy for queues of no type": (text(policy_set(**{"apply-to": "quorum"})), "quarantine bad_apply_to"),
    "properties named as Java does": (text(consumer({"properties": {"messageId": "r5"}})), "quarantine bad_properties"),
    "message headers as text": (
        text(consumer({"properties": {"message_id": "r5", "headers": "{x-death=[{count=1}]}"}})),
        "quarantine bad_properties",
    ),
    "properties beside their headers": (text(consumer({}, message_id="r5")), "quarantine bad_properties"),
    "no virtual host": (text(firehose(vhost=None)), "quarantine no_tenant"),
    "empty virtual host": (text(firehose(vhost="")), "quarantine no_tenant"),
    "delivery from no queue": (text(firehose("deliver.")), "quarantine no_queue"),
    "queue created without a name": (text(queue_created(name="")), "quarantine no_queue"),
    "publish without its queues": (text(firehose(routed_queues=None)), "quarantine no_routed_queues"),
    "publish to a queue without a name": (text(firehose(routed_queues=[""])), "quarantine no_routed_queues"),
    "publish to null": (text(firehose(routed_queues=[None])), "quarantine no_routed_queues"),
    "expiration of words": (text(firehose(properties={"expiration": "never"})), "quarantine bad_expiration"),
    "expiration below 0": (text(firehose(properties={"expiration": "-1"})), "quarantine bad_expiration"),
    "delivery count of words": (
        text(firehose("deliver.orders", headers={"x-delivery-count": "many"})),
        "quarantine bad_delivery_count",
    ),
    "delivery count of 2^63 - 1": (
        text(firehose("deliver.orders", headers={"x-delivery-count": 2**63 - 1})),
        "quarantine bad_delivery_count",
    ),
    "x-death is text": (text(firehose("deliver.dlq", headers={"x-death": "yes"})), "quarantine bad_x_death"),
    "x-death in year 1": (
        text(firehose("deliver.dlq", headers={"x-death": death(time="0001-01-01T00:00:00Z")})),
        "quarantine bad_x_death",
    ),
    "x-death without a queue": (
        text(firehose("deliver.dlq", headers={"x-death": death(queue=None)})),
        "quarantine bad_x_death",
    ),
    "death at 10^18 seconds": (
        text(firehose("deliver.dlq", headers={"x-death": death(time=10**18)})),
        "quarantine bad_x_death",
    ),
    "JSON bomb as a dead letter's payload": (
        text(firehose("deliver.dlq", {"message_id": "r2"}, {"x-death": death()}, nested(DEEP).decode())),
        "rule: a payload is text; its shape is taken as far as it reads",
    ),
    "publisher's timestamp at 10^18 seconds": (
        text(firehose(properties={"message_id": "r3", "timestamp": 10**18})),
        "rule: a timestamp that is no time says nothing",
    ),
    "SQL in a queue's name": (
        text(firehose(properties={"message_id": "r4"}, routed_queues=["x'; DROP TABLE gold.dead_letters; --"])),
        "rule: RabbitMQ allows the name; no name ever becomes a path or SQL",
    ),
    "path tricks in a queue's name": (
        text(queue_created(name="../../../etc/passwd")),
        "rule: RabbitMQ allows the name; no name ever becomes a path or SQL",
    ),
    "delivery limit below 0": (
        text(queue_created('{<<"x-delivery-limit">>,signedint,-1}', name="endless")),
        "rule: below 0 is no limit",
    ),
    "queue TTL of 10^18 ms": (
        text(queue_created('{<<"x-message-ttl">>,signedint,1000000000000000000}', name="eternal")),
        "rule: longer than 100 years is no TTL",
    ),
    "message without an id": (
        text(firehose(properties={"message_id": None})),
        "rule: its id is the hash of its properties and payload",
    ),
    "publish that reaches no queue": (
        text(firehose(routed_queues=[])),
        "silent: no queue ever held the message",
    ),
    "unknown event of the event exchange": (
        text(rabbit("user.deleted", {"headers": {}}, "event_exchange")),
        "silent: says nothing of a message's life",
    ),
}

PULSAR = {
    "unknown operation": (text(pulsar("redeliver")), "quarantine unknown_operation"),
    "operation is a list": (text(pulsar(["send"])), "quarantine unknown_operation"),
    "acknowledged with all before it": (
        text(pulsar("acknowledge", 9, cumulative=True)),
        "quarantine cumulative_acknowledge",
    ),
    "acknowledged with all before it, by its operation": (
        text(pulsar("acknowledge_cumulative", 9)),
        "quarantine cumulative_acknowledge",
    ),
    "topic without its namespace": (text(pulsar("send", topic="orders")), "quarantine bad_topic"),
    "topic of an unknown scheme": (
        text(pulsar("send", topic="file:///etc/passwd")),
        "quarantine bad_topic",
    ),
    "line feed in a topic": (
        text(pulsar("send", topic="persistent://broken/default/a\nb")),
        "quarantine bad_topic",
    ),
    "no subscription": (text(pulsar("receive", subscription="")), "quarantine no_subscription"),
    "no message id": (text(without(pulsar("acknowledge"), "message_id")), "quarantine bad_message_id"),
    "message id of words": (text(pulsar("send", message_id="latest")), "quarantine bad_message_id"),
    "redelivery count below 0": (
        text(pulsar("receive", redelivery_count=-1)),
        "quarantine bad_redelivery_count",
    ),
    "redelivery count of 10^30": (
        text(pulsar("receive", redelivery_count=10**30)),
        "quarantine bad_redelivery_count",
    ),
    "redelivery count of one and a half": (
        text(pulsar("receive", redelivery_count=1.5)),
        "quarantine bad_redelivery_count",
    ),
    "redelivery count as a decimal": (
        text(pulsar("receive", 10, redelivery_count=1.0)),
        "rule: a decimal whose fraction is 0 is a whole number",
    ),
    "published at 10^18 ms": (
        text(pulsar("receive", publish_timestamp=10**18)),
        "quarantine bad_publish_timestamp",
    ),
    "published before 1970": (text(pulsar("receive", publish_timestamp=-1)), "quarantine bad_publish_timestamp"),
    "delay below 0": (text(pulsar("send", deliver_after_s=-5)), "quarantine bad_delay"),
    "delay of 10^30 s": (text(pulsar("send", deliver_after_s=10**30)), "quarantine bad_delay"),
    "delay that is not a number": (text(pulsar("send", deliver_after_s="NaN")), "quarantine bad_delay"),
    "retry that names the retry topic": (
        text(
            pulsar(
                "receive",
                topic="persistent://public/default/orders-s-RETRY",
                properties={
                    "ORIGIN_MESSAGE_IDY_TIME": "3:0:-1",
                    "REAL_TOPIC": "persistent://public/default/orders-s-RETRY",
                    "RECONSUMETIMES": "2",
                },
            )
        ),
        "quarantine bad_origin",
    ),
    "dead letter without its origin": (text(pulsar("dead_letter", properties={})), "quarantine bad_origin"),
    "dead letter whose origin is a path": (
        text(pulsar("dead_letter", properties=origin(REAL_TOPIC="../../etc/passwd"))),
        "quarantine bad_origin",
    ),
    "dead letter policy is text": (
        text(pulsar("subscribe", dead_letter_policy="three times")),
        "quarantine bad_policy",
    ),
    "dead letter policy in Python's names": (
        text(pulsar("subscribe", dead_letter_policy={"max_redeliver_count": 3})),
        "quarantine bad_policy",
    ),
    "dead letter of a topic that is not kept": (
        text(pulsar("dead_letter", 9, properties=origin(REAL_TOPIC=TOPIC.replace("persistent", "non-persistent")))),
        "silent: all messages of such a topic have one id",
    ),
    "send that was not stored": (
        text(pulsar("send", message_id="-1:-1:-1")),
        "silent: the broker took it for one sent before",
    ),
    "redelivery limit below 0": (
        text(pulsar("subscribe", dead_letter_policy={"maxRedeliverCount": -1})),
        "quarantine bad_policy",
    ),
    "dead letter topic without a name": (
        text(pulsar("subscribe", dead_letter_policy={"maxRedeliverCount": 3, "deadLetterTopic": ""})),
        "rule: an empty name is no name; the client sends to the default topic",
    ),
    "control characters in a consumer's error": (
        text(pulsar("negative_acknowledge", 2, error="\x00\x1b[2J boom \u202e")),
        "rule: an error is text; reports escape it",
    ),
    "SQL in a topic's name": (
        text(pulsar("send", 3, topic="persistent://broken/default/x'; DROP TABLE t; --")),
        "rule: Pulsar allows the name; no name ever becomes a path or SQL",
    ),
    "retry count below 0": (
        text(pulsar("receive", 8, topic=f"{TOPIC}-s-RETRY", properties=origin(RECONSUMETIMES="-5"))),
        "quarantine bad_redelivery_count",
    ),
    "id of a chunked message": (
        text(pulsar("acknowledge", message_id="(9,6,-1,-1);(9,8,-1,-1)")),
        "rule: the last chunk's id is the message's",
    ),
    "properties are text": (
        text(pulsar("send", 4, properties="none")),
        "rule: properties matter in dead letters and retries only",
    ),
    "acknowledged, never sent": (
        text(pulsar("acknowledge", 5)),
        "rule: the message's row waits with what is known",
    ),
}

CASES = [
    Case(name, system, line, end)
    for system, cases in {"zaqar": ZAQAR, "rabbitmq": RABBITMQ, "pulsar": PULSAR}.items()
    for name, (line, end) in cases.items()
] + [Case("a folder that names no broker", "kafka", text({"captured_at": AT}), "quarantine unknown_system")]


def document() -> str:
    """The table as ``docs/broken-events.md`` has it."""
    rows = [f"| {case.system} | {case.name} | {_end(case)} |" for case in CASES]
    head = (
        "# Broken events\n\n"
        "Every kind of broken event that the tests feed in one run beside good ones, and how it ends. An event in\n"
        "quarantine has the reason code named here; `deadletter quarantine list` counts them. The table is made from\n"
        "`tests/pipelines/broken_events.py`: `python -m tests.pipelines.broken_events` writes it.\n\n"
        "| broker | event | how it ends |\n| --- | --- | --- |\n"
    )
    return head + "\n".join(rows) + "\n"


def _end(case: Case) -> str:
    if case.code:
        return f"quarantine, `{case.code}`"
    kind, _, why = case.end.partition(": ")
    return f"{'handled' if kind == 'rule' else kind}: {why}"


if __name__ == "__main__":
    from pathlib import Path

    Path("docs/broken-events.md").write_text(document(), encoding="utf-8")
