"""What a few events of Zaqar's mean: what the captures and the generated histories do not hold.

Each story has a project of its own; all are judged at once.
"""

import json
from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from deadletter.gold.at_risk import dead_letter_queues
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.health import queue_health
from deadletter.gold.status import message_status, with_resets
from deadletter.rules.zaqar import counted_claims
from deadletter.rules.zaqar_store import MONGODB, REDIS
from tests.pipelines import truth
from tests.pipelines.broken_events import claim, declare, post, zaqar
from tests.pipelines.conftest import BUNDLED, lines_of
from tests.unit.stories import Stories, by_story, deaths
from tests.unit.timed import START, at, grant

JUDGED = 9000
LIMITED = declare({"_max_claim_count": 1, "_dead_letter_queue": "d"})
PURGE = zaqar("POST", "/v2/queues/orders/purge", 204)
POSTED_TO_D = zaqar(
    path="/v2/queues/d/messages",
    request={"messages": [{"body": "x"}]},
    response={"resources": ["/v2/queues/d/messages/p"]},
)
TARGET_DELETED = zaqar("DELETE", "/v2/queues/d", 204, None)
NONE_GIVEN = claim(status=204, response=None)
RENEWED = zaqar("PATCH", "/v2/queues/orders/claims/k1", 204, {"ttl": 300, "grace": 60})
RELEASED = zaqar("DELETE", "/v2/queues/orders/claims/k1", 204, None)


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
    "": [LIMITED, with_target(None), declare({}), TARGET_DELETED],
    "dead_letter_queue_with_a_dot": [
        declare({"_max_claim_count": 1, "_dead_letter_queue": "orders.dlq"}),
        zaqar("PUT", "/v2/queues/orders.dlq", 201, {}),
    ],
    "dead_letter_queue_has_its_own": [LIMITED, with_target("e"), zaqar("PUT", "/v2/queues/e", 201, {})],
}
"""Events of a project, by the kinds of differences that they show."""
DEAD_AT_7 = [at(1, LIMITED), at(2, post(1)), grant(5, "k1"), at(6, RELEASED), at(7, NONE_GIVEN)]
DELETED = zaqar("DELETE", "/v2/queues/d/messages/z1", 204, None)
DELAYED = declare({"_max_claim_count": 2, "_dead_letter_queue": "d", "_default_message_delay": 600})
TOLD = {
    "purged": just_now(post(1), PURGE),
    "granted": just_now(post(1), PURGE, grant(JUDGED - 8, "k1")),
    "expired": [post(1, {"ttl": 60})],
    "emptied": [post(1, {"ttl": 60}), PURGE | {"request_body": {"resource_types": ["messages"]}}],
    "delayed": [at(0, DELAYED), at(1000, claim()), at(5000, claim()), at(JUDGED, NONE_GIVEN)],
    "popped": [post(1), popped("z1", 3, None)],
    "shown": [claim(), at(90, popped("zc", 90, "k1"))],
    "unseen": [grant(100, "k1"), at(150, RELEASED), grant(JUDGED - 8, "k2")],
    "within a second": [at(1, LIMITED), at(2, post(1)), grant(5, "k1"), at(5, RELEASED), at(6, NONE_GIVEN)],
    "taken again": [at(1, post(1)), grant(5, "k1"), at(6, RELEASED), grant(6, "k0")],
    "done in time": [*DEAD_AT_7, at(100, DELETED)],
    "done too late": [*DEAD_AT_7, at(7000, DELETED)],
    "done at once": [*DEAD_AT_7, at(7, DELETED)],
    "renewed to the end": [
        *(at(1, LIMITED), at(2, post(1, {"ttl": 60})), grant(30, "k1"), at(40, RENEWED), at(40, RELEASED)),
        at(200, NONE_GIVEN),
    ],
    "made by a post": [LIMITED, POSTED_TO_D],
    "made again": [LIMITED, at(1, with_target(None)), at(2, TARGET_DELETED), at(3, POSTED_TO_D)],
    "gone again": [LIMITED, at(1, POSTED_TO_D), at(2, with_target(None)), at(3, TARGET_DELETED)],
    "its own": [at(1, declare({"_max_claim_count": 1, "_dead_letter_queue": "orders"})), at(2, post(1))],
    "undone": [at(1, LIMITED), at(5, zaqar("PATCH", "/v2/queues/orders", 200, [], response={}))],
} | {f"project{number}": events for number, events in enumerate(DIFFERENCES.values())}
STORIES = Stories("zaqar", TOLD, seconds=JUDGED)


@pytest.fixture(scope="module")
def state(facts):
    return by_story(facts.state.collect())


def test_what_was_granted_after_a_purge_was_not_purged(facts, dead):
    """Zaqar's purge lets be what it finds in a claim."""
    here = message_status(facts, dead, REDIS).where("tenant IN ('purged', 'granted')").collect()
    assert sorted((row["tenant"], row["status"]) for row in here) == [("granted", "claimed"), ("purged", "purged")]


def test_what_nobody_saw_posted_is_neither_delayed_nor_expired(dead):
    """Its queue's delay was over when it was granted, and nothing tells its TTL."""
    (died,) = dead.where("tenant = 'delayed'").collect()
    assert (died["claim_count"], died["posted_at"], died["expires_at"]) == (2, None, None)
    assert died["dead_lettered_at"] == START.replace(tzinfo=None) + timedelta(seconds=JUDGED)


