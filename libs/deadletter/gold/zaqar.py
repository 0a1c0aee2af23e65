"""Zaqar's dead letters: derived, because the broker tells nobody."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from deadletter.gold.facts import SilverFacts
from deadletter.rules import zaqar as rules
from deadletter.rules import zaqar_replay, zaqar_store
from deadletter.rules.policy import emptied_after, is_purge, last_sign, policy_at, targets
from deadletter.spark.frames import struct_of
from deadletter.spark.staging import Stage, as_it_is

SHARES = 128
"""What is replayed is handed to Python in so many shares: to hand a queue over alone costs more than to replay it."""
_QUEUE = ["tenant", "queue"]


def deaths(
    facts: SilverFacts,
    habits: zaqar_store.Habits,
    stage: Stage = as_it_is,
) -> DataFrame:
    """Rows of ``tenant, queue, message_id, dead_letter_queue, claim_count, max_deliveries, posted_at,
    dead_lettered_at, expires_at, removed_at, event_id``: every message that a claim attempt moved.

    ``stage`` computes what is read several times once. What purges removed is kept in ``facts.purged`` on the way.
    """
    moved, lives = _replayed(facts, replayed_queues(facts.policies), habits, stage)
    if facts.has_zaqar_purges:
        staged = stage(moved)
        if staged is not moved:  # else all would be replayed again for the few that were removed
            facts.purged[habits.name] = _removed(staged)
        moved = staged.where("died IS NOT NULL")
    return _with_removal(moved, lives, facts, habits)


def purged(facts: SilverFacts, habits: zaqar_store.Habits) -> DataFrame:
    """Rows of ``tenant, queue, message_id, purged_at``: every message that a purge of its queue removed, dead letters
    among them."""
    if habits.name in facts.purged:
        return facts.purged[habits.name]
    queues = replayed_queues(facts.policies)
    ours = queues.where("purged").select("tenant", "scope").distinct()
    moved, _ = _replayed(facts, queues.join(ours, ["tenant", "scope"], "left_semi"), habits, as_it_is)
    return _removed(moved)


def _removed(moved: DataFrame) -> DataFrame:
    at = F.timestamp_micros("purged").alias("purged_at")
    return moved.where("purged IS NOT NULL").select(*_QUEUE, "message_id", at)


def _replayed(
    facts: SilverFacts, queues: DataFrame, habits: zaqar_store.Habits, stage: Stage
) -> tuple[DataFrame, DataFrame]:
    """What attempts and purges did in these ``queues``, as :data:`zaqar_replay.MOVE_OUTPUT`, and the rows of the
    messages they can have met, in all queues."""
    state = facts.state.where("system = 'zaqar'").withColumns(
        {"came": F.col("posted").isNull(), "posted": F.coalesce("posted", _unseen_post())}
    )
    state = state.withColumn("place", place(_ordered_by()))
    candidates = stage(exhausted(state, queues, facts.has_zaqar_purges))
    # few messages ever come near a limit: all that follows looks at these alone, in whatever queues they were
    ids = candidates.select("tenant", "message_id").distinct()
    told = state.select("tenant", "queue", "message_id", "posted", "came", "settled", "deliveries")
    lives = stage(told.join(ids, ["tenant", "message_id"], "left_semi"))
    messages = with_claims(candidates, lives, facts)
    # few attempts ask for more than they get: Spark sends these to the messages once it knows
    counting = stage(counting_attempts(facts, queues, candidates, habits))
    chained = not candidates.where("second").isEmpty()
    attempts = with_first_granted(counting, facts, _placed_by_post(state) if chained else state)
    if facts.has_zaqar_purges:
        attempts = attempts.unionByName(purges(queues))
    return _replay(messages, attempts, habits), lives


def replayed_queues(policies: DataFrame) -> DataFrame:
    """Zaqar's queues with ``policies``, whether they were ever ``purged``, and ``scope``, what is replayed together: a
    queue on its own, or a whole project (empty) where a dead letter queue has one of its own or was purged, which is
    ``second`` then.

    The document does not support the first (change 1), yet a claim there moves a message on, with the claim count it
    has.
    """
    counting = F.filter("policies", rules.counts_claims)
    others = F.array_except(targets(counting), F.array("queue"))
    none = F.filter("policies", lambda p: F.lit(False))
    emptied = F.exists("policies", is_purge)
    own = F.struct(
        F.col("queue"),
        F.col("policies"),
        ((F.size(counting) > 0) | emptied).alias("counts"),
        F.lit(False).alias("named"),
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
    scoped = queues.withColumns(
        {"scope": F.when(together, F.lit("")).otherwise(F.col("queue")), "purged": F.exists("policies", is_purge)}
    )
    return scoped.where("size(policies) > 0")


def _unseen_post() -> Column:
    """A message whose post was not seen was there before it was first seen. Its TTL and delay are not known: it counts
    as living until something tells otherwise, and as undelayed, as it was seen."""
    fields = {
        "time": F.col("seen"),
        "event_id": F.lit(""),
        "position": F.lit(0),
        "ttl": F.lit(None).cast("bigint"),
        "delay": F.lit(None).cast("bigint"),
        "producer": F.lit(None).cast("string"),
    }
    return F.when(F.col("seen").isNotNull(), F.struct(*[value.alias(name) for name, value in fields.items()]))


def _ordered_by() -> Column:
    """The post that gives a message its place. Of one that was not seen the day is known, by the message's age."""
    midnight = F.date_add("created_day", 1).cast("timestamp")
    earlier = F.col("posted").withField("time", F.least(F.col("posted.time"), midnight))
    return F.when(F.col("came"), earlier).otherwise(F.col("posted"))


