"""``deadletter patterns``: what poison messages share, and what people decide about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from deadletter.cli.common import (
    ID,
    WHO,
    WHY,
    json_of,
    lake_option,
    one_line,
    open_gold,
    open_lake,
    options,
    parse_time,
    say,
    say_first,
    teller,
)
from deadletter.errors import UsageError
from deadletter.gold.decisions import ALONG
from deadletter.lake import Lake
from deadletter.queues import place_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATUSES = ("new", "ongoing", "quiet", "resolved", "regressed")
FORMER_IDS = 20
"""Former ids that are printed."""


@click.group()
def patterns() -> None:
    """List and show patterns of dead letters; resolve, mute, merge or split them."""


@patterns.command("list")
@lake_option
@click.option("--all", "everything", is_flag=True, help="Muted ones too.")
@click.option("--status", type=click.Choice(STATUSES), help="Only those with this status.")
@click.option(
    "--run", "run_id", type=ID, metavar="ID", help="What an old run saw, its 1,000 largest patterns, by its MLflow id."
)
@click.option("--against", type=ID, metavar="ID", help="With --run: how that differs from another run.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_(
    lake_root: str, everything: bool, status: str | None, run_id: str | None, against: str | None, as_json: bool
) -> None:
    """List the patterns, the one with most dead letters first."""
    if against and not run_id:
        raise UsageError("--against goes with --run: it names the run to compare that one with")
    if run_id and (status or everything):
        raise UsageError("--run shows all that the run saw: it goes without --status and --all")
    found = _of_run(lake_root, run_id, against) if run_id else _of_lake(lake_root, status)
    told = found if run_id or everything else [row for row in found if not row["muted"]]
    for row in told:
        change = ""
        if "change" in row:
            change = " (not among the other run's)" if row["change"] is None else f" ({row['change']:+,})"
        line = f"{row['pattern_id']}  {row['dead_letters']:>8,}{change}  {row['status']:<9} {row['template']}"
        click.echo(json_of(row) if as_json else one_line(line))
    if not told and not as_json:
        click.echo("No pattern.", err=True)
    if len(told) < len(found):
        say(f"{len(found) - len(told):,} muted; --all lists them", err=True)


def _of_run(lake_root: str, run_id: str, against: str | None) -> list[dict]:
    from deadletter.tracking import compared, patterns_of

    folder = Lake(None, lake_root).folder  # type: ignore[arg-type]  # Spark is not asked
    seen = patterns_of(folder, run_id)
    return compared(patterns_of(folder, against, "--against"), seen) if against else seen


def _of_lake(lake_root: str, status: str | None) -> list[dict]:
    from pyspark.sql import functions as F

    from deadletter import tables

    rows = open_gold(lake_root).read(tables.POISON_PATTERNS)
    rows = rows.where(F.col("status") == status) if status else rows
    return _plain(rows.orderBy(F.desc("dead_letters"), "pattern_id"))


@patterns.command()
@click.argument("pattern", type=ID)
@lake_option
@click.option("--reveal", is_flag=True, help="Show private values in the example instead of masking them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(pattern: str, lake_root: str, reveal: bool, as_json: bool) -> None:
    """Show a pattern: an example, how it differs from healthy messages, where it is concentrated, its trend."""
    from pyspark.sql import functions as F

    from deadletter import tables, triage
    from deadletter.lake.masks import lake_masks
    from deadletter.patterns.masking import mask, mask_text, private_masks

    lake = open_gold(lake_root)
    name = triage.find(lake, pattern)
    rows = _plain(lake.read(tables.POISON_PATTERNS).where(F.col("pattern_id") == name))
    if not rows:
        raise UsageError(f"pattern {name} has no dead letter now: its own, and those merged into it, are gone")
    row = rows[0]
    dead = lake.read(tables.DEAD_LETTERS).where(F.col("pattern_id") == name)
    for part, value in row["example"].items():
        dead = dead.where(F.col(part) == value)
    private = private_masks(lake_masks(lake))
    error = F.col("error") if reveal else mask(F.col("error"), private)
    # no table is written with another: a run may be at work, or was killed
    shown = dead.select("payload", error.alias("error")).first()
    row["example_error"] = shown and shown["error"]
    if reveal and shown:
        row["example_payload"] = shown["payload"]
    row["former_ids"] = triage.ids_leading_to(lake, name)
    names = {name, *row["former_ids"]}
    row["decisions"] = [made for made in triage.decisions(lake) if made["pattern_id"] in names]
    if not reveal:  # what was said then can hold what is masked by now
        for made in row["decisions"]:
            if made["action"] in ("mute", "split") and made["target"]:
                made["target"] = mask_text(made["target"], private)
    if as_json:
        click.echo(json_of(row))
    else:
        print_pattern(row)


def _plain(df: DataFrame) -> list[dict]:
    """Rows as JSON has them."""
    from deadletter.cli.show import as_json_rows

    return [json.loads(row) for row in as_json_rows(df)]


def print_pattern(row: dict) -> None:
    """Print a pattern for a person."""
    from deadletter.pages.html import pretty

    say(f"Pattern {row['pattern_id']}: {row['template']}", bold=True)
    muted = ", muted" if row["muted"] else ""
    say(f"  {row['dead_letters']:,} dead letters, {row['status']}{muted}, by {row['kind']}")
    say(f"  first {row['first_seen']}, last {row['last_seen']}")
    say(f"  in {one_line(', '.join(row['queues']))}")
    _section("How it differs from healthy messages", row["differences"], "{dead_letters:>8,}  {difference}")
    told = "{what} {value}: {dead_letters:,} dead letters, {share:.0%} of those that name one, "
    told += "{expected_share:.0%} expected{times}"
    _section("Concentrated in", [row | {"times": _times(row)} for row in row["concentrated_in"]], told)
    _section("Deaths an hour", row["trend"], "{hour}  {dead_letters:>8,}")
    member = row["example"]
    say(one_line(f"Example: message {member['message_id']} of {place_of(member)}"))
    say("  " + pretty(row["example_payload"]).replace("\n", "\n  "))
    if row["example_error"]:
        say("  last error: " + row["example_error"].strip().replace("\n", "\n  "))
    _section("Former ids", [{"id": name} for name in row["former_ids"][:FORMER_IDS]], "{id}")
    if len(row["former_ids"]) > FORMER_IDS:
        say_first(FORMER_IDS, f"of {len(row['former_ids']):,} former ids", "--json shows all")
    decisions = [made | {"what": _muted_as(made, row)} for made in row["decisions"]]
    _section("Decisions", decisions, "{decided_at:%Y-%m-%d %H:%M} {action} by {decided_by}: {why}{what}")


def _muted_as(made: dict, row: dict) -> str:
    """What a pattern said when it was muted, where it says something else by now."""
    then = made["target"] if made["action"] == "mute" else None
    return f" (it was then: {then})" if then and then != row["template"] else ""


def _times(row: dict) -> str:
    return f", {row['lift']} times as often" if row["lift"] else ", nobody else has it"


def _section(title: str, rows: list[dict], line: str) -> None:
    if rows:
        say(title + ":")
        for row in rows:
            say("  " + line.format(**row))


_decision = options(
    click.argument("pattern", type=ID),
    lake_option,
    click.option("--by", required=True, type=WHO, metavar="WHO", help="Who decides."),
    click.option("--why", required=True, type=WHY, metavar="TEXT", help="Why."),
    click.option("--at", metavar="ISO8601", help="When it takes effect; default: the lake's as_of."),
)
"""The arguments of every decision."""


def _decide(
    pattern: str,
    lake_root: str,
    action: str,
    by: str,
    why: str,
    at: str | None,
    into: str | None = None,
    along: str | None = None,
) -> None:
    """Decide, and say so."""
    from deadletter.steps.decide import decide

    # the time first: that a lake is none takes a while to find out
    effective = parse_time(at, "--at")
    decided = decide(open_lake(lake_root), pattern, action, by, why, effective, into, along, teller())
    say(f"{action} {decided.pattern}" + (f" into {decided.into}" if decided.into else "") + f": {why} ({by})")
    if not decided.shows:
        told = f"  shows from the first run that judges at {decided.effective_at.isoformat()} or later"
        click.echo(told, err=True)


@patterns.command()
@_decision
def resolve(pattern: str, lake_root: str, by: str, why: str, at: str | None) -> None:
    """Say that PATTERN is done with; a death after that makes it regressed.

    Deaths between the lake's as_of and the fix are of the old fault: give the fix's time with --at.
    """
    _decide(pattern, lake_root, "resolve", by, why, at)


@patterns.command()
@_decision
def reopen(pattern: str, lake_root: str, by: str, why: str, at: str | None) -> None:
    """Take a resolution back."""
    _decide(pattern, lake_root, "reopen", by, why, at)


@patterns.command()
@_decision
def mute(pattern: str, lake_root: str, by: str, why: str, at: str | None) -> None:
    """Leave PATTERN out of lists, as long as its template gets no wider. It is still counted."""
    _decide(pattern, lake_root, "mute", by, why, at)


@patterns.command()
@_decision
def unmute(pattern: str, lake_root: str, by: str, why: str, at: str | None) -> None:
    """Show a muted PATTERN again."""
    _decide(pattern, lake_root, "unmute", by, why, at)


@patterns.command()
@_decision
@click.option("--into", required=True, type=ID, metavar="ID", help="The pattern it becomes part of.")
def merge(pattern: str, lake_root: str, by: str, why: str, at: str | None, into: str) -> None:
    """Make PATTERN part of another one; its id becomes a former id of that."""
    _decide(pattern, lake_root, "merge", by, why, at, into=into)


@patterns.command()
@_decision
@click.option("--along", type=click.Choice(sorted(ALONG)), help="Make a pattern of each queue, error or deviation.")
def split(pattern: str, lake_root: str, by: str, why: str, at: str | None, along: str | None) -> None:
    """Split PATTERN along something; without --along: take a merged one out again, or end a split."""
    _decide(pattern, lake_root, "split", by, why, at, along=along)
