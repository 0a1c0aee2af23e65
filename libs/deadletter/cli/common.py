"""What several commands share: options, progress on standard error, the lake."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TextIO

import click
from pyspark.errors import PySparkException

from deadletter.errors import UsageError, first_line, storage_fault
from deadletter.lake import Lake
from deadletter.spark.session import get_spark
from deadletter.tables import PROGRESS
from deadletter.times import utc

lake_option = click.option(
    "--lake",
    "lake_root",
    required=True,
    metavar="DIR",
    help="The lake: a folder, or catalog:NAME on Databricks.",
)


def options(*each: Callable) -> Callable:
    """Arguments and options that several commands share, in this order."""

    def decorate(act: Callable) -> Callable:
        for option in reversed(each):
            act = option(act)
        return act

    return decorate


NO_CONDITIONS = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "OutOfMemoryError")
"""What Spark says of a damaged file, or of too little memory, whatever was asked of it."""
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Controls but line feed and tab, and what overrides the direction of text."""


class Given(click.ParamType):
    """A text that says something. A shell hands on an empty one of a command that failed, or a variable that nobody
    set: every id begins so, every row meets such a condition, and such a path is the folder where the user stands."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is, unless it is empty."""
        if not value.strip():
            where = param.get_error_hint(ctx) if param else self.name
            raise UsageError(f"{where} is empty: give the {self.name} that is meant")
        return value


ID, CONDITION, PATH = Given("id"), Given("condition"), Given("path")
QUEUE, WHO, WHY = Given("queue"), Given("name"), Given("reason")


def printable(text: str) -> str:
    r"""A text that a terminal only shows: events hold what others wrote, and its control sequences would be obeyed.

    >>> print(printable("\x1b[2J paid \u202e"))
    \x1b[2J paid \u202e
    """
    return UNPRINTABLE.sub(lambda found: _code(ord(found[0])), text)


def one_line(text: str) -> str:
    r"""A text as :func:`printable`, and on one line.

    >>> print(one_line("paid\nhe said"))
    paid\x0ahe said
    """
    return re.sub("[\t\n]", lambda found: _code(ord(found[0])), printable(text))


def _code(number: int) -> str:
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def json_of(told: object) -> str:
    """An object, or a dataclass, on one line of ASCII as all commands print JSON; times as :func:`iso`.

    >>> print(json_of({"as_of": parse_time("2026-11-20"), "where": "Zürich"}))
    {"as_of": "2026-11-20T00:00:00.000000+00:00", "where": "Z\\u00fcrich"}
    """
    fields = dataclasses.asdict(told) if dataclasses.is_dataclass(told) and not isinstance(told, type) else told
    return json.dumps(fields, default=iso)


def iso(at: datetime) -> str:
    """A time as JSON has it, to the microsecond, as the tables' rows do."""
    return at.isoformat(timespec="microseconds")


def say(text: str, bold: bool = False, err: bool = False) -> None:
    """Print a text for a person, :func:`printable`."""
    shown = printable(text)
    click.echo(click.style(shown, bold=True) if bold else shown, err=err)


def say_first(most: int, rows: str, more: str) -> None:
    """Tell on standard error that a list was cut, and how to see ``more`` of it."""
    say(f"first {most:,} {rows}; {more}", err=True)


def silence(stream: TextIO) -> None:
    """Let a stream whose reader is gone lead nowhere: Python flushes it once more when it ends, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def teller() -> Callable[[str], None]:
    """A function that prints progress to standard error, each line with the seconds since the start."""
    start = time.monotonic()

    def tell(text: str) -> None:
        try:
            say(f"[{time.monotonic() - start:5.1f} s] {text}", err=True)
        except BrokenPipeError:  # the work goes on where nobody reads of it
            silence(sys.stderr)

    return tell


@contextmanager
def condition_told(where: str | None, lacking: Sequence[str] = ()) -> Iterator[None]:
    """Tell Spark's errors as those of a condition, which a person can change, unless a file, a disk or the memory is
    at fault; ``lacking`` are columns that the rows have with ``--as-of`` only."""
    try:
        yield
    except PySparkException as error:
        fault = first_line(error)
        if not where or storage_fault(error) or any(name in fault for name in NO_CONDITIONS):
            raise
        wanted = [name for name in lacking if "UNRESOLVED_COLUMN" in fault and f"`{name}`" in fault]
        told = f"{wanted[0]} is told with --as-of only: give the time that is meant" if wanted else fault
        raise UsageError(f"--where {where}: {told}") from None


def open_lake(lake_root: str, quick: bool = True, kafka: bool = False) -> Lake:
    """The lake, in a session that is started now if none runs; the others as for :func:`get_spark`.

    The command keeps it, to look whether another version made it when something fails.
    """
    lake = Lake(get_spark(quick, kafka), lake_root)
    lake.tune()
    context = click.get_current_context(silent=True)
    if context:
        context.find_root().obj = lake
    return lake


def open_gold(lake_root: str) -> Lake:
    """:func:`open_lake` for a command that shows gold, with a warning where that is not all of one time."""
    from deadletter.snapshot import HALF_WRITTEN, is_half_written

    lake = open_lake(lake_root)
    if lake.exists(PROGRESS) and is_half_written(lake):
        say(f"warning: {HALF_WRITTEN}", err=True)
    return lake


def parse_time(text: str | None, option: str = "--as-of") -> datetime | None:
    """The time that was given with ``option``, in UTC, or ``None``."""
    try:
        return None if text is None else utc(text)
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
    """Print a table for the eye, every value :func:`printable`: long ones are folded, except in the ``whole``
    columns."""
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text

    def text(value: str) -> Text:  # a plain string's [brackets] and :colons: would be read as Rich's markup
        return Text(printable(value))

    drawn = Table(title=text(title), caption=caption and text(caption), show_header=header)
    for name in names:
        justify: JustifyMethod = "right" if name in right else "left"
        drawn.add_column(text(name), justify=justify, overflow="fold", no_wrap=name in whole)
    for row in rows:
        drawn.add_row(*map(text, row))
    console = Console()
    with console.capture() as shown:  # Rich would end with 1 where nobody reads it any more
        console.print(drawn)
    click.echo(shown.get(), nl=False)
