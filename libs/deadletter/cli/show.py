"""``deadletter show``: the rows of a table."""

from __future__ import annotations

import csv
import json
import sys

import click

from deadletter.cli.common import lake_option, open_lake
from deadletter.errors import UsageError, first_line

TIMESTAMPS = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


@click.command()
@click.argument("table")
@lake_option
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True,
    help="json: one object a line.",
)
@click.option("--where", metavar="SQL", help="Only rows for which this is true, e.g. \"queue = 'orders'\".")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many rows; default 20 as a table, else all.")
def show(table: str, lake_root: str, form: str, where: str | None, limit: int | None) -> None:
    """Print the rows of TABLE, e.g. dead_letters or silver.message_state.

    With --format json or csv, standard output holds nothing but the rows.
    """
    from deadletter import tables

    found = tables.find(table)
    if found is None:
        names = ", ".join(known.full_name for known in tables.ALL_TABLES)
        raise UsageError(f"no table {table}. There are: {names}")
    rows = select_rows(open_lake(lake_root), found, where, limit or (20 if form == "table" else None))
    {"table": print_table, "json": print_json, "csv": print_csv}[form](rows, found)


def select_rows(lake, table, where: str | None, limit: int | None):
    """The rows as one JSON string each, in the order of the table's key."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        df = lake.read(table)
        df = df.where(where) if where else df
        df = df.orderBy(*table.key)
        df = df.limit(limit) if limit else df
        return df.select(F.to_json(F.struct("*"), TIMESTAMPS).alias("row")).toLocalIterator()
    except PySparkException as error:
        raise UsageError(f"--where {where}: {first_line(error)}") from None


def print_json(rows, table) -> None:
    """One JSON object a line."""
    for row in rows:
        click.echo(row["row"])


def print_csv(rows, table) -> None:
    """CSV with a header; nested values as JSON."""
    writer = csv.writer(sys.stdout)
    writer.writerow(table.column_names)
    for row in rows:
        values = json.loads(row["row"])
        writer.writerow([as_text(values[name]) for name in table.column_names])


def as_text(value) -> str:
    """A value as a person reads it: null is empty, nested values are JSON.

    >>> as_text(None), as_text(3), as_text([1])
    ('', '3', '[1]')
    """
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


def print_table(rows, table) -> None:
    """A table for the eye; columns without any value are left out, long values are cut."""
    from rich.console import Console
    from rich.table import Table

    records = [json.loads(row["row"]) for row in rows]
    names = [name for name in table.column_names if any(record[name] not in (None, "") for record in records)]
    drawn = Table(title=table.full_name, caption=table.comment)
    for name in names:
        drawn.add_column(name, overflow="fold")
    for record in records:
        drawn.add_row(*[as_text(record[name])[:120] for name in names])
    Console().print(drawn)
    if not records:
        click.echo("no rows")
