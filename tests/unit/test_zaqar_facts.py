"""What a few events of Zaqar's mean: what the captures and the generated histories do not hold.

Each story has a project of its own; all are judged at once.
"""

from datetime import timedelta

import pytest

from deadletter.gold.at_risk import dead_letter_queues
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.health import queue_health
from deadletter.gold.status import message_status
from tests.pipelines.broken_events import claim, declare, post, zaqar
from tests.unit.stories import apart, by_story, deaths
from tests.unit.timed import START, at, grant

JUDGED = 9000
LIMITED = declare({"_max_claim_count": 1, "_dead_letter_queue": "d"})
PURGE = zaqar("POST", "/v2/queues/orders/purge", 204)
NONE_GIVEN = claim(status=204, response=None)


def popped(message, age, claim_id):
    shown = {"id": message, "age": age, "ttl": 300, "body": "x", "claim_id": claim_id}
    return zaqar("DELETE", status=200, query={"pop": 1}, response={"messages": [shown]})


def with_target(target):
    return zaqar("PUT", "/v2/queues/d", 201, {"_max_claim_count": 1, "_dead_letter_queue": target} if target else {})


def just_now(*events):
    """The events in the last ten seconds."""
    return [at(JUDGED - 10 + number, event) for number, event in enumerate(events)]


DIFFERENCES = {
    "claimed_twice_at_once": [post(1), grant(5, "k1"), grant(9, "k2")],
    "should_have_been_moved": [LIMITED, with_target(None), post(1), grant(5, "k1"), grant(100, "k2")],
    "claimed_after_death should_have_been_moved": [
        *(LIMITED, with_target(None), post(1), grant(5, "k1")),
        *(at(70, NONE_GIVEN), grant(100, "k2")),
    ],
    "dead_letter_queue_missing": [LIMITED],
    "": [LIMITED, with_target(None), declare({}), zaqar("DELETE", "/v2/queues/d", 204, None)],
    "dead_letter_queue_has_its_own": [LIMITED, with_target("e"), zaqar("PUT", "/v2/queues/e", 201, {})],
}
"""Events of a project, by the kinds of differences that they show."""
DELAYED = declare({"_max_claim_count": 2, "_dead_letter_queue": "d", "_default_message_delay": 600})
STORIES = {
    "purged": just_now(post(1), PURGE),
    "granted": just_now(post(1), PURGE, grant(JUDGED - 8, "k1")),
    "expired": [post(1, {"ttl": 60})],
    "emptied": [post(1, {"ttl": 60}), PURGE | {"request_body": {"resource_types": ["messages"]}}],
    "delayed": [at(0, DELAYED), at(1000, claim()), at(5000, claim()), at(JUDGED, NONE_GIVEN)],
    "popped": [post(1), popped("z1", 3, None)],
    "shown": [claim(), at(90, popped("zc", 90, "k1"))],
    "undone": [at(1, LIMITED), at(5, zaqar("PATCH", "/v2/queues/orders", 200, [], response={}))],
} | {f"project{number}": events for number, events in enumerate(DIFFERENCES.values())}


@pytest.fixture(scope="module")
def facts(silver):
    return silver("zaqar", apart(STORIES), JUDGED)


@pytest.fixture(scope="module")
def dead(facts):
    return deaths(facts, "zaqar")


@pytest.fixture(scope="module")
def state(facts):
    return by_story(facts.state.collect())


def test_what_was_granted_after_a_purge_was_not_purged(facts, dead):
    """Zaqar's purge lets be what it finds in a claim."""
    here = message_status(facts, dead).where("tenant IN ('purged', 'granted')").collect()
    assert sorted((row["tenant"], row["status"]) for row in here) == [("granted", "claimed"), ("purged", "purged")]


def test_what_nobody_saw_posted_is_neither_delayed_nor_expired(dead):
    """Its queue's delay was over when it was granted, and nothing tells its TTL."""
    (died,) = dead.where("tenant = 'delayed'").collect()
    assert (died["claim_count"], died["posted_at"], died["expires_at"]) == (2, None, None)
    assert died["dead_lettered_at"] == START.replace(tzinfo=None) + timedelta(seconds=JUDGED)


def test_what_was_purged_did_not_expire(facts, dead):
    rows = queue_health(facts, dead).where("tenant IN ('expired', 'emptied')").collect()
    told = sorted((row["tenant"], row["posted"], row["expired_unseen"]) for row in rows)
    assert told == [("emptied", 1, 0), ("expired", 1, 1)]


def test_a_store_may_pop_without_a_claim(state):
    (row,) = state["popped"]
    assert row["settled"]["how"] == "pop" and len(row["deliveries"]) == 1


def test_a_pop_is_not_the_claim_that_ran_out(facts):
    """MongoDB shows that with what it pops."""
    released = {row["claim_id"]: row["released"] for row in facts.claims.where("tenant = 'shown'").collect()}
    assert len(released) == 2 and released["k1"] is None


def test_a_queue_that_no_policy_names_any_more_holds_nobodys_dead_letters(facts, dead):
    found = by_story(dead_letter_queues(facts, dead).collect())
    assert found["undone"] == [] and [row["queue"] for row in found["project1"]] == ["d"]


def test_differences_are_told(facts, dead):
    found = by_story(discrepancies(facts, dead).select("tenant", "kind").collect())
    told = [" ".join(sorted({row["kind"] for row in found[f"project{number}"]})) for number in range(len(DIFFERENCES))]
    assert told == list(DIFFERENCES)
