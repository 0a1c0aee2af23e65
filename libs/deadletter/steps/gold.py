"""Gold: what the facts mean at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame

from deadletter import tables
from deadletter.gates.docs import load_gx
from deadletter.gates.gate import Gate
from deadletter.gold.at_risk import at_risk, compared_open
from deadletter.gold.collateral import collateral
from deadletter.gold.dead_letters import all_deaths, dead_letters
from deadletter.gold.decisions import Decisions
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.facts import SilverFacts, each
from deadletter.gold.health import queue_health
from deadletter.gold.healthy import healthy_payloads
from deadletter.gold.identity import decided
from deadletter.gold.patterns import compare_payloads, grouped, payload_profiles, poison_patterns
from deadletter.gold.survival import delivery_survival
from deadletter.lake import Lake, Progress, digest
from deadletter.lakemasks import lake_masks
from deadletter.parallel import together
from deadletter.patterns.grouping import add_signature
from deadletter.patterns.masks import Mask
from deadletter.replay import facts_at, habits_in
from deadletter.rules.zaqar_store import Habits
from deadletter.steps.quality import judge, stage_all
from deadletter.steps.summary import Tell
from deadletter.tables import Table
from deadletter.triage import current_names, decisions_version, former_ids, standing_decisions


def derive(
    lake: Lake, gate: Gate, as_of: datetime | None = None, habits: Habits | None = None, tell: Tell = print
) -> None:
    """Derive the gold tables from the facts that happened until ``as_of`` (UTC).

    ``as_of`` is the greatest event time in silver unless given, ``habits`` those of the last time.
    """
    done = lake.all_progress()
    habits = habits or habits_in(done)
    as_of = as_of or ("silver" in done and done["silver"].as_of)
    if not as_of:
        tell("gold: no event yet")
        return
    sources = _sources(lake, habits)
    if {name: done[name].source_version for name in sources if name in done} == sources and done["gold"].as_of == as_of:
        tell("gold: already up to date")
        return
    tell(f"gold: judging what happened until {as_of.isoformat()}")
    gate.parameters["as_of"] = as_of.isoformat()
    _write(lake, gate, each(facts_at(lake, as_of), lake.stage), habits, tell)
    lake.note_all({name: Progress(version, as_of) for name, version in sources.items()})


def _sources(lake: Lake, habits: Habits) -> dict[str, int]:
    """A version of each thing that gold is derived from, by its name in ``control.progress``."""
    return {
        "gold": lake.version(tables.QUEUE_EVENTS),
        "decisions": decisions_version(lake),
        "masks": digest(lake_masks(lake)),
        "habits": digest(habits),
    }


def _write(lake: Lake, gate: Gate, facts: SilverFacts, habits: Habits, tell: Tell) -> None:
    """Derive all tables, judge all, then write all."""
    deaths, _ = together([partial(all_deaths, facts, habits, lake.stage, facts.systems()), load_gx])
    parts = together([partial(_patterns, lake, facts, deaths, habits, tell), partial(_queues, lake, facts, deaths)])
    derived = parts[0] | parts[1]
    judge(gate, derived, {tables.MESSAGE_STATE.full_name: facts.state})
    together(partial(lake.replace, frame, table) for table, frame in derived.items())


def _queues(lake: Lake, facts: SilverFacts, deaths: DataFrame) -> dict[Table, DataFrame]:
    """The tables about queues and deliveries, computed."""
    return stage_all(
        lake,
        {
            tables.DISCREPANCIES: partial(discrepancies, facts, deaths),
            tables.QUEUE_HEALTH: partial(queue_health, facts, deaths),
            tables.DELIVERY_SURVIVAL: partial(delivery_survival, facts, deaths),
        },
    )


def _patterns(lake: Lake, facts: SilverFacts, deaths: DataFrame, habits: Habits, tell: Tell) -> dict[Table, DataFrame]:
    """The dead letters with their patterns, and the tables about these, computed."""
    events, masks = lake.read(tables.QUEUE_EVENTS), lake_masks(lake)
    judged, healthy = together(
        [
            lambda: lake.stage(dead_letters(deaths, facts, events, lake.stage)),
            lambda: lake.stage(healthy_payloads(facts, deaths, events, lake.stage)),
        ]
    )
    tell(f"gold: {judged.count():,} dead letters; patterns, queue health, delivery survival, discrepancies")
    profiles = lake.stage(payload_profiles(healthy))
    open_ones, (dead, known, decisions) = together(
        [
            lambda: lake.stage(compared_open(facts, deaths, profiles, events, masks, habits, lake.stage)),
            lambda: _named(lake, compare_payloads(judged, profiles, masks), masks, facts.as_of),
        ]
    )
    derived = {
        tables.AT_RISK: partial(at_risk, open_ones, dead, masks),
        tables.POISON_PATTERNS: partial(poison_patterns, dead, facts, healthy, decisions, masks),
        tables.COLLATERAL: partial(collateral, facts, dead),
        tables.PATTERN_ALIASES: partial(current_names, known, decisions.merged),
    }
    return stage_all(lake, derived) | {tables.DEAD_LETTERS: dead.select(*tables.DEAD_LETTERS.column_names)}


def _named(
    lake: Lake, compared: DataFrame, masks: Sequence[Mask], as_of: datetime
) -> tuple[DataFrame, DataFrame, Decisions]:
    """Compared dead letters with their patterns, the names that patterns had before, and what people decided."""
    signed = add_signature(compared, "error", masks, lake.stage)
    found = lake.stage(grouped(signed, masks))
    known = lake.stage(former_ids(lake, found))
    decisions = standing_decisions(lake, known, as_of)
    return lake.stage(decided(found, decisions)), known, decisions
