"""Gold: what the facts mean at a time, derived for the queues that something changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gates.docs import load_gx
from deadletter.gates.gate import Gate
from deadletter.gold.at_risk import at_risk, receivable, suspects, waiting
from deadletter.gold.collateral import collateral
from deadletter.gold.contrast import examples
from deadletter.gold.dead_letter_counts import dead_letter_counts, named_members, said
from deadletter.gold.dead_letters import all_deaths, dead_letters, placed_deaths
from deadletter.gold.decisions import Decisions
from deadletter.gold.discrepancies import discrepancies
from deadletter.gold.facts import SilverFacts
from deadletter.gold.health import queue_health
from deadletter.gold.healthy import healthy_sample, reaches, sampled
from deadletter.gold.identity import decided, with_pattern
from deadletter.gold.kept import Kept, KeptTooLittle, kept_in, to_keep
from deadletter.gold.outlook import outlook
from deadletter.gold.patterns import compare_payloads, grouped, poison_patterns, summarised
from deadletter.gold.payload import payloads, with_payload
from deadletter.gold.profile import queue_profile, usual
from deadletter.gold.removal import by_dead_letter_queue
from deadletter.gold.scope import EVERYTHING, NOTHING, Link, Scope, affected, reached
from deadletter.gold.survival import delivery_survival
from deadletter.gold.uneventful import split
from deadletter.lake import Lake, Progress
from deadletter.lake.masks import lake_masks
from deadletter.lake.progress import SAMPLE, WRITING
from deadletter.patterns.linking import with_signature
from deadletter.patterns.masks import Mask
from deadletter.queues import MOST_QUEUES, Queue, of_queues
from deadletter.rules.zaqar_store import Habits
from deadletter.snapshot import chosen_habits, facts_at
from deadletter.spark.parallel import together
from deadletter.spark.staging import Rows, held_if_few
from deadletter.steps.due import due, signs, sources_of
from deadletter.steps.summary import Tell
from deadletter.tables import MESSAGE_KEY, QUEUE, Table
from deadletter.triage import current_names, former_ids, standing_decisions

WHOLE = (tables.AT_RISK, tables.POISON_PATTERNS, tables.PATTERN_ALIASES)
"""Tables that are written as a whole: what is in one queue says something of the others' rows."""
OF_MESSAGES = (tables.JUDGED_MESSAGES, tables.COUNTED_MESSAGES)
"""Tables of which what is said of some messages is written, see :attr:`deadletter.gold.kept.Kept.written`."""


class ReachesFurther(Exception):
    """What is derived concerns ``queues`` outside the scope, all where none are named: they have to be derived too."""

    def __init__(self, reason: str, queues: Collection[Queue] = ()) -> None:
        super().__init__(reason)
        self.queues = frozenset(queues)


@dataclass(frozen=True)
class Derivation:
    """What a run derives: the rows of the queues in ``scope`` as of ``as_of``, by the store's ``habits``, with so many
    healthy messages of each queue as a ``sample``, of facts as far as the ``version`` of bronze that silver holds.
    ``goes_on``: what the last run took from payloads still holds; ``later``: a fact is later than ``as_of``; ``links``:
    which queues depend on which; ``kept``: what needs not be read of silver."""

    lake: Lake
    scope: Scope
    as_of: datetime
    habits: Habits
    masks: Sequence[Mask]
    sample: int
    version: int
    goes_on: bool
    later: bool
    links: Sequence[Link]
    kept: Kept = Kept()

    def wider(self, queues: frozenset[Queue]) -> Derivation:
        """The same of these ``queues`` as well, and of what depends on them; of all where none are named."""
        here = self.scope.queues
        scope = EVERYTHING if here is None or not queues else affected((), self.links, turned=here | queues)
        return replace(self, scope=scope, kept=Kept(scope))

    def former(self, table: Table) -> DataFrame | None:
        """The rows of these queues as they are before this run writes them, where they still hold."""
        return self.lake.read(table).where(self.scope.inside) if self.goes_on else None

    def with_others(self, rows: DataFrame, table: Table) -> DataFrame:
        """The derived rows of a table together with those of the queues that stay as they are."""
        if self.scope == EVERYTHING:
            return rows
        return rows.unionByName(self.lake.read(table).where(self.scope.outside))

    def counted_elsewhere(self) -> DataFrame | None:
        """What is counted of the dead letters of the queues that stay as they are; ``None`` where all are derived. It
        is read once where it is little, and where it is much it is not written again."""
        if self.scope == EVERYTHING:
            return None
        return held_if_few(self.lake.read(tables.DEAD_LETTER_COUNTS).where(self.scope.outside))

    def with_payloads(self, examples: DataFrame, dead: DataFrame) -> DataFrame:
        """The examples of all patterns with their ``example_payload``: those of the ``dead`` letters that are derived,
        and of others that are kept."""
        named = self.lake.stage(examples)
        body = (*[F.col(name) for name in MESSAGE_KEY], F.col("payload").alias("example_payload"))
        bodies = dead.select(*body)
        if self.scope != EVERYTHING:
            queues = [tuple(row) for row in named.select(*[f"example.{name}" for name in QUEUE]).distinct().collect()]
            theirs = of_queues(queues) if len(queues) <= MOST_QUEUES else "true"
            kept = self.lake.read(tables.DEAD_LETTERS).where(self.scope.outside).where(theirs)
            bodies = bodies.unionByName(kept.select(*body))
        key = F.struct(*MESSAGE_KEY)
        return bodies.join(F.broadcast(named), key == F.col("example")).select(*named.columns, "example_payload")

    def with_dead_from_others(self, deaths: DataFrame) -> DataFrame:
        """The deaths together with the dead letters that lie in these queues and died in others."""
        if self.scope == EVERYTHING:
            return deaths
        others = self.lake.read(tables.DEAD_LETTERS).where(self.scope.outside).where(self.scope.receives)
        return self.read_once(deaths.unionByName(others))

    def read_once(self, rows: DataFrame) -> DataFrame:
        """Rows that are read several times, staged where other queues' are among them: Delta looks for the files of
        these each time. Without them they are staged already."""
        return rows if self.scope == EVERYTHING else self.lake.stage(rows, Rows.OF_LAKE)


