"""The days on which a batch's messages were created: a merge that knows them reads no other day of silver.

Only Zaqar's are known: its server never gives an id twice, and tells a message's age from its post, as far as the
stores go whose habits are known. A RabbitMQ message's time and id are its publisher's, who can send the same id again
with another time, and a Pulsar broker set up anew begins with the same ids again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.queues import MOST_QUEUES, Queue, of_queues
from deadletter.spark.frames import only_row
from deadletter.spark.staging import Stage
from deadletter.tables import MESSAGE_KEY, QUEUE

ZAQAR = "system = 'zaqar'"


class Days(NamedTuple):
    """The days that a batch tells of its Zaqar messages, the queues of those of which it tells none, and whether it has
    other brokers' messages."""

    told: frozenset[date]
    untold: frozenset[Queue]
    others: bool


def days_of(messages: DataFrame) -> Days:
    """What rows of ``silver.message_state`` tell."""
    zaqar, day = F.expr(ZAQAR), F.col("created_day")
    told = messages.agg(
        F.collect_set(F.when(zaqar, day)).alias("told"),
        F.collect_set(F.when(zaqar & day.isNull(), F.struct(*QUEUE))).alias("untold"),
        F.coalesce(F.bool_or(~zaqar), F.lit(False)).alias("others"),
    )
    row = only_row(told)
    return Days(frozenset(row["told"]), frozenset(map(tuple, row["untold"])), row["others"])


def with_known_days(batch: DataFrame, days: Days, state: DataFrame, stage: Stage) -> tuple[DataFrame, Days]:
    """The batch and its days, where messages of which it tells no day have the one by which ``state``, the rows of
    ``silver.message_state``, knows them. A deletion names its message's id and no more, and often comes in another
    batch than the claim.

    The days of the batch are looked through first: most of what is deleted was claimed not long before.
    """
    if not days.untold:
        return batch, days
    wanted = stage(batch.where(f"{ZAQAR} AND created_day IS NULL").select(*MESSAGE_KEY))
    known = state.where(of_queues(days.untold) if len(days.untold) <= MOST_QUEUES else ZAQAR)
    near = sql_days(beside(days.told))

    def found(where: str, wanted: DataFrame) -> DataFrame:
        there = known.where(where).join(wanted, list(MESSAGE_KEY), "left_semi")
        # one day a message: where a clock was wrong it has rows of several, and a merge takes each source row once
        return stage(there.groupBy(*MESSAGE_KEY).agg(F.min("created_day").alias("known_day")))

    of_messages = found(near, wanted)
    if of_messages.count() < wanted.count():
        left = wanted.join(of_messages, list(MESSAGE_KEY), "left_anti")
        of_messages = of_messages.unionByName(found(f"created_day IS NOT NULL AND NOT ({near})", left))
    more = {row["known_day"] for row in of_messages.select("known_day").distinct().collect()}
    if not more:
        return batch, days
    dated = batch.join(of_messages, list(MESSAGE_KEY), "left")
    filled = dated.withColumn("created_day", F.coalesce("created_day", "known_day")).select(*batch.columns)
    return stage(filled), days._replace(told=days.told | more)


def beside(days: Iterable[date]) -> list[date]:
    """The days with those before and after: a row can lie a day beside, as a claim tells a message's age in whole
    seconds only.

    >>> [str(day) for day in beside([date(2026, 11, 20), date(2026, 11, 21)])]
    ['2026-11-19', '2026-11-20', '2026-11-21', '2026-11-22']
    """
    return sorted({day + timedelta(days=n) for day in days for n in (-1, 0, 1)})


def literal_days(days: Days) -> str:
    """A literal predicate on a merge's target for the rows that messages of these days can match; what silver does not
    know by any day lies apart. ``true`` for other brokers' messages.

    >>> print(literal_days(Days(frozenset({date(2026, 11, 20)}), frozenset(), False)))
    (t.created_day IN (DATE'2026-11-19', DATE'2026-11-20', DATE'2026-11-21') OR t.created_day IS NULL)
    >>> literal_days(Days(frozenset(), frozenset(), False))
    '(false OR t.created_day IS NULL)'
    >>> literal_days(Days(frozenset({date(2026, 11, 20)}), frozenset(), True))
    'true'
    """
    if days.others:
        return "true"
    return f"({sql_days(beside(days.told), 't.')} OR t.created_day IS NULL)"


def sql_days(days: Iterable[date], table: str = "") -> str:
    """The rows of these days as a predicate of literals; ``table`` is the prefix of the column.

    >>> sql_days([date(2026, 11, 21), date(2026, 11, 20)]), sql_days([])
    ("created_day IN (DATE'2026-11-20', DATE'2026-11-21')", 'false')
    """
    literals = ", ".join(f"DATE'{day}'" for day in sorted(days))
    return f"{table}created_day IN ({literals})" if literals else "false"
