"""What is counted of dead letters that say the same, queue by queue: all that patterns are made of.

Counts of several queues add up. So a run counts the dead letters of the queues that it derives, and takes the other
queues' counts as they were kept, however many dead letters they are of.
"""

from __future__ import annotations

from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.identity import SAID_BY
from deadletter.gold.traits import PEOPLE
from deadletter.tables import QUEUE, QUEUE_KEY

EXAMPLES = 3
"""Members that are kept by name, the earliest ones."""
HOURS = 48
"""Hours with deaths that a trend has, the latest ones: among those of several queues are only such of each."""
_SAYING = (*SAID_BY, "pattern_id")
_OF_QUEUE = ("dead_lettered_at", "message_id")
"""The order of the dead letters of a queue: :data:`~deadletter.gold.identity.ORDER` without what all have."""


def dead_letter_counts(dead: DataFrame) -> DataFrame:
    """Rows of ``control.dead_letter_counts``, of rows of ``gold.dead_letters``, which are read several times."""
    parts = [_hours(dead), _lengths(dead), _earliest(dead), _differences(dead), _traits(dead)]
    together = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts).groupBy(*_SAYING)
    gathered = {name: F.array_sort(F.collect_list(name)) for name in ("earliest", "lengths", "differences", "traits")}
    newest = F.slice(F.sort_array(F.collect_list("hours"), asc=False), 1, HOURS)
    counts = together.agg(
        F.sum("hours.dead_letters").alias("dead_letters"),
        F.max("last_seen").alias("last_seen"),
        F.reverse(newest).alias("hours"),
        *[values.alias(name) for name, values in gathered.items()],
    )
    return counts.select(*tables.DEAD_LETTER_COUNTS.column_names)


def said(counts: DataFrame) -> DataFrame:
    """What the dead letters of ``control.dead_letter_counts`` say, as :func:`deadletter.gold.patterns.summarised` tells
    it, and ``known_as``, the pattern that they have had."""
    first = F.col("earliest")[0]
    of_queue = [F.col(name) for name in QUEUE_KEY]
    earliest = F.struct(first["dead_lettered_at"].alias("dead_lettered_at"), *of_queue, first["message_id"])
    return counts.select(
        *SAID_BY, "dead_letters", earliest.alias("earliest"), "last_seen", F.col("pattern_id").alias("known_as")
    )


def named_members(counts: DataFrame) -> DataFrame:
    """The keys of the members that are kept by name for their payload's length, with what they say: the examples of the
    patterns they are in are among them."""
    told = counts.select(*SAID_BY, F.explode("lengths.message_id").alias("message_id"))
    return told.select(*QUEUE_KEY, "message_id", "signature", "deviation_key")


def _hours(dead: DataFrame) -> DataFrame:
    hour = F.date_trunc("hour", "dead_lettered_at").alias("hour")
    counted = dead.groupBy(*_SAYING, hour).agg(
        F.count("*").alias("dead_letters"), F.max("dead_lettered_at").alias("last_seen")
    )
    return counted.select(*_SAYING, "last_seen", F.struct("hour", "dead_letters").alias("hours"))


def _lengths(dead: DataFrame) -> DataFrame:
    length = F.length(F.coalesce("payload", F.lit(""))).alias("length")
    counted = dead.groupBy(*_SAYING, length).agg(
        F.count("*").alias("dead_letters"), F.min(F.struct(*_OF_QUEUE)).alias("first")
    )
    return counted.select(*_SAYING, F.struct("length", "dead_letters", "first.*").alias("lengths"))


def _earliest(dead: DataFrame) -> DataFrame:
    place = F.row_number().over(Window.partitionBy(*_SAYING).orderBy(*_OF_QUEUE))
    first = dead.select(*_SAYING, *_OF_QUEUE, place.alias("place")).where(F.col("place") <= EXAMPLES)
    return first.select(*_SAYING, F.struct(*_OF_QUEUE).alias("earliest"))


def _differences(dead: DataFrame) -> DataFrame:
    # alike ones together first: what takes an array apart is not compiled
    alike = dead.groupBy(*_SAYING, "deviation").agg(F.count("*").alias("n"))
    told = alike.select(*_SAYING, "n", F.explode("deviation").alias("difference"))
    counted = told.groupBy(*_SAYING, "difference").agg(F.sum("n").alias("dead_letters"))
    return counted.select(*_SAYING, F.struct("difference", "dead_letters").alias("differences"))


def _traits(dead: DataFrame) -> DataFrame:
    people, several = F.col("what").isin(*PEOPLE), F.col("system") == "pulsar"
    alike = dead.groupBy(*_SAYING, "traits").agg(F.count("*").alias("n"))
    told = alike.select(*_SAYING, F.inline("traits"), "n").where(people | ~several)
    # a message can die in several subscriptions: it has one payload, which counts in the first of them
    fields = dead.where(several).select("*", F.inline("traits")).where(~people)
    others = [name for name in _SAYING if name not in (*QUEUE, "pattern_id")]
    first = F.min(F.struct(*others)).alias("first")
    once = fields.groupBy(*QUEUE, "pattern_id", "message_id", "what", "value").agg(first)
    told = told.unionByName(once.select(*QUEUE, "pattern_id", "first.*", "what", "value", F.lit(1).alias("n")))
    counted = told.groupBy(*_SAYING, "what", "value").agg(F.sum("n").alias("dead_letters"))
    return counted.select(*_SAYING, F.struct("what", "value", "dead_letters").alias("traits"))
