"""Facts of a few events, and what they mean: what the captures and the generated histories do not hold."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from deadletter.gold.at_risk import dead_letter_queues
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.survival import outcomes
from deadletter.rules.zaqar_store import REDIS
from deadletter.silver import state
from deadletter.silver.changes import queue_changes
from tests.pipelines.broken_events import (
    AT_MS,
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
    to,
    zaqar,
)
from tests.unit.stories import Stories, by_story, deaths, fates, lives
from tests.unit.timed import START, at


def test_the_documents_examples_are_facts(parsed):
    text = Path(__file__).parents[2].joinpath("docs", "events.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    systems = ("zaqar", "rabbitmq", "rabbitmq", "rabbitmq", "pulsar", "zaqar", "rabbitmq")
    policies = {}
    for system, block in zip(systems, blocks, strict=True):
        events = [json.loads(line) for line in block.replace("\n ", "").splitlines()]
        told = parsed(system, events).events.select("reasons", "silent").collect()
        assert [(row["reasons"], row["silent"]) for row in told] == [([], False)] * len(events)
        policies[system] = parsed(system, events).policies.select("kind", "max_deliveries", "dead_letter_queue")
    # the last of each broker tell of queues that were there before
    (zaqars,), (rabbits,) = (policies[system].collect() for system in ("zaqar", "rabbitmq"))
    assert tuple(zaqars) == ("updated", 2, "payments-dlq")
    assert (rabbits["kind"], rabbits["max_deliveries"]) == ("declared", 3)


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


def test_a_queue_has_facts_until_the_last_event_that_tells_of_its_deaths(parsed):
    """A repeated death may be dated by the event that told of the one before it."""
    facts = parsed(
        "rabbitmq", [at(600, firehose("deliver.dlq", headers={"x-death": death(time=int(START.timestamp()) + 1)}))]
    )
    batch = state.message_state(facts.messages), state.claims(facts.claims), facts.attempts, facts.policies
    found = {row["queue"]: row["latest"] for row in queue_changes(*batch, 1).collect()}
    assert {queue: found[queue].timestamp() - START.timestamp() for queue in ("orders", "dlq")} == dict.fromkeys(
        ("orders", "dlq"), 600
    )


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
    listed = [zaqar("DELETE", status=204, query={"ids": ids}) for ids in ("a,,b,", ["a", "b", ""], [], ",")]
    told = parsed("zaqar", listed)
    assert [row["message_id"] for row in told.messages.orderBy("message_id").collect()] == ["a", "a", "b", "b"]
    refused = [row["reasons"] for row in told.events.collect() if row["reasons"]]
    assert [reason.split(":")[0] for reasons in refused for reason in reasons] == ["no_message_ids"] * 2


def test_a_claim_with_an_empty_limit_asks_for_the_default(parsed):
    told = parsed("zaqar", [claim(query={"limit": ""})])
    assert [row["limit"] for row in told.attempts.collect()] == [10]


def test_any_whole_number_is_a_limit_of_claims(parsed):
    """The server takes one that no message can be under, or none over."""
    limits = (-1, 0, 3, 2**63 - 1, None)
    told = parsed("zaqar", [declare({"_max_claim_count": limit, "_default_message_ttl": 60}) for limit in limits])
    rows = told.policies.orderBy("max_deliveries").select("max_deliveries", "default_ttl").collect()
    assert [tuple(row) for row in rows] == [(None, 60), (0, 60), (0, 60), (3, 60), (2**31 - 1, 60)]


def test_posts_before_v2_know_nothing_of_their_queue(parsed):
    """Neither its delay nor its TTL: the server asks the queue for them in v2 only."""
    paths = {version: f"/{version}/queues/orders/messages" for version in ("v1.1", "v2")}
    terms = [{"ttl": None}, {"delay": 9, "ttl": 60}]
    told = parsed("zaqar", [post(n, own, path=path) for path in paths.values() for n, own in enumerate(terms)])
    rows = told.messages.select("message_id", "posted.ttl", "posted.delay").collect()
    assert sorted(map(tuple, rows), key=str) == sorted(
        [("z0", 3600, 0), ("z1", 60, 0), ("z0", None, None), ("z1", 60, 9)], key=str
    )


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


def test_claims_of_what_expired_unsettled_would_be_saved(silver):
    """In a queue without a limit poison is claimed until it expires."""
    claims = [at(20 * n, claim({"id": "z1", "href": "/v2/queues/orders/messages/z1?claim_id=k1"})) for n in range(10)]
    facts = silver("zaqar", [at(0, post(1)), *claims])
    assert fates(lives(facts, deaths(facts, "zaqar"), "zaqar", "orders"), 3) == {"z1": (10, 7, "lost")}


def test_headers_of_the_brokers_own_are_no_part_of_a_message(parsed):
    nameless = {"message_id": ""}
    events = [
        firehose("publish.", nameless, {"CC": ["s"]}, routed_queues=["s"]),
        firehose("deliver.s", nameless, {"x-stream-offset": 7}),
        firehose("deliver.s", nameless, {"mine": 7}),
    ]
    assert [row["n"] for row in ids(parsed("rabbitmq", events))] == [1, 2]


def test_a_consumer_tells_of_the_message_that_was_posted(parsed):
    """Its client lists properties that nobody set, and knows all bits of a timestamp."""
    posted = {"content_type": "text/plain", "timestamp": 1_795_208_028_000 % 2**32 - 2**32}
    told = {"content_type": "text/plain", "app_id": None, "message_id": None, "timestamp": 1_795_208_028_000}
    sent = firehose("publish.", posted, payload="{}")
    del sent["properties"]["headers"]["properties"]["message_id"]
    head = {"vhost": "broken", "properties": told}
    acked = rabbit("ack.orders", {"headers": head}, "consumer", payload="{}")
    assert [row["n"] for row in ids(parsed("rabbitmq", [sent, acked]))] == [2]


def test_what_the_broker_tells_the_collector_is_no_message(parsed):
    told = firehose("deliver.tap.events", {"message_id": ""}, exchange_name="amq.rabbitmq.event")
    found = parsed("rabbitmq", [told])
    assert found.messages.isEmpty() and [row["silent"] for row in found.events.collect()] == [True]


def test_a_direct_reply_reaches_no_queue(parsed):
    reply = firehose("publish.", routed_queues=["amq.rabbitmq.reply-to.g1"])
    told = parsed("rabbitmq", [reply, firehose("deliver.amq.rabbitmq.reply-to.g1")])
    assert told.messages.isEmpty() and [row["silent"] for row in told.events.collect()] == [True, True]


def ids(facts):
    return facts.messages.groupBy("message_id").agg(F.count("*").alias("n")).orderBy("n").collect()


def classic_queue(name):
    head = {"name": name, "vhost": "broken", "type": "rabbit_classic_queue", "arguments": []}
    return rabbit("queue.created", {"headers": head}, "event_exchange")


def flag(**where):
    return rabbit("feature.flag.enabled", {"headers": {"name": "classic_delivery_limits"} | where}, "event_exchange")


AS_AN_OBJECT = {
    "name": "orders",
    "vhost": "broken",
    "type": "rabbit_classic_queue",
    "arguments": {
        "x-delivery-limit": 3,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dlq",
        "x-queue-type": "quorum",
    },
}
EXCHANGE = '{<<"x-dead-letter-exchange">>,longstr,<<"dlx">>}'
KEY = '{<<"x-dead-letter-routing-key">>,longstr,<<"dlq">>}'
SENDS = {"dead-letter-exchange": "dlx", "dead-letter-routing-key": "other"}
APPLIED = {"quorum_queues": 2, "classic_queues": None, "all": 2}
"""The limit of a quorum queue by what a policy is for."""
MIRRORED = policy_set(name="mirrored", priority=9, definition={"ha-mode": "all", "dead-letter-routing-key": "x"})
MIRRORED_IN_TERMS = policy_set(name="mirrored", priority=9, definition=['{<<"ha-mode">>,longstr,<<"all">>}'])
STREAM = {"name": "orders", "vhost": "broken", "type": "rabbit_stream_queue", "arguments": []}
LAZY_BY_OPERATOR = policy_set(name="lazy", definition={"queue-mode": "lazy", "delivery-limit": 1})
LAZY_BY_OPERATOR["routing_key"] = "operator.policy.set"
MIRRORED_TTL = policy_set(name="mirrored", priority=-1, definition={"ha-mode": "all", "message-ttl": 5000})
DECLARED = {kind: [queue_created(), policy_set(**{"apply-to": kind})] for kind in APPLIED} | {
    "object": [
        rabbit("queue.created", {"headers": AS_AN_OBJECT}, "event_exchange"),
        policy_set(name="low", priority=1, definition={"delivery-limit": 2}),
        policy_set(name="high", priority="5", definition={"delivery-limit": 7, "message-ttl": 9000}),
    ],
    # the one name is an argument, the other the policy's; where both have it, the argument's holds
    "key in policy": [queue_created(EXCHANGE), policy_set(definition={"dead-letter-routing-key": "dlq"})],
    "key in arguments": [queue_created(KEY), policy_set(definition=SENDS)],
    "no exchange": [queue_created(KEY), policy_set(definition={"dead-letter-routing-key": "other"})],
    "both": [queue_created(EXCHANGE, KEY), policy_set(definition=SENDS)],
    "neither": [queue_created(), policy_set(definition=SENDS)],
    # a policy with a setting that the queue's type does not know is none for it
    "mirrored": [queue_created(), policy_set(definition={"delivery-limit": 4} | SENDS), MIRRORED],
    "in erlang": [queue_created(), policy_set(definition={"delivery-limit": 4}), MIRRORED_IN_TERMS],
    "stream": [
        rabbit("queue.created", {"headers": STREAM}, "event_exchange"),
        policy_set(definition={"delivery-limit": 4, "message-ttl": 5000}),
    ],
    "operator": [queue_created(), policy_set(definition={"delivery-limit": 4}), LAZY_BY_OPERATOR],
    # called as what holds for all queues is
    "star": [queue_created(KEY, name="*"), policy_set(pattern=".", definition=SENDS | {"delivery-limit": 2})],
}
"""Events of a vhost, one after the other."""
UNKNOWN_SETTINGS = {
    "mirrored": (4, "other", None),
    "in erlang": (4, None, None),
    "stream": (None, None, None),
    "operator": (4, None, None),
}
TARGETS = dict.fromkeys(("key in policy", "key in arguments", "both", "star"), "dlq") | {
    "no exchange": None,
    "neither": "other",
}


SHOWN_COUNTS = [{}, *({"x-death": [SHOWN["x-death"][0] | {"count": count}]} for count in (1, 2, 3))]
LIVES = dict.fromkeys(("acked", "open", "dead"), SHOWN_COUNTS[:3]) | {
    "returned": [{"x-acquired-count": 1}] * 3,
    "late": [{"x-delivery-count": 3}],
}
"""What the deliveries of each message showed."""


def sends(target):
    """The same as :func:`to`, with the other way to write an empty text."""
    given = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    return [f'{{<<"{name}">>,longstr,<<"{value}">>}}' for name, value in given.items()]


def of_message(operation, told):
    return rabbit(f"{operation}.orders", {"headers": {"vhost": "broken"} | told}, "consumer")


TOLD = {
    "counted": [
        queue_created(),
        *(firehose("deliver.orders", {"message_id": name}, shown) for name, many in LIVES.items() for shown in many),
        firehose("deliver.dlq", {"message_id": "dead"}, SHOWN_COUNTS[3]),
        of_message("ack", {"properties": {"message_id": "acked"}}),
    ],
    "waiting": [
        *(queue_created(*to("retry"), name="orders"), queue_created(*to("orders", 60000), name="retry")),
        *(firehose("deliver.orders", headers={"x-delivery-count": count}) for count in (0, 1)),
        of_message("reject", {"properties": {"message_id": "r1"}, "error": "x"}),
    ],
    "different": [
        *(classic_queue("classic"), policy_set(pattern="^(o|classic)"), queue_created()),
        *(firehose("deliver.orders", headers={"x-delivery-count": count}) for count in (2, 3)),
        # died by a limit that it reached before anybody looked
        queue_created('{<<"x-delivery-limit">>,signedint,3}', name="late"),
        firehose("deliver.late", headers={"x-delivery-count": 3}),
        firehose("deliver.dlq", headers={"x-death": death(queue="late", reason="delivery_limit")}),
    ],
    "looping": [
        queue_created(*sends(target), name=queue)
        for queue, target in {"orders": "retry", "retry": "orders", "mail": "parked"}.items()
    ],
}
STORIES = Stories("rabbitmq", DECLARED | TOLD)
"""Each in a vhost of its own; all are judged at once. None has the broker's own flag, which holds for all vhosts."""


