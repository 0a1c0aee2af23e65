"""Zaqar by its documents: "Dead Letter Queue" (Pike) and "Delayed Queues" (Queens)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.rules.policy import policy_at

DEFAULT_TTL = 3600
"""Seconds a message lives where neither it nor its queue says so (``_default_message_ttl``)."""
IS_POP = "ttl = 1 AND grace = 0"
"""The claim attempts that are pops: as a claim a pop has these terms, and a client's claim lasts 60 s at least."""


def counts_claims(policy: Column) -> Column:
    """Whether claims count under ``policy``: only with both a limit and a dead letter queue.

    Dead Letter Queue, change 1: without ``_max_claim_count`` the feature is not enabled for the queue; the
    servers ask for ``_dead_letter_queue`` too. Null policy: false.
    """
    return F.coalesce(policy["max_deliveries"].isNotNull() & policy["dead_letter_queue"].isNotNull(), F.lit(False))


def counted_claims(deliveries: Column, policies: Column, resets: Column) -> Column:
    """How many of a message's claims count: those granted while claims count (change 4.1), of those since the last of
    its ``resets``; null where its store has none.

    >>> row = spark.sql(
    ...     "SELECT transform(array(1, 2, 3), n -> named_struct('time', timestamp_seconds(n))) AS deliveries,"
    ...     " array(named_struct('valid_from', timestamp_seconds(0), 'kind', 'declared', 'max_deliveries', 3L,"
    ...     " 'dead_letter_queue', 'dead')) AS policies, array(timestamp_seconds(2)) AS resets"
    ... )
    >>> none = F.lit(None).cast("array<timestamp>")
    >>> counts = [counted_claims(F.col("deliveries"), F.col("policies"), r) for r in (none, F.col("resets"))]
    >>> tuple(row.select(*counts).first())
    (3, 2)
    """

    def counts(delivery: Column) -> Column:
        set_back = F.coalesce(F.exists(resets, lambda reset: delivery["time"] < reset), F.lit(False))
        return counts_claims(policy_at(policies, delivery["time"])) & ~set_back

    return F.size(F.filter(deliveries, counts))


def lowest_limit(policies: Column) -> Column:
    """The lowest limit the queue ever had while claims counted; null if it never had one."""
    limits = F.transform(F.filter(policies, counts_claims), lambda p: p["max_deliveries"])
    return F.array_min(limits)


def effective_delay(delay: Column, policy: Column) -> Column:
    """The delay in force for a message, seconds.

    Delayed Queues, scenarios 1 to 3: in a queue whose ``_default_message_delay`` is 0 there is none, whatever
    the message asks; in a delayed queue the message's own delay comes before the default.

    >>> row = spark.sql(
    ...     "SELECT named_struct('default_delay', 5L) AS delayed, named_struct('default_delay', 0L) AS normal,"
    ...     " 30L AS own, CAST(NULL AS bigint) AS none"
    ... )
    >>> own, none, delayed, normal = (F.col(c) for c in ("own", "none", "delayed", "normal"))
    >>> row.select(
    ...     effective_delay(own, delayed).alias("own in delayed"),
    ...     effective_delay(none, delayed).alias("none in delayed"),
    ...     effective_delay(own, normal).alias("own in normal"),
    ... ).show()
    +--------------+---------------+-------------+
    |own in delayed|none in delayed|own in normal|
    +--------------+---------------+-------------+
    |            30|              5|            0|
    +--------------+---------------+-------------+
    """
    default = F.coalesce(policy["default_delay"], F.lit(0))
    return F.when(default > 0, F.coalesce(delay, default)).otherwise(F.lit(0)).cast("bigint")


def effective_ttl(ttl: Column, policy: Column) -> Column:
    """The TTL a message was stored with, seconds: its own, else the queue's default, else the server's."""
    return F.coalesce(ttl, policy["default_ttl"], F.lit(DEFAULT_TTL)).cast("bigint")


def never_claimable(ttl: Column, delay: Column) -> Column:
    """Whether a message expires before its delay is over (Delayed Queues, step 2: ``ttl < delay``)."""
    return ttl < delay
