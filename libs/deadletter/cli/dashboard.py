"""``deadletter dashboard``: the Databricks dashboard, drawn here."""

from __future__ import annotations

import click

from deadletter.cli.common import PATH, lake_option, open_gold


@click.command()
@lake_option
@click.option("--port", type=click.IntRange(0, 65535), default=8050, show_default=True, help="0 takes a free one.")
@click.option("--out", type=PATH, metavar="DIR", help="Write the pages to DIR instead of serving them.")
@click.option("--file", "definition", type=PATH, metavar="FILE", help="Another dashboard file (.lvdash.json).")
def dashboard(lake_root: str, port: int, out: str | None, definition: str | None) -> None:
    """Show the dashboard that the bundle deploys to Databricks on http://localhost, with its filters.

    Its data sets are read once, at the start.
    """
    from deadletter.dashboard import server
    from deadletter.dashboard.definition import load

    shown = load(definition) if definition else server.bundled()
    lake = open_gold(lake_root)
    if out:
        for path in server.write(lake, shown, out):
            click.echo(path)
        return
    with server.server(lake, shown, port) as serving:
        click.echo(f"http://localhost:{serving.server_address[1]}/  (end with Ctrl-C)")
        serving.serve_forever()
