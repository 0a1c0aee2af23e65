"""Messages that are not dead yet: at or near their limit, or wrong in a way that has killed others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.dead_letters import ways
from deadletter.gold.decisions import ALONG
from deadletter.gold.facts import SilverFacts, counted_deliveries, last_error, last_told
from deadletter.gold.patterns import compare_payloads
from deadletter.gold.payload import placed
from deadletter.gold.rabbitmq import refusing_queues, waits_for_its_next_try, work_queues
from deadletter.gold.removal import by_dead_letter_queue
from deadletter.gold.status import message_status, with_resets
from deadletter.patterns.deviation import tells_a_fault
from deadletter.patterns.linking import with_signature
from deadletter.patterns.masks import Mask
from deadletter.rules import zaqar as rules
from deadletter.rules.limits import limit_counts, most_deliveries
from deadletter.rules.policy import policy_at
from deadletter.rules.pulsar import tenant_of
from deadletter.rules.rabbitmq_counter import counter, counting_classic
from deadletter.rules.rabbitmq_deaths import since_arrival
from deadletter.rules.zaqar_store import Habits
from deadletter.spark.staging import Stage
from deadletter.tables import QUEUE, QUEUE_KEY

OPEN = ("available", "claimed", "delayed", "outcome_unknown")


def waiting(facts: SilverFacts, dead: DataFrame, habits: Habits) -> DataFrame:
    """The rows of :func:`~deadletter.gold.status.message_status` for messages that are neither settled, gone nor dead.

    ``dead`` are rows of ``gold.dead_letters``, with those of the queues that send their dead letters to these.
    """
    unsettled = facts.state.where("settled IS NULL")
    return message_status(facts, dead, habits, unsettled).where(F.col("status").isin(*OPEN))


def counts_as_done() -> Column:
    """Whether a message of :func:`waiting` is open in name only: RabbitMQ's acknowledgements are not observable, so one
    whose last delivery is no redelivery counts as done. Where nobody says which it is, one that was delivered once: a
    delivery that shows a count was not the first."""
    count, again = (last_told(F.col("deliveries"), name) for name in ("broker_count", "redelivered"))
    once = (F.size("deliveries") < 2) & (F.coalesce(count, F.lit(0)) < 1)
    return (F.col("status") == "outcome_unknown") & F.coalesce(~again, once)


def suspects(candidates: DataFrame, profiles: DataFrame, masks: Sequence[Mask], stage: Stage) -> DataFrame:
    """Rows of ``control.suspects``: messages of :func:`receivable` that have at most one delivery left, or an error, or
    a ``payload`` unlike healthy ones.

    ``profiles`` say what is usual in each queue, see :func:`deadletter.gold.profile.usual`; ``stage`` keeps what is
    read several times.
    """
    # staged: a filter on what it found would compare every payload twice
    compared = stage(compare_payloads(candidates, profiles, masks))
    suspected = compared.where((_risk() != "known_pattern") | F.col("error").isNotNull() | _deviates())
    return with_signature(suspected, masks, stage).select(*tables.SUSPECTS.column_names)


def at_risk(suspected: DataFrame, named: DataFrame, along: Collection[str] = ()) -> DataFrame:
    """Rows of ``gold.at_risk``: :func:`suspects` with at most one delivery left, or of a known pattern.

    ``named`` is what all dead letters say, as :func:`deadletter.gold.patterns.grouped`; ``along``: what patterns were
    split along, see :data:`deadletter.gold.decisions.ALONG`.
    """
    known = _with_pattern(suspected, named, along).withColumn("risk", _risk())
    return known.where("risk != 'known_pattern' OR pattern_id IS NOT NULL").select(*tables.AT_RISK.column_names)


def _risk() -> Column:
    """``risk`` by the deliveries that are left. Without a limit, or with more left, it is ``known_pattern``: such a
    message is at risk only if it has one."""
    short = (F.col("deliveries_left") == 1) & (F.col("claim_count") > 0)
    return F.when(F.col("deliveries_left") <= 0, "at_limit").when(short, "one_short").otherwise("known_pattern")


def _deviates() -> Column:
    return tells_a_fault(F.col("deviation_key"))


def receivable(open_ones: DataFrame, facts: SilverFacts, dead: DataFrame, habits: Habits) -> DataFrame:
    """Messages of :func:`waiting` that somebody can receive, with ``claim_count``, ``max_deliveries`` in force at
    ``as_of``, ``deliveries_left`` (null without a limit), and the place of their payload, see
    :func:`deadletter.gold.payload.placed`. What lies in a dead letter queue is not at risk, it is dead.

    Zaqar moves a message at the claim after its last, as a store of these ``habits`` counts; RabbitMQ and Pulsar count
    the deliveries after the first, as the latest one tells, a classic RabbitMQ queue as far as it remembers them.
    RabbitMQ's acknowledgements are not observable: see :func:`counts_as_done`.
    """
    policy = policy_at(F.col("policies"), F.lit(facts.as_of))
    limited = limit_counts(F.col("policy"))
    # a broker may grant a message that is at its limit
    left = F.try_subtract(most_deliveries(F.col("policy.max_deliveries")), F.col("claim_count"))
    own_post = (F.col("system") == "pulsar") & (F.col("subscription") == "")  # nobody's turn to receive it
    received = open_ones.where(~counts_as_done() & ~own_post).join(facts.policies, list(QUEUE_KEY), "left")
    counted = (
        with_resets(received, facts, habits)
        .join(dead_letter_queues(facts, dead), list(QUEUE), "left_anti")
        .withColumns(
            {"policy": policy, "claim_count": _claim_count(policy, facts).cast("bigint")},
        )
        .withColumns(
            {
                "max_deliveries": F.when(limited, F.col("policy.max_deliveries")),
                "deliveries_left": F.when(limited, F.when(left < 0, 0).otherwise(left)),
                "last_delivery_at": F.try_element_at("deliveries", F.lit(-1))["time"],
                "error": last_error(F.col("failures")),
            }
        )
        .drop("policies", "policy", "resets")
    )
    with_post = facts.with_post(counted).withColumn("posted_at", F.col("post.time"))
    return placed(with_post, F.col("post")).drop("post")


def _claim_count(policy: Column, facts: SilverFacts) -> Column:
    """The claims or deliveries that count under ``policy``, as far as anybody tells; else all."""
    by_store = rules.counted_claims(F.col("deliveries"), F.col("policies"), F.col("resets"))
    claims = F.when(F.col("system") == "zaqar", by_store).when(waits_for_its_next_try(), F.lit(0))
    if facts.counts_in_classic_queues:
        since = since_arrival(F.col("deliveries"), F.col("deaths"))
        remembered = counter(since, F.col("policies"), F.lit(facts.as_of))
        claims = claims.when((F.col("system") == "rabbitmq") & counting_classic(policy), remembered)
    told = last_told(F.col("deliveries"), "broker_count")  # a broker that forgot some counts from there
    claims = claims.when(F.col("system") == "pulsar", F.try_add(told, F.lit(1)))
    return F.coalesce(claims, counted_deliveries(F.col("policies")))


def dead_letter_queues(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """``system, tenant, queue`` of every queue that a policy names for dead letters at ``as_of``, or where some are.

    Of two queues that send to each other neither is one: there a message waits for its next try, and comes back. Nor is
    a queue that names itself alone, or a RabbitMQ work queue, to which a delay queue sends: one to which messages are
    posted, too, or where consumers refuse what comes and no dead letter lies.
    """
    target = policy_at(F.col("policies"), F.lit(facts.as_of))["dead_letter_queue"]
    named = facts.policies.select(*QUEUE, target.alias("dead_letter_queue"))
    there = (
        ways(named, dead)
        .select(
            "system",
            F.expr(tenant_of("dead_letter_queue")).alias("tenant"),
            F.col("dead_letter_queue").alias("queue"),
            F.col("tenant").alias("_from_tenant"),
            F.col("queue").alias("_from"),
        )
        .where("queue != _from OR tenant != _from_tenant")
    )
    back = there.select(
        "system",
        F.col("_from_tenant").alias("tenant"),
        F.col("_from").alias("queue"),
        F.col("tenant").alias("_from_tenant"),
        F.col("queue").alias("_from"),
    )
    waiting_rooms = there.join(back, there.columns, "left_semi").select(*QUEUE)
    lying = by_dead_letter_queue(dead).select(*QUEUE)
    working = work_queues(facts).unionByName(refusing_queues(facts).join(lying, list(QUEUE), "left_anti"))
    others = waiting_rooms.unionByName(working).distinct()
    return there.select(*QUEUE).distinct().join(others, list(QUEUE), "left_anti")


def _with_pattern(suspected: DataFrame, named: DataFrame, along: Collection[str]) -> DataFrame:
    """Add ``pattern_id``: of the dead letters with the same error signature, else of those that died of the same
    deviation, whatever errors it gave. Where patterns were split ``along`` queues or deviations, first of those that
    are in the same one."""
    told_by_payload = (F.col("kind") == "payload") | F.col("signature").isNull()
    by_error, by_payload = named.where("signature IS NOT NULL"), named.where(_deviates() & told_by_payload)
    splits = [ALONG[name] for name in ("queue", "deviation") if name in along]
    # of two splits nobody knows here which pattern each was of: what is alike in both first
    parts = dict.fromkeys([sum(splits, ()), *splits, ()])
    alike = [(by_error, ["signature", *part]) for part in parts]
    alike += [(by_payload, ["deviation_key", *part]) for part in parts if "deviation_key" not in part]
    for place, (rows, keys) in enumerate(alike):
        suspected = suspected.join(_pattern_of(rows, keys, f"_by{place}"), keys, "left")
    return suspected.withColumn("pattern_id", F.coalesce(*[f"_by{place}" for place in range(len(alike))]))


def _pattern_of(named: DataFrame, keys: list[str], name: str) -> DataFrame:
    """The pattern that most dead letters with the same keys have."""
    counted = named.groupBy(*keys, "pattern_id").agg(F.sum("dead_letters").alias("n"))
    first = F.min(F.struct(-F.col("n"), F.col("pattern_id")))["pattern_id"]
    return F.broadcast(counted.groupBy(*keys).agg(first.alias(name)))
