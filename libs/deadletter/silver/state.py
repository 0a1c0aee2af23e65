"""Batches of facts, one row a key, ready to be merged into the silver tables."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables

SETS = {"deliveries": "delivery", "failures": "failure", "deaths": "death"}
"""The columns of ``silver.message_state`` that are sets, and the facts that are in them."""
SHOWING = ("deliveries", "failures")
"""Those that show the message in its queue, which a death does not: an event from another queue may tell of it."""


def _set_of(facts: DataFrame, column: str) -> Column:
    """The distinct values, in order; none of what the facts' brokers never tell."""
    none = F.array().cast(tables.MESSAGE_STATE.type_of(column))
    told = F.array_sort(F.collect_set(SETS[column])) if SETS[column] in facts.columns else none
    return told.alias(column)


def message_state(facts: DataFrame) -> DataFrame:
    """Rows of ``silver.message_state`` from message facts: sets united, earliest values kept."""
    return (
        # A message's facts are in different events: gathering them before they are together only costs. Not by all of
        # the key: by a part that is a constant here they would be shuffled once more.
        facts.repartition(*tables.QUEUE, "message_id")
        .groupBy(*tables.MESSAGE_KEY)
        .agg(
            F.to_date(F.min("created_at")).alias("created_day"),
            F.min("posted").alias("posted"),
            F.min("settled").alias("settled"),
            *[_set_of(facts, column) for column in SETS],
        )
        # all of these begin with their time, and sets are in its order
        .withColumn("seen", F.least("posted.time", "settled.time", *[F.get(name, 0)["time"] for name in SHOWING]))
        .select(*tables.MESSAGE_STATE.column_names)
    )


def claims(facts: DataFrame) -> DataFrame:
    """Rows of ``silver.claims`` from grants, renewals and releases."""
    return (
        facts.groupBy(*tables.CLAIMS.key)
        .agg(
            F.min("claimed").alias("claimed"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("renewals")))).alias("renewals"),
            F.min("released").alias("released"),
        )
        .select(*tables.CLAIMS.column_names)
    )


def distinct_rows(facts: DataFrame, table: tables.Table) -> DataFrame:
    """One row a key for tables whose rows are a function of their event."""
    return facts.dropDuplicates(list(table.key)).select(*table.column_names)
