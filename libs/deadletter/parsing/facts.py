"""The facts an event can tell, and the shapes they have before they are merged."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables

MESSAGE_FACT = {
    "tenant": "string",
    "queue": "string",
    "subscription": "string",
    "message_id": "string",
    "created_at": "timestamp",
    "posted": tables.POSTED,
    "delivery": tables.DELIVERY,
    "settled": tables.SETTLED,
    "failure": tables.FAILURE,
    "death": tables.DEATH,
}
"""One fact about one message: its key, when it was created as far as the event tells, and what happened."""
PARTS = ("posted", "delivery", "settled", "failure", "death")
"""What can have happened."""


@dataclass(frozen=True)
class Facts:
    """What a batch of raw events says, one DataFrame a kind.

    ``events``: every parsed event with ``event_id, system, raw, source_file, captured_at, reasons, silent``;
    ``messages``: rows of :data:`MESSAGE_FACT` with ``system``, without those of :data:`PARTS` that none of their
    brokers ever tells: to gather nothing of millions of messages takes its time, too; ``claims``, ``attempts`` and
    ``policies`` have the columns of their silver tables.
    """

    events: DataFrame
    messages: DataFrame
    claims: DataFrame
    attempts: DataFrame
    policies: DataFrame

    def union(self, other: Facts) -> Facts:
        """Return both brokers' facts together."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Facts(*[mine.unionByName(theirs, allowMissingColumns=True) for mine, theirs in pairs])


def message_fact(**parts: str) -> str:
    """SQL for one message fact as a struct; the parts not named are null.

    >>> message_fact(queue="'q'")[:60]
    "named_struct('tenant', CAST(tenant AS string), 'queue', CAST"
    """
    fields = (f"'{name}', {value}" for name, value in _values(parts).items())
    return f"named_struct({', '.join(fields)})"


def message_columns(**parts: str) -> list[Column]:
    """What :func:`message_fact` says, as columns: what reads one of them need not make the others. Of :data:`PARTS`
    there are those that are named."""
    untold = set(PARTS) - set(parts)
    return [F.expr(value).alias(name) for name, value in _values(parts).items() if name not in untold]


def _values(parts: dict[str, str]) -> dict[str, str]:
    values = {"tenant": "tenant", "subscription": "''"} | parts
    unknown = set(values) - set(MESSAGE_FACT)
    if unknown:
        raise ValueError(f"no such fact: {sorted(unknown)}")
    return {name: f"CAST({values.get(name, 'NULL')} AS {kind})" for name, kind in MESSAGE_FACT.items()}


def reasons(rules: dict[str, str]) -> Column:
    """The array of all rules an event breaks; ``rules`` maps ``code: explanation`` to a SQL predicate.

    A predicate that is null counts as not broken.
    """
    broken = [F.when(F.expr(predicate), F.lit(reason)) for reason, predicate in rules.items()]
    # an array is not compiled, and most events break nothing: asking for any first is many times cheaper
    some = F.expr(" OR ".join(f"({predicate})" for predicate in rules.values()))
    return F.when(some, F.array_compact(F.array(*broken))).otherwise(F.array().cast("array<string>"))


def explode_messages(events: DataFrame) -> DataFrame:
    """Rows of :data:`MESSAGE_FACT` plus ``system`` from ``events`` with an array column ``facts``."""
    facts = events.where("size(reasons) = 0").select("system", F.explode("facts").alias("fact"))
    return facts.select("system", *[F.col(f"fact.{name}").alias(name) for name in MESSAGE_FACT])


def rows_of(events: DataFrame, table: tables.Table, kinds: list[str], values: dict[str, str]) -> DataFrame:
    """Rows of a silver table from the events of ``kinds``: each column's SQL is in ``values``, else null."""
    columns = [
        F.expr(f"CAST({values.get(column.name, 'NULL')} AS {column.type})").alias(column.name)
        for column in table.columns
    ]
    return events.where(F.col("kind").isin(kinds) & (F.size("reasons") == 0)).select(*columns)


def without_claims(parsed: DataFrame, policies: DataFrame) -> Facts:
    """The facts of a broker that pushes its messages: it has neither claims nor attempts to claim."""
    none = parsed.where("false")
    claims, attempts = (rows_of(none, table, [], {}) for table in (tables.CLAIMS, tables.CLAIM_ATTEMPTS))
    return Facts(parsed, explode_messages(parsed), claims, attempts, policies)
