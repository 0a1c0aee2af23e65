"""The SQL statements that make a table and change it."""

from __future__ import annotations

from deadletter.spark.sqltext import sql_string
from deadletter.tables import Table

LONGEST_WAIT = 30
"""Days that an append-only table keeps the files that OPTIMIZE replaced: so long may a reader of what was appended be
stopped, also where Unity Catalog tidies by itself (predictive optimization). Delta keeps its log as long."""


def create_statement(identifier: str, table: Table, is_shared: bool = False) -> str:
    """The SQL that creates ``table`` with every comment.

    ``is_shared``: others may tidy its files while it is written, as Unity Catalog does by itself (predictive
    optimization): OPTIMIZE does not get in the way of a merge where rows are marked as deleted.
    """
    columns = ",\n  ".join(
        f"`{column.name}` {column.type} COMMENT {sql_string(column.comment)}" for column in table.columns
    )
    properties = _properties(table, is_shared)
    partitions = f"\nPARTITIONED BY ({', '.join(table.partitioned_by)})" if table.partitioned_by else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {identifier} (\n  {columns}\n) USING DELTA{partitions}\n"
        f"COMMENT {sql_string(table.comment)}\n"
        f"TBLPROPERTIES ({', '.join(f'{sql_string(k)} = {sql_string(v)}' for k, v in properties.items())})"
    )


def _properties(table: Table, is_shared: bool) -> dict[str, str]:
    # least and greatest values of every field of a fact cost more than they spare
    stats_columns = {"delta.dataSkippingStatsColumns": ",".join(table.stats_columns)} if table.stats_columns else {}
    if not table.append_only:
        return {"delta.enableDeletionVectors": str(table.deletion_vectors or is_shared).lower()} | stats_columns
    # what is only appended to can be read forward from the last version that was processed
    read_forward = {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}
    return read_forward | {"delta.deletedFileRetentionDuration": f"interval {LONGEST_WAIT} days"} | stats_columns


def merge_statement(identifier: str, table: Table, view: str, pruning: str) -> str:
    """The MERGE that joins facts: commutative, associative and idempotent for every column."""
    facts = [column for column in table.columns if column.name not in table.key]
    joined = {column.name: joined_value(column.name, column.type) for column in facts}
    keys = " AND ".join(f"t.`{name}` = s.`{name}`" for name in table.key)
    changed = " OR ".join(f"NOT (t.`{name}` <=> {value})" for name, value in joined.items()) or "false"
    updates = ", ".join(f"t.`{name}` = {value}" for name, value in joined.items())
    matched = f"WHEN MATCHED AND ({changed}) THEN UPDATE SET {updates}\n" if joined else ""
    return (
        f"MERGE INTO {identifier} t USING {view} s ON ({pruning}) AND {keys}\n{matched}WHEN NOT MATCHED THEN INSERT *"
    )


def revise_statement(identifier: str, table: Table, view: str) -> str:
    """The MERGE that puts the rows of ``view`` in the place of those with the same key: deleted where ``_kept`` is
    null."""
    keys = " AND ".join(f"t.`{key}` = s.`{key}`" for key in table.key)
    names = [f"`{name}`" for name in table.column_names]
    return (
        f"MERGE INTO {identifier} t USING {view} s ON {keys}\n"
        "WHEN MATCHED AND s._kept IS NULL THEN DELETE\n"
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in names)}\n"
        f"WHEN NOT MATCHED AND s._kept THEN INSERT ({', '.join(names)})"
        f" VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def joined_value(name: str, kind: str) -> str:
    """The least upper bound of a column's stored and arriving value, as SQL.

    Sets unite in a fixed order; anything else keeps the earliest, which ``least`` takes with nulls aside.

    >>> joined_value("seen", "timestamp")
    'least(t.`seen`, s.`seen`)'
    """
    if kind.startswith("array<"):
        return f"array_sort(array_union(t.`{name}`, s.`{name}`))"
    return f"least(t.`{name}`, s.`{name}`)"
