"""``deadletter notebook``: run a Databricks notebook here and keep what it shows."""

from __future__ import annotations

import os

import click

from deadletter.cli.common import PATH, lake_option, open_gold
from deadletter.errors import UsageError


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@lake_option
@click.option("--out", required=True, type=PATH, metavar="PAGE.html", help="Where to write the page.")
@click.option("--set", "chosen", multiple=True, metavar="NAME=VALUE", help="Fill in a widget; may be given again.")
def notebook(file: str, lake_root: str, out: str, chosen: tuple[str, ...]) -> None:
    """Run FILE, a notebook in Databricks' source format, and write its prose, tables and charts as one page."""
    from deadletter.notebook.cells import widgets_of
    from deadletter.notebook.page import write_page

    known = widgets_of(file) - {"lake"}
    for pair in chosen:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair}: write it as NAME=VALUE")
        if name not in known:
            raise UsageError(f"--set {pair}: {file} has no widget {name}; it has {', '.join(sorted(known)) or 'none'}")
        os.environ[f"DEADLETTER_{name.upper()}"] = value
    os.environ["DEADLETTER_LAKE"] = lake_root
    open_gold(lake_root)
    click.echo(write_page(file, out))
