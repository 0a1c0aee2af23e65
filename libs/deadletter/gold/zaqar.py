"""Zaqar's dead letters: derived, because the broker tells nobody."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts
from deadletter.rules import zaqar as rules
from deadletter.rules import zaqar_replay, zaqar_store
from deadletter.rules.policy import emptied_after, last_sign, policy_at, targets
from deadletter.staging import Stage, as_it_is

_QUEUE = ["tenant", "queue"]
_ARROW_TYPES = {"string": pa.string(), "bigint": pa.int64()}


def deaths(
    facts: SilverFacts,
    habits: zaqar_store.Habits = zaqar_store.REDIS,
    stage: Stage = as_it_is,
) -> DataFrame:
    """Rows of ``tenant, queue, message_id, dead_letter_queue, claim_count, max_deliveries, posted_at,
    dead_lettered_at, expires_at, removed_at, event_id``: every message that a claim attempt moved.

    ``stage`` computes what is read several times once.
    """
    queues = replayed_queues(facts.policies)
    state = facts.state.where("system = 'zaqar'").withColumns(
        {"came": F.col("posted").isNull(), "posted": F.coalesce("posted", _unseen_post())}
    )
    candidates = stage(exhausted(state, queues))
    # few messages ever come near a limit: all that follows looks at these alone, in whatever queues they were
    ids = candidates.select("tenant", "message_id").distinct()
    told = state.select("tenant", "queue", "message_id", "posted", "came", "settled", "deliveries")
    lives = stage(told.join(ids, ["tenant", "message_id"], "left_semi"))
    messages = with_claims(candidates, lives, facts)
    # few attempts ask for more than they get: Spark sends these to the messages once it knows
    attempts = stage(counting_attempts(facts, queues, candidates, habits))
    moved = _replay(messages, with_first_granted(attempts, facts, state), habits)
    return _with_removal(moved, lives, facts, habits)


def replayed_queues(policies: DataFrame) -> DataFrame:
    """Zaqar's queues with ``policies`` and ``scope``, what is replayed together: a queue on its own, or a whole project
    (empty) where a dead letter queue has one of its own, which is ``second`` then.

    The document does not support it (change 1), yet a claim there moves a message on, with the claim count it has.
    """
    counting = F.filter("policies", rules.counts_claims)
    others = F.array_except(targets(counting), F.array("queue"))
    none = F.filter("policies", lambda p: F.lit(False))
    own = F.struct(
        F.col("queue"), F.col("policies"), (F.size(counting) > 0).alias("counts"), F.lit(False).alias("named")
    )

    def named(target: Column) -> Column:
        return F.struct(
            target.alias("queue"), none.alias("policies"), F.lit(False).alias("counts"), F.lit(True).alias("named")
        )

    told = policies.where("system = 'zaqar'").select(
        "tenant", F.explode(F.concat(F.array(own), F.transform(others, named))).alias("told")
    )
    queues = told.groupBy("tenant", F.col("told.queue").alias("queue")).agg(
        F.flatten(F.collect_list("told.policies")).alias("policies"),
        (F.bool_or("told.counts") & F.bool_or("told.named")).alias("second"),
    )
    together = F.bool_or("second").over(Window.partitionBy("tenant"))
    scoped = queues.withColumn("scope", F.when(together, F.lit("")).otherwise(F.col("queue")))
    return scoped.where("size(policies) > 0")


def _unseen_post() -> Column:
    """A message whose post was not seen was there before it was first seen."""
    fields = {
        "time": F.col("seen"),
        "event_id": F.lit(""),
        "position": F.lit(0),
        "ttl": F.lit(None).cast("bigint"),
        "delay": F.lit(None).cast("bigint"),
        "producer": F.lit(None).cast("string"),
    }
    return F.when(F.col("seen").isNotNull(), F.struct(*[value.alias(name) for name, value in fields.items()]))


def place(posted: Column) -> Column:
    """A message's place in its queue as an ordering text: time of the post, then place in it."""
    return F.concat_ws(
        ":",
        F.lpad(F.unix_micros(posted["time"]).cast("string"), 17, "0"),
        posted["event_id"],
        F.lpad(posted["position"].cast("string"), 6, "0"),
    )


