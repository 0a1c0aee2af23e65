"""Which pattern a dead letter belongs to, by an id that outlives the pattern's template.

A template widens as more messages come: ``depot Bern is closed`` becomes ``depot <*> is closed``. So the id of a
pattern of errors is the hash of its *earliest* member's signature, which later members do not change; the id of a
pattern of payloads is the hash of its deviation, which does not widen. Both follow from the facts alone, so that
the same facts give the same ids in whatever order and however many runs they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import attrgetter

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.decisions import ALONG, Decisions, Move, root
from deadletter.patterns.deviation import ALIKE
from deadletter.spark.columns import looked_up
from deadletter.spark.staging import Stage, as_it_is
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

SAID_BY = (*QUEUE_KEY, "signature", "deviation_key")
"""What a dead letter's pattern follows from: where it died, its error's signature (null without an error), and how its
payload differs."""
ORDER = ("dead_lettered_at", *MESSAGE_KEY)
"""The order of a pattern's members: the earliest death first, ties by key. A struct of these is the ``earliest`` of
dead letters that say the same, see :func:`deadletter.gold.patterns.summarised`."""


def pattern_id(key: Column) -> Column:
    """The id of a pattern: the first 16 hexadecimal digits of its key's SHA-256."""
    return F.substring(F.sha2(key, 256), 1, 16)


def error_key(signature: Column) -> Column:
    """What the id of a pattern of errors is the hash of: a signature, marked where it reads like a payload's key."""
    return F.when(signature.isin(*ALIKE), F.concat(F.lit("error "), signature)).otherwise(signature)


def identified(keyed: DataFrame) -> DataFrame:
    """Add ``pattern_id`` to what dead letters say, with ``kind``, ``pattern_key``, ``signature`` (of their error) and
    the ``earliest`` of them."""
    own = F.when(F.col("kind") == "error", error_key(F.col("signature"))).otherwise(F.col("pattern_key"))
    first = F.min(F.struct("earliest", own.alias("own")))["own"]
    ids = keyed.groupBy("kind", "pattern_key").agg(pattern_id(first).alias("pattern_id"))
    return keyed.join(F.broadcast(ids), ["kind", "pattern_key"])


def other_names(found: DataFrame) -> DataFrame:
    """Rows of ``alias, pattern_id``: the ids that a part of each pattern had, or would have had, on its own.

    These are the hashes of its members' signatures. A pattern of payloads has one deviation, of which its own id is the
    hash; what else looked odd about members with its error makes no name of it.
    """
    alias = pattern_id(error_key(F.col("signature"))).alias("alias")
    parts = found.where("signature IS NOT NULL").select("pattern_id", "earliest", alias)
    first = F.min(F.struct("earliest", "pattern_id"))["pattern_id"]
    return parts.groupBy("alias").agg(first.alias("pattern_id"))


def successors(previous: DataFrame, found: DataFrame, members: DataFrame) -> DataFrame:
    """Rows of ``alias, pattern_id``: ids of ``previous`` rows of ``gold.poison_patterns`` that are gone, each with
    the pattern that its example, one of ``members``, belongs to now. A part that people split off has no id of its own
    here."""
    anchors = previous.where("part_of IS NULL").select(
        F.col("pattern_id").alias("alias"), *[F.col(f"example.{name}") for name in MESSAGE_KEY]
    )
    # the few examples are sent to where the dead letters are
    examples = members.join(F.broadcast(anchors), list(MESSAGE_KEY))
    return with_pattern(examples, found).select("alias", "pattern_id").where("alias != pattern_id")


def with_pattern(members: DataFrame, found: DataFrame) -> DataFrame:
    """Add ``pattern_id`` to dead letters: the one that ``found`` has for what they say."""
    ids = found.select(*[F.col(name).alias(f"_{name}") for name in SAID_BY], "pattern_id")
    same = [F.col(name).eqNullSafe(F.col(f"_{name}")) for name in SAID_BY]
    return members.join(ids, same).select(*members.columns, "pattern_id")


def aliases(found: DataFrame, members: DataFrame, previous: DataFrame, known: DataFrame) -> DataFrame:
    """Rows of ``alias, pattern_id``: all former ids of the patterns in ``found``: see :func:`other_names`, see
    :func:`successors` of ``previous`` patterns, and those ``known`` already, followed to where their pattern
    went. An id has one successor: the first that tells. ``members`` are dead letters that ``found`` tells of, the
    examples of the previous patterns among them.

    A known id stays where no dead letter is of its pattern: one may be again, as of another time or by a later event,
    and then nothing else tells what the pattern was once called.
    """
    told = _first_told([other_names(found), successors(previous, found, members)])
    went = told.select(F.col("alias").alias("pattern_id"), F.col("pattern_id").alias("went"))
    moved = known.select("alias", "pattern_id").join(went, "pattern_id", "left")
    followed = moved.select("alias", F.coalesce("went", "pattern_id").alias("pattern_id"))
    return _without_current(_first_told([told, followed]), found)


