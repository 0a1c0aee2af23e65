"""``deadletter quarantine``: what was refused, and the way back."""

from __future__ import annotations

import getpass

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.cli.common import (
    CONDITION,
    ID,
    WHO,
    WHY,
    condition_told,
    json_of,
    lake_option,
    open_lake,
    options,
    print_table,
    say,
    say_first,
    teller,
)
from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.lake.progress import is_stale
from deadletter.pages.rows import cut
from deadletter.silver.quarantine import by_reason, waiting
from deadletter.spark.frames import only_row
from deadletter.steps.release import discard as put_aside
from deadletter.steps.release import release as judge_again
from deadletter.triage import quarantined

SHORTEST = 8
"""Characters of an event id that may stand for all of it."""
BEHIND = "gold is out of date, as after a release that was interrupted: `deadletter run` derives it"
TOLD = 10
"""Events that a command names one by one."""


@click.group()
def quarantine() -> None:
    """Events that a parser or a gate refused: look at them, release or discard them."""


where_option = click.option("--where", type=CONDITION, metavar="SQL", help="Only events for which this is true.")


_decision = options(
    click.argument("event_ids", nargs=-1, type=ID, metavar="[EVENT_ID]..."),
    lake_option,
    where_option,
    click.option("--by", "who", type=WHO, metavar="WHO", help="Who decides; default: the user of this machine."),
    click.option("--why", required=True, type=WHY, metavar="TEXT", help="Why; kept in control.quarantine_decisions."),
)
"""The arguments of every decision about events."""


