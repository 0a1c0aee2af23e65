"""What a merge into silver tells something new of: the queues whose rows of gold have to be derived anew."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.rules.pulsar import tenant_of
from deadletter.silver.days import ZAQAR
from deadletter.tables import QUEUE, QUEUE_CHANGES

NO_DAY = "CAST(NULL AS date)"


def queue_changes(
    messages: DataFrame, claims: DataFrame, attempts: DataFrame, policies: DataFrame, version: int
) -> DataFrame:
    """Rows of ``control.queue_changes``: the queues that batches of rows of the four silver tables are about.

    A queue to which a dead message went is among them: what lies there is a dead letter now. By that alone it has no
    fact of its own, so ``earliest`` is null. Of which ``days`` the messages are, only Zaqar's rows tell for good, see
    :mod:`deadletter.silver.days`.
    """
    dead = messages.where("size(deaths) > 0").select("system", "tenant", F.explode("deaths").alias("death"))
    told = [
        _told(messages, _times_of_message(), f"IF({ZAQAR}, created_day, NULL)"),
        _told(claims, F.concat(F.array("claimed.time", "released.time"), _times("renewals"))),
        _told(attempts, F.array("time")),
        _told(policies, F.array("valid_from")),
        dead.where("death.dead_letter_queue IS NOT NULL").select(
            "system",
            F.expr(tenant_of("death.dead_letter_queue")).alias("tenant"),
            F.col("death.dead_letter_queue").alias("queue"),
            F.lit(None).cast("timestamp").alias("first"),
            F.col("death.time").alias("last"),
            F.expr(NO_DAY).alias("day"),
        ),
    ]
    # day by day first: what gathers values is slow where there are many
    by_day = reduce(DataFrame.unionByName, told).groupBy(*QUEUE, "day")
    by_queue = by_day.agg(F.min("first").alias("first"), F.max("last").alias("last")).groupBy(*QUEUE)
    found = by_queue.agg(
        F.min("first").alias("earliest"),
        F.max("last").alias("latest"),
        F.array_sort(F.collect_set("day")).alias("days"),
    )
    return found.withColumn("source_version", F.lit(version).cast("bigint")).select(*QUEUE_CHANGES.column_names)


def _told(frame: DataFrame, times: Column, day: str = NO_DAY) -> DataFrame:
    timed = frame.select(*QUEUE, times.alias("times"), F.expr(day).alias("day"))
    return timed.select(*QUEUE, F.array_min("times").alias("first"), F.array_max("times").alias("last"), "day")


def _times_of_message() -> Column:
    seen = F.array("seen", "posted.time", "settled.time")
    # a repeated death can be dated by the event that told of the one before it, see gold.facts.dated
    return F.concat(seen, _times("deliveries"), _times("failures"), _times("deaths"), F.col("deaths.told"))


def _times(facts: str) -> Column:
    return F.col(f"{facts}.time")