def test_what_nobody_saw_posted_lives_on_between_its_claims(facts, dead):
    """However long ago it was released: its TTL may be a week."""
    (row,) = message_status(facts, dead, REDIS).where("tenant = 'unseen'").collect()
    assert (row["status"], row["expires_at"]) == ("claimed", None)


def test_what_was_purged_did_not_expire(facts, dead):
    rows = queue_health(facts, dead, REDIS).where("tenant IN ('expired', 'emptied')").collect()
    told = sorted((row["tenant"], row["posted"], row["expired_unseen"]) for row in rows)
    assert told == [("emptied", 1, 0), ("expired", 1, 1)]


WITHIN_A_SECOND = "tenant IN ('within a second', 'taken again') AND queue = 'orders' AND message_id = 'z1'"


def test_a_clock_of_whole_seconds_tells_what_claims_did_in_their_order(facts, dead):
    """One is released after it was granted, and before the next one is."""
    (died,) = dead.where(WITHIN_A_SECOND).collect()
    assert died["dead_lettered_at"] == START.replace(tzinfo=None) + timedelta(seconds=6)
    held = by_story(message_status(facts, dead, REDIS).where(WITHIN_A_SECOND).collect())
    assert held["taken again"][0]["claimed_until"] == START.replace(tzinfo=None) + timedelta(seconds=66)


def test_what_was_renewed_and_released_at_once_lives_as_long_as_its_renewal_says(dead):
    """It succeeded, so it was before the release."""
    (died,) = dead.where("tenant = 'renewed to the end'").collect()
    assert died["dead_lettered_at"] == START.replace(tzinfo=None) + timedelta(seconds=200)


def test_a_capture_by_a_clock_of_whole_seconds(silver):
    """Most of its claims are released in the second in which they were granted."""
    events = map(json.loads, lines_of(BUNDLED / "zaqar" / "orders-a.jsonl.gz"))
    facts = silver("zaqar", [event | {"captured_at": event["captured_at"][:19] + "Z"} for event in events], JUDGED)
    found = deaths(facts, "zaqar").select("dead_letter_queue", "message_id", "claim_count").collect()
    assert {tuple(row[:2]): row[2] for row in found} == truth.zaqar_dead(truth.read("zaqar/orders-a.truth.json"))


def test_what_had_expired_is_not_removed(dead):
    """The server answers 204 to who deletes it all the same."""
    ends = {row["tenant"]: row for row in dead.where("tenant LIKE 'done %'").collect()}
    assert ends["done in time"]["removed_at"] == START.replace(tzinfo=None) + timedelta(seconds=100)
    assert ends["done at once"]["removed_at"] == START.replace(tzinfo=None) + timedelta(seconds=7)
    assert ends["done too late"]["removed_at"] is None and ends["done too late"]["expires_at"] is not None


def test_what_mongodb_forgets_by_a_clock_of_whole_seconds(facts):
    """A claim that is released in the second in which it was granted, and not the one after it."""
    terms = {"valid_from": START, "kind": "declared", "max_deliveries": 9, "dead_letter_queue": "d"}
    limited = F.array(F.struct(*[F.lit(value).alias(name) for name, value in terms.items()]))
    told = with_resets(facts.state.where(WITHIN_A_SECOND).withColumn("policies", limited), facts, MONGODB)
    counted = counted_claims(F.col("deliveries"), F.col("policies"), F.col("resets"))
    assert sorted(map(tuple, told.select("tenant", counted).collect())) == [("taken again", 1), ("within a second", 0)]


def test_a_store_may_pop_without_a_claim(state):
    (row,) = state["popped"]
    assert row["settled"]["how"] == "pop" and len(row["deliveries"]) == 1


def test_a_pop_is_not_the_claim_that_ran_out(facts):
    """MongoDB shows that with what it pops."""
    released = {row["claim_id"]: row["released"] for row in facts.claims.where("tenant = 'shown'").collect()}
    assert len(released) == 2 and released["k1"] is None


def test_a_queue_that_no_other_names_holds_nobodys_dead_letters(facts, dead):
    """Any more, or but itself."""
    found = by_story(dead_letter_queues(facts, dead).collect())
    assert found["undone"] == found["its own"] == [] and [row["queue"] for row in found["project1"]] == ["d"]


def test_differences_are_told(facts, dead):
    found = by_story(discrepancies(facts, dead, REDIS).select("tenant", "kind").collect())
    told = [" ".join(sorted({row["kind"] for row in found[f"project{number}"]})) for number in range(len(DIFFERENCES))]
    assert told == list(DIFFERENCES)
    elsewhere = discrepancies(facts, dead, MONGODB).where("kind = 'dead_letter_queue_with_a_dot'")
    assert elsewhere.isEmpty(), "the Redis store's own way to read a name"
    made = {story: {row["kind"] for row in found[story]} for story in ("made by a post", "made again", "gone again")}
    assert made == {"made by a post": set(), "made again": set(), "gone again": {"dead_letter_queue_missing"}}