@quarantine.command("list")
@lake_option
@where_option
@click.option("--all", "everything", is_flag=True, help="Also events that were discarded.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def list_reasons(lake_root: str, where: str | None, everything: bool, as_json: bool) -> None:
    """Count the events in quarantine by system and reason, each with an example."""
    events = quarantined(open_lake(lake_root))
    with condition_told(where):
        shown = _where(events if everything else events.where(waiting()), where)
        rows = [row.asDict() for row in by_reason(shown).collect()]
    if as_json:
        for row in rows:
            click.echo(json_of(row))
    elif not rows:
        such = "no such event" if where else "no event" if everything else "nothing"
        click.echo(f"{such} {'is' if everything else 'waits'} in quarantine")
    else:
        _print_reasons(rows)


def _print_reasons(rows: list[dict]) -> None:
    shown = [(row["system"], cut(row["reason"], 160), f"{row['events']:,}", row["example"][:12]) for row in rows]
    caption = "deadletter quarantine show EVENT_ID --lake DIR"
    print_table(("system", "reason", "events", "example"), shown, "Quarantine", caption, right=("events",))


@quarantine.command()
@click.argument("event_id", type=ID)
@lake_option
def show(event_id: str, lake_root: str) -> None:
    """Print an event's raw line, every rule it broke, where it came from and what was decided about it."""
    lake = open_lake(lake_root)
    # Spark Connect takes no text from its server that is no UTF-8
    chosen = _by_ids(quarantined(lake), (event_id,)).withColumn("raw", F.make_valid_utf8("raw"))
    # not the times: Python has no name for some of those that are refused
    row = only_row(chosen.select("event_id", "reasons", "raw"))
    say(f"Event {row['event_id']}", bold=True)
    for reason in row["reasons"]:
        say(f"  reason   {reason}")
    _print_copies(_copies(lake, row["event_id"]))
    for made in _decisions(lake, row["event_id"]):
        say(f"  {made['decision']:<8} {made['at']} UTC by {made['who']}: {made['why']}")
    say(row["raw"])


def _print_copies(places: list) -> None:
    for place in places[:TOLD]:
        say(f"  from     {place['system']}  {place['source_file']}  taken in {place['taken']} UTC")
    if len(places) > TOLD:
        say_first(TOLD, "copies", "deadletter show queue_events --where \"event_id = '...'\" shows more")


def _copies(lake: Lake, event_id: str) -> list:
    copies = lake.read(tables.QUEUE_EVENTS).where(F.col("event_id") == event_id)
    taken = F.date_format("ingested_at", "yyyy-MM-dd HH:mm:ss").alias("taken")
    return copies.select("system", "source_file", taken).orderBy("taken", "source_file").limit(TOLD + 1).collect()


def _decisions(lake: Lake, event_id: str) -> list:
    if not lake.exists(tables.QUARANTINE_DECISIONS):
        return []
    made = lake.read(tables.QUARANTINE_DECISIONS).where(F.col("event_id") == event_id)
    at = F.date_format("decided_at", "yyyy-MM-dd HH:mm:ss").alias("at")
    return made.orderBy("decided_at").select("decision", at, "who", "why").collect()


@quarantine.command()
@_decision
def release(event_ids: tuple[str, ...], lake_root: str, where: str | None, who: str | None, why: str) -> None:
    """Judge events again after a fix: the usable ones leave quarantine and their facts are merged.

    Exit code 0 also where some stay: they are named with the reasons they have now.
    """
    _one_of(event_ids, where)
    who = who or _user()
    tell = teller()
    tell("starting Spark")
    lake = open_lake(lake_root)
    try:
        with condition_told(where):
            chosen = _chosen(lake, event_ids, where).select("event_id", "captured_at")
            count = chosen.count()
    except UsageError as error:  # the events of a release that was interrupted may be gone from there
        if is_stale(lake.progress.all()):
            raise UsageError(f"{error}; {BEHIND}") from None
        raise
    if not count and is_stale(lake.progress.all()):
        say(f"warning: {BEHIND}", err=True)
    if count:
        summary = judge_again(lake, chosen, who, why, tell)
        for warning in summary.warnings:
            say(f"warning: {warning}", err=True)
    still = lake.read(tables.QUARANTINE).join(chosen.select("event_id"), "event_id", "left_semi")
    staying = still.count() if count else 0
    click.echo(f"{count - staying:,} of {count:,} events released; {staying:,} stay in quarantine")
    for row in still.select("event_id", "reasons").orderBy("event_id").limit(TOLD).collect() if staying else []:
        say(f"  {row['event_id'][:12]}  {cut('; '.join(row['reasons']), 200)}")
    if staying > TOLD:
        say_first(TOLD, f"of {staying:,} that stay", "deadletter quarantine list counts all")


@quarantine.command()
@_decision
def discard(event_ids: tuple[str, ...], lake_root: str, where: str | None, who: str | None, why: str) -> None:
    """Acknowledge events as unusable: they leave the list, their raw lines stay in bronze."""
    _one_of(event_ids, where)
    who = who or _user()
    lake = open_lake(lake_root)
    with condition_told(where):
        chosen = _chosen(lake, event_ids, where).select("event_id")
        count = chosen.count()
    if count:
        put_aside(lake, chosen, who, why)
    click.echo(f"{count:,} events discarded")


def _user() -> str:
    """The user of this machine; in a container there may be none of this process's number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise UsageError("who decides? This machine knows no name of its user: give one with --by WHO") from None


def _one_of(event_ids: tuple[str, ...], where: str | None) -> None:
    if bool(event_ids) == bool(where):
        raise UsageError("which events? Give their EVENT_IDs or --where SQL, one of the two")


def _chosen(lake: Lake, event_ids: tuple[str, ...], where: str | None) -> DataFrame:
    events = quarantined(lake)
    return _by_ids(events, event_ids) if event_ids else _where(events.where(waiting()), where)


def _by_ids(events: DataFrame, event_ids: tuple[str, ...]) -> DataFrame:
    """The events with these ids, or with ids that begin so; each must name exactly one."""
    short = [given for given in event_ids if len(given) < SHORTEST]
    if short:
        raise UsageError(f"{short[0]}: give at least {SHORTEST} characters of an event's id")
    starts = F.array(*[F.lit(given) for given in event_ids])
    chosen = events.where(F.exists(starts, lambda start: F.startswith(F.col("event_id"), start)))
    found = [row["event_id"] for row in chosen.select("event_id").collect()]
    for given in event_ids:
        meant = [event_id for event_id in found if event_id.startswith(given)]
        if len(meant) != 1:
            several = f"{len(meant)} events' ids begin so; give more of it" if meant else "no such event in quarantine"
            raise UsageError(f"{given}: {several}")
    return chosen


def _where(events: DataFrame, where: str | None) -> DataFrame:
    return events.where(where) if where else events
