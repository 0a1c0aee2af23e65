"""Where each message stands at ``as_of``."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts, dated
from deadletter.gold.removal import by_dead_letter_queue
from deadletter.gold.zaqar import purged
from deadletter.rules import zaqar as rules
from deadletter.rules.policy import emptied_after, last_sign, policy_at
from deadletter.rules.zaqar_store import SECOND, Habits
from deadletter.tables import MESSAGE_KEY, QUEUE, QUEUE_KEY

STANDING = ("status", "claims_granted", "delay_until", "claimed_until", "expires_at")
"""What :func:`message_status` adds to a message's row."""


def message_status(facts: SilverFacts, dead: DataFrame, habits: Habits, chosen: DataFrame | None = None) -> DataFrame:
    """The rows of ``facts.state``, or those ``chosen`` of them, with :data:`STANDING`.

    ``dead`` has at least the key columns of ``gold.dead_letters``, ``dead_letter_queue`` and ``expires_at``.
    ``delay_until`` is the post's time plus the delay in force, ``claimed_until`` when the latest claim of a Zaqar
    message ends unless it was released, ``expires_at`` when a store of these ``habits`` no longer shows it, or when a
    RabbitMQ queue's TTL is over for a message that lies in it, or sent it on to a work queue. All are null where
    nothing tells them.
    """
    rows = facts.state if chosen is None else chosen
    steps = claim_steps(F.col("claimed"), F.col("renewals"), F.col("released"))
    state = (
        rows.join(facts.policies, list(QUEUE_KEY), "left")
        .join(of_claims(rows, facts.claims, steps, "steps"), list(MESSAGE_KEY), "left")
        .join(dead.select(*MESSAGE_KEY, F.lit(True).alias("died")), list(MESSAGE_KEY), "left")
        .join(_lying_dead(dead), list(MESSAGE_KEY), "left")
        .withColumn("policy", policy_at(F.col("policies"), F.col("posted.time")))
    )
    state = with_purge(state, facts, habits)
    timed = state.withColumn("life", lifetime(habits)).withColumns(
        {
            "delay_until": _delay_until(),
            "claimed_until": F.timestamp_micros(F.nullif("life.held_until", F.lit(0))),
            "expires_at": F.coalesce("expires_there", _expires_at(habits)),
        }
    )
    return timed.withColumns(
        {"status": _status(F.lit(facts.as_of)), "claims_granted": F.size("deliveries").cast("bigint")}
    ).select(*rows.columns, *STANDING)


def _lying_dead(dead: DataFrame) -> DataFrame:
    """Zaqar's dead letters by the queue where they lie, with when they expire there."""
    there = by_dead_letter_queue(dead.where("system = 'zaqar'"))
    return there.groupBy(*MESSAGE_KEY).agg(F.max("expires_at").alias("expires_there"))


def with_purge(state: DataFrame, facts: SilverFacts, habits: Habits) -> DataFrame:
    """Add ``purged_at``: when a purge of its queue removed a Zaqar message."""
    if not facts.has_zaqar_purges:
        return state.withColumn("purged_at", F.lit(None).cast("timestamp"))
    gone = purged(facts, habits).withColumns({"system": F.lit("zaqar"), "subscription": F.lit("")})
    return state.join(gone, list(MESSAGE_KEY), "left")


def of_claims(state: DataFrame, claims: DataFrame, told: Column, name: str) -> DataFrame:
    """Each message of ``state`` that a Zaqar claim took, with ``name``: what its claims ``told``, all in order.

    ``told`` is an array for each of ``claims``, rows of ``silver.claims``.
    """
    grants = state.where("system = 'zaqar'").select(*MESSAGE_KEY, F.explode("deliveries.claim_id").alias("claim_id"))
    made = claims.where("claimed IS NOT NULL").select(*QUEUE, "claim_id", told.alias(name))
    return (
        grants.join(made, [*QUEUE, "claim_id"])
        .groupBy(*MESSAGE_KEY)
        .agg(F.array_sort(F.flatten(F.collect_set(name))).alias(name))
    )


def claim_span() -> Column:
    """From when to when a claim ran, of its row in ``silver.claims``: ``array<struct<time, end>>``. A release is an
    end."""
    end = claim_end(F.col("claimed"), F.col("renewals"), F.col("released"))
    return F.array(F.struct(F.col("claimed.time").alias("time"), end.alias("end")))


