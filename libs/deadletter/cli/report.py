"""``deadletter report``: a page to read."""

from __future__ import annotations

import click

from deadletter.cli.common import PATH, lake_option, open_gold


@click.command()
@lake_option
@click.option("--out", required=True, type=PATH, metavar="DIR", help="Folder for the page; made if it is not there.")
@click.option("--reveal", is_flag=True, help="Show private values in examples instead of masking them.")
def report(lake_root: str, out: str, reveal: bool) -> None:
    """Write DIR/index.html: one page that opens offline, with charts of what died, where and why."""
    from deadletter.report.page import write_report

    click.echo(write_report(open_gold(lake_root), out, reveal))