def _first_told(frames: Sequence[DataFrame]) -> DataFrame:
    """Rows of ``alias, pattern_id``, one an alias: what the first of the frames says that has it."""
    ranked = [frame.select("alias", "pattern_id", F.lit(rank).alias("rank")) for rank, frame in enumerate(frames)]
    every = reduce(DataFrame.unionByName, ranked)
    return every.groupBy("alias").agg(F.min(F.struct("rank", "pattern_id"))["pattern_id"].alias("pattern_id"))


def _without_current(names: DataFrame, found: DataFrame) -> DataFrame:
    current = found.select(F.col("pattern_id").alias("alias")).distinct()
    return names.join(F.broadcast(current), "alias", "left_anti")


def decided(found: DataFrame, decisions: Decisions, stage: Stage = as_it_is) -> DataFrame:
    """Split and merge patterns as people decided, and add ``part_of``. Every dead letter keeps one pattern.

    In the order in which it was decided: a part can be split again or merged, and what was merged into a pattern is
    split with it. ``stage`` keeps each step.
    """
    found = found.withColumn("part_of", F.lit(None).cast("string"))
    merged: dict[str, str] = {}
    for action, moves in groupby(decisions.moves, key=attrgetter("action")):
        if action == "merge":
            merged |= {move.pattern: move.value for move in moves}
            found = stage(_merged(found, {name: root(merged, name) for name in merged}))
        else:
            for move in moves:
                found = stage(_split(found, move))
    return found


def _merged(found: DataFrame, parents: Mapping[str, str]) -> DataFrame:
    target = F.coalesce(looked_up(parents, F.col("pattern_id")), F.col("pattern_id"))
    return _one_name_each(found.withColumn("own_id", F.col("pattern_id")).withColumn("pattern_id", target))


def part(along: str) -> Column:
    """What tells the parts of a pattern apart that is split ``along`` something, and does not change as members come: a
    template widens, so of an error it is the signature, of which a part can have several, or none (null)."""
    return F.col("signature") if along == "error" else _joined(along)


def _joined(along: str) -> Column:
    return F.concat_ws(" ", *[F.coalesce(F.col(name), F.lit("")) for name in ALONG[along]])


def _split(found: DataFrame, move: Move) -> DataFrame:
    """The part that had the earliest member when people decided keeps the id; where nobody noted which, or it has no
    member, the one that has the earliest now. The other ids are made of the name that the pattern had, and of what the
    earliest member says as a :func:`part`."""
    value, lasting = _joined(move.value), part(move.value).alias("says")
    mine = F.col("pattern_id") == move.pattern
    keeps = F.coalesce(F.coalesce(lasting, F.lit("")) == F.lit(move.keeps), F.lit(False))
    earliest = F.min(F.struct((~keeps).alias("other"), "earliest", value.alias("value")))
    first = found.where(mine).agg(earliest["value"].alias("first_part"))
    of_part = F.min(F.struct("earliest", lasting)).over(Window.partitionBy("pattern_id", value))["says"]
    split_off = pattern_id(F.concat_ws("\n", F.lit(move.by_name), F.lit(move.value), of_part))
    joined = found.join(F.broadcast(first), F.lit(True), "left")
    moved: Column = mine & (value != F.col("first_part"))
    return joined.withColumns(
        {
            "template": F.when(mine, F.concat("template", F.lit(f" [{move.value} "), value, F.lit("]"))).otherwise(
                F.col("template")
            ),
            "part_of": F.when(moved, F.lit(move.pattern)).otherwise(F.col("part_of")),
            "pattern_id": F.when(moved, split_off).otherwise(F.col("pattern_id")),
        }
    ).drop("first_part")


def _one_name_each(found: DataFrame) -> DataFrame:
    """Kind and template of a merged pattern are those of the pattern it was merged into, if that has members."""
    own = F.col("own_id") == F.col("pattern_id")
    named = found.groupBy("pattern_id").agg(
        F.min(F.struct((~own).alias("foreign"), "earliest", "kind", "template", "part_of")).alias("name")
    )
    names = named.select("pattern_id", "name.kind", "name.template", "name.part_of")
    return found.drop("kind", "template", "part_of", "own_id").join(F.broadcast(names), "pattern_id")