def with_resets(state: DataFrame, facts: SilverFacts, habits: Habits) -> DataFrame:
    """``state``, which has ``policies``, with ``resets``: when the store set a Zaqar message's claim count to 0; null
    in a store that never does.

    A store that ``counts_anew`` does so with each claim that does not count, each renewal of a claim and each release;
    these last two only while the claim is the message's latest.
    """
    if not habits.counts_anew:
        return state.withColumn("resets", F.lit(None).cast("array<timestamp>"))
    ends = F.concat(F.col("renewals.time"), F.array_compact(F.array("released.time")))
    # what the clock does not tell from its claim came after it
    behind = F.expr("INTERVAL 1 MICROSECOND")
    steps = F.transform(ends, lambda end: F.when(end == F.col("claimed.time"), end + behind).otherwise(end))
    claims = facts.claims.where("system = 'zaqar'").select(*QUEUE, "claim_id", steps.alias("steps"))
    granted = F.explode("deliveries").alias("d")
    grants = facts.state.where("system = 'zaqar'").select(*MESSAGE_KEY, "deliveries", granted)

    def reaches(step: Column) -> Column:
        return ~F.exists("deliveries", lambda other: (other["time"] > F.col("d.time")) & (other["time"] < step))

    ended = (
        grants.withColumn("claim_id", F.col("d.claim_id"))
        .join(claims, [*QUEUE, "claim_id"])
        .groupBy(*MESSAGE_KEY)
        .agg(F.flatten(F.collect_list(F.filter("steps", reaches))).alias("ended"))
    )
    uncounted = F.filter("deliveries", lambda d: ~rules.counts_claims(policy_at(F.col("policies"), d["time"])))
    none = F.array().cast("array<timestamp>")
    resets = F.concat(F.coalesce("ended", none), uncounted["time"])
    return state.join(ended, list(MESSAGE_KEY), "left").withColumn("resets", resets).drop("ended")


def claim_end(claimed: Column, renewals: Column, released: Column) -> Column:
    """When a claim ends: its latest renewal's or its own TTL after that, or its release if that is earlier."""
    return F.least(runs_out(claimed, renewals), released["time"])


def runs_out(claimed: Column, renewals: Column) -> Column:
    """When a claim ends unless it is released: Zaqar counts whole seconds from the claim or its latest renewal."""
    last = F.try_element_at(renewals, F.lit(-1))
    time, ttl = (F.coalesce(last[name], claimed[name]) for name in ("time", "ttl"))
    return F.timestamp_seconds(F.unix_seconds(time) + ttl)


TAKE, RENEW, RELEASE = 0, 1, 2


def claim_steps(claimed: Column, renewals: Column, released: Column) -> Column:
    """What a claim, a row of ``silver.claims``, does to its messages: ``struct<time, started, claim_id, kind, ttl,
    grace>``, times and durations in microseconds.

    A release after the claim's end does nothing. Of what several claims did at one moment, as far as the clock tells,
    the one that began first did it first.
    """

    def step(term: Column, kind: int) -> Column:
        return F.struct(
            F.unix_micros(term["time"]).alias("time"),
            F.unix_micros(claimed["time"]).alias("started"),
            F.col("claim_id"),
            F.lit(kind).alias("kind"),
            *[(F.lit(0) if kind == RELEASE else term[name] * SECOND).cast("bigint").alias(name) for name in _TERM],
        )

    in_time = F.date_trunc("second", released["time"]) < runs_out(claimed, renewals)
    return F.concat(
        F.array(step(claimed, TAKE)),
        F.transform(renewals, lambda renewal: step(renewal, RENEW)),
        F.array_compact(F.array(F.when(in_time, step(released, RELEASE)))),
    )


_TERM = ("ttl", "grace")


def lifetime(habits: Habits) -> Column:
    """A Zaqar message's record after all its claims: ``struct<ttl, expires, vanishes, held_until, claim_id>``,
    microseconds.

    :class:`deadletter.rules.zaqar_store.StoredMessage` holds the same rules for the replay: both change together. A
    claim that outlives its message keeps it until the claim's grace is over. A release frees it of its own claim only,
    but in the Redis store of any. With ``lifetime_restarts`` the
    message vanishes ``ttl`` after its post, or after the last renewal or release.
    """
    posted = F.unix_micros("posted.time")
    # nobody knows the life of what was posted before the first event
    ttl = F.when(F.col("posted").isNotNull(), rules.effective_ttl(F.col("posted.ttl"), F.col("policy")) * SECOND)
    start = _record(ttl, _whole(posted) + ttl, posted + ttl, F.lit(0), F.lit(None))

    def after(record: Column, step: Column) -> Column:
        time, kind = step["time"], step["kind"]
        end = _whole(time) + step["ttl"]
        saved_at_end = (kind == RENEW) & F.lit(habits.renewal_saves_at_its_end)
        outlived = (record["expires"] < end) | (saved_at_end & (record["expires"] == end))
        outlived = F.coalesce(outlived & (kind != RELEASE), F.lit(False))
        ttl = F.when(outlived, step["ttl"] + step["grace"]).otherwise(record["ttl"])
        expires = F.when(outlived, end + step["grace"]).otherwise(record["expires"])
        vanishes = F.when(kind == TAKE, record["vanishes"]).otherwise(time + ttl)
        mine = F.lit(habits.lifetime_restarts) | record["claim_id"].eqNullSafe(step["claim_id"])
        freed = (kind == RELEASE) & mine
        held = F.when(freed, F.lit(0)).when(kind == RELEASE, record["held_until"]).otherwise(end)
        claim_id = F.when(~freed, F.when(kind == RELEASE, record["claim_id"]).otherwise(step["claim_id"]))
        lives = (record["vanishes"] if habits.lifetime_restarts else record["expires"]) > time
        lives = lives | ((kind == TAKE) & F.lit(habits.expired_linger))
        return F.when(F.coalesce(lives, F.lit(True)), _record(ttl, expires, vanishes, held, claim_id)).otherwise(record)

    return F.aggregate(F.coalesce("steps", F.array().cast(_STEPS)), start, after)