def derive(
    lake: Lake, gate: Gate, as_of: datetime | None = None, habits: Habits | None = None, tell: Tell = print
) -> None:
    """Derive the gold tables from the facts that happened until ``as_of`` (UTC), as far as something changed.

    ``as_of`` is the greatest event time in silver unless given, ``habits`` those that were chosen last.
    """
    done = lake.progress.all()
    habits = chosen_habits(lake, done, habits)
    as_of = as_of or (done["silver"].as_of if "silver" in done else None)
    if as_of is None or "silver" not in done:
        tell("gold: no event yet")
        return
    masks = lake_masks(lake)
    seen = signs(lake, done.get("gold"), as_of)
    sources = sources_of(seen, done["silver"], habits, masks)
    if {name: done[name].source_version for name in sources if name in done} == sources and done["gold"].as_of == as_of:
        tell("gold: already up to date")
        return
    gate.parameters["as_of"] = as_of.isoformat()
    scope = due(lake, done, sources, seen)
    if scope == NOTHING and done["gold"].as_of == as_of:  # events came, but they say nothing that counts
        tell("gold: no new fact")
        _note(lake, sources, as_of)
        return
    run = Derivation(
        lake=lake,
        scope=scope,
        as_of=as_of,
        habits=habits,
        masks=masks,
        sample=sources[SAMPLE],
        version=sources["gold"],
        goes_on=scope != EVERYTHING,
        later=seen.later,
        links=seen.links,
        kept=Kept(scope) if seen.later else kept_in(scope, *map(lake.read, (tables.KEPT_QUEUES, tables.QUEUE_CHANGES))),
    )
    _derive_all_due(run, gate, tell)
    _note(lake, sources, as_of)


def _derive_all_due(run: Derivation, gate: Gate, tell: Tell) -> None:
    """Derive the scope, of all its messages where what is kept does not do, and more where what is derived reaches
    further; see :func:`_derive`."""
    while True:
        try:
            return _derive(run, gate, tell)
        except KeptTooLittle as reason:
            tell(f"gold: {reason}")
            run.lake.clear_stage()  # all of it is staged once more
            run = replace(run, kept=Kept(run.scope))
        except ReachesFurther as reason:
            tell(f"gold: {reason}")
            run.lake.clear_stage()
            run = run.wider(reason.queues)


def _note(lake: Lake, sources: Mapping[str, int], as_of: datetime) -> None:
    lake.progress.note_all({name: Progress(version, as_of) for name, version in sources.items()})


def _derive(run: Derivation, gate: Gate, tell: Tell) -> None:
    """Derive all tables, judge all, then write all. Raises :class:`ReachesFurther` or :class:`KeptTooLittle` before
    anything is written."""
    lake, scope = run.lake, run.scope
    where = "" if scope.queues is None else f" in {len(scope.queues):,} of the queues"
    if scope.is_wide:  # however few events are new
        lake.tune(lake.size(tables.QUEUE_EVENTS))
    tell(f"gold: judging what happened until {run.as_of.isoformat()}{where}")
    facts = _facts(run)
    systems = facts.systems()
    if "zaqar" in systems:
        tell(f"gold: replaying Zaqar's claims by the habits of the store {run.habits.name!r} (--zaqar-store)")
    deaths, _ = together([partial(all_deaths, facts, run.habits, lake.stage, systems), load_gx])
    if scope != EVERYTHING:
        beyond = by_dead_letter_queue(deaths).where(scope.outside).select(*QUEUE).distinct().collect()
        if beyond:
            further = _with_next_steps(lake, frozenset(tuple(queue) for queue in beyond))
            raise ReachesFurther("dead letters went where none went before", further)
    patterns, queues, kept = together(
        [partial(_patterns, run, facts, deaths, tell), partial(_queues, run, facts, deaths), partial(_kept, run, facts)]
    )
    derived = patterns | queues | kept
    _judge(run, gate, facts, derived)
    _write(run, derived)


