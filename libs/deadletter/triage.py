"""What people decide: about patterns, written down and applied to the gold tables, and about what is in quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from shlex import quote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.gold.dead_letter_counts import said as dead_letters_say
from deadletter.gold.decisions import Decisions, standing
from deadletter.gold.identity import aliases, part
from deadletter.gold.patterns import judged
from deadletter.lake import Lake
from deadletter.lake.progress import DECISIONS
from deadletter.silver.quarantine import with_decisions
from deadletter.spark.frames import frame_of
from deadletter.times import from_micros

ORDER = ("decided_at", "pattern_id", "action")


def decisions_count(lake: Lake) -> int:
    """How many decisions there are: the table's own version grows with each tidying, too."""
    return lake.read(tables.PATTERN_DECISIONS).count()


def decisions(lake: Lake, as_of: datetime | None = None) -> list[dict]:
    """Every decision in order, times in UTC; one that takes effect after ``as_of`` does not count."""
    kept = lake.read(tables.PATTERN_DECISIONS)
    if as_of is not None:
        kept = kept.where(F.col("effective_at") <= F.lit(as_of))
    times = [F.unix_micros(name).alias(name) for name in ("effective_at", "decided_at")]
    rows = kept.orderBy(*ORDER).select(*[n for n in kept.columns if not n.endswith("_at")], *times).collect()
    return [row.asDict() | {n: from_micros(row[n]) for n in ("effective_at", "decided_at")} for row in rows]


def former_ids(lake: Lake, found: DataFrame, members: DataFrame) -> DataFrame:
    """Rows of ``alias, pattern_id`` before any decision, see :func:`deadletter.gold.identity.aliases`."""
    return aliases(found, members, lake.read(tables.POISON_PATTERNS), by_grouping(lake))


def by_grouping(lake: Lake) -> DataFrame:
    """The former ids that no decision made."""
    return lake.read(tables.PATTERN_ALIASES).where("reason = 'grouping'")


def standing_decisions(lake: Lake, known: DataFrame, as_of: datetime | None) -> Decisions:
    """What holds at ``as_of`` (null: after all decisions), each pattern by the id it has now; ``known`` are its former
    ids."""
    rows = decisions(lake, as_of)
    targets = {row["target"] for row in rows if row["action"] == "merge" and row["target"]}
    named = sorted({row["pattern_id"] for row in rows} | targets)
    return standing(rows, current_ids(known, named))


def current_ids(known: DataFrame, wanted: list[str]) -> Mapping[str, str]:
    """The present id of each wanted one that has another now."""
    if not wanted:
        return {}
    rows = known.where(F.col("alias").isin(wanted)).select("alias", "pattern_id").collect()
    return {row["alias"]: row["pattern_id"] for row in rows}


def current_names(known: DataFrame, merged: Mapping[str, str]) -> DataFrame:
    """Rows of ``gold.pattern_aliases``: former ids and those of merged patterns, each with the id that holds."""
    rows = known.select("alias", "pattern_id", F.lit("grouping").alias("reason"))
    own = sorted((name, target, "merged") for name, target in merged.items())
    made = frame_of(known.sparkSession, own, "alias STRING, pattern_id STRING, reason STRING")
    return rows.where(~F.col("alias").isin(sorted(merged))).unionByName(made)


def find(lake: Lake, pattern: str) -> str:
    """The present id of a pattern, given by an id it has or had, or by the start of one.

    Raises :class:`UsageError` where there is none, or more than one.
    """
    ids = _beginning(lake.read(tables.POISON_PATTERNS), "pattern_id", pattern)
    if not ids:  # an id that widened away can name a pattern that was merged since
        known = lake.read(tables.PATTERN_ALIASES)
        ids = _beginning(known, "alias", pattern)
        ids = _beginning(known.where("reason = 'merged'"), "alias", ids[0]) or ids if len(ids) == 1 else ids
    if len(ids) == 1:
        return ids[0]
    fault = "several patterns begin so" if ids else "no pattern has or had this id"
    raise UsageError(f"{pattern}: {fault}. `deadletter patterns list --lake {quote(lake.root)} --all` shows them")


def merged_id(lake: Lake, pattern: str) -> str | None:
    """The whole id of a pattern that was merged into another, given by an id it has or had; null where ``pattern`` is
    none of these."""
    known = lake.read(tables.PATTERN_ALIASES)
    merged = known.where("reason = 'merged'").select("alias")
    own = F.when(F.col("reason") == "merged", F.col("alias")).otherwise(F.col("pattern_id")).alias("alias")
    meant = known.where(F.startswith("alias", F.lit(pattern))).select(own)
    rows = meant.join(merged, "alias").distinct().limit(2).collect()
    return rows[0]["alias"] if len(rows) == 1 else None


