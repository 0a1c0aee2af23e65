"""``docs/tables.md``, made from :mod:`deadletter.tables`: ``python -m deadletter.tables_doc > docs/tables.md``."""

from __future__ import annotations

from deadletter.tables import ALL_TABLES, Column, Table

HEAD = """# Tables

Made from `libs/deadletter/tables.py` by `make tables`; the same words are the comments in the catalog. All times are
UTC with microseconds, all durations are seconds.
"""


def document() -> str:
    """The whole page: a list of the tables, then each with its columns."""
    listed = "\n".join(f"- [`{table.full_name}`](#{anchor(table)}): {table.comment}" for table in ALL_TABLES)
    return "\n".join([HEAD, listed, "", *[section(table) for table in ALL_TABLES]])


def anchor(table: Table) -> str:
    """The link to a table's heading, as Git hosts make it: small letters, no dots."""
    return table.full_name.replace(".", "")


def section(table: Table) -> str:
    """One table: what it holds, its key, its columns."""
    rows = "\n".join(row(column, column.name in table.key) for column in table.columns)
    parted = f" Partitioned by `{', '.join(table.partitioned_by)}`." if table.partitioned_by else ""
    return (
        f"## {table.full_name}\n\n{table.comment}.{parted} Columns of the key are marked.\n\n"
        f"| column | type | meaning |\n| --- | --- | --- |\n{rows}\n"
    )


def row(column: Column, in_key: bool) -> str:
    """One column as a line of the table.

    >>> row(Column("queue", "string", "Queue name"), True)
    '| **`queue`** | `string` | Queue name |'
    """
    name = f"**`{column.name}`**" if in_key else f"`{column.name}`"
    kind = column.type.replace(",", ", ")
    return f"| {name} | `{kind}` | {column.comment.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    print(document(), end="")
