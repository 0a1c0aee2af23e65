"""``deadletter show``: the rows of a table."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterator
from io import TextIOWrapper

import click
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.cli.common import (
    CONDITION,
    condition_told,
    lake_option,
    one_line,
    open_gold,
    open_lake,
    parse_time,
    print_table,
    say,
    say_first,
)
from deadletter.cli.failing import Py4JJavaError
from deadletter.errors import UsageError, last_cause
from deadletter.gold.status import STANDING
from deadletter.lake import Lake
from deadletter.pages.rows import cut
from deadletter.snapshot import status_at
from deadletter.tables import Table

LIMITS = click.IntRange(1, 2**31 - 2)
"""Spark takes no larger limit, and one row more is asked for."""
AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx",
    # ASCII, as all JSON here: standard output is not UTF-8 everywhere
    "writeNonAsciiCharacterAsCodePoint": "true",
}


@click.command()
@click.argument("table")
@lake_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="json: one object a line.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--as-of", metavar="ISO8601", help="message_state only: each message's status at that time.")
@click.option(
    "--where", type=CONDITION, metavar="SQL", help="Only rows for which this is true, e.g. \"queue = 'orders'\"."
)
@click.option("--limit", type=LIMITS, help="At most so many rows; default 20 as a table, else all.")
def show(table: str, lake_root: str, form: str, as_of: str | None, where: str | None, limit: int | None) -> None:
    """Print the rows of TABLE, e.g. dead_letters or silver.message_state.

    With --format json or csv, standard output holds nothing but the rows, csv in UTF-8. A payload that begins with = is
    a formula to a spreadsheet: open what others wrote there as text.
    """
    found = tables.find(table)
    if found is None:
        names = ", ".join(known.full_name for known in tables.ALL_TABLES)
        raise UsageError(f"no table {table}. There are: {names}")
    if as_of is not None and found is not tables.MESSAGE_STATE:
        raise UsageError(f"--as-of goes with message_state; {found.full_name} is as the last run's --as-of made it")
    lake = (open_gold if found.layer == "gold" else open_lake)(lake_root)
    most = limit or (20 if form == "table" else None)
    with condition_told(where, STANDING if found is tables.MESSAGE_STATE and as_of is None else ()):
        df = select_rows(lake, found, as_of, where, most and most + 1)
        rows = as_json_rows(df)
        form_of = {"table": print_rows, "json": print_json, "csv": print_csv}
        form_of[form](itertools.islice(rows, most), found, df.columns)
        if most and next(rows, None):
            say_first(most, "rows", "--limit N shows more")


def select_rows(lake: Lake, table: Table, as_of: str | None, where: str | None, limit: int | None) -> DataFrame:
    """The rows in the order of the table's key."""
    until = parse_time(as_of)
    df = status_at(lake, until) if until else lake.read(table)
    df = (df.where(where) if where else df).orderBy(*table.key)
    return df.limit(limit) if limit else df


def as_json_rows(df: DataFrame) -> Iterator[str]:
    r"""The rows as JSON objects, fetched as they are read.

    >>> list(as_json_rows(spark.createDataFrame([("Zürich 😀", None)], "place STRING, n INT")))
    ['{"place":"Z\\u00FCrich \\uD83D\\uDE00","n":null}']
    """
    try:
        for row in df.select(F.to_json(F.struct("*"), AS_JSON).alias("row")).toLocalIterator():
            yield row["row"]
    except Py4JJavaError as error:  # the one call whose errors PySpark leaves as Java's
        raise PySparkException(last_cause(error)) from None


def print_json(rows: Iterator[str], table: Table, names: list[str]) -> None:
    """One JSON object a line."""
    for row in rows:
        click.echo(row)


def print_csv(rows: Iterator[str], table: Table, names: list[str]) -> None:
    """CSV with a header, in UTF-8 whatever the terminal has; nested values as JSON."""
    if isinstance(sys.stdout, TextIOWrapper):  # else a test's, which has no encoding
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    writer = csv.writer(sys.stdout)
    writer.writerow(names)
    for row in rows:
        values = json.loads(row)
        writer.writerow([as_text(values[name]) for name in names])


def as_text(value: object) -> str:
    """A value as a person reads it: null is empty, truths and nested values are JSON.

    >>> as_text(None), as_text(3), as_text(True), as_text([1])
    ('', '3', 'true', '[1]')
    """
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict | bool) else str(value)


WIDEST = 8
"""A table with more columns than this does not fit a screen: its rows are printed one below the other."""


def print_rows(rows: Iterator[str], table: Table, names: list[str]) -> None:
    """Rows for the eye; columns without any value are left out, long values are cut."""
    records = [json.loads(row) for row in rows]
    names = [name for name in names if any(record[name] not in (None, "", []) for record in records)]
    if not records:
        click.echo("no rows")
    elif len(names) > WIDEST:
        print_records(records, names)
    else:
        shown = [[cut(as_text(record[name]), 120) for name in names] for record in records]
        print_table(names, shown, table.full_name, table.comment)


def print_records(records: list[dict], names: list[str]) -> None:
    """Each row as a block of ``name  value`` lines."""
    width = max(map(len, names))
    for number, record in enumerate(records, 1):
        say(f"--- {number} ---", bold=True)
        for name in names:
            say(f"{name:<{width}}  {one_line(cut(as_text(record[name]), 160))}")
