"""Where the broker's word and the rules differ, message by message."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold import rabbitmq_discrepancies
from deadletter.gold.difference import difference, of_queue
from deadletter.gold.facts import SilverFacts
from deadletter.gold.status import claim_span, of_claims, with_resets
from deadletter.rules import zaqar as rules
from deadletter.rules.policy import policy_at
from deadletter.rules.pulsar import own
from deadletter.rules.zaqar_store import Habits
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

DEATH_COLUMNS = ("dead_lettered_at", "evidence", "cause", "claim_count", "max_deliveries")


def discrepancies(facts: SilverFacts, dead: DataFrame, habits: Habits) -> DataFrame:
    """Rows of ``gold.discrepancies``: one a message and kind; a queue's own have an empty ``message_id``. Claims count
    as in a store of these ``habits``."""
    several = replace(facts, state=facts.state.where(F.size("deliveries") > 1))  # one claim overlaps no other
    queues = facts.policies.withColumns(
        {
            "lowest": rules.lowest_limit(F.col("policies")),
            "delays": F.exists("policies", lambda p: F.coalesce(p["default_delay"] > 0, F.lit(False))),
        }
    )
    state = (
        facts.state.join(queues, list(QUEUE_KEY), "left")
        .join(dead.select(*MESSAGE_KEY, *DEATH_COLUMNS), list(MESSAGE_KEY), "left")
        .where(_may_differ())
        .drop("lowest", "delays")
        .withColumn("deliveries", own("deliveries"))
        .join(of_claims(several.state, facts.claims, claim_span(), "claims"), list(MESSAGE_KEY), "left")
        .withColumn("policy", policy_at(F.col("policies"), F.col("posted.time")))
    )
    state, kinds = with_resets(state, several, habits), _kinds(habits)
    if facts.counts_in_classic_queues:
        state = rabbitmq_discrepancies.with_counts(state)
        kinds += [rabbitmq_discrepancies.should_have_been_moved(), rabbitmq_discrepancies.lost_counter()]
    found = state.select(*MESSAGE_KEY, F.explode(F.array_compact(F.array(*kinds))).alias("found"))
    rows = found.select(*MESSAGE_KEY, "found.*")
    rows = rows.unionByName(_unsupported(facts, habits)).unionByName(
        rabbitmq_discrepancies.delivery_limit_ignored(facts)
    )
    return rows.select(*tables.DISCREPANCIES.column_names)


def _may_differ() -> Column:
    """Most messages are claimed once, at once and in time: no rule has a word on these, and none need be asked."""
    in_order = F.when(F.col("lowest") < 1, 0).otherwise(1)
    often = F.size("deliveries") > in_order
    return (F.col("system") != "zaqar") | often | F.col("dead_lettered_at").isNotNull() | F.col("delays")


def _kinds(habits: Habits) -> list[Column]:
    return [
        _claimed_while_delayed(),
        _claimed_twice_at_once(),
        _never_claimable(),
        _should_have_been_moved(habits),
        _claimed_after_death(),
        rabbitmq_discrepancies.shows_too_few(),
        _fell_to_nothing(),
        _moved_early(),
        _delivered_over_limit(),
    ]


def _claimed_while_delayed() -> Column:
    """Zaqar granted a message before its delay was over (Delayed Queues, step 4)."""
    delay = rules.effective_delay(F.col("posted.delay"), F.col("policy"))
    until = F.timestamp_seconds(F.unix_seconds("posted.time") + delay)
    first = F.get("deliveries", 0)["time"]
    early = (F.col("system") == "zaqar") & (delay > 0) & (F.timestamp_seconds(F.unix_seconds(first)) < until)
    return difference("claimed_while_delayed", early, first, first, until)


def _claimed_twice_at_once() -> Column:
    """A claim was granted while another one on the message still ran."""
    claims = F.coalesce("claims", F.array())
    overlap = F.filter(claims, lambda c: F.exists(claims, lambda o: (o["time"] < c["time"]) & (o["end"] > c["time"])))
    second = F.get(overlap, 0)
    return difference("claimed_twice_at_once", second.isNotNull(), second["time"], F.size(overlap), F.lit(0))


def _never_claimable() -> Column:
    """The message expires before its delay is over (Delayed Queues, step 2)."""
    ttl = rules.effective_ttl(F.col("posted.ttl"), F.col("policy"))
    delay = rules.effective_delay(F.col("posted.delay"), F.col("policy"))
    never = (F.col("system") == "zaqar") & F.col("posted").isNotNull() & rules.never_claimable(ttl, delay)
    return difference("never_claimable", never, F.col("posted.time"), ttl, delay)


def _should_have_been_moved(habits: Habits) -> Column:
    """A claim was granted although the count had reached the limit: it should have been moved (4.3). A pop that is no
    claim moves nothing."""

    def counted_before(delivery: Column) -> Column:
        earlier = F.filter("deliveries", lambda d: d["time"] < delivery["time"])
        resets = F.filter("resets", lambda reset: reset < delivery["time"])
        return rules.counted_claims(earlier, F.col("policies"), resets)

    def over(delivery: Column) -> Column:
        policy = policy_at(F.col("policies"), delivery["time"])
        popped = F.lit(not habits.pop_claims) & delivery["event_id"].eqNullSafe(F.col("settled.event_id"))
        return rules.counts_claims(policy) & ~popped & (counted_before(delivery) >= policy["max_deliveries"])

    grant = F.get(F.filter("deliveries", over), 0)
    test = (F.col("system") == "zaqar") & grant.isNotNull()
    return difference("should_have_been_moved", test, grant["time"], F.lit("granted"), F.lit("moved"))


def _claimed_after_death() -> Column:
    """A death was derived, yet the broker granted the message from the same queue later."""
    later = F.get(F.filter("deliveries", lambda d: d["time"] > F.col("dead_lettered_at")), 0)
    test = (F.col("evidence") == "derived") & later.isNotNull()
    return difference("claimed_after_death", test, later["time"], F.lit("granted"), F.lit("dead_lettered"))


def _fell_to_nothing() -> Column:
    """Pulsar's count is 0 at a delivery, and was above 0 at an earlier one: the broker counts in memory (PIP-22).

    Any other fall tells nothing: each copy in a retry topic begins with its own count. That is never 0, but the count
    of a subscription that does not count (exclusive, failover) always is. What was settled or dead comes again only
    where its subscription seeks back, and counts anew.
    """

    def highest_before(delivery: Column) -> Column:
        earlier = F.filter("deliveries", lambda d: d["time"] < delivery["time"])
        return F.array_max(earlier["broker_count"])

    def fell(delivery: Column) -> Column:
        ended = F.unix_millis(F.least("settled.time", "dead_lettered_at")) < F.unix_millis(delivery["time"])
        return (delivery["broker_count"] == 0) & (highest_before(delivery) > 0) & ~F.coalesce(ended, F.lit(False))

    lost = F.get(F.filter("deliveries", fell), 0)
    test = (F.col("system") == "pulsar") & lost.isNotNull()
    return difference("lost_counter", test, lost["time"], lost["broker_count"], highest_before(lost))


def _moved_early() -> Column:
    """The broker says the limit killed it, with fewer deliveries than the limit in force allows.

    Pulsar's clients go by their own consumer's policy, where PIP-22 lets the last created consumer's count.
    """
    by_limit = (F.col("evidence") == "observed") & (F.col("cause") == "delivery_limit")
    count, limit = F.col("claim_count"), F.col("max_deliveries")
    early = by_limit & count.between(F.lit(1), limit)
    return difference("moved_early", early, F.col("dead_lettered_at"), count, limit)


def _delivered_over_limit() -> Column:
    """A delivery that by the broker's own count comes after more deliveries than the limit then in force.

    A quorum queue looks at the limit when a message returns: what had returned before a limit was lowered is delivered
    once more. And a message brings its count to its dead letter queue, as it does when it is back from there: a first
    delivery shows what no limit of that queue was held against.
    """

    def deaths_shown(delivery: Column) -> Column:
        shown = F.filter("deaths", lambda death: death["event_id"] == delivery["event_id"])
        return F.aggregate(
            shown, F.lit(0).cast("bigint"), lambda total, death: total + F.coalesce(death["count"], F.lit(1))
        )

    def over(delivery: Column, i: Column) -> Column:
        policies, count, last = F.col("policies"), delivery["broker_count"], F.get("deliveries", i - 1)
        now, before = policy_at(policies, delivery["time"]), policy_at(policies, last["time"])
        at_once = ~now["queue_type"].eqNullSafe("quorum")
        returned = F.coalesce(count > before["max_deliveries"], F.lit(False))
        stayed = deaths_shown(delivery) <= deaths_shown(last)
        returned_since = (i > 0) & returned & stayed
        return (count > now["max_deliveries"]) & (at_once | returned_since)

    delivery = F.get(F.filter("deliveries", over), 0)
    test = (F.col("system") != "zaqar") & delivery.isNotNull()
    return difference("delivered_over_limit", test, delivery["time"], delivery["broker_count"], F.lit("moved"))


def _unsupported(facts: SilverFacts, habits: Habits) -> DataFrame:
    """Zaqar queues whose dead letter queue, by the policy in force, is unknown or deleted, has a dead letter queue of
    its own (change 1), is in another pool (change 2), or has a name that the store cannot find."""
    policy = policy_at(F.col("policies"), F.lit(facts.as_of))
    queues = facts.policies.where("system = 'zaqar'").select(*QUEUE_KEY, policy.alias("policy"))
    foreign = queues.where("policy.ignored_limit IS NOT NULL")
    limited = queues.where(rules.counts_claims(F.col("policy")))
    policy, every = F.col("policy"), queues.join(_last_posts(facts), ["tenant", "queue"], "full")
    # the server makes the queue that a message is posted to
    deleted = (policy["kind"] == "deleted") & ~F.coalesce(F.col("last_post") > policy["valid_from"], F.lit(False))
    targets = every.select(
        F.col("tenant").alias("target_tenant"),
        F.col("queue").alias("target"),
        F.when(rules.counts_claims(policy), policy["dead_letter_queue"]).alias("target_of_target"),
        (~F.coalesce(deleted, F.lit(False))).alias("known"),
    )
    same = (F.col("tenant") == F.col("target_tenant")) & (F.col("policy.dead_letter_queue") == F.col("target"))
    joined = limited.join(targets, same, "left")
    kinds = [
        ("dead_letter_queue_missing", ~F.coalesce("known", F.lit(False))),
        ("dead_letter_queue_has_its_own", F.col("target_of_target").isNotNull()),
    ]
    target = F.col("policy.dead_letter_queue")
    if habits.splits_names:
        dot = F.lit(".")
        kinds.append(("dead_letter_queue_with_a_dot", F.contains(target, dot) | F.contains("tenant", dot)))
    found = [(kind, joined.where(test)) for kind, test in kinds]
    frames = [
        of_queue(rows, kind, "policy.valid_from", target)
        for kind, rows in [*found, ("dead_letter_queue_in_other_pool", foreign)]
    ]
    return reduce(DataFrame.unionByName, frames)


def _last_posts(facts: SilverFacts) -> DataFrame:
    """When the last message was posted to each Zaqar queue: ``tenant, queue, last_post``."""
    frames = [facts.posts().select("system", "tenant", "queue", "posted.time")]
    if facts.uneventful is not None:
        frames.append(facts.uneventful.select("system", "tenant", "queue", "post.time"))
    posts = reduce(DataFrame.unionByName, frames).where("system = 'zaqar'")
    return posts.groupBy("tenant", "queue").agg(F.max("time").alias("last_post"))