@pytest.fixture(scope="module")
def lived(facts, dead):
    """What the messages of each queue ``orders`` lived through."""
    return lives(facts, dead, "rabbitmq", "orders")


@pytest.fixture(scope="module")
def policies(facts):
    """The steps of the one queue that each of these vhosts has."""
    found = by_story(facts.policies.collect())
    return {name: one["policies"] for name in DECLARED for (one,) in [found[name]]}


def test_the_deliveries_that_another_limit_would_count(facts, dead, lived):
    """RabbitMQ: of the last life; since 4.3 not those before a return on purpose. Each queue's own word before ours."""
    here = "tenant = 'counted'"
    assert [row["claim_count"] for row in dead.where(here).collect()] == [1]
    assert fates(lived.where(here), 2) == {
        **dict.fromkeys(("acked", "open", "returned"), (1, 0, "alive")),
        **{"dead": (1, 0, "unchanged"), "late": (4, 0, "death_unknown")},
    }
    seen = {row["message_id"]: row["deliveries"] for row in outcomes(facts, dead).where(here).collect()}
    assert {name: seen[name] for name in LIVES} == dict.fromkeys(LIVES, 1)


def test_what_waits_for_its_next_try_is_not_at_its_limit(lived):
    """It comes back as a new message to its queue."""
    assert fates(lived.where("tenant = 'waiting'"), 2) == {"r1": (2, 0, "alive")}