def _placed_by_post(state: DataFrame) -> DataFrame:
    """The messages with the ``place`` that their post gives them, also in queues that they were moved to, where they
    were not posted: what the replay moved keeps its place."""
    post = state.where("NOT came").groupBy("tenant", "message_id").agg(F.min("place").alias("of_post"))
    moved = state.where("came").join(post, ["tenant", "message_id"], "left")
    placed = moved.withColumn("place", F.coalesce("of_post", "place")).select(*state.columns)
    return state.where("NOT came").unionByName(placed)


def place(posted: Column) -> Column:
    """A message's place in its queue as an ordering text: time of the post, then place in it."""
    return F.concat_ws(
        ":",
        F.lpad(F.unix_micros(posted["time"]).cast("string"), 17, "0"),
        posted["event_id"],
        F.lpad(posted["position"].cast("string"), 6, "0"),
    )


def exhausted(state: DataFrame, queues: DataFrame, purges: bool = False) -> DataFrame:
    """The messages that can have been moved, with the columns of ``queues`` and the deliveries ``counted``: those with
    as many as the lowest limit their queue ever had. In a queue that is ``second`` all: they may have come to it with a
    count. With ``purges`` also those that one can have met."""
    limited = queues.withColumn("lowest", rules.lowest_limit(F.col("policies")))
    counted = F.filter("deliveries", lambda d: rules.counts_claims(policy_at(F.col("policies"), d["time"])))
    anyhow = F.col("second") | _met_by_purge() if purges else F.col("second")
    claimed = state.join(limited, _QUEUE).where(anyhow | (F.size("deliveries") >= F.col("lowest")))
    reached = F.size("counted") >= F.col("lowest")
    return claimed.withColumn("counted", counted).where(anyhow | reached).drop("lowest")


def _met_by_purge() -> Column:
    """Whether a purge can have met the message: it was there before, no later claim shows that it was spared, it was
    not deleted before, and without a claim it had not expired."""
    last = last_sign(F.col("posted.time"), F.col("deliveries"))
    ttl = rules.effective_ttl(F.col("posted.ttl"), policy_at(F.col("policies"), F.col("posted.time")))
    expires = F.timestamp_seconds(F.unix_seconds("posted.time") + ttl + 1)
    claimed = F.col("came") | (F.size("deliveries") > 0)

    def met(step: Column) -> Column:
        time = step["valid_from"]
        undeleted = F.coalesce(F.col("settled.time") > time, F.lit(True))
        return is_purge(step) & (time > last) & undeleted & (claimed | (time < expires))

    return F.col("purged") & F.exists("policies", met)


