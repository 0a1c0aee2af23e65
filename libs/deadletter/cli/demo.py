"""``deadletter demo``: everything once, on the bundled captures."""

from __future__ import annotations

import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from shlex import quote

import click

from deadletter.cli.common import PATH, teller
from deadletter.errors import UsageError


@click.command()
@click.option(
    "--out", type=PATH, metavar="DIR", help="A folder that is empty or not there yet; default: a new temporary one."
)
def demo(out: str | None) -> None:
    """Run the job on events captured from real brokers, write the report and say where it is."""
    from deadletter import steps
    from deadletter.cli.run import print_summary
    from deadletter.lake import Lake
    from deadletter.report.page import write_report
    from deadletter.spark.session import get_spark

    folder = Path(out or tempfile.mkdtemp(prefix="deadletter-demo-")).absolute()
    if out and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--out {folder}: not an empty folder; the demo wants a fresh one")
    tell = teller()
    tell("starting Spark")
    lake = Lake(get_spark(quick=True), str(folder / "lake"))
    with as_file(files("deadletter") / "captures") as captures:
        summary = steps.run(lake, str(captures), tell=tell)
    tell("writing the report")
    page = write_report(lake, str(folder / "report"))
    print_summary(summary, lake.root)
    click.echo(
        f"\nReport: {page}\nLake:   {lake.root}\nLook at a table: "
        f"deadletter show dead_letters --lake {quote(lake.root)}"
    )