def exhausted(state: DataFrame, queues: DataFrame) -> DataFrame:
    """The messages that can have been moved, with the columns of ``queues`` and the deliveries ``counted``: those with
    as many as the lowest limit their queue ever had. In a queue that is ``second`` all: they may have come to it with a
    count."""
    limited = queues.withColumn("lowest", rules.lowest_limit(F.col("policies")))
    counted = F.filter("deliveries", lambda d: rules.counts_claims(policy_at(F.col("policies"), d["time"])))
    claimed = state.join(limited, _QUEUE).where(F.col("second") | (F.size("deliveries") >= F.col("lowest")))
    reached = F.size("counted") >= F.col("lowest")
    return claimed.withColumn("counted", counted).where(F.col("second") | reached).drop("lowest")


def with_claims(candidates: DataFrame, lives: DataFrame, facts: SilverFacts) -> DataFrame:
    """The candidates as :data:`zaqar_replay.MESSAGE_INPUT`, with every claim that took them in their queue or where it
    sends its dead letters; ``lives`` are their rows in all queues."""
    candidates = candidates.withColumns(
        {
            "policy": policy_at(F.col("policies"), F.col("posted.time")),
            "emptied": emptied_after(F.col("policies"), last_sign(F.col("posted.time"), F.col("deliveries"))),
        }
    )
    policy = F.col("policy")
    messages = candidates.select(
        "scope",
        *_QUEUE,
        "message_id",
        place(F.col("posted")).alias("place"),
        F.unix_micros("posted.time").alias("posted"),
        "came",
        rules.effective_ttl(F.col("posted.ttl"), policy).alias("ttl"),
        rules.effective_delay(F.col("posted.delay"), policy).alias("delay"),
        F.unix_micros(F.least(F.col("settled.time"), F.col("emptied"))).alias("settled"),
        F.transform("counted", lambda d: F.unix_micros(d["time"])).alias("counted"),
        F.transform("deliveries", lambda d: d["event_id"]).alias("granted"),
        targets(F.col("policies")).alias("targets"),
    )
    grants = lives.select("tenant", "queue", "message_id", F.explode("deliveries.claim_id").alias("claim_id"))
    taken = (
        grants.join(facts.claims.where("system = 'zaqar'"), ["tenant", "queue", "claim_id"])
        .groupBy("tenant", "message_id")
        .agg(F.collect_list(F.struct("queue", _claim().alias("claim"))).alias("taken"))
    )

    def reached(taken: Column) -> Column:
        here = (F.col("scope") == "") | (taken["queue"] == F.col("queue"))
        return here | F.coalesce(F.array_contains("targets", taken["queue"]), F.lit(False))

    claims = F.transform(F.filter("taken", reached), lambda taken: taken["claim"])
    joined = messages.join(taken, ["tenant", "message_id"], "left").withColumn("claims", claims)
    return joined.select(*zaqar_replay.MESSAGE_INPUT)


def _claim() -> Column:
    return F.struct("claim_id", _term(F.col("claimed")).alias("claimed"), *_claim_end())


def _claim_end() -> tuple[Column, Column]:
    released = F.when(F.col("released").isNotNull(), F.struct(F.unix_micros("released.time").alias("time")))
    return F.transform("renewals", _term).alias("renewals"), released.alias("released")


def _term(step: Column) -> Column:
    term = F.struct(F.unix_micros(step["time"]).alias("time"), step["ttl"].alias("ttl"), step["grace"].alias("grace"))
    return F.when(step.isNotNull(), term)


def counting_attempts(
    facts: SilverFacts, queues: DataFrame, candidates: DataFrame, habits: zaqar_store.Habits
) -> DataFrame:
    """The attempts that can have moved a message, with ``policies`` and the ``policy`` in force; no pops where these
    only delete."""
    asks = "limit > granted" if habits.pop_claims else f"limit > granted AND NOT ({rules.POP})"
    policy = policy_at(F.col("policies"), F.col("time"))
    return (
        facts.attempts.where(f"system = 'zaqar' AND {asks}")
        .join(queues, _QUEUE)
        .join(candidates.select("tenant", "scope").distinct(), ["tenant", "scope"], "left_semi")
        .withColumn("policy", policy)
        .where(rules.counts_claims(F.col("policy")))
    )


