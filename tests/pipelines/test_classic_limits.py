"""RabbitMQ's classic delivery limits: which deaths a changed limit implies, and which nobody can know."""

import json
import random

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables
from deadletter.lake import Lake
from deadletter.snapshot import status_at
from tests.models.clock import SECOND, START, iso
from tests.models.rabbitmq import DLQ, Queue, term, text
from tests.pipelines.conftest import quiet
from tests.properties.test_histories import time

REQUEUED, CHANGED = START + 9 * SECOND + 500_000, START + 20 * SECOND + 500_000


class Case(Queue):
    """A queue with one message, posted at 1 s, delivered at 2 and 8 s, given back at 9.5 s; at 20.5 s a limit of 1."""

    def __init__(self, name, *, quorum=False, told=True, flag=START, arguments=None, ttl=None, change=True):
        super().__init__(random.Random(name), f"case-{name}", quorum, None, ttl, False)
        given = {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": DLQ}
        given |= {"x-queue-type": "quorum"} if quorum else {}
        given |= {"x-message-ttl": ttl * 1000} if ttl else {}
        self.declare(START - SECOND, "q", arguments if arguments is not None else given)
        if flag and flag < START + SECOND:
            self.enable_flag(flag)
        self.publish(START + SECOND)
        (self.message,) = self.messages
        self.deliver(START + 2 * SECOND, self.message)
        self.deliver(START + 8 * SECOND, self.message)
        if flag and flag >= START + SECOND:
            self.enable_flag(flag)
        if told:
            self.write_down(REQUEUED, self.message, "requeue")
        if change:
            self.set_policy(CHANGED, "policy", "all", ".*", 0, 1)

    def define(self, now, name, definition):
        """A policy of any definition, as the broker tells of it, be it an operator's."""
        told = {"name": name, "pattern": ".*", "priority": 0, "apply-to": "queues", "definition": definition}
        self.tell(now, "event_exchange", "policy.set", told)


def operator():
    case = Case("operator", change=False)
    case.set_policy(CHANGED, "operator", "cap", "q", 0, 1)
    return case


def cleared():
    """A policy of a higher priority hid the lower limit."""
    case = Case("cleared", change=False)
    case.set_policy(START, "policy", "mine", "^q$", 5, 7)
    case.set_policy(START + 10 * SECOND, "policy", "all", ".*", 0, 1)
    case.clear_policy(CHANGED, "policy", "mine")
    return case


def operator_gone():
    """An operator policy that the broker told of as a policy, and then as cleared."""
    case = Case("operator-gone", change=False)
    case.define(START, "cap", {"delivery-limit": 1})
    case.clear_policy(START + 5 * SECOND, "operator", "cap")
    return case


def same_name():
    """Told apart, an operator policy that is cleared leaves the policy of its name."""
    case = Case("same-name", change=False)
    case.set_policy(START, "operator", "cap", ".*", 0, 7)
    case.define(START, "cap", {"delivery-limit": 1})
    case.clear_policy(START + 5 * SECOND, "operator", "cap")
    return case


def policy_ttl(name, until=None):
    """A policy's TTL was over when a limit came, whether the policy still held then or not."""
    case = Case(name, change=False)
    case.define(START, "short", {"message-ttl": 10_000})
    if until:
        case.clear_policy(until, "policy", "short")
    case.set_policy(CHANGED, "operator", "cap", "q", 0, 1)
    return case


def expired_by_policy():
    """A policy's TTL was over in the second in which a limit came."""
    case = Case("expired", change=False)
    case.define(START, "short", {"message-ttl": 10_000})
    case.die(START + 11 * SECOND, case.message, "expired")
    case.set_policy(START + 11 * SECOND + 200_000, "operator", "cap", "q", 0, 1)
    case.read_dead(START + 30 * SECOND, case.message)
    return case


def lazy_by_policy(name, **mode):
    arguments = {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": DLQ} | mode
    case = Case(name, arguments=arguments, change=False)
    case.define(CHANGED, "all", {"queue-mode": "lazy", "delivery-limit": 1})
    return case


def exchange_of_a_policy():
    case = Case("exchange", arguments={}, change=False)
    pairs = {"delivery-limit": "signedint,1", "dead-letter-exchange": 'longstr,<<"dlx">>'}
    pairs |= {"dead-letter-routing-key": "longstr," + text('q."other"')}
    case.define(CHANGED, "all", [term(key, value) for key, value in pairs.items()])
    return case


def foreign_name():
    """Erlang writes some names as their bytes."""
    return Case("name", arguments={"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "größe Ö"})


def dropped():
    return Case("dropped", arguments={})


def over_at_once():
    """The limit was there before: it dies when it is given back."""
    case = Case("at-once", change=False)
    case.set_policy(START - 1, "policy", "all", ".*", 0, 1)
    return case


def promoted():
    """A mirror's copy counts more than the queue after its restart: it dies with the promotion."""
    case = Case("promoted", change=False)
    case.synchronise(START + 10 * SECOND, "rabbit@b")
    case.restart(START + 11 * SECOND)
    case.set_policy(START + 12 * SECOND, "policy", "all", ".*", 0, 1)
    case.promote(CHANGED, "rabbit@b")
    return case


def observed():
    """The broker's own word comes later, and says when."""
    case = Case("observed")
    case.read_dead(START + 30 * SECOND, case.message)
    return case


def back():
    """The queue delivers it again: it was there all the time."""
    case = Case("back")
    case.message.deaths.clear()
    case.deliver(START + 30 * SECOND, case.message)
    return case


def acknowledged():
    case = Case("acknowledged", told=False, change=False)
    case.write_down(REQUEUED, case.message, "ack")
    case.set_policy(CHANGED, "policy", "all", ".*", 0, 1)
    return case


def deleted():
    case = Case("deleted", change=False)
    case.delete(START + 12 * SECOND)
    case.declare(START + 13 * SECOND, "q", {})
    case.set_policy(CHANGED, "policy", "all", ".*", 0, 1)
    return case


def posted_anew():
    """After its queue was deleted: the count went with that."""
    case = Case("anew", change=False)
    case.delete(START + 12 * SECOND)
    case.declare(START + 13 * SECOND, "q", {})
    case.set_policy(START + 14 * SECOND, "policy", "all", ".*", 0, 1)
    case.message.purged = None
    case.deliver(START + 15 * SECOND, case.message)
    case.write_down(START + 16 * SECOND, case.message, "requeue")
    return case


def unseen_post():
    """Its TTL can have been over, as nobody saw when it was posted."""
    case = Case("unseen", ttl=15, change=False)
    case.events = [event for event in case.events if not event["routing_key"].startswith("publish")]
    case.die(START + 16 * SECOND, case.message, "expired")
    case.set_policy(START + 16 * SECOND + 200_000, "policy", "all", ".*", 0, 1)
    case.read_dead(START + 30 * SECOND, case.message)
    return case


def lost():
    """A restart, a mirror that was never synchronised, or v1 records: the queue's count does not exceed the limit."""
    case = Case("lost", change=False)
    case.restart(START + 12 * SECOND)
    case.set_policy(CHANGED, "policy", "all", ".*", 0, 1)
    case.deliver(START + 30 * SECOND, case.message)
    return case


def endless():
    case = Case("endless", change=False)
    case.set_policy(CHANGED, "policy", "all", ".*", 0, -1)
    return case


def lazy():
    return Case("lazy", arguments={"x-queue-mode": "lazy"})


DYING = {
    "lowered": (Case("lowered"), "derived", CHANGED, DLQ),
    "operator": (operator(), "derived", CHANGED, DLQ),
    "cleared": (cleared(), "derived", CHANGED, DLQ),
    "same-name": (same_name(), "derived", REQUEUED, DLQ),
    "mode-given": (lazy_by_policy("mode-given", **{"x-queue-mode": "default"}), "derived", CHANGED, DLQ),
    "exchange": (exchange_of_a_policy(), "derived", CHANGED, 'q."other"'),
    "name": (foreign_name(), "derived", CHANGED, "größe Ö"),
    "dropped": (dropped(), "derived", CHANGED, None),
    "at-once": (over_at_once(), "derived", REQUEUED, DLQ),
    "promoted": (promoted(), "derived", CHANGED, DLQ),
    "observed": (observed(), "observed", CHANGED // SECOND * SECOND, DLQ),
    "expired": (expired_by_policy(), "observed", START + 11 * SECOND, DLQ),
    "unseen": (unseen_post(), "observed", START + 16 * SECOND, DLQ),
}
LIVING = {
    "untold": (Case("untold", told=False), "outcome_unknown"),
    "quorum": (Case("quorum", quorum=True), "available"),
    "lazy": (lazy(), "available"),
    "lazy-policy": (lazy_by_policy("lazy-policy"), "available"),
    "no-flag": (Case("no-flag", flag=None), "available"),
    "v1": (Case("v1", flag=START + 9 * SECOND), "available"),
    "ttl": (Case("ttl", ttl=15), "expired"),
    "ttl-policy": (policy_ttl("ttl-policy"), "expired"),
    "ttl-once": (policy_ttl("ttl-once", until=START + 15 * SECOND), "expired"),
    "operator-gone": (operator_gone(), "available"),
    "back": (back(), "outcome_unknown"),
    "acknowledged": (acknowledged(), "settled"),
    "deleted": (deleted(), "purged"),
    "anew": (posted_anew(), "available"),
    "lost": (lost(), "outcome_unknown"),
    "endless": (endless(), "available"),
}


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    landing = tmp_path_factory.mktemp("landing")
    (landing / "rabbitmq").mkdir()
    cases = [case for case, *_ in (*DYING.values(), *LIVING.values())]
    lines = [json.dumps(event) for case in cases for event in case.events]
    (landing / "rabbitmq" / "cases.jsonl").write_text("\n".join(lines) + "\n")
    made = Lake(spark, str(tmp_path_factory.mktemp("lake")))
    assert steps.run(made, str(landing), tell=quiet).events_quarantined == 0
    return made


def test_deaths(lake):
    found = lake.read(tables.DEAD_LETTERS).select(
        F.substring("tenant", 6, 99), "evidence", F.unix_micros("dead_lettered_at"), "dead_letter_queue"
    )
    assert {tuple(row) for row in found.collect()} == {(name, *want) for name, (_, *want) in DYING.items()}
    rest = lake.read(tables.DEAD_LETTERS).select(F.substring("tenant", 6, 99), "cause").collect()
    causes = dict.fromkeys(DYING, "delivery_limit") | dict.fromkeys(("expired", "unseen"), "ttl")
    assert dict(map(tuple, rest)) == causes
    same = lake.read(tables.DEAD_LETTERS).select("reason", "claim_count", "max_deliveries").distinct()
    assert [tuple(row) for row in same.collect()] == [("expired", 2, 1)]


def test_the_event_behind_a_derived_death(lake):
    derived = lake.read(tables.DEAD_LETTERS).where("evidence = 'derived'").select("event_id", "dead_lettered_at")
    joined = derived.join(lake.read(tables.QUEUE_EVENTS).select("event_id", "captured_at"), "event_id")
    observed = sum(evidence == "observed" for _, evidence, *_ in DYING.values())
    assert joined.count() == len(DYING) - observed == joined.where("captured_at = dead_lettered_at").count()


def test_status(lake):
    wanted = {name: status for name, (_, status) in LIVING.items()} | dict.fromkeys(DYING, "dead_lettered")
    found = status_at(lake, time(START + 60 * SECOND)).where("queue = 'q'").select("tenant", "status").collect()
    assert {row["tenant"].removeprefix("case-"): row["status"] for row in found} == wanted


def test_before_the_change_the_message_lay_in_its_queue(lake):
    before = status_at(lake, time(CHANGED - 1)).where("tenant = 'case-lowered'").select("status").collect()
    assert [row["status"] for row in before] == ["available"], iso(CHANGED)


def test_what_differs(lake):
    found = lake.read(tables.DISCREPANCIES).where("message_id != ''").select(F.substring("tenant", 6, 99), "kind")
    assert sorted(map(tuple, found.collect())) == [("back", "should_have_been_moved"), ("lost", "lost_counter")]
