"""``deadletter explain``: why a message is where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from deadletter.cli.common import ID, iso, json_of, lake_option, one_line, open_gold, parse_time, say
from deadletter.queues import place_of

if TYPE_CHECKING:
    from deadletter.explain.timeline import Life
    from deadletter.lake import Lake


@click.command()
@click.argument("message_id", type=ID)
@lake_option
@click.option("--as-of", metavar="ISO8601", help="What was known to have happened then; default: the last run's.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(message_id: str, lake_root: str, as_of: str | None, as_json: bool) -> None:
    """Tell a message's life: each event, its status, and if it died the rule and the policy behind it.

    MESSAGE_ID is the broker's; Pulsar's as any client prints it, e.g. 3:0:-1 or '(3,0,-1,-1)', or that of its dead
    letter: once somebody received that, its own life is told, and whose dead letter it is. One that begins with a dash
    goes last, after two dashes: -- -7f3a. Times are UTC; of a death RabbitMQ tells only the second.
    """
    from deadletter.explain.timeline import life
    from deadletter.snapshot import gold_as_of

    lake = open_gold(lake_root)
    found = life(lake, message_id, parse_time(as_of) or gold_as_of(lake))
    if as_json:
        click.echo(json_of(found))
    else:
        print_life(found, _templates(lake, found))


def _templates(lake: Lake, found: Life) -> dict[str, str]:
    """The patterns that the deaths belong to, by their ids."""
    from pyspark.sql import functions as F

    from deadletter import tables

    wanted = [row["pattern_id"] for row in found.deaths if row["pattern_id"]]
    if not wanted:
        return {}
    named = lake.read(tables.POISON_PATTERNS).where(F.col("pattern_id").isin(wanted))
    return {row["pattern_id"]: row["template"] for row in named.select("pattern_id", "template").collect()}


def print_life(found: Life, templates: Mapping[str, str]) -> None:
    """Print a life for a person; ``templates`` are those of the patterns, by id."""
    from deadletter.explain.timeline import rule

    say(f"Message {found.message_id}", bold=True)
    say(f"as of {found.as_of:%Y-%m-%dT%H:%M:%S.%f} UTC; every time here is UTC")
    if found.dead_letter_of:
        say(f"It is the dead letter of {found.dead_letter_of}: explain that one for how it died")
    for moment in found.moments:
        event = f"  (event {moment.event_id[:12]})" if moment.event_id else ""
        # an error or a name of several lines could look like moments of its own
        say(f"  {plain(iso(moment.time)):26}  {one_line(moment.queue)}  {one_line(moment.what)}{event}")
    for row in found.statuses:
        say(f"Status in {one_line(place_of(row))}: {row['status']}, {_count(row['system'], row['claims_granted'])}")
    for row in found.deaths:
        say(f"Died {plain(row['dead_lettered_at'])} in {one_line(place_of(row))}: {row['reason']}", bold=True)
        for line in death_lines(row, templates.get(row["pattern_id"])):
            say(f"  {one_line(line)}")
        say(f"  rule: {rule(row)}")
        say(f"  behind it: event {row['event_id']}")


def plain(time: str) -> str:
    """A time as people read it where it is said that all are UTC; of one that is known to the second, no more.

    >>> plain("2026-11-20T21:00:00.250000+00:00"), plain("2026-11-20T21:00:00.000000+00:00")
    ('2026-11-20 21:00:00.250000', '2026-11-20 21:00:00')
    """
    return time.replace("T", " ").removesuffix("+00:00").removesuffix(".000000")


def death_lines(row: Mapping, template: str | None = None) -> Iterator[str]:
    """What is known of a death, a row of ``gold.dead_letters``, in a person's words, with its pattern's ``template``.

    >>> known = {"system": "zaqar", "evidence": "derived", "claim_count": 3, "max_deliveries": 3}
    >>> known |= {"pattern_id": "9f52", "deviation": ["$.currency is missing"], "dead_letter_message_id": "9:0:-1"}
    >>> known |= {"dead_letter_queue": "q-dlq"}
    >>> later = {"expires_at": "2026-11-20T21:00:00+00:00", "removed_at": None, "error": None}
    >>> for line in death_lines(known | later, "KeyError : currency"):
    ...     print(line)
    derived: 3 claims counted against a limit of 3
    went to q-dlq as 9:0:-1, where it expires 2026-11-20 21:00:00
    payload: $.currency is missing
    pattern 9f52: KeyError : currency
    """
    yield f"{row['evidence']}: {against_limit(row['system'], row['claim_count'], row['max_deliveries'])}"
    ends = {"was removed": row["removed_at"], "expires": row["expires_at"]}
    end = next((f", where it {how} {plain(time)}" for how, time in ends.items() if time), "")
    queue, its_id = row["dead_letter_queue"], row["dead_letter_message_id"]
    named = f" as {its_id}" if its_id else ""
    yield f"went to {queue}{named}{end}" if queue else "no dead letter queue is known"
    if row["error"]:
        yield f"last error: {row['error']}"
    if row["pattern_id"]:
        yield f"payload: {'; '.join(row['deviation'] or [row['deviation_key']])}"
        yield f"pattern {row['pattern_id']}" + (f": {template}" if template else "")


def against_limit(system: str, count: int | None, limit: int | None) -> str:
    """What counted of a message's deliveries, and its limit: Zaqar's is of claims, the others' of redeliveries.

    >>> against_limit("zaqar", 3, 3), against_limit("pulsar", 4, 3)
    ('3 claims counted against a limit of 3', '4 deliveries counted against a limit of 3 redeliveries')
    >>> against_limit("rabbitmq", 1, None), against_limit("zaqar", None, 2)
    ('1 delivery counted against no limit known', 'count not known against a limit of 2')
    """
    unit = "" if system == "zaqar" else " redeliveries"
    counted = "count not known" if count is None else f"{_count(system, count)} counted"
    return f"{counted} against {'no limit known' if limit is None else f'a limit of {limit}{unit}'}"


def _count(system: str, count: int) -> str:
    one, several = ("claim", "claims") if system == "zaqar" else ("delivery", "deliveries")
    return f"{count} {one if count == 1 else several}"
