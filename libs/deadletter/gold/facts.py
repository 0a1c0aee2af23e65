"""The facts that count at ``as_of``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.rules.policy import histories


@dataclass(frozen=True)
class SilverFacts:
    """The silver tables, without what happened after ``as_of``.

    ``state``, ``claims`` and ``attempts`` have their tables' columns; ``policies`` is one row a queue with its
    history, see :func:`deadletter.rules.policy.histories`.
    """

    state: DataFrame
    claims: DataFrame
    attempts: DataFrame
    policies: DataFrame
    as_of: datetime


def until(
    state: DataFrame, claims: DataFrame, attempts: DataFrame, policies: DataFrame, as_of: datetime
) -> SilverFacts:
    """Drop every fact later than ``as_of``."""
    limit = F.lit(as_of)
    kept_state = state.withColumns(
        {
            "posted": _kept(F.col("posted"), limit),
            "settled": _kept(F.col("settled"), limit),
            "deliveries": _kept_in("deliveries", limit),
            "failures": _kept_in("failures", limit),
            "deaths": _kept_in("deaths", limit),
        }
    ).where((F.col("seen") <= limit) | (F.size("deaths") > 0))
    kept_claims = claims.withColumns(
        {"claimed": _kept(F.col("claimed"), limit), "renewals": _kept_in("renewals", limit)}
    ).withColumn("released", _kept(F.col("released"), limit))
    return SilverFacts(
        kept_state,
        kept_claims,
        attempts.where(F.col("time") <= limit),
        histories(policies.where(F.col("valid_from") <= limit)),
        as_of,
    )


def _kept(fact: Column, limit: Column) -> Column:
    return F.when(fact["time"] <= limit, fact)


def _kept_in(column: str, limit: Column) -> Column:
    return F.filter(column, lambda fact: fact["time"] <= limit)


@contextmanager
def kept(facts: SilverFacts) -> Iterator[SilverFacts]:
    """The same facts, read and filtered once for all that is derived from them."""
    held = {name: getattr(facts, name).persist() for name in ("state", "claims", "attempts", "policies")}
    try:
        yield replace(facts, **held)
    finally:
        for frame in held.values():
            frame.unpersist()
