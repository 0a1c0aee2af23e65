"""The figures of ``deadletter preview``, from small aggregates of the lake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.gold.facts import SilverFacts
from deadletter.lake import Lake
from deadletter.rules.limits import ONE_MORE, limit_counts
from deadletter.rules.policy import policy_at
from deadletter.snapshot import facts_at, gold_as_of, habits_of_gold
from deadletter.spark.frames import only_row
from deadletter.spark.staging import held_if_few
from deadletter.whatif.curve import Point, advice, curve, success_later
from deadletter.whatif.delay import LONGEST, delayed
from deadletter.whatif.history import Choice, histories
from deadletter.whatif.limit import FATES, counted

PLACE = ("tenant", "queue", "subscription")


@dataclass(frozen=True)
class Recorded:
    """A queue's history until ``as_of``, the places it was gathered from, each with the limits that ever held and
    whether one counts there (RabbitMQ; null where nobody told the queue's type), and the patterns' templates by id."""

    histories: DataFrame
    facts: SilverFacts
    as_of: datetime
    places: list[dict]
    templates: dict[str, str]


def recorded(lake: Lake, choice: Choice) -> Recorded:
    """The history of the chosen queue; :class:`UsageError` where no message of it was ever delivered."""
    as_of = gold_as_of(lake)
    facts = facts_at(lake, as_of)
    dead = lake.read(tables.DEAD_LETTERS)
    lived = held_if_few(histories(facts, dead, choice, habits_of_gold(lake.progress.all())))
    now = policy_at(F.col("policies"), F.lit(as_of))
    known = (now["kind"] != "deleted") & now["queue_type"].isNotNull()
    counts = F.when(known, now["counts"]).alias("limit_counts")
    limits = facts.policies.where(choice.condition()).select(*PLACE, limits_held().alias("limits"), counts)
    places = lived.groupBy(*PLACE).count().join(limits, list(PLACE), "left").orderBy(*PLACE).collect()
    if not places:
        raise UsageError(_unknown(lake, choice))
    patterns = lake.read(tables.POISON_PATTERNS).select("pattern_id", "template").collect()
    templates = {row["pattern_id"]: row["template"] for row in patterns}
    return Recorded(lived, facts, as_of, [_place(row) for row in places], templates)


def limits_held() -> Column:
    """The limits in a queue's ``policies`` that counted: Zaqar's only beside a dead letter queue."""
    held = F.filter("policies", limit_counts)
    return F.array_distinct(held["max_deliveries"])


def _place(row: Row) -> dict:
    limits = sorted(limit for limit in row["limits"] or () if limit is not None)
    counts = {"limit_counts": row["limit_counts"]}
    return {name: row[name] for name in PLACE} | {"messages": row["count"], "limits": limits} | counts


def _unknown(lake: Lake, choice: Choice) -> str:
    known = lake.read(tables.DELIVERY_SURVIVAL).where(F.col("system") == choice.system)
    names = [" ".join(filter(None, row)) for row in known.select(*PLACE).distinct().orderBy(*PLACE).limit(20).collect()]
    asked = " ".join(filter(None, (choice.system, choice.tenant, choice.queue, choice.subscription)))
    there = "; there are (tenant, queue, subscription): " + ", ".join(names) if names else ""
    return f"no message of {asked} was ever delivered{there}"


def preview_limit(found: Recorded, system: str, limit: int) -> dict:
    """What ``limit`` would have done, as plain values that go into JSON."""
    one_more = ONE_MORE[system]
    allowed = limit + one_more
    rows = [row.asDict() for row in counted(found.histories, allowed).collect()]
    points = curve(rows)
    fates = {fate: sum(row["messages"] for row in rows if row["fate"] == fate) for fate in FATES}
    return {
        "limit": limit,
        "deliveries_allowed": allowed,
        "messages": sum(row["messages"] for row in rows),
        "dead_letters": sum(row["messages"] for row in rows if row["outcome"] == "dead_lettered"),
        "false_deaths": fates["false_death"],
        "deaths_earlier": fates["earlier"],
        "deaths_unchanged": fates["unchanged"],
        "deaths_put_off": fates["put_off"],
        **expected_saved(rows, points, allowed),
        "deaths_of_lost": fates["lost"],
        "deaths_outcome_unknown": fates["death_unknown"],
        "at_limit": fates["at_limit"],
        "claims_saved": sum(row["claims_saved"] for row in rows),
        "by_pattern": by_pattern(rows, points, allowed, found.templates),
        "survival": [asdict(point) | {"unsettled": round(point.unsettled, 6)} for point in points],
        "recommended": asdict(advice(points, one_more)),
    }


def expected_saved(rows: Iterable[Mapping], points: list[Point], allowed: int) -> dict:
    """``messages_saved``: how many of the deaths put off would end in a settlement, by the survival curve; and
    ``saved_not_known``: of how many nothing is known, since no message was ever delivered more often than they were.

    ``messages_saved`` is null where nothing is known of any.
    """
    put_off = [row for row in rows if row["fate"] == "put_off"]
    chances = [(row["messages"], success_later(points, row["deliveries"], allowed)) for row in put_off]
    known = [messages * chance for messages, chance in chances if chance is not None]
    return {
        "messages_saved": round(sum(known, 0.0), 2) if known or not put_off else None,
        "saved_not_known": sum(messages for messages, chance in chances if chance is None),
    }


def by_pattern(rows: list[dict], points: list[Point], allowed: int, templates: Mapping[str, str]) -> list[dict]:
    """The deaths by pattern: what the limit changes for each; the pattern with most deaths first."""
    groups = defaultdict(list)
    for row in rows:
        if row["outcome"] == "dead_lettered":
            groups[row["pattern_id"]].append(row)
    told = [
        {
            "pattern_id": pattern,
            "template": templates.get(pattern),
            "dead_letters": sum(row["messages"] for row in members),
            "deaths_earlier": sum(row["messages"] for row in members if row["fate"] == "earlier"),
            "claims_saved": sum(row["claims_saved"] for row in members),
            "seconds_earlier": round(sum(row["seconds_earlier"] for row in members), 3),
            "deaths_put_off": sum(row["messages"] for row in members if row["fate"] == "put_off"),
            **expected_saved(members, points, allowed),
        }
        for pattern, members in groups.items()
    ]
    return sorted(told, key=lambda row: (-row["dead_letters"], row["pattern_id"] or ""))


def preview_delay(found: Recorded, seconds: int) -> dict:
    """What a default delay would have done, as plain values that go into JSON."""
    row = only_row(delayed(found.histories, found.facts.policies, seconds)).asDict()
    row["seconds_waited"] = round(row["seconds_waited"], 3)
    beyond = f"more than max_message_delay, which is {LONGEST} s unless configured" if seconds > LONGEST else None
    return {"delay": seconds, **row, "warning": beyond}
