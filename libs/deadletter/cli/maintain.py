"""``deadletter maintain``: keep the tables' files few and the old ones gone."""

from __future__ import annotations

import click

from deadletter.cli.common import json_of, lake_option, open_lake, teller
from deadletter.steps.maintenance import SHORTEST_RETENTION, maintain


@click.command("maintain")
@lake_option
@click.option(
    "--retain-hours",
    type=click.IntRange(min=SHORTEST_RETENTION),
    default=SHORTEST_RETENTION,
    show_default=True,
    help="How long replaced files stay, so that readers can finish and time travel works; those of events "
    "and decisions: 30 days at least, so that a stopped silver can go on.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def maintain_command(lake_root: str, retain_hours: int, as_json: bool) -> None:
    """Write each table's small files together (OPTIMIZE) and delete replaced ones (VACUUM). Rows stay the same."""
    for told in maintain(open_lake(lake_root), retain_hours, teller()):
        text = f"{told.table}: {told.files_before} small files became {told.files_after}"
        click.echo(json_of(told) if as_json else text)
