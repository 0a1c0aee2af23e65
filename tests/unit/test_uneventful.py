"""Messages that are counted and not judged: what is derived is what it would be if they were."""

from pyspark.sql import functions as F

from deadletter.gold.at_risk import waiting
from deadletter.gold.health import queue_health
from deadletter.gold.uneventful import split
from deadletter.rules.zaqar_store import REDIS
from deadletter.spark.staging import held_if_few
from deadletter.tables import MESSAGE_KEY
from tests.pipelines.broken_events import claim, declare, post, zaqar
from tests.pipelines.comparing import assert_same_rows
from tests.unit.stories import deaths
from tests.unit.timed import START, at, grant

HOUR = 3600


def queue(name, limit=None, target=None):
    return zaqar("PUT", f"/v2/queues/{name}", 201, {"_max_claim_count": limit, "_dead_letter_queue": target})


def granted(queue, name):
    message = {"id": "z1", "href": f"/v2/queues/{queue}/messages/z1?claim_id={name}"}
    return claim(message, path=f"/v2/queues/{queue}/claims", request={"ttl": 300, "grace": 60})


NO_MORE = zaqar("DELETE", status=204, query={"ids": "z1"})


def test_each_thing_counts_in_its_hour(silver):
    events = [at(0, post(1)), grant(HOUR, "k1"), at(2 * HOUR, NO_MORE)]
    facts = split(silver("zaqar", events, 9 * HOUR), 5, held_if_few)
    assert facts.state.isEmpty()
    nobody = facts.posts().select(*MESSAGE_KEY, F.lit(None).cast("timestamp").alias("dead_lettered_at"))
    hours = (
        queue_health(facts, nobody, REDIS)
        .orderBy("hour")
        .select(F.hour("hour"), "posted", "claimed", "settled")
        .collect()
    )
    assert [tuple(row) for row in hours] == [
        (START.hour, 1, 0, 0),
        (START.hour + 1, 0, 1, 0),
        (START.hour + 2, 0, 0, 1),
    ]


def test_what_nobody_saw_posted_is_judged(silver):
    facts = split(silver("zaqar", [at(0, granted("orders", "k1")), at(9, NO_MORE)]), 5, held_if_few)
    assert (facts.state.count(), facts.uneventful.count(), facts.systems()) == (1, 0, ["zaqar"])


MOVED = [at(0, post(1)), at(10, granted("orders", "c1")), at(30, granted("d", "c2"))]
"""A message that was moved although nobody saw that its queue had a limit: two queues have it."""
RELEASED = at(40, zaqar("DELETE", "/v2/queues/orders/claims/c1", 204))
LAST = [at(50, zaqar(path="/v2/queues/d/claims", status=204, request={"limit": 10})), at(60, NO_MORE)]
SEEN_LATE = declare({"_max_claim_count": 3, "_dead_letter_queue": "d"})
PURGED = [at(50, zaqar("POST", "/v2/queues/d/purge", 204, {"resource_types": ["messages"]})), at(60, NO_MORE)]


PROJECTS = {
    "limit": [at(-2, queue("d", 1, "e")), at(-1, queue("e", 1, "f")), *MOVED, RELEASED, *LAST],
    "purge": [at(-1, queue("d")), *MOVED, at(35, SEEN_LATE), RELEASED, *PURGED],
}


def test_a_project_that_is_replayed_as_a_whole_is_judged(silver):
    """A claim of the old queue reaches the message in its dead letter queue, too."""
    whole = silver("zaqar", [event | {"project_id": name} for name, events in PROJECTS.items() for event in events])
    counted = split(whole, 5, held_if_few)
    dead = [deaths(facts, "zaqar") for facts in (whole, counted)]
    assert [(row["tenant"], row["queue"]) for row in dead[0].collect()] == [("limit", "d")]
    assert_same_rows(*dead)
    assert_same_rows(*[waiting(facts, died, REDIS) for facts, died in zip((whole, counted), dead, strict=True)])