def _with_next_steps(lake: Lake, queues: frozenset[Queue]) -> frozenset[Queue]:
    """The ``queues``, and those to which messages expired from there, and so on: a delay in several steps is derived at
    once, not anew for each of them."""

    def next_steps(ahead: frozenset[Queue]) -> list[Queue]:
        here = frozenset(queue for queue in ahead if queue[0] == "rabbitmq")
        if not here:
            return []
        deaths = lake.read(tables.MESSAGE_STATE).where(of_queues(here)).select("system", "tenant", F.inline("deaths"))
        there = deaths.where("reason = 'expired' AND dead_letter_queue IS NOT NULL")
        return [tuple(to) for to in there.select("system", "tenant", "dead_letter_queue").distinct().collect()]

    return reached(queues, next_steps)


def _facts(run: Derivation) -> SilverFacts:
    """The facts about the messages of the scope: those that something changed are looked at, the others are kept."""
    lake, kept = run.lake, run.kept
    facts = facts_at(lake, run.as_of, run.scope, run.later)
    if not kept.queues:
        return split(facts, run.sample, lake.stage)
    judged, counted = (lake.read(table).where(kept.still) for table in OF_MESSAGES)
    stage = partial(lake.stage, rows=Rows.OF_LAKE)
    return split(replace(facts, state=kept.unread(facts.state)), run.sample, stage, judged, counted)


def _kept(run: Derivation, facts: SilverFacts) -> dict[Table, DataFrame]:
    """What the next runs can go by, where there is much that they need not read; none of what does not hold now."""
    made = to_keep(run.kept, facts, run.version) if facts.looked_at_many and not run.later else {}
    if made or not (run.later or run.scope == EVERYTHING):
        return made
    return {tables.KEPT_QUEUES: run.lake.read(tables.KEPT_QUEUES).limit(0)}


def _judge(run: Derivation, gate: Gate, facts: SilverFacts, derived: Mapping[Table, DataFrame]) -> None:
    """Judge the rows that will be written: the other queues' were judged when they were."""
    gold = {table: rows for table, rows in derived.items() if table.layer == "gold"}
    # those of the messages that are judged: the dead are among them
    read_here = {table.full_name: rows for table, rows in gold.items()} | {tables.MESSAGE_STATE.full_name: facts.state}
    dead = {tables.DEAD_LETTERS.full_name: run.with_others(derived[tables.DEAD_LETTERS], tables.DEAD_LETTERS)}
    together(
        partial(gate.check, rows, table, read_here | dead if table in WHOLE else read_here)
        for table, rows in gold.items()
    )


def _write(run: Derivation, derived: Mapping[Table, DataFrame]) -> None:
    run.lake.progress.note(WRITING, 1, run.as_of)
    # before the others: they are made of the patterns that are there until now
    run.lake.replace(derived[tables.PATTERN_ALIASES], tables.PATTERN_ALIASES)
    where = dict.fromkeys(WHOLE, "true") | dict.fromkeys(OF_MESSAGES, run.kept.written)
    together(
        partial(run.lake.replace, rows, table, where.get(table, run.scope.inside))
        for table, rows in derived.items()
        if table is not tables.PATTERN_ALIASES
    )


def _queues(run: Derivation, facts: SilverFacts, deaths: DataFrame) -> dict[Table, DataFrame]:
    """The tables about queues and deliveries, computed."""
    return run.lake.stage_all(
        {
            # policies are those of all queues
            tables.DISCREPANCIES: lambda: discrepancies(facts, deaths, run.habits).where(run.scope.inside),
            tables.QUEUE_HEALTH: partial(queue_health, facts, deaths, run.habits),
            tables.DELIVERY_SURVIVAL: partial(delivery_survival, facts, deaths),
        },
    )


