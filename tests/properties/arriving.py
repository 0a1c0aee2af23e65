"""Histories that arrive in one order or another: generated ones, and what comes late in them."""

import json
import random

from tests.models.clock import SECOND, START
from tests.models.rabbitmq import Queue
from tests.models.zaqar import Store
from tests.pipelines.broken_events import firehose, policy_set, queue_created, to
from tests.pipelines.conftest import write as write_lines
from tests.properties.test_histories import generate
from tests.unit.stories import apart
from tests.unit.timed import START as TOLD_FROM
from tests.unit.timed import at

STEADY = (1, 2, 3)
DAYS = 4 * 86400 * SECOND
NAME = "orders-${ENV}"
"""A queue's name that Spark would read as a variable."""
DAMAGED = ['{"captured_at": "2026-11-20T12:00:00+00:00"', '{"method": "GET"}', '{"captured_at": "yesterday"}']


def exhausted(project, *, second=False):
    """A project with one message (or two) at its limit, and the attempt that moves one of them."""
    store = Store("document", project, random.Random(project))
    store.put(START, "q-dlq")
    store.put(START + 1, "q", _max_claim_count=1, _dead_letter_queue="q-dlq")
    (first,) = store.post(START + SECOND, "q", [(3600, None)])
    held = store.claim(START + 2 * SECOND, "q", 1, 120 if second else 60, 60)
    if second:
        store.post(START + 3 * SECOND, "q", [(3600, None)])
        other = store.claim(START + 4 * SECOND, "q", 1, 60, 60)
        assert other
    return store, first, held


def late_cases():
    """``{project: (early lines, late lines, the deaths that all lines imply)}``; the early ones alone imply one."""

    def renewed(store, _, held):
        store.renew(START + 30 * SECOND, held, 300, 60)

    def settled(store, first, held):
        store.delete(START + 30 * SECOND, first, "q", held)

    def emptied(store, *_):
        store.delete_queue(START + 30 * SECOND, "q")

    def released(store, _, held):
        store.release(START + 30 * SECOND, held)

    cases = {}
    for name, late in {"renewed": renewed, "settled": settled, "emptied": emptied, "released": released}.items():
        store, first, held = exhausted(f"late-{name}", second=name == "released")
        late(store, first, held)
        withheld = store.events.pop()
        # no more than one is taken: the second message dies only where the first cannot
        store.claim(START + 70 * SECOND, "q", 1, 60, 60)
        deaths = {m.id for m in store.messages if m.deaths}
        early = [json.dumps(event) for event in store.events]
        cases[f"late-{name}"] = (early, [json.dumps(withheld)], deaths)
    return cases


