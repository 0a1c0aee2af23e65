"""``deadletter preview``: what another limit or delay would have done."""

from __future__ import annotations

import click

from deadletter.cli.common import (
    QUEUE,
    iso,
    json_of,
    lake_option,
    one_line,
    open_gold,
    print_table,
    say,
    say_first,
)
from deadletter.errors import UsageError
from deadletter.pages.rows import cut
from deadletter.parsing.brokers import BROKERS
from deadletter.parsing.envelope import MOST_SECONDS
from deadletter.queues import place_of

MOST_ROWS = 50
"""Rows of a table that are printed."""
ONE_LINE = 60
"""Characters of a template, which can be a whole stack trace."""
LIMITS, DELAYS = click.IntRange(0, 2**31 - 2), click.IntRange(0, MOST_SECONDS)
"""A limit can allow one delivery more, and an array's elements are counted in 32 bits."""


@click.command()
@lake_option
@click.option("--system", required=True, type=click.Choice(list(BROKERS)), help="The broker.")
@click.option(
    "--queue", required=True, type=QUEUE, metavar="Q", help="The queue; a Pulsar topic with or without its prefix."
)
@click.option("--subscription", metavar="X", help="Pulsar: one subscription; default: all of the topic's together.")
@click.option("--tenant", metavar="T", help="Zaqar project, vhost, tenant/namespace; default: all together.")
@click.option("--limit", type=LIMITS, metavar="N", help="A delivery limit, in the broker's own terms.")
@click.option("--delay", type=DELAYS, metavar="SECONDS", help="Zaqar: a default delay.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def preview(
    lake_root: str,
    system: str,
    queue: str,
    subscription: str | None,
    tenant: str | None,
    limit: int | None,
    delay: int | None,
    as_json: bool,
) -> None:
    """Tell what a delivery limit, or a Zaqar delay, would have done to the recorded history.

    False deaths, deaths earlier and claims saved, messages saved, by pattern; the share of messages that is
    unsettled after each delivery; and the limit that this speaks for.
    """
    _check(system, limit, delay)
    from deadletter.whatif.history import Choice
    from deadletter.whatif.preview import preview_delay, preview_limit, recorded

    found = recorded(open_gold(lake_root), Choice(system, queue, tenant, subscription))
    told = {"system": system, "as_of": found.as_of, "places": found.places}
    if limit is not None:
        told |= preview_limit(found, system, limit)
    if delay is not None:
        told["delayed"] = preview_delay(found, delay)
    if as_json:
        click.echo(json_of(told))
    else:
        print_preview(told)


def _check(system: str, limit: int | None, delay: int | None) -> None:
    if limit is None and delay is None:
        raise UsageError("say what to try: --limit N, or --delay SECONDS for a Zaqar queue")
    if delay is not None and system != "zaqar":
        raise UsageError("--delay goes with --system zaqar: only its queues have a default delay")
    if system == "zaqar" and limit == 0:
        raise UsageError("--limit 0: Zaqar's _max_claim_count is at least 1")


def print_preview(told: dict) -> None:
    """Print a preview for a person."""
    say(f"{told['system']} until {iso(told['as_of'])}", bold=True)
    for place in told["places"]:
        name = one_line(place_of({"system": told["system"], **place}))
        limits = ", ".join(map(str, place["limits"])) or "none"
        say(f"  {name}: {place['messages']:,} messages delivered, limits so far: {limits}")
        if "limit" in told and place["limit_counts"] is False:
            say(f"  no limit counts in {name} as it is now: what follows is of a quorum queue with these messages")
    if "limit" in told:
        print_limit(told)
    if "delayed" in told:
        print_delay(told["delayed"])


def print_limit(told: dict) -> None:
    """Print what a limit would have done."""
    say(f"\nWith a limit of {told['limit']} ({told['deliveries_allowed']} deliveries)", bold=True)
    lines = {
        "false deaths (would have died, but a later delivery settled them)": told["false_deaths"],
        "deaths earlier": told["deaths_earlier"],
        "dead instead of expired or purged, never settled": told["deaths_of_lost"],
        "claims saved by these two": told["claims_saved"],
        "deaths as before": told["deaths_unchanged"],
        "deaths put off": told["deaths_put_off"],
        "  of these saved in the end, estimated": saved_in_words(told),
        "would be dead, outcome not known": told["deaths_outcome_unknown"],
        "still open, no delivery left": told["at_limit"],
    }
    for name, value in lines.items():
        say(f"  {name}: {value:,}" if isinstance(value, int) else f"  {name}: {value}")
    _print_table(
        "By pattern",
        [row | {"template": cut(row["template"] or "", ONE_LINE)} for row in told["by_pattern"]],
        ("pattern_id", "template", "dead_letters", "deaths_earlier", "claims_saved", "deaths_put_off"),
    )
    _print_table(
        "Not settled after delivery k (Kaplan-Meier), where a message was settled or left",
        told["survival"],
        ("delivery", "reached", "settled", "censored", "unsettled", "low", "high"),
    )
    advised = told["recommended"]
    say(f"\nRecommended limit: {advised['limit'] if advised['limit'] is not None else 'none'}", bold=True)
    say(f"  {advised['reason']}")


def saved_in_words(told: dict) -> str:
    """How many of the deaths put off would be settled, and of how many nothing is known.

    >>> saved_in_words({"deaths_put_off": 100, "messages_saved": 0.53, "saved_not_known": 90})
    '0.53 of 10; nothing is known of 90'
    >>> saved_in_words({"deaths_put_off": 90, "messages_saved": None, "saved_not_known": 90})
    'not known: nobody was given more'
    """
    if told["messages_saved"] is None:
        return "not known: nobody was given more"
    saved, dark = told["messages_saved"], told["saved_not_known"]
    return f"{saved} of {told['deaths_put_off'] - dark:,}; nothing is known of {dark:,}" if dark else str(saved)


def print_delay(told: dict) -> None:
    """Print what a delay would have done."""
    say(f"\nWith a default delay of {told['delay']} s", bold=True)
    lines = {
        "claims that would have come later": told["claims_put_off"],
        "  of messages": told["messages_put_off"],
        "  followed by another claim of the same message (saved)": told["retries_saved"],
        "messages that died before their delay was over": told["deaths_within_delay"],
        "messages settled before it (they would have waited)": told["settled_within_delay"],
        "delivered messages whose TTL is shorter than the delay (never claimable)": told["never_claimable"],
        "messages whose post was not seen (left out)": told["posts_not_seen"],
    }
    for name, value in lines.items():
        say(f"  {name}: {value:,}")
    say(f"  first claims later by {told['seconds_waited']:,.0f} s in sum")
    if told["warning"]:
        say(f"  {told['delay']} s is {told['warning']}")


def _print_table(title: str, rows: list[dict], names: tuple[str, ...]) -> None:
    shown = [["" if row[name] is None else str(row[name]) for name in names] for row in rows[:MOST_ROWS]]
    print_table([name.replace("_", " ") for name in names], shown, title, whole=("pattern id",))
    if len(rows) > MOST_ROWS:
        say_first(MOST_ROWS, f"of {len(rows):,} rows", "--json shows all")
