"""What sets a pattern's members apart: example, differences, where they are concentrated, their trend."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.dead_letter_counts import EXAMPLES, HOURS
from deadletter.gold.traits import PEOPLE
from deadletter.spark.staging import Stage, as_it_is
from deadletter.tables import MESSAGE_KEY, QUEUE, QUEUE_KEY

MOST_KEPT = 10
"""Differences and concentrations that are kept of a pattern."""
EACH_HAS_ONE = "what = 'kind' AND name = 'encoding'"
"""What ``control.queue_profile`` counts once for each healthy payload."""
LEAST, LIFT, SIGMAS = 3, 1.5, 3
"""A value is told where it has so many times more members than expected, and more by so many members and so many
standard deviations of a Poisson count: lift alone makes noise look like news."""
UNSEEN = 3
"""Messages with a value that a sample may have missed: where none of n has it, 3/n of all can still have it (95 %)."""


def examples(counts: DataFrame) -> DataFrame:
    """One row a ``pattern_id``: ``example`` (struct of a member's key) and ``example_message_ids``, the earliest three.
    ``counts`` are rows of ``control.dead_letter_counts``, here and below.

    The representative example is the member whose payload's length is nearest to the pattern's median, the
    earliest of these.
    """
    lengths = counts.select("pattern_id", *QUEUE_KEY, F.inline("lengths"))
    median = lengths.groupBy("pattern_id").agg(F.percentile("length", 0.5, F.col("dead_letters")).alias("median"))
    off = F.abs(F.col("length") - F.col("median"))
    nearest = F.min(F.struct(off, "dead_lettered_at", F.struct(*MESSAGE_KEY).alias("example")))["example"]
    represented = lengths.join(median, "pattern_id").groupBy("pattern_id").agg(nearest.alias("example"))
    early = counts.select("pattern_id", *QUEUE_KEY, F.inline("earliest"))
    place = F.row_number().over(Window.partitionBy("pattern_id").orderBy("dead_lettered_at", *MESSAGE_KEY))
    first = early.select("pattern_id", "message_id", place.alias("place")).where(F.col("place") <= EXAMPLES)
    members = F.array_sort(F.collect_list(F.struct("place", "message_id")))
    ids = members["message_id"].alias("example_message_ids")
    return represented.join(first.groupBy("pattern_id").agg(ids), "pattern_id")


def differences(counts: DataFrame) -> DataFrame:
    """One row a ``pattern_id`` with ``differences``: what is unlike healthy payloads, and in how many members."""
    told = counts.select("pattern_id", F.inline("differences"))
    counted = told.groupBy("pattern_id", "difference").agg(F.sum("dead_letters").alias("dead_letters"))
    return _top(counted, F.struct("difference", "dead_letters"), -F.col("dead_letters"), "differences")


def trend(counts: DataFrame) -> DataFrame:
    """One row a ``pattern_id`` with ``trend``: deaths an hour, the latest
    :data:`~deadletter.gold.dead_letter_counts.HOURS`."""
    told = counts.select("pattern_id", F.inline("hours"))
    hours = told.groupBy("pattern_id", "hour").agg(F.sum("dead_letters").alias("dead_letters"))
    newest = F.sort_array(F.collect_list(F.struct("hour", "dead_letters")), asc=False)
    return hours.groupBy("pattern_id").agg(F.reverse(F.slice(newest, 1, HOURS)).alias("trend"))


def concentrated_in(counts: DataFrame, profiles: DataFrame, stage: Stage = as_it_is) -> DataFrame:
    """One row a ``pattern_id`` with ``concentrated_in``: consumers, producers and payload fields (hosts, versions)
    that its members have more often than the messages of their queues.

    A consumer is the one of a message's last delivery. ``profiles`` are rows of ``control.queue_profile``: consumers
    and producers are compared with all delivered messages of the queue, fields with a sample of the healthy ones.
    ``stage`` keeps what the members are counted by.
    """
    people = F.col("what").isin(*PEOPLE)
    told = stage(counts.select("pattern_id", *QUEUE_KEY, F.inline("traits")))
    by_people = lifts(
        told.where(people), profiles.where(people).select(*QUEUE_KEY, "what", "value", "messages"), QUEUE_KEY
    )
    fields = profiles.where("what = 'field'").select(*QUEUE, F.col("name").alias("what"), "value", "messages")
    # where no healthy payload was seen, nothing tells how many have a field
    compared = profiles.where(EACH_HAS_ONE).select(*QUEUE).distinct()
    by_field = lifts(told.where(~people).join(compared, list(QUEUE), "left_semi"), fields, QUEUE, UNSEEN)
    row = F.struct("what", "value", "dead_letters", "share", "expected_share", "lift")
    urgent = F.struct(F.coalesce(-F.col("lift"), F.lit(float("-inf"))), -F.col("dead_letters"))
    return _top(by_people.unionByName(by_field), row, urgent, "concentrated_in")


def lifts(members: DataFrame, everyone: DataFrame, by: Sequence[str], unseen: int = 0) -> DataFrame:
    """Rows of ``pattern_id, what, value, dead_letters, share, expected_share, lift`` that stand out.

    ``members`` says in ``dead_letters`` how many of a ``pattern_id`` and queue (``by``) have each ``value`` of a
    ``what``, in one or several rows; ``everyone`` says in ``messages`` how many of a queue's have each value. Shares
    are of those that name a ``what``: of such members, and the expected one of such messages of each queue, weighted
    by where the members are. ``lift`` is null where nobody else has the value. What stands out does so even if so many
    of a queue's have each value that are ``unseen``.
    """
    named = everyone.groupBy(*by, "what").agg(F.sum("messages").alias("of"))
    places = members.groupBy("pattern_id", *by, "what").agg(F.sum("dead_letters").alias("here"))
    places = places.join(named, [*by, "what"])

    def summed(count: Column, of: Column) -> Column:
        # decimals: a sum of doubles depends on their order, which no run has in common with another
        return F.sum((F.col("here") * count / of).cast("decimal(38,12)")).cast("double")

    with_unseen = F.col("of") + unseen
    expected = places.join(everyone.select(*by, "what", "value", "messages"), [*by, "what"])
    expected = expected.groupBy("pattern_id", "what", "value").agg(
        summed(F.col("messages"), F.col("of")).alias("expected"),
        summed(F.col("messages"), with_unseen).alias("seen"),
    )
    missed = places.groupBy("pattern_id", "what").agg(summed(F.lit(unseen), with_unseen).alias("missed"))
    total = Window.partitionBy("pattern_id", "what")
    found = members.groupBy("pattern_id", "what", "value").agg(F.sum("dead_letters").alias("dead_letters"))
    judged = (
        found.withColumn("all", F.sum("dead_letters").over(total))
        .join(expected, ["pattern_id", "what", "value"], "left")
        .join(missed, ["pattern_id", "what"], "left")
        .withColumns({name: F.coalesce(name, F.lit(0.0)) for name in ("expected", "seen", "missed")})
    )
    most = F.col("seen") + F.col("missed")
    more = F.col("dead_letters") - most
    stands_out = (F.col("dead_letters") >= LIFT * most) & (more >= LEAST + SIGMAS * F.sqrt(most))
    return judged.where(stands_out).select(
        "pattern_id",
        "what",
        "value",
        "dead_letters",
        F.round(F.col("dead_letters") / F.col("all"), 4).alias("share"),
        F.round(F.col("expected") / F.col("all"), 4).alias("expected_share"),
        F.round(F.try_divide(F.col("dead_letters"), F.col("expected")), 2).alias("lift"),
    )


def _top(rows: DataFrame, value: Column, order: Column, name: str) -> DataFrame:
    """The first :data:`MOST_KEPT` rows of each pattern as an array called ``name``."""
    ranked = F.array_sort(F.collect_list(F.struct(order.alias("order"), value.alias("row"))))
    gathered = rows.groupBy("pattern_id").agg(F.slice(ranked, 1, MOST_KEPT).alias("top"))
    return gathered.select("pattern_id", F.col("top.row").alias(name))
