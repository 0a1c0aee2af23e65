"""What several commands share: options, progress on standard error, the lake."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import click

from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.session import get_spark
from deadletter.steps.summary import utc

lake_option = click.option(
    "--lake",
    "lake_root",
    required=True,
    metavar="DIR",
    help="The lake: a folder, or catalog:NAME on Databricks.",
)


def teller() -> Callable[[str], None]:
    """A function that prints progress to standard error, each line with the seconds since the start."""
    start = time.monotonic()

    def tell(text: str) -> None:
        click.echo(f"[{time.monotonic() - start:5.1f} s] {text}", err=True)

    return tell


def open_lake(lake_root: str, quick: bool = True, kafka: bool = False) -> Lake:
    """The lake, in a session that is started now if none runs; the others as for :func:`get_spark`."""
    return Lake(get_spark(quick, kafka), lake_root)


def parse_time(text: str | None, option: str = "--as-of") -> datetime | None:
    """The time that was given with ``option``, in UTC, or ``None``."""
    try:
        return utc(text) if text else None
    except ValueError:
        raise UsageError(f"{option} {text}: not an ISO 8601 time such as 2026-11-20T21:44:00+00:00") from None


def print_table(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str,
    caption: str | None = None,
    right: Sequence[str] = (),
    whole: Sequence[str] = (),
    header: bool = True,
) -> None:
    """Print a table for the eye, every value as it is: long ones are folded, except in the ``whole`` columns."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # as text, since a plain string's [brackets] and :colons: would be read as Rich's markup
    drawn = Table(title=Text(title), caption=caption and Text(caption), show_header=header)
    for name in names:
        justify = "right" if name in right else "left"
        drawn.add_column(Text(name), justify=justify, overflow="fold", no_wrap=name in whole)
    for row in rows:
        drawn.add_row(*map(Text, row))
    Console().print(drawn)