def undoable(lake: Lake, pattern: str, as_of: datetime) -> str:
    """The id of the pattern whose merge or split a split without ``along`` undoes.

    Raises :class:`UsageError` where ``pattern`` was not merged or split, at ``as_of`` or by a decision for later.
    """
    name, known = find(lake, pattern), by_grouping(lake)
    if not _beginning(lake.read(tables.POISON_PATTERNS), "pattern_id", pattern):
        name = merged_id(lake, pattern) or name
    now, then = (standing_decisions(lake, known, time) for time in (as_of, None))
    if any(move.pattern == name for move in (*now.moves, *then.moves)):
        return name
    row = lake.read(tables.POISON_PATTERNS).where(F.col("pattern_id") == name).first()
    inside = sorted(part for part, whole in now.merged.items() if whole == name)
    can = "--along queue, error or deviation splits it"
    if row and row["part_of"]:
        can = f"it is part of {row['part_of']}, and the split of that can be undone"
    elif inside:
        can = f"what was merged into it is taken out by its own id: {', '.join(inside)}"
    raise UsageError(f"{name} was not merged or split, so there is nothing to undo; {can}")


def ids_leading_to(lake: Lake, pattern: str) -> list[str]:
    """All other ids of a pattern: those it had, and those that the patterns merged into it have or had."""
    known = lake.read(tables.PATTERN_ALIASES)
    direct = known.where(F.col("pattern_id") == pattern)
    merged = [row["alias"] for row in direct.where("reason = 'merged'").collect()]
    rows = known.where(F.col("pattern_id").isin(pattern, *merged)).select("alias").orderBy("alias").collect()
    return [row["alias"] for row in rows]


def _beginning(df: DataFrame, name: str, text: str) -> list[str]:
    """Up to two different patterns of rows whose ``name`` begins so."""
    rows = df.where(F.startswith(name, F.lit(text))).select("pattern_id").distinct().orderBy("pattern_id")
    return [row["pattern_id"] for row in rows.limit(2).collect()]


def write_down(
    lake: Lake,
    pattern: str,
    action: str,
    by: str,
    why: str,
    at: datetime,
    target: str | None = None,
    along: str | None = None,
) -> None:
    """Write a decision down, in force from ``at`` (UTC) on. A mute notes the pattern's present template, and holds for
    what that says; raises :class:`UsageError` where the pattern has no dead letter now, and so none. A split notes
    which part keeps the pattern's id: the one with its earliest dead letter."""
    if action == "mute":
        now = lake.read(tables.POISON_PATTERNS).where(F.col("pattern_id") == pattern).select("template").first()
        if now is None:
            raise UsageError(f"pattern {pattern} has no dead letter now, so there is nothing to mute")
        target = now["template"]
    if along:
        said = dead_letters_say(lake.read(tables.DEAD_LETTER_COUNTS).where(F.col("pattern_id") == pattern))
        first = said.orderBy("earliest").select(F.coalesce(part(along), F.lit("")).alias("part")).first()
        target = first["part"] if first else None
    told = "pattern_id STRING, action STRING, target STRING, along STRING, effective_at TIMESTAMP, decided_by STRING"
    row = frame_of(lake.spark, [(pattern, action, target, along, at, by, why)], f"{told}, why STRING")
    lake.append_now(row, tables.PATTERN_DECISIONS, "decided_at")


def quarantined(lake: Lake) -> DataFrame:
    """``silver.quarantine`` as it is now, with ``decision``: what happens later does not change these rows.

    No decision is known in a lake of an earlier version.
    """
    found = lake.read(tables.QUARANTINE, lake.version(tables.QUARANTINE))
    if not lake.exists(tables.QUARANTINE_DECISIONS):
        return found.withColumn("decision", F.lit(None).cast("string"))
    decided = tables.QUARANTINE_DECISIONS
    return with_decisions(found, lake.read(decided, lake.version(decided)))


def rejudge(lake: Lake, as_of: datetime) -> None:
    """Bring the patterns' status up to date with the decisions; which dead letter belongs where stays."""
    version = decisions_count(lake)
    held = standing_decisions(lake, by_grouping(lake), as_of)
    patterns = judged(lake.read(tables.POISON_PATTERNS), as_of, held)
    lake.replace(patterns, tables.POISON_PATTERNS)
    done = lake.progress.of(DECISIONS)
    if done and done.source_version == version - 1:  # an earlier one may still have to be derived
        lake.progress.note(DECISIONS, version, as_of)