def steady(number):
    """A project that comes with the first run: enough healthy messages to be its own yardstick, two dead letters and
    one message at its limit. And what comes with the second: a dead letter of the first project is removed, and time
    passes in a project of its own, so that a TTL ends in the second project; the third stays as it is.
    """
    store = Store("document", f"steady-{number}", random.Random(number))
    store.put(START, "q-dlq")
    store.put(START + 1, "q", _max_claim_count=1, _dead_letter_queue="q-dlq")
    good = store.post(START + SECOND, "q", [(3600, None)] * 25)
    bad = store.post(START + 2 * SECOND, "q", [(3600, None)] * 3)
    for message in store.events[-1]["request_body"]["messages"]:
        message["body"] = '{"n": null}'
    held = [store.claim(START + second * SECOND, "q", 14, 60, 60) for second in (3, 4)]
    for place, message in enumerate(good):
        store.delete(START + 5 * SECOND, message, "q", held[place // 14])
    store.claim(START + 70 * SECOND, "q", 2, 60, 60)
    assert [len(message.deaths) for message in bad] == [1, 1, 0]
    if number == 2:
        store.post(START + 80 * SECOND, "q", [(300, None)])
    before = [json.dumps(event) for event in store.events]
    if number == 1:
        again = store.claim(START + 200 * SECOND, "q-dlq", 1, 60, 60)
        store.delete(START + 201 * SECOND, bad[0], "q-dlq", again)
    clock = Store("document", "clock", random.Random(1))
    clock.put(START + 600 * SECOND, "q")
    return before, [json.dumps(event) for event in store.events[len(before) :] + clock.events]


def published(now):
    """Lines of three messages that are published at ``now``: the same ids whatever the time."""
    queue = Queue(random.Random("again"), "again", True, None, None, False)
    for number in range(3):
        queue.publish(now + number * SECOND)
    return [json.dumps(event).replace('["q"]', json.dumps([NAME])) for event in queue.events]


def parked():
    """A vhost where a message was tried again, and then put aside by its consumer with its headers, in a queue that
    nothing names. And what comes to its retry queue later."""
    deaths = [x_death("retry", "expired", 6), x_death("orders", "rejected", 2)]
    tried = [
        at(0, queue_created('{<<"x-dead-letter-exchange">>,longstr,<<"dlx">>}')),
        at(1, firehose("publish.", routed_queues=["orders"])),
        at(2, firehose("deliver.orders")),
        at(7, firehose("deliver.orders", headers={"x-death": deaths})),
        at(8, firehose("publish.", routed_queues=["parking"])),
        at(9, firehose("deliver.parking", headers={"x-death": deaths})),
    ]
    later = at(20, firehose("publish.", {"message_id": "another"}, routed_queues=["retry"]))
    return in_vhost("parked", *tried), in_vhost("parked", later)


def not_delayed():
    """A vhost where a message went from one queue to another that a policy seems to send on: it was delayed. And what
    comes late of that queue, which was another then than the policy is for: it died."""
    by_policy = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead", "max-in-memory-length": 9}
    delayed = [
        at(0, queue_created()),
        at(0, queue_created(*to("orders", ttl=5000), name="delay")),
        at(1, firehose("publish.", routed_queues=["delay"])),
        at(2, firehose("publish.", {"message_id": "another"}, routed_queues=["orders"])),
        at(7, firehose("deliver.orders", headers={"x-death": [x_death("delay", "expired", 6)]})),
        at(20, policy_set(definition=by_policy)),
    ]
    late = at(15, queue_created() | {"routing_key": "queue.deleted"})
    return in_vhost("not-delayed", *delayed), in_vhost("not-delayed", late)


def _by_steps(*, known, last=None):
    """A vhost where a message was delayed in two steps, to a queue of which nothing else is ``known``, or a post;
    ``last`` are the events that say of the second queue where it sends messages on."""
    by_exchange = '{<<"x-dead-letter-exchange">>,longstr,<<"dlx">>}'
    told = [at(0, queue_created(by_exchange, name=name)) for name in ("orders", "l5")]
    told += [at(0, queue_created(*to("orders", ttl=5000), name="l3"))] if last is None else last
    told += [at(1, firehose("publish.", routed_queues=["l5"]))]
    told += [at(2, firehose("publish.", {"message_id": "another"}, routed_queues=["orders"]))] if known else []
    deaths = [x_death("l3", "expired", 11), x_death("l5", "expired", 6)]
    return [*told, at(12, firehose("deliver.orders", headers={"x-death": deaths}))]


def delayed_by_steps():
    """A message seemed to die in two queues, until something was posted to the queue that it came to."""
    late = at(20, firehose("publish.", {"message_id": "another"}, routed_queues=["orders"]))
    return in_vhost("by-steps", *_by_steps(known=False)), in_vhost("by-steps", late)


def not_delayed_by_steps():
    """A message seemed to be delayed in two steps, until something was delivered from the second."""
    late = at(20, firehose("deliver.l3", {"message_id": "another"}))
    return in_vhost("not-by-steps", *_by_steps(known=True)), in_vhost("not-by-steps", late)


def not_delayed_by_steps_of_a_policy():
    """The same where a policy sends on what waited in the second queue."""
    sends = policy_set(pattern="^l3$", definition={"dead-letter-exchange": "", "dead-letter-routing-key": "orders"})
    told = _by_steps(known=True, last=[at(0, sends), at(0, queue_created(name="l3"))])
    late = at(20, firehose("deliver.l3", {"message_id": "another"}))
    return in_vhost("not-by-policy", *told), in_vhost("not-by-policy", late)


def not_delayed_by_steps_that_nobody_declared():
    """The same where nothing was told of the second queue."""
    late = at(20, firehose("deliver.l3", {"message_id": "another"}))
    return in_vhost("not-declared", *_by_steps(known=True, last=[])), in_vhost("not-declared", late)


def x_death(queue, reason, second):
    return {"queue": queue, "reason": reason, "count": 1, "time": int(TOLD_FROM.timestamp()) + second}


def in_vhost(name, *events):
    """Lines of events, in a vhost called so."""
    return [json.dumps(event) for event in apart({name: events})]


IN_TWO_PARTS = (
    parked,
    not_delayed,
    delayed_by_steps,
    not_delayed_by_steps,
    not_delayed_by_steps_of_a_policy,
    not_delayed_by_steps_that_nobody_declared,
)
"""What went on in a vhost of its own: what comes first, and what comes later."""


def generated():
    """``{system: lines}`` of generated queues of all brokers, with damaged lines among them."""
    lines = {system: list(part) for system, part in generate(11, 600).lines.items()}
    lines["zaqar"] += DAMAGED
    return lines


def everything(generated_lines):
    """All lines in order: the generated ones, the late cases, the steady projects, what is published twice, and what
    went on in queues of RabbitMQ's."""
    late = [line for early, withheld, _ in late_cases().values() for line in early + withheld]
    late += [line for number in STEADY for part in steady(number) for line in part]
    again = published(START - DAYS) + published(START)
    again += [line for told in IN_TWO_PARTS for part in told() for line in part]
    more = {"zaqar": generated_lines["zaqar"] + late, "rabbitmq": generated_lines["rabbitmq"] + again}
    return generated_lines | more


def write(landing, name, lines):
    for system, part in lines.items():
        write_lines(landing / system, name, [f"{line}\n".encode() for line in part])
