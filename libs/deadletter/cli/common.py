"""What several commands share: options, progress on standard error, the lake."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

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


def open_lake(lake_root: str):
    """The lake, in a session that is started now if none runs."""
    from deadletter.lake import Lake
    from deadletter.session import get_spark

    return Lake(get_spark(), lake_root)