_STEPS = "array<struct<time:bigint,started:bigint,claim_id:string,kind:int,ttl:bigint,grace:bigint>>"


def _record(ttl: Column, expires: Column, vanishes: Column, held_until: Column, claim_id: Column) -> Column:
    parts = {"ttl": ttl, "expires": expires, "vanishes": vanishes, "held_until": held_until}
    times = [value.cast("bigint").alias(name) for name, value in parts.items()]
    return F.struct(*times, claim_id.cast("string").alias("claim_id"))


def _whole(micros: Column) -> Column:
    return micros - F.pmod(micros, F.lit(SECOND))


def _delay_until() -> Column:
    """Delayed Queues, step 3: ``d`` = delay + time of creation. Pulsar's deliver-after likewise."""
    zaqar = rules.effective_delay(F.col("posted.delay"), F.col("policy"))
    delay = F.when(F.col("system") == "zaqar", zaqar).otherwise(F.col("posted.delay"))
    start = F.when(F.col("system") == "zaqar", F.date_trunc("second", "posted.time")).otherwise(F.col("posted.time"))
    return F.when(delay > 0, start + F.make_dt_interval(secs=delay))


def _expires_at(habits: Habits) -> Column:
    life = F.col("life")
    shown = F.least(life["expires"], life["vanishes"]) if habits.lifetime_restarts else life["expires"]
    posted = F.col("posted").isNotNull()
    zaqar = F.when((F.col("system") == "zaqar") & posted, F.timestamp_micros(shown))
    # what came back from a death has lain there for a shorter time, and its own TTL ends only where it comes first
    lies = (F.col("system") == "rabbitmq") & posted & (F.size("deaths") == 0) & ~_held()
    stayed = zaqar.when(lies, F.col("posted.time") + F.make_dt_interval(secs=F.col("policy.default_ttl")))
    # told of a message that is not dead: its TTL sent it on, nobody had received it
    deaths = dated(F.col("deaths"), F.col("deliveries"))
    passed = F.array_max(F.filter(deaths, lambda death: death["reason"] == "expired")["time"])
    return stayed.when((F.col("system") == "rabbitmq") & (F.size("deliveries") == 0), passed)


def _held() -> Column:
    """Whether a consumer has the message, as far as anybody wrote down what became of its last delivery."""
    last_failure = F.try_element_at("failures", F.lit(-1))["time"]
    last_delivery = F.try_element_at("deliveries", F.lit(-1))["time"]
    return (F.size("deliveries") > 0) & F.coalesce(last_failure < last_delivery, F.lit(True))


def _status(now: Column) -> Column:
    """The first of the statuses whose test holds, in the order in which they are tried."""
    delivered = F.size("deliveries") > 0
    running = F.col("claimed_until") > now
    expired = F.coalesce(F.col("expires_at") <= now, F.lit(False))
    sign = last_sign(F.coalesce("posted.time", "seen"), F.col("deliveries"))
    emptied = emptied_after(F.col("policies"), sign, purges=F.col("system") != "zaqar")
    tests = {
        "dead_lettered": F.col("died"),
        "settled": F.col("settled").isNotNull(),
        "purged": F.col("purged_at").isNotNull()
        | ((emptied <= now) & F.coalesce(emptied < F.col("expires_at"), F.lit(True))),
        "expired": expired & delivered,
        "expired_unseen": expired,
        "delayed": (F.col("delay_until") > now) & ~delivered,
        "claimed": running | ((F.col("system") == "pulsar") & _held()),
        "outcome_unknown": (F.col("system") == "rabbitmq") & _held(),
        "available": F.lit(True),
    }
    return F.coalesce(*[F.when(test, F.lit(status)) for status, test in tests.items()])