def with_claims(candidates: DataFrame, lives: DataFrame, facts: SilverFacts) -> DataFrame:
    """The candidates as :data:`zaqar_replay.MESSAGE_INPUT`, with every claim that took them in their queue or where it
    sends its dead letters; ``lives`` are their rows in all queues."""
    candidates = candidates.withColumns(
        {
            "policy": policy_at(F.col("policies"), F.col("posted.time")),
            "emptied": emptied_after(
                F.col("policies"), last_sign(F.col("posted.time"), F.col("deliveries")), purges=F.lit(False)
            ),
        }
    )
    policy = F.col("policy")
    messages = candidates.select(
        "scope",
        *_QUEUE,
        "message_id",
        "place",
        F.unix_micros("posted.time").alias("posted"),
        "came",
        F.coalesce(F.unix_micros(F.try_element_at("deliveries", F.lit(-1))["time"]), F.lit(0)).alias("last"),
        F.when(~F.col("came"), rules.effective_ttl(F.col("posted.ttl"), policy)).alias("ttl"),
        F.when(F.col("came"), 0).otherwise(rules.effective_delay(F.col("posted.delay"), policy)).alias("delay"),
        F.unix_micros(F.least(F.col("settled.time"), F.col("emptied"))).alias("settled"),
        F.transform("counted", lambda d: F.unix_micros(d["time"])).alias("counted"),
        F.col("deliveries.event_id").alias("granted"),
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
    asks = "limit > granted" if habits.pop_claims else f"limit > granted AND NOT ({rules.IS_POP})"
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
    granted = state.select(*_QUEUE, "place", F.explode("deliveries.event_id").alias("event_id"))
    if facts.uneventful is not None:
        once = facts.uneventful.where("event_id IS NOT NULL").withColumn("place", place(F.col("post")))
        granted = granted.unionByName(once.select(granted.columns))
    first = (
        granted.join(attempts.where("granted > 0").select(*_QUEUE, "event_id"), [*_QUEUE, "event_id"], "left_semi")
        .groupBy(*_QUEUE, "event_id")
        .agg(F.min("place").alias("first_granted"))
    )
    claims = facts.claims.where("system = 'zaqar'").select(*_QUEUE, "claim_id", *_claim_end())
    return (
        attempts.join(first, [*_QUEUE, "event_id"], "left")
        .join(claims, [*_QUEUE, "claim_id"], "left")
        .withColumns({"time": F.unix_micros("time"), "purges": F.lit(False), "emptied": _deletions()})
        .select("*", "policy.max_deliveries", "policy.dead_letter_queue", "policy.dead_letter_ttl")
        # both sides of the replay take the scope from one frame: the alias tells them apart
        .select(*[F.col(name).alias(name) for name in zaqar_replay.ATTEMPT_INPUT])
    )


def purges(queues: DataFrame) -> DataFrame:
    """The purges of ``queues`` as :data:`zaqar_replay.ATTEMPT_INPUT`. Where they pop by claims, these have a pop's
    terms."""
    each = queues.where("purged").withColumn("purge", F.explode(F.filter("policies", is_purge)))
    policy = policy_at(F.col("policies"), F.col("purge.valid_from"))
    in_force = each.withColumn("policy", F.when(rules.counts_claims(policy), policy))
    term = "struct<time:bigint,ttl:bigint,grace:bigint>"
    values = {
        "event_id": F.col("purge.event_id"),
        "time": F.unix_micros("purge.valid_from"),
        "purges": F.lit(True),
        "limit": F.lit(zaqar_replay.POPPED_AT_ONCE).cast("bigint"),
        "granted": F.lit(None).cast("bigint"),
        "first_granted": F.lit(None).cast("string"),
        "claim_id": F.lit(None).cast("string"),
        "ttl": F.lit(1).cast("bigint"),
        "grace": F.lit(0).cast("bigint"),
        "renewals": F.array().cast(f"array<{term}>"),
        "released": F.lit(None).cast("struct<time:bigint>"),
        "emptied": _deletions(),
    } | {name: F.col(f"policy.{name}") for name in ("max_deliveries", "dead_letter_queue", "dead_letter_ttl")}
    return in_force.select(*[values.get(name, F.col(name)).alias(name) for name in zaqar_replay.ATTEMPT_INPUT])


def _deletions() -> Column:
    """When the queue was deleted."""
    deleted = F.filter("policies", lambda p: p["kind"] == "deleted")
    return F.transform(deleted, lambda p: F.unix_micros(p["valid_from"]))


def _replay(messages: DataFrame, attempts: DataFrame, habits: zaqar_store.Habits) -> DataFrame:
    def one_share(left: pa.Table, right: pa.Table) -> pa.Table:
        scopes: dict[tuple[str, str], tuple[list[dict], list[dict]]] = defaultdict(lambda: ([], []))
        for side, table in enumerate((left, right)):
            for row in table.to_pylist():
                scopes[row["tenant"], row["scope"]][side].append(row)
        moved = [move for scope in scopes.values() for move in zaqar_replay.moves(*scope, habits)]
        return pa.Table.from_pylist(moved, schema=output)

    schema = ", ".join(f"{name} {kind}" for name, kind in zaqar_replay.MOVE_OUTPUT.items())
    output = to_arrow_schema(struct_of(schema))
    share = F.pmod(F.xxhash64("tenant", "scope"), F.lit(SHARES))
    return messages.groupBy(share).cogroup(attempts.groupBy(share)).applyInArrow(one_share, schema=schema)


def _with_removal(moved: DataFrame, lives: DataFrame, facts: SilverFacts, habits: zaqar_store.Habits) -> DataFrame:
    """Add when each message was deleted from its dead letter queue, by whatever way that reaches it: a late deletion
    from its old queue does where what was moved is not out of reach. None reaches what had expired, though the server
    answers as if it did."""
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
    expires = F.timestamp_micros("expires")
    # what is deleted there was there, however little the clock tells apart
    ways = {"deleted_there": F.col("deleted_there") >= died}
    if not habits.moved_are_out_of_reach:
        ways["deleted"] = F.col("deleted") > died
    deletions = [F.when(reached & (F.col(name) < expires), F.col(name)) for name, reached in ways.items()]
    emptied = emptied_after(F.col("target_policies"), last_sign(died, F.col("granted_there")), purges=F.lit(False))
    removed = F.least(*deletions, F.when(emptied < expires, emptied), F.timestamp_micros("removed"))
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
        F.when(F.col("expires") < zaqar_store.NEVER, expires).alias("expires_at"),
        F.when(expires.isNotNull(), removed).alias("removed_at"),  # else it left
        "event_id",
    )