def test_a_policy_may_be_for_one_type_of_queue(policies):
    assert {kind: policies[kind][-1]["max_deliveries"] for kind in APPLIED} == APPLIED


def test_a_policy_holds_for_no_queue_that_does_not_know_all_of_its_settings(policies):
    """What would be the next one holds there (``unsupported_policies`` in RabbitMQ's source)."""
    names = ("max_deliveries", "dead_letter_queue", "default_ttl")
    found = {story: tuple(policies[story][-1][name] for name in names) for story in UNKNOWN_SETTINGS}
    assert found == UNKNOWN_SETTINGS


def test_a_limit_makes_a_policy_none_for_classic_queues(silver):
    """The mirrors' holds for want of a better one. By the proposal a classic queue knows of limits."""
    limited = policy_set(definition={"delivery-limit": 4} | SENDS)
    (row,) = silver("rabbitmq", [classic_queue("orders"), limited, MIRRORED_TTL, flag()]).policies.collect()
    names = ("max_deliveries", "dead_letter_queue", "default_ttl", "ignored_limit")
    told = [tuple(step[name] for name in names) for step in row["policies"]]
    assert told == [(None,) * 4, (None, None, None, 4), (None, None, 5, 4), (4, "other", None, None)]


def test_arguments_may_be_an_object_and_a_priority_in_quotes(policies):
    """As the management API writes them."""
    told = [policies["object"][n] for n in (0, -1)]
    assert [(step["queue_type"], step["dead_letter_queue"]) for step in told] == [("quorum", "dlq")] * 2
    assert [(step["max_deliveries"], step["default_ttl"]) for step in told] == [(3, None), (3, 9)]


def test_where_dead_letters_go_is_told_by_arguments_and_policy_together(policies):
    assert {name: policies[name][-1]["dead_letter_queue"] for name in TARGETS} == TARGETS


def test_a_brokers_flag_holds_before_a_vhosts_own(silver):
    (row,) = silver("rabbitmq", [classic_queue("orders"), flag(), flag(vhost="broken")]).policies.collect()
    assert [step["counts"] for step in row["policies"]] == [False, True]
    assert row["policies"][1]["valid_from"].timestamp() == (START + timedelta(seconds=1)).timestamp()


def test_differences_between_a_broker_and_its_rules_are_told(facts, dead):
    found = discrepancies(facts, dead, REDIS).where("tenant = 'different'").select("kind").collect()
    assert sorted(row["kind"] for row in found) == ["delivered_over_limit", "delivery_limit_ignored"]


def test_a_work_queue_with_a_retry_loop_is_no_dead_letter_queue(facts, dead):
    """What waits in its retry queue comes back."""
    found = dead_letter_queues(facts, dead).where("tenant = 'looping'")
    assert {row["queue"] for row in found.collect()} == {"parked"}