def _patterns(run: Derivation, facts: SilverFacts, deaths: DataFrame, tell: Tell) -> dict[Table, DataFrame]:
    """The dead letters with their patterns, and the tables about these, computed."""
    lake, known = run.lake, run.with_dead_from_others(deaths)
    died, sample, (open_ones, candidates) = together(
        [
            lambda: lake.stage(placed_deaths(deaths, facts, run.former(tables.DEAD_LETTERS))),
            partial(_sample, run, facts, known),
            lambda: _open(run, facts, known),
        ]
    )
    there = "" if run.scope == EVERYTHING else " there"
    tell(f"gold: {died.count():,} dead letters{there}; patterns, queue health, delivery survival, discrepancies")
    sought = [died.where("NOT sought"), sample.where("facts IS NULL"), candidates]
    found = lake.stage(payloads(sought, lake.read(tables.QUEUE_EVENTS), lake.stage))
    judged, (healthy, own) = together(
        [lambda: lake.stage(dead_letters(died, found)), lambda: _profiles(run, facts, healthy_sample(sample, found))]
    )
    profiles = run.read_once(run.with_others(own, tables.QUEUE_PROFILE))
    yardstick = lake.stage(usual(own))
    others = run.counted_elsewhere()
    suspected, (dead, named, names, decisions) = together(
        [
            lambda: lake.stage(suspects(with_payload(candidates, found), yardstick, run.masks, lake.stage)),
            lambda: _named(run, compare_payloads(judged, yardstick, run.masks), others),
        ]
    )
    if others is not None and not named.where("known_as != pattern_id").isEmpty():
        raise ReachesFurther("a pattern of other queues has another id now")
    own_counts = lake.stage_few(dead_letter_counts(dead))
    counts = own_counts if others is None else own_counts.unionByName(others)
    derived: dict[Table, Callable[[], DataFrame]] = {
        tables.AT_RISK: lambda: at_risk(run.with_others(suspected, tables.SUSPECTS), named, decisions.split_along),
        tables.POISON_PATTERNS: lambda: poison_patterns(
            named,
            counts,
            run.with_payloads(examples(counts), dead),
            profiles,
            run.as_of,
            decisions,
            run.masks,
            lake.stage,
        ),
        tables.COLLATERAL: partial(collateral, facts, dead),
        tables.PATTERN_ALIASES: partial(current_names, names, decisions.merged),
        tables.QUEUE_OUTLOOK: partial(outlook, open_ones, run.as_of),
    }
    made = {tables.SUSPECTS: suspected, tables.HEALTHY_SAMPLE: healthy, tables.QUEUE_PROFILE: own}
    return lake.stage_all(derived) | made | {tables.DEAD_LETTERS: dead, tables.DEAD_LETTER_COUNTS: own_counts}


def _sample(run: Derivation, facts: SilverFacts, known: DataFrame) -> DataFrame:
    """The healthy messages whose payloads are looked at, see :func:`deadletter.gold.healthy.sampled`."""
    former, kept = run.former(tables.HEALTHY_SAMPLE), run.kept
    if former is None or not kept.queues:
        return run.lake.stage(sampled(facts, known, run.sample, former))
    chosen = run.lake.stage(sampled(facts, known, run.sample, former, former.where(kept.still)))
    if not reaches(chosen, former.where(of_queues(kept.queues)), run.sample):
        raise KeptTooLittle("healthy messages are missing among those that were kept")
    return chosen


def _open(run: Derivation, facts: SilverFacts, known: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The open messages, and those of them that somebody can receive."""
    open_ones = run.lake.stage(waiting(facts, known, run.habits))
    return open_ones, run.lake.stage(receivable(open_ones, facts, known, run.habits))


def _profiles(run: Derivation, facts: SilverFacts, healthy: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The healthy messages that are looked at, and what the messages of each queue have in common."""
    healthy = run.lake.stage(healthy)
    return healthy, run.lake.stage(queue_profile(facts, healthy))


def _named(
    run: Derivation, compared: DataFrame, others: DataFrame | None
) -> tuple[DataFrame, DataFrame, DataFrame, Decisions]:
    """The compared dead letters with their patterns; what all dead letters say, with the patterns; the names that
    patterns had before; and what people decided.

    What ``others`` say, see :meth:`Derivation.counted_elsewhere`, is in ``known_as`` by the pattern that it has had.
    """
    stage, stage_few = run.lake.stage, run.lake.stage_few
    signed = stage(with_signature(compared.drop("signature", "pattern_id"), run.masks, stage))
    summary = summarised(signed).withColumn("known_as", F.lit(None).cast("string"))
    members = signed.select(*MESSAGE_KEY, "signature", "deviation_key")
    if others is not None:
        summary, members = summary.unionByName(said(others)), members.unionByName(named_members(others))
    found = stage_few(grouped(stage_few(summary)))
    names = stage_few(former_ids(run.lake, found, members))
    decisions = standing_decisions(run.lake, names, run.as_of)
    named = stage_few(decided(found, decisions, stage_few))
    dead = with_pattern(signed, named.where("known_as IS NULL"))
    return stage(dead.select(*tables.DEAD_LETTERS.column_names)), named, names, decisions
