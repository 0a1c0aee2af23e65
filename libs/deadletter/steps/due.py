"""What gold has to derive anew: everything, or the queues that something changed since the last time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import RULES_VERSION, __version__, tables
from deadletter.gates.suites import load_all
from deadletter.gold.healthy import sample_of
from deadletter.gold.rabbitmq import may_have_led_on
from deadletter.gold.removal import removals
from deadletter.gold.scope import EVERYTHING, NOTHING, Link, Scope, affected, reached
from deadletter.lake import Lake, Progress, digest
from deadletter.lake.progress import DECISIONS, HABITS, MASKS, RULES, SAMPLE, STALE, WRITING
from deadletter.patterns.codes import MARKS
from deadletter.patterns.masks import Mask
from deadletter.queues import Queue, all_of_tenant, of_queues
from deadletter.rules.zaqar_store import Habits
from deadletter.snapshot import dead_letter_links
from deadletter.spark.frames import only_row
from deadletter.spark.parallel import together
from deadletter.spark.staging import held_if_few
from deadletter.tables import EVERY, QUEUE
from deadletter.triage import decisions_count

_OF_LETTER = (*tables.MESSAGE_KEY, "dead_letter_queue", "dead_letter_message_id", "dead_lettered_at", "removed_at")


@dataclass(frozen=True)
class Signs:
    """What tells which queues are due at ``as_of``.

    ``before``: how gold was derived last; ``decisions``: how many there are; ``queues``: how many were known by then;
    ``later``: whether any fact is from after that.

    Empty where gold is derived for the first time: ``changed``, the queues with facts that gold has not counted yet;
    ``late``, those of them with a new fact from before the time that gold stood for; ``turned``, those where a delay, a
    claim or a TTL ended since; ``links``, from each queue to its dead letter queues.
    """

    before: Progress | None
    as_of: datetime
    decisions: int
    queues: int
    later: bool
    changed: Sequence[Queue]
    late: Sequence[Queue]
    turned: Sequence[Queue]
    links: Sequence[Link]


def signs(lake: Lake, before: Progress | None, as_of: datetime) -> Signs:
    """Look at the tables that tell what is due, all at once."""
    if before is None or before.source_version == STALE or before.as_of is None:
        before = None
    reads: list[Callable[[], Any]] = [partial(decisions_count, lake), partial(_changes, lake, before, as_of)]
    if before is not None:
        turned = lake.read(tables.QUEUE_OUTLOOK).where(F.col("next_change") <= F.lit(as_of))
        reads += [partial(_queues, turned), partial(dead_letter_links, lake)]
    decisions, (queues, later, changed, late), *more = together(reads)
    ended, links = more or ([], [])
    return Signs(before, as_of, decisions, queues, later, changed, late, ended, links)


def _changes(lake: Lake, before: Progress | None, as_of: datetime) -> tuple[int, bool, list[Queue], list[Queue]]:
    """What ``control.queue_changes`` says, see :class:`Signs`."""
    told = {"known": F.col("earliest") <= F.lit(as_of), "later": F.col("latest") > F.lit(as_of)}
    told |= {"new": F.lit(False), "late": F.lit(False)}
    if before is not None:
        came = F.col("source_version") > before.source_version
        told["new"] = came | (F.col("latest") > F.lit(before.as_of))
        told["late"] = came & (F.col("earliest") <= F.lit(before.as_of))
    each = (
        lake.read(tables.QUEUE_CHANGES).groupBy(*QUEUE).agg(*[F.bool_or(it).alias(name) for name, it in told.items()])
    )
    signs = [F.collect_list(F.when(F.col(sign), F.struct(*QUEUE))).alias(sign) for sign in ("new", "late")]
    later = F.coalesce(F.bool_or("later"), F.lit(False)).alias("later")
    row = only_row(each.agg(F.count_if("known").alias("queues"), later, *signs))
    return row["queues"], row["later"], *([tuple(queue) for queue in row[sign]] for sign in ("new", "late"))


def sources_of(seen: Signs, silver: Progress, habits: Habits, masks: Sequence[Mask]) -> dict[str, int]:
    """A version of each thing that gold is derived from, by its name in ``control.progress``.

    All but ``gold``, the version of bronze that ``silver`` holds, concern every queue. So does a write that was begun
    and not finished: nobody knows what it left.
    """
    return {
        "gold": silver.source_version,
        DECISIONS: seen.decisions,
        MASKS: digest((masks, MARKS)),
        HABITS: digest(habits),
        RULES: digest((RULES_VERSION, __version__, load_all())),
        SAMPLE: sample_of(seen.queues),
        WRITING: 0,
    }


def due(lake: Lake, done: Mapping[str, Progress], sources: Mapping[str, int], seen: Signs) -> Scope:
    """The queues that new facts are about, or older ones that did not count before; those where a delay, a claim or a
    TTL ended since, whose dead letters were acknowledged or only delayed, or where what seemed delayed died; and what
    depends on any of these.

    Every queue where gold goes back in time, or where something changed that concerns all; none where no fact is new
    and nothing ended. Time that passed can still say something of the tables that are derived as a whole.
    """
    before, as_of, links, turned = seen.before, seen.as_of, seen.links, [*seen.turned]
    same = all(name in done and done[name].source_version == sources[name] for name in sources if name != "gold")
    if not same or before is None or before.as_of is None or as_of < before.as_of:
        return EVERYTHING
    if not seen.changed and as_of == before.as_of:
        return NOTHING
    asked = []
    if read := _dead_letter_queues(seen.changed, links):
        asked += [partial(_acknowledged, lake, read, as_of), partial(_delayed, lake, read, links)]
    if late := [queue for queue in seen.late if queue[0] == "rabbitmq" and queue[2] != EVERY]:
        asked += [partial(_not_delayed, lake, late, as_of)]
    if changed := frozenset(queue for queue in seen.changed if queue[0] == "rabbitmq" and queue[2] != EVERY):
        asked += [partial(_delivering, lake, changed, as_of)]
    turned += chain.from_iterable(together(asked))
    return affected(seen.changed, links, turned)


def _dead_letter_queues(changed: Sequence[Queue], links: Sequence[Link]) -> frozenset[Queue]:
    """The ``changed`` RabbitMQ and Pulsar queues to which others send their dead letters. Each run reads such queues,
    and most of what it finds there says nothing of older dead letters."""
    targets = {link.target for link in links if link.source != link.target}
    return frozenset(queue for queue in targets.intersection(changed) if queue[0] != "zaqar")


def _delayed(lake: Lake, read: frozenset[Queue], links: Sequence[Link]) -> list[Queue]:
    """The queues of what expired and went to a RabbitMQ queue among those that were ``read``, where it may be found now
    that it was only delayed, see :func:`deadletter.gold.rabbitmq.deaths`: to a work queue, or to one to which it was
    posted as well."""
    leading = {link.source for link in links}
    there = frozenset(queue for queue in read if queue[0] == "rabbitmq")
    work = frozenset(queue for queue in there if {queue, all_of_tenant(queue)} & leading)
    expired = lake.read(tables.DEAD_LETTERS).where("system = 'rabbitmq' AND reason = 'expired'")
    found = _queues(expired.where(Scope(work).receives)) if work else []
    if others := there - work:
        posted = lake.read(tables.MESSAGE_STATE).where(of_queues(others)).where("posted IS NOT NULL")
        its_key = posted.select("tenant", F.col("queue").alias("dead_letter_queue"), "message_id")
        found += _queues(expired.where(Scope(others).receives).join(its_key, its_key.columns, "left_semi"))
    return _with_sources(found, expired)


def _not_delayed(lake: Lake, late: Sequence[Queue], as_of: datetime) -> list[Queue]:
    """The queues of what expired and went to a RabbitMQ queue that was taken for a work queue until something ``late``
    was told of it: it died. Gold has none of it yet, so the links may not have its way."""
    policies = lake.read(tables.QUEUE_POLICIES).where("system = 'rabbitmq'").where(F.col("valid_from") <= F.lit(as_of))
    found = _queues(may_have_led_on(policies.where(f"{of_queues(late)} OR queue = '{EVERY}'"), held_if_few))
    return _expired_into(lake, found)


def _delivering(lake: Lake, changed: frozenset[Queue], as_of: datetime) -> list[Queue]:
    """The queues of what expired and went to one of the ``changed`` where messages only waited, it seemed, until one
    was delivered from there for the first time: what expired there died, and so did what had come to it by a delay."""
    known = _queues(lake.read(tables.DELIVERY_SURVIVAL).where(of_queues(changed)))
    if not (others := changed.difference(known)):
        return []
    state = lake.read(tables.MESSAGE_STATE)
    delivered = F.exists("deliveries", lambda delivery: delivery["time"] <= F.lit(as_of))
    expired = F.exists("deaths", lambda death: death["reason"] == "expired")
    both = state.where(of_queues(others)).groupBy(*QUEUE).agg((F.bool_or(delivered) & F.bool_or(expired)).alias("both"))
    return _expired_into(lake, _queues(both.where("both")))


def _expired_into(lake: Lake, queues: Sequence[Queue]) -> list[Queue]:
    """The queues from which messages expired into one of the ``queues``, as silver tells, :func:`_with_sources`."""
    if not queues:
        return []
    deaths = lake.read(tables.MESSAGE_STATE).where(of_queues(map(all_of_tenant, queues)))
    expired = deaths.select(*QUEUE, F.inline("deaths")).where("reason = 'expired'")
    return _with_sources(_queues(expired.where(Scope(frozenset(queues)).receives)), expired)


def _with_sources(queues: Sequence[Queue], expired: DataFrame) -> list[Queue]:
    """The ``queues``, and those from which messages ``expired`` into them, and so on: a delay can have several steps,
    and what it is depends on all that follow."""
    return sorted(reached(queues, lambda ahead: _queues(expired.where(Scope(ahead).receives))))


def _acknowledged(lake: Lake, read: frozenset[Queue], as_of: datetime) -> list[Queue]:
    """The queues whose dead letters lie in those that were ``read``, and were removed there at another time than gold
    tells."""
    dead = held_if_few(lake.read(tables.DEAD_LETTERS).where(Scope(read).receives).select(*_OF_LETTER))
    settled = F.when(F.col("settled.time") <= F.lit(as_of), F.col("settled"))
    state = lake.read(tables.MESSAGE_STATE).where(of_queues(read)).where(F.col("seen") <= F.lit(as_of))
    policies = lake.read(tables.QUEUE_POLICIES).where(of_queues(read)).where(F.col("valid_from") <= F.lit(as_of))
    removed = removals(dead, held_if_few(state.withColumn("settled", settled)), policies)
    both = dead.join(removed.withColumnRenamed("removed_at", "now"), list(tables.MESSAGE_KEY), "left")
    return _queues(both.where("NOT (removed_at <=> now)"))


def _queues(rows: DataFrame) -> list[Queue]:
    return [tuple(row) for row in rows.select(*QUEUE).distinct().collect()]
