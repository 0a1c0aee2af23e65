"""What is kept of the messages of Zaqar's queues: a run reads of silver only the days that something changed since.

Of a queue's messages most were settled long ago, and no event tells of them again. Those that a rule has a word on are
kept as they are in silver, the others counted, see :mod:`deadletter.gold.uneventful`; both by the day of creation. What
is kept holds all facts, so it is neither used nor made where a fact is later than the time that gold stands for. It
lags behind where little is new: what came since is read once more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import SilverFacts
from deadletter.gold.scope import EVERYTHING, Scope
from deadletter.queues import MOST_QUEUES, Queue, of_queues
from deadletter.rules.policy import targets
from deadletter.silver.days import ZAQAR, beside, sql_days
from deadletter.spark.frames import only_row
from deadletter.tables import EVERY, QUEUE, Table

LEAST = 3_000_000
"""To look at fewer messages costs less than to read what is kept of them."""
AGAIN = 1_000_000
"""To look at fewer messages once more with each run costs less than to keep them anew."""
DATED = f"{ZAQAR} AND created_day IS NOT NULL"
"""The messages that can be kept: other brokers' days can change, see :mod:`deadletter.silver.days`."""
NEVER = -1


class KeptTooLittle(Exception):
    """What is kept does not tell all that is asked of it: the queues' messages have to be read in full."""


@dataclass(frozen=True)
class Kept:
    """What needs not be read of silver for the queues in ``scope``.

    ``queues``: those whose messages are kept; ``others``: Zaqar's other queues, of which all days are read;
    ``changed``: of each day of creation the queues, of both, whose messages of that day are read, as something changed
    since they were kept.
    """

    scope: Scope = EVERYTHING
    queues: frozenset[Queue] = frozenset()
    others: frozenset[Queue] = frozenset()
    changed: Mapping[date, frozenset[Queue]] = field(default_factory=dict)

    @cached_property
    def anew(self) -> str:
        """The messages that are read of silver nevertheless, as a SQL predicate; those of no day aside.

        >>> a, b = ("zaqar", "p", "a"), ("zaqar", "p", "b")
        >>> days = {date(2026, 11, 19): {a}, date(2026, 11, 20): {a}, date(2026, 11, 21): {a, b}}
        >>> print(Kept(queues={a, b}, changed=days).anew.replace("system = 'zaqar' AND tenant = 'p' AND ", ""))
        (created_day IN (DATE'2026-11-19', DATE'2026-11-20') AND ((queue IN ('a')))) OR
        (created_day IN (DATE'2026-11-21') AND ((queue IN ('a', 'b'))))
        >>> Kept().anew
        'false'
        """
        days_of: dict[frozenset[Queue], set[date]] = defaultdict(set)
        for day, queues in self.changed.items():
            days_of[frozenset(queues)].add(day)
        if sum(map(len, days_of)) > MOST_QUEUES:  # too many names for one query: a few messages more are read
            days_of = {frozenset[Queue]().union(*days_of): set(self.changed)}
        told = [f"({sql_days(days)} AND ({of_queues(queues)}))" for queues, days in days_of.items()]
        return " OR ".join(told) or "false"

    @property
    def still(self) -> str:
        """The kept rows that still hold."""
        return f"({of_queues(self.queues)}) AND NOT ({self.anew})"

    @property
    def written(self) -> str:
        """The rows that a run puts in the place of what is kept: of messages that it read of silver. Those of a tenant
        that is derived as a whole are left out: a rule has a word on most of them."""
        if self.scope == EVERYTHING:
            return "true"
        return f"({of_queues(named(self.scope) - self.queues)}) OR {self.anew}"

    def unread(self, state: DataFrame) -> DataFrame:
        """The rows of ``silver.message_state`` in the scope that are not kept."""
        if not self.queues:
            return state
        dated = self.queues | self.others
        # days alone let Delta skip files
        near = state.where(f"created_day IS NULL OR {sql_days(self.changed)}").where(of_queues(dated))
        found = near.where(f"created_day IS NULL OR {self.anew}")
        undated = (self.scope.queues or frozenset()) - dated
        return found.unionByName(state.where(of_queues(undated))) if undated else found


def named(scope: Scope) -> frozenset[Queue]:
    """Zaqar's queues in a scope that names its queues, without tenants as a whole."""
    return frozenset(queue for queue in scope.queues or () if queue[0] == "zaqar" and queue[2] != EVERY)


def kept_in(scope: Scope, queues: DataFrame, changes: DataFrame) -> Kept:
    """What is kept of the queues in ``scope``, by rows of ``control.kept_queues`` and ``control.queue_changes``.

    Nothing where that is little.
    """
    if scope.queues is None:
        return Kept(scope)
    rows = queues.where(of_queues(named(scope))).collect()
    if sum(row["messages"] for row in rows) < LEAST:
        return Kept(scope)
    kept = frozenset(tuple(row[name] for name in QUEUE) for row in rows)
    others = named(scope) - kept
    versions = queues.select(*QUEUE, F.col("source_version").alias("kept_version"))
    told = changes.where(of_queues(kept | others)).join(F.broadcast(versions), list(QUEUE), "left")
    since = told.where(F.col("source_version") > F.coalesce("kept_version", F.lit(NEVER)))
    changed: dict[date, set[Queue]] = defaultdict(set)
    for *queue, day in since.select(*QUEUE, F.explode("days").alias("day")).distinct().collect():
        for near in beside([day]):
            changed[near].add(tuple(queue))
    return Kept(scope, kept, others, {day: frozenset(of) for day, of in changed.items()})


def to_keep(kept: Kept, facts: SilverFacts, version: int) -> dict[Table, DataFrame]:
    """The rows of ``control.judged_messages``, ``control.counted_messages`` and ``control.kept_queues`` by which the
    next runs can go, of ``facts`` that were :func:`~deadletter.gold.uneventful.split`; ``version`` is that of bronze
    which silver holds. None where few messages were read of silver, or there are few.
    """
    if facts.uneventful is None:
        return {}
    state, counted = (frame.where(DATED) for frame in (facts.state, facts.uneventful))
    new = state.where(kept.written), counted.where(kept.written)
    if _messages(*new) < AGAIN or _messages(state, counted) < LEAST:
        return {}
    # also those that have no message: to find that out again is to look for them
    policies = facts.policies.where(ZAQAR)
    targeted = policies.select(*QUEUE[:2], F.explode(targets(F.col("policies"))).alias("queue"))
    without = [frame.select(*QUEUE).where(ZAQAR) for frame in (facts.state, facts.claims, facts.attempts)]
    without += [policies.select(*QUEUE), targeted.select(*QUEUE)]
    none, one = (F.lit(number).cast("bigint").alias("messages") for number in (0, 1))
    frames = [state.select(*QUEUE, one), counted.select(*QUEUE, "messages")]
    each = reduce(DataFrame.unionByName, frames + [frame.distinct().select(*QUEUE, none) for frame in without])
    here = "true" if kept.scope == EVERYTHING else of_queues(named(kept.scope))
    queues = each.where(f"({here}) AND queue != '{EVERY}'").groupBy(*QUEUE).agg(F.sum("messages").alias("messages"))
    return {
        tables.JUDGED_MESSAGES: new[0],
        tables.COUNTED_MESSAGES: new[1],
        tables.KEPT_QUEUES: queues.withColumn("source_version", F.lit(version).cast("bigint")),
    }


def _messages(state: DataFrame, counted: DataFrame) -> int:
    return state.count() + (only_row(counted.agg(F.sum("messages")))[0] or 0)