def with_first_granted(attempts: DataFrame, facts: SilverFacts, state: DataFrame) -> DataFrame:
    """:func:`counting_attempts` as :data:`zaqar_replay.ATTEMPT_INPUT`, with the place of the first message that each
    was granted and with what became of its claim."""
    emptied = F.filter("policies", lambda p: p["kind"].isin("purged", "deleted"))
    first = (
        state.select(*_QUEUE, place(F.col("posted")).alias("place"), F.explode("deliveries.event_id").alias("event_id"))
        .join(attempts.where("granted > 0").select(*_QUEUE, "event_id"), [*_QUEUE, "event_id"], "left_semi")
        .groupBy(*_QUEUE, "event_id")
        .agg(F.min("place").alias("first_granted"))
    )
    claims = facts.claims.where("system = 'zaqar'").select(*_QUEUE, "claim_id", *_claim_end())
    return (
        attempts.join(first, [*_QUEUE, "event_id"], "left")
        .join(claims, [*_QUEUE, "claim_id"], "left")
        .withColumns(
            {
                "time": F.unix_micros("time"),
                "emptied": F.transform(emptied, lambda p: F.unix_micros(p["valid_from"])),
            }
        )
        .select("*", "policy.max_deliveries", "policy.dead_letter_queue", "policy.dead_letter_ttl")
        # both sides of the replay take the scope from one frame: the alias tells them apart
        .select(*[F.col(name).alias(name) for name in zaqar_replay.ATTEMPT_INPUT])
    )


def _replay(messages: DataFrame, attempts: DataFrame, habits: zaqar_store.Habits) -> DataFrame:
    def one_scope(left: pa.Table, right: pa.Table) -> pa.Table:
        moved = zaqar_replay.moves(left.to_pylist(), right.to_pylist(), habits)
        return pa.Table.from_pylist(moved, schema=output)

    output = pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in zaqar_replay.MOVE_OUTPUT.items()])
    schema = ", ".join(f"{name} {kind}" for name, kind in zaqar_replay.MOVE_OUTPUT.items())
    grouped = messages.groupBy("tenant", "scope").cogroup(attempts.groupBy("tenant", "scope"))
    return grouped.applyInArrow(one_scope, schema=schema)


def _with_removal(moved: DataFrame, lives: DataFrame, facts: SilverFacts, habits: zaqar_store.Habits) -> DataFrame:
    """Add when each message was deleted from its dead letter queue, by whatever way that reaches it: a late deletion
    from its old queue does where what was moved is not out of reach."""
    there = lives.select(
        "tenant",
        F.col("queue").alias("dead_letter_queue"),
        "message_id",
        F.col("settled.time").alias("deleted_there"),
        F.col("deliveries").alias("granted_there"),
    )
    here = lives.select(
        "tenant",
        "queue",
        "message_id",
        F.when(~F.col("came"), F.col("posted.time")).alias("posted_at"),
        F.col("settled.time").alias("deleted"),
    )
    target = facts.policies.where("system = 'zaqar'").select(
        "tenant", F.col("queue").alias("dead_letter_queue"), F.col("policies").alias("target_policies")
    )
    died = F.timestamp_micros("died")
    ways = ("deleted_there",) if habits.moved_are_out_of_reach else ("deleted", "deleted_there")
    deletions = [F.when(F.col(name) > died, F.col(name)) for name in ways]
    expires = F.timestamp_micros("expires")
    emptied = emptied_after(F.col("target_policies"), last_sign(died, F.col("granted_there")))
    emptied = F.when(emptied < expires, emptied)
    joins = [
        (here, ["tenant", "queue", "message_id"]),
        (there, ["tenant", "dead_letter_queue", "message_id"]),
        (target, ["tenant", "dead_letter_queue"]),
    ]
    joined = reduce(lambda df, join: df.join(*join, "left"), joins, moved)
    return joined.select(
        *_QUEUE,
        "message_id",
        "dead_letter_queue",
        "claim_count",
        "max_deliveries",
        "posted_at",
        died.alias("dead_lettered_at"),
        expires.alias("expires_at"),
        F.when(expires.isNotNull(), F.least(*deletions, emptied)).alias("removed_at"),  # else it left
        "event_id",
    )
