"""Where each message stands at ``as_of``."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts
from deadletter.rules import zaqar as rules
from deadletter.rules.policy import emptied_after, policy_at
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

STATUSES = (
    "dead_lettered",
    "settled",
    "purged",
    "expired",
    "expired_unseen",
    "delayed",
    "claimed",
    "outcome_unknown",
    "available",
)
"""Every status, in the order in which they are tried: the first that holds is the message's."""


def message_status(facts: SilverFacts, dead: DataFrame) -> DataFrame:
    """The rows of ``facts.state`` with ``status``, ``claims_granted``, ``delay_until`` and ``expires_at``.

    ``dead`` has at least the key columns of ``gold.dead_letters``. ``delay_until`` is the post's time plus the
    delay in force, ``expires_at`` what the document says: post plus TTL, or the end of the grace of a claim
    that outlived it. Both are null where nothing tells them.
    """
    state = (
        facts.state.join(facts.policies, list(QUEUE_KEY), "left")
        .join(claims_of(facts), list(MESSAGE_KEY), "left")
        .join(dead.select(*MESSAGE_KEY, F.lit(True).alias("died")), list(MESSAGE_KEY), "left")
        .withColumn("policy", policy_at(F.col("policies"), F.col("posted.time")))
    )
    timed = state.withColumns({"delay_until": _delay_until(), "expires_at": _expires_at()})
    return timed.withColumns(
        {"status": _status(F.lit(facts.as_of)), "claims_granted": F.size("deliveries").cast("bigint")}
    ).select(*facts.state.columns, "status", "claims_granted", "delay_until", "expires_at")


def claims_of(facts: SilverFacts) -> DataFrame:
    """Each Zaqar message's claims as sorted ``struct<time, end, grace>``; a release is an end."""
    grants = facts.state.where("system = 'zaqar'").select(*MESSAGE_KEY, F.explode("deliveries").alias("delivery"))
    claims = facts.claims.where("claimed IS NOT NULL").select(
        "system",
        "tenant",
        "queue",
        F.col("claim_id"),
        F.struct(
            F.col("claimed.time").alias("time"),
            claim_end(F.col("claimed"), F.col("renewals"), F.col("released")).alias("end"),
            F.coalesce(F.try_element_at("renewals", F.lit(-1))["grace"], F.col("claimed.grace")).alias("grace"),
        ).alias("claim"),
    )
    return (
        grants.withColumn("claim_id", F.col("delivery.claim_id"))
        .join(claims, ["system", "tenant", "queue", "claim_id"])
        .groupBy(*MESSAGE_KEY)
        .agg(F.array_sort(F.collect_set("claim")).alias("claims"))
    )


def claim_end(claimed: Column, renewals: Column, released: Column) -> Column:
    """When a claim ends: its latest renewal's or its own TTL after that, or its release if that is earlier.

    Zaqar counts whole seconds from the claim.
    """
    last = F.coalesce(
        F.try_element_at(renewals, F.lit(-1)),
        F.struct(
            claimed["time"].alias("time"),
            claimed["event_id"].alias("event_id"),
            claimed["ttl"].alias("ttl"),
            claimed["grace"].alias("grace"),
        ),
    )
    runs_out = F.timestamp_seconds(F.unix_seconds(last["time"]) + last["ttl"])
    return F.least(runs_out, released["time"])


def _delay_until() -> Column:
    """Delayed Queues, step 3: ``d`` = delay + time of creation. Pulsar's deliver-after likewise."""
    zaqar = rules.effective_delay(F.col("posted.delay"), F.col("policy"))
    delay = F.when(F.col("system") == "zaqar", zaqar).otherwise(F.col("posted.delay"))
    return F.when(delay > 0, F.timestamp_seconds(F.unix_seconds("posted.time") + delay))


def _expires_at() -> Column:
    ttl = rules.effective_ttl(F.col("posted.ttl"), F.col("policy"))
    first = F.timestamp_seconds(F.unix_seconds("posted.time") + ttl)

    def outlived(expires: Column, claim: Column) -> Column:
        longer = F.timestamp_seconds(F.unix_seconds(claim["end"]) + claim["grace"])
        return F.when(expires < claim["end"], longer).otherwise(expires)

    kept = F.aggregate(F.coalesce("claims", F.array()), first, outlived)
    return F.when((F.col("system") == "zaqar") & F.col("posted").isNotNull(), kept)


def _status(now: Column) -> Column:
    delivered = F.size("deliveries") > 0
    running = F.exists(F.coalesce("claims", F.array()), lambda claim: claim["end"] > now)
    last_failure = F.try_element_at("failures", F.lit(-1))["time"]
    last_delivery = F.try_element_at("deliveries", F.lit(-1))["time"]
    held = (F.col("system") == "pulsar") & delivered & F.coalesce(last_failure < last_delivery, F.lit(True))
    expired = F.coalesce(F.col("expires_at") <= now, F.lit(False))
    emptied = emptied_after(F.col("policies"), F.coalesce("posted.time", "seen"))
    tests = {
        "dead_lettered": F.col("died"),
        "settled": F.col("settled").isNotNull(),
        "purged": emptied <= now,
        "expired": expired & delivered,
        "expired_unseen": expired,
        "delayed": (F.col("delay_until") > now) & ~delivered,
        "claimed": running | held,
        "outcome_unknown": (F.col("system") == "rabbitmq") & delivered,
        "available": F.lit(True),
    }
    return F.coalesce(*[F.when(test, F.lit(status)) for status, test in tests.items()])
