"""``deadletter run``: the main job."""

from __future__ import annotations

import time
from shlex import quote

import click

from deadletter import sources, steps, tracking
from deadletter.cli.common import PATH, json_of, lake_option, open_lake, parse_time, print_table, say, teller
from deadletter.gates.suites import load_all
from deadletter.lake import Lake
from deadletter.lake.masks import adopt_masks
from deadletter.rules.zaqar_store import STORES
from deadletter.snapshot import habits_in

SHORT_RUN = 4 << 20
"""Bytes of files, compressed ones among them, up to which a run is over in a minute or two."""


@click.command()
@click.option(
    "--landing",
    required=True,
    metavar="DIR|kafka://...",
    help="Folder with one folder a system (zaqar, rabbitmq, pulsar), or Kafka topics.",
)
@lake_option
@click.option("--as-of", metavar="ISO8601", help="Judge what happened until then; default: the latest event.")
@click.option(
    "--zaqar-store",
    type=click.Choice(sorted(STORES, reverse=True)),
    help="Whose habits to replay for Zaqar's silent move: its Redis or MongoDB store's, or the document's alone. "
    "Default: those of the lake's last run, redis at first.",
)
@click.option("--fresh-after", metavar="ISO8601", help="Warn where the newest event is not later: a feed is stuck.")
@click.option(
    "--masks", type=PATH, metavar="FILE", help="More rows for the lake's masking table, JSON or TOML; kept in the lake."
)
@click.option("--track", is_flag=True, envvar="DEADLETTER_TRACK", help="Keep the run in MLflow: docs/patterns.md.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def run(
    landing: str,
    lake_root: str,
    as_of: str | None,
    zaqar_store: str | None,
    fresh_after: str | None,
    masks: str | None,
    track: bool,
    as_json: bool,
) -> None:
    """Bring the lake up to date: take in new files or records, derive every table.

    \b
    Files are read once, from DIR/<system>/**/*.jsonl[.gz], one JSON object a line.
    Write them elsewhere and rename them in; a file must not change once it is there.

    \b
    Kafka topics: --landing kafka://HOST:PORT[,HOST:PORT]/SYSTEM=TOPIC[,SYSTEM=TOPIC]
    One JSON object a record, each read once. Client properties: '...?config=FILE'.
    """
    until, fresh = parse_time(as_of), parse_time(fresh_after, "--fresh-after")
    if track:
        tracking.require_place(Lake(None, lake_root).folder)  # type: ignore[arg-type]  # Spark is not asked
    # before Spark starts: a wrong path or a mistake in a suite is told at once
    found = sources.find(landing)
    size = sum(source.size for source in found)
    load_all()
    tell, start = teller(), time.monotonic()
    tell("starting Spark")
    lake = open_lake(lake_root, quick=size <= SHORT_RUN, kafka=sources.is_kafka(landing))
    if masks:
        adopt_masks(lake, masks)
    summary = steps.run(
        lake,
        landing,
        as_of=until,
        habits=STORES[zaqar_store] if zaqar_store else None,
        tell=tell,
        fresh_after=fresh,
        found=found,
    )
    if as_json:
        click.echo(json_of(summary))
    else:
        print_summary(summary, lake.root)
    if track:
        parameters = {
            "landing": landing,
            "as_of": as_of or "latest event",
            "zaqar_store": habits_in(lake.progress.all()).name,
        }
        run_id = tracking.track(lake, parameters, _metrics(summary, time.monotonic() - start))
        tell(f"kept as MLflow run {run_id}")


def _metrics(summary: steps.Summary, seconds: float) -> dict[str, float]:
    return {
        "dead_letters": sum(row["dead_letters"] for row in summary.dead_letters),
        "patterns": summary.patterns,
        "messages": summary.messages,
        "events_in": summary.events_in,
        "events_new": summary.events_new,
        "events_quarantined": summary.events_quarantined,
        "seconds": round(seconds, 3),
    }


def print_summary(summary: steps.Summary, lake_root: str) -> None:
    """Print what a run of the lake did as tables."""
    facts = {
        "as of": summary.as_of.isoformat() if summary.as_of else "no event yet",
        "events in": summary.events_in,
        "  new": summary.events_new,
        "  quarantined": summary.events_quarantined,
        "  silent (say nothing of a message)": summary.events_silent,
        "messages, each once a queue or subscription": summary.messages,
        "dead letters": sum(row["dead_letters"] for row in summary.dead_letters),
        "patterns": summary.patterns,
    }
    print_table(("what", "value"), [(name, str(value)) for name, value in facts.items()], "Run", header=False)
    if summary.dead_letters:
        names = ("system", "tenant", "queue", "subscription", "reason", "dead letters")
        rows = [[str(value) for value in row.values()] for row in summary.dead_letters]
        print_table(names, rows, "Dead letters", right=("dead letters",))
    for warning in summary.warnings:
        say(f"warning: {warning}", err=True)
    if summary.events_quarantined:
        click.echo(f"See them with: deadletter quarantine list --lake {quote(lake_root)}", err=True)
