"""Facts of a few events, and what they mean: what the captures and the generated histories do not hold."""

import json
import re
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from deadletter.gold import rabbitmq
from deadletter.gold.at_risk import dead_letter_queues
from deadletter.gold.dead_letters import all_deaths
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.health import queue_health
from deadletter.gold.status import message_status
from deadletter.staging import held_if_few
from tests.pipelines.broken_events import (
    AT,
    AT_MS,
    DEAD_TOPIC,
    TOPIC,
    claim,
    death,
    declare,
    firehose,
    origin,
    policy_set,
    post,
    pulsar,
    queue_created,
    rabbit,
    zaqar,
)
from tests.unit.stories import previewed
from tests.unit.timed import START, at, grant


def test_the_documents_examples_are_facts(parsed):
    text = Path(__file__).parents[2].joinpath("docs", "events.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    for system, block in zip(("zaqar", "rabbitmq", "rabbitmq", "pulsar", "zaqar"), blocks, strict=True):
        events = [json.loads(line) for line in block.replace("\n ", "").splitlines()]
        told = parsed(system, events).events.select("reasons", "silent").collect()
        assert [(row["reasons"], row["silent"]) for row in told] == [([], False)] * len(events)
    # the last tells of a queue that was there before
    (policy,) = parsed(system, events).policies.select("kind", "max_deliveries", "dead_letter_queue").collect()
    assert tuple(policy) == ("updated", 2, "payments-dlq")


def test_a_messages_day_is_told_by_all_of_its_events_or_by_none(parsed):
    """A later batch finds the message's row by its day: no event may tell another one."""
    stamped = {"properties": {"message_id": "m", "timestamp": int(START.timestamp())}}
    for given, days in (({"properties": {"message_id": "m"}}, {None}), (stamped, {START.date()})):
        events = [firehose(**given), firehose("deliver.orders", **given)]
        later = [at(day * 86400, event) for day, event in zip((0, 4), events, strict=True)]
        told = parsed("rabbitmq", later).messages.select(F.to_date("created_at")).collect()
        assert {row[0] for row in told} == days and len(told) == 2
    again = origin(RECONSUMETIMES="1")
    retry = pulsar("receive", 7, topic=f"{TOPIC}-s-RETRY", properties=again)
    assert [row["created_at"] for row in parsed("pulsar", [retry]).messages.collect()] == [None]


def test_a_death_is_not_later_than_the_event_that_tells_of_it(parsed):
    """Whatever the clocks of consumers and brokers say; an old Java client names the origin by another property."""
    old = {"ORIGIN_MESSAGE_IDY_TIME": "9:1:-1", "REAL_TOPIC": TOPIC}
    letters = [
        pulsar("dead_letter", 50, properties=properties, publish_timestamp=AT_MS + minutes * 60_000)
        for properties, minutes in ((origin(), 5), (origin(), -5), (old, 0))
    ]
    shown = [death(time=AT_MS // 1000 + minutes * 60) for minutes in (5, -5, 0)]
    read = [firehose("deliver.dlq", headers={"x-death": told}) for told in shown]
    for system, events in (("pulsar", letters), ("rabbitmq", read)):
        found = parsed(system, events).messages.where("death IS NOT NULL")
        died = [row[0] for row in found.selectExpr("unix_seconds(death.time)").collect()]
        assert sorted(AT_MS // 1000 - time for time in died) == [0, 0, 300]


def test_deleted_ids_may_come_as_a_list(parsed):
    listed = [zaqar("DELETE", status=204, query={"ids": ids}) for ids in ("a,b", ["a", "b"], [])]
    told = parsed("zaqar", listed)
    assert [row["message_id"] for row in told.messages.orderBy("message_id").collect()] == ["a", "a", "b", "b"]
    refused = [row["reasons"] for row in told.events.collect() if row["reasons"]]
    assert [reason.split(":")[0] for reasons in refused for reason in reasons] == ["no_message_ids"]


def test_a_delay_that_was_accepted_counts_and_one_that_is_none_does_not(parsed):
    """A delayed queue refuses what is out of its server's range; a queue without delays takes anything."""
    told = parsed("zaqar", [post(number, {"delay": delay}) for number, delay in enumerate((1200, -1, "soon"))])
    assert [row["reasons"] for row in told.events.collect()] == [[], [], []]
    assert [row["posted"]["delay"] for row in told.messages.orderBy("message_id").collect()] == [1200, None, None]


SHOWN = {"x-death": [{"count": 1, "reason": "rejected", "queue": "orders", "time": int(START.timestamp()) + 1}]}


@pytest.mark.parametrize("told", [lambda at: at * 1000, lambda at: {"!": "timestamp", "value": at}, str])
def test_clients_write_the_time_of_a_death_in_several_ways(parsed, told):
    read = firehose("deliver.dlq", headers={"x-death": [SHOWN["x-death"][0] | {"time": told(int(START.timestamp()))}]})
    found = parsed("rabbitmq", [read])
    (dead,) = found.messages.where("death IS NOT NULL").selectExpr("unix_seconds(death.time)").collect()
    assert dead[0] == int(START.timestamp())


def test_the_deliveries_that_another_limit_would_count(silver):
    """RabbitMQ: of the last life; since 4.3 not those before a return on purpose. Each queue's own word before ours."""
    shown = [{}, *({"x-death": [SHOWN["x-death"][0] | {"count": count}]} for count in (1, 2, 3))]
    lives = {"acked": shown[:3], "open": shown[:3], "dead": shown[:3], "returned": [{"x-acquired-count": 1}] * 3}
    lives["late"] = [{"x-delivery-count": 3}]
    told = {name: {"message_id": name} for name in lives}
    events = [queue_created()]
    events += [firehose("deliver.orders", told[name], headers) for name, many in lives.items() for headers in many]
    events += [firehose("deliver.dlq", told["dead"], shown[3])]
    events += [rabbit("ack.orders", {"headers": {"vhost": "broken", "properties": told["acked"]}}, "consumer")]
    facts = silver("rabbitmq", events)
    assert [row["claim_count"] for row in rabbitmq.deaths(facts).collect()] == [1]
    assert previewed(facts, "rabbitmq", "orders", 2) == {
        **dict.fromkeys(("acked", "open", "returned"), (1, 0, "alive")),
        **{"dead": (1, 0, "unchanged"), "late": (4, 0, "death_unknown")},
    }


def test_claims_of_what_expired_unsettled_would_be_saved(silver):
    """In a queue without a limit poison is claimed until it expires."""
    claims = [at(20 * n, claim({"id": "z1", "href": "/v2/queues/orders/messages/z1?claim_id=k1"})) for n in range(10)]
    facts = silver("zaqar", [at(0, post(1)), *claims])
    assert previewed(facts, "zaqar", "orders", 3) == {"z1": (10, 7, "lost")}


def test_a_brokers_flag_holds_before_a_vhosts_own(silver):
    def flag(**where):
        return rabbit(
            "feature.flag.enabled", {"headers": {"name": "classic_delivery_limits"} | where}, "event_exchange"
        )

    head = {"name": "orders", "vhost": "broken", "type": "rabbit_classic_queue", "arguments": []}
    classic = rabbit("queue.created", {"headers": head}, "event_exchange")
    (row,) = silver("rabbitmq", [classic, flag(), flag(vhost="broken")]).policies.collect()
    assert [step["counts"] for step in row["policies"]] == [False, True]
    assert row["policies"][1]["valid_from"].timestamp() == (START + timedelta(seconds=1)).timestamp()


def test_headers_of_the_brokers_own_are_no_part_of_a_message(parsed):
    nameless = {"message_id": ""}
    events = [
        firehose("publish.", nameless, {"CC": ["s"]}, routed_queues=["s"]),
        firehose("deliver.s", nameless, {"x-stream-offset": 7}),
        firehose("deliver.s", nameless, {"mine": 7}),
    ]
    assert [row["n"] for row in ids(parsed("rabbitmq", events))] == [1, 2]


def test_a_direct_reply_reaches_no_queue(parsed):
    reply = firehose("publish.", routed_queues=["amq.rabbitmq.reply-to.g1"])
    told = parsed("rabbitmq", [reply, firehose("deliver.amq.rabbitmq.reply-to.g1")])
    assert told.messages.isEmpty() and [row["silent"] for row in told.events.collect()] == [True, True]


def test_a_store_may_pop_without_a_claim(silver):
    popped = {"messages": [{"id": "z1", "age": 3, "ttl": 300, "body": "x", "claim_id": None}]}
    facts = silver("zaqar", [post(1), zaqar("DELETE", status=200, query={"pop": 1}, response=popped)])
    (row,) = facts.state.collect()
    assert row["settled"]["how"] == "pop" and len(row["deliveries"]) == 1


def test_a_pop_is_not_the_claim_that_ran_out(silver):
    """MongoDB shows that with what it pops."""
    popped = {"messages": [{"id": "zc", "age": 90, "ttl": 300, "body": "x", "claim_id": "k1"}]}
    facts = silver("zaqar", [claim(), at(90, zaqar("DELETE", status=200, query={"pop": 1}, response=popped))])
    released = {row["claim_id"]: row["released"] for row in facts.claims.collect()}
    assert len(released) == 2 and released["k1"] is None


def ids(facts):
    return facts.messages.groupBy("message_id").agg(F.count("*").alias("n")).orderBy("n").collect()


def test_what_was_granted_after_a_purge_was_not_purged(silver):
    """Zaqar's purge lets be what it finds in a claim."""
    purge = zaqar("POST", "/v2/queues/orders/purge", 204)
    granted = claim({"id": "z1", "href": "/v2/queues/orders/messages/z1?claim_id=k1"})
    for events, status in (([post(1), purge], "purged"), ([post(1), purge, granted], "claimed")):
        facts = silver("zaqar", events, 5)
        dead = all_deaths(facts, stage=held_if_few, systems=["zaqar"])
        assert [row["status"] for row in message_status(facts, dead).collect()] == [status]


def test_what_nobody_saw_posted_is_neither_delayed_nor_expired(silver):
    """Its queue's delay was over when it was granted, and nothing tells its TTL."""
    policy = {"_max_claim_count": 2, "_dead_letter_queue": "d", "_default_message_delay": 600}
    events = [at(0, declare(policy)), at(1000, claim()), at(5000, claim()), at(9000, claim(status=204, response=None))]
    (dead,) = all_deaths(silver("zaqar", events, 9000), stage=held_if_few, systems=["zaqar"]).collect()
    assert (dead["claim_count"], dead["posted_at"], dead["expires_at"]) == (2, None, None)
    assert dead["dead_lettered_at"] == START.replace(tzinfo=None) + timedelta(seconds=9000)


def test_what_was_purged_did_not_expire(silver):
    purge = zaqar("POST", "/v2/queues/orders/purge", 204, {"resource_types": ["messages"]})
    for events, expired in (([post(1, {"ttl": 60})], 1), ([post(1, {"ttl": 60}), purge], 0)):
        facts = silver("zaqar", events)
        none = facts.state.where("false").select(
            "system",
            "tenant",
            "queue",
            "subscription",
            "message_id",
            F.lit(None).cast("timestamp").alias("dead_lettered_at"),
        )
        (row,) = queue_health(facts, held_if_few(none)).collect()
        assert (row["posted"], row["expired_unseen"]) == (1, expired)


@pytest.mark.parametrize(("apply_to", "limit"), [("quorum_queues", 2), ("classic_queues", None), ("all", 2)])
def test_a_policy_may_be_for_one_type_of_queue(silver, apply_to, limit):
    history = silver("rabbitmq", [queue_created(), policy_set(**{"apply-to": apply_to})]).policies.collect()
    assert [row["policies"][-1]["max_deliveries"] for row in history] == [limit]


def test_arguments_may_be_an_object_and_a_priority_in_quotes(silver):
    """As the management API writes them."""
    given = {"x-delivery-limit": 3, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dlq"}
    head = {"name": "orders", "vhost": "broken", "type": "rabbit_classic_queue"}
    head["arguments"] = given | {"x-queue-type": "quorum"}
    declared = rabbit("queue.created", {"headers": head}, "event_exchange")
    low = policy_set(name="low", priority=1, definition={"delivery-limit": 2})
    high = policy_set(name="high", priority="5", definition={"delivery-limit": 7, "message-ttl": 9000})
    (row,) = silver("rabbitmq", [declared, low, high]).policies.collect()
    told = [row["policies"][n] for n in (0, -1)]
    assert [(step["queue_type"], step["dead_letter_queue"]) for step in told] == [("quorum", "dlq")] * 2
    assert [(step["max_deliveries"], step["default_ttl"]) for step in told] == [(3, None), (3, 9)]


LIMITED = declare({"_max_claim_count": 1, "_dead_letter_queue": "d"})
CLASSIC = rabbit(
    "queue.created",
    {"headers": {"name": "classic", "vhost": "broken", "type": "rabbit_classic_queue", "arguments": []}},
    "event_exchange",
)


def with_target(target):
    return zaqar("PUT", "/v2/queues/d", 201, {"_max_claim_count": 1, "_dead_letter_queue": target} if target else {})


DIFFERENCES = {
    "claimed_twice_at_once": [post(1), grant(5, "k1"), grant(9, "k2")],
    "should_have_been_moved": [LIMITED, with_target(None), post(1), grant(5, "k1"), grant(100, "k2")],
    "claimed_after_death should_have_been_moved": [
        *(LIMITED, with_target(None), post(1), grant(5, "k1")),
        *(at(70, claim(status=204, response=None)), grant(100, "k2")),
    ],
    "dead_letter_queue_missing": [LIMITED],
    "dead_letter_queue_has_its_own": [LIMITED, with_target("e"), zaqar("PUT", "/v2/queues/e", 201, {})],
}
"""Events of a project, by the kinds of differences that they show."""


def test_zaqars_differences_are_told(silver):
    """Each project on its own."""
    events = [
        (event if event["captured_at"] != AT else at(number, event)) | {"project_id": f"p{project}"}
        for project, part in enumerate(DIFFERENCES.values())
        for number, event in enumerate(part)
    ]
    facts = silver("zaqar", events)
    told = defaultdict(set)
    dead = all_deaths(facts, stage=held_if_few, systems=["zaqar"])
    for row in discrepancies(facts, dead).select("tenant", "kind").collect():
        told[row["tenant"]].add(row["kind"])
    assert [" ".join(sorted(told[f"p{project}"])) for project in range(len(DIFFERENCES))] == list(DIFFERENCES)


@pytest.mark.parametrize(
    ("system", "events", "kinds"),
    [
        (
            "rabbitmq",
            [
                *(CLASSIC, policy_set(pattern="^(o|classic)"), queue_created()),
                firehose("deliver.orders", headers={"x-delivery-count": 3}),
                # died by a limit that it reached before anybody looked
                queue_created('{<<"x-delivery-limit">>,signedint,3}', name="late"),
                firehose("deliver.late", headers={"x-delivery-count": 3}),
                firehose("deliver.dlq", headers={"x-death": death(queue="late", reason="delivery_limit")}),
            ],
            ["delivered_over_limit", "delivery_limit_ignored"],
        ),
        (
            "pulsar",
            [
                pulsar("subscribe", dead_letter_policy={"maxRedeliverCount": 1, "deadLetterTopic": DEAD_TOPIC}),
                pulsar("receive"),
                pulsar("dead_letter", 50, topic=DEAD_TOPIC, properties=origin()),
                pulsar("subscribe", subscription="late", dead_letter_policy={"maxRedeliverCount": 3}),
                pulsar("receive", 2, subscription="late", redelivery_count=3),
                pulsar("dead_letter", 51, topic=f"{TOPIC}-late-DLQ", properties=origin(ORIGIN_MESSAGE_ID="9:2:-1")),
            ],
            ["moved_early"],
        ),
    ],
    ids=["rabbitmq", "pulsar"],
)
def test_other_brokers_differences_are_told(silver, system, events, kinds):
    facts = silver(system, events)
    found = discrepancies(facts, all_deaths(facts, stage=held_if_few, systems=[system])).select("kind").collect()
    assert sorted(row["kind"] for row in found) == kinds


def test_a_work_queue_with_a_retry_loop_is_no_dead_letter_queue(silver):
    """What waits in its retry queue comes back; a queue that no policy names any more holds nobody's dead letters."""

    def sends(target):
        given = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
        return [f'{{<<"{name}">>,longstr,<<"{value}">>}}' for name, value in given.items()]

    ways = {"orders": "retry", "retry": "orders", "mail": "parked"}
    events = [queue_created(*sends(target), name=queue) for queue, target in ways.items()]
    facts = silver("rabbitmq", events)
    found = dead_letter_queues(facts, all_deaths(facts, stage=held_if_few, systems=["rabbitmq"]))
    assert {row["queue"] for row in found.collect()} == {"parked"}
    undone = at(5, zaqar("PATCH", "/v2/queues/orders", 200, [], response={}))
    facts = silver("zaqar", [at(1, LIMITED), undone])
    assert dead_letter_queues(facts, all_deaths(facts, stage=held_if_few, systems=["zaqar"])).isEmpty()
