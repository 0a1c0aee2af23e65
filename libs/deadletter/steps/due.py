"""What gold has to derive anew: everything, or the queues that something changed since the last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import RULES_VERSION, __version__, tables
from deadletter.gates.suites import load_all
from deadletter.gold.healthy import sample_of
from deadletter.gold.scope import EVERYTHING, NOTHING, Scope, affected
from deadletter.lake import Lake, Progress, digest
from deadletter.parallel import together
from deadletter.patterns.codes import MARKED
from deadletter.patterns.masks import Mask
from deadletter.replay import dead_letter_links
from deadletter.rules.zaqar_store import Habits
from deadletter.tables import QUEUE
from deadletter.triage import decisions_version

STALE = -1
"""A source version no table has: what gold was derived from no longer is what silver holds."""
WRITING = "writing"
"""The step in ``control.progress`` that is 1 while gold is being written and 0 afterwards."""
USUAL = "usual"
"""The step in ``control.progress`` that keeps a digest of what was usual in all queues."""
MOST_BORROWERS = 20
"""Up to so many queues that are compared with all others are derived in each run: that costs less than to begin again
where it turns out that they have to be."""


@dataclass(frozen=True)
class Due:
    """What a run has to derive: ``scope``, and ``reach`` instead where what is usual in all queues is no longer what it
    was, as queues without a yardstick of their own are compared with that."""

    scope: Scope
    reach: Scope


def sources_of(
    lake: Lake, done: Mapping[str, Progress], habits: Habits, masks: Sequence[Mask], as_of: datetime
) -> dict[str, int]:
    """A version of each thing that gold is derived from, by its name in ``control.progress``.

    All but ``gold``, the version of bronze that silver holds, concern every queue. So does a write that was begun and
    not finished: nobody knows what it left.
    """
    decided, sample = together([partial(decisions_version, lake), partial(sample_size, lake, as_of)])
    return {
        "gold": done["silver"].source_version,
        "decisions": decided,
        "masks": digest((masks, MARKED)),
        "habits": digest(habits),
        "rules": digest((RULES_VERSION, __version__, load_all())),
        "sample": sample,
        WRITING: 0,
    }


def sample_size(lake: Lake, as_of: datetime) -> int:
    """How many healthy messages of each queue are looked at, by how many queues there were at ``as_of``."""
    known = lake.read(tables.QUEUE_CHANGES).where(F.col("earliest") <= F.lit(as_of))
    return sample_of(known.select(*QUEUE).distinct().count())


def due(lake: Lake, done: Mapping[str, Progress], sources: Mapping[str, int], as_of: datetime) -> Due:
    """The queues that new facts are about, or older ones that did not count before; those where a delay, a claim or a
    TTL ended since; those that are compared with all queues; and what depends on any of these.

    Every queue where gold goes back in time, or where something changed that concerns all; none where no fact is new
    and nothing ended. Time that passed can still say something of the tables that are derived as a whole.
    """
    before = done.get("gold")
    same = all(name in done and done[name].source_version == sources[name] for name in sources if name != "gold")
    if not same or before is None or before.source_version == STALE or before.as_of is None or as_of < before.as_of:
        return Due(EVERYTHING, EVERYTHING)
    new = (F.col("source_version") > before.source_version) | (F.col("latest") > F.lit(before.as_of))
    changed = lake.read(tables.QUEUE_CHANGES).where(new)
    outlook = lake.read(tables.QUEUE_OUTLOOK)
    turned, borrowing = outlook.where(F.col("next_change") <= F.lit(as_of)), outlook.where("borrows")
    queries = [partial(_queues, changed), partial(dead_letter_links, lake)]
    queries += [partial(_queues, turned), partial(_queues, borrowing)]
    changed, links, turned, borrowing = together(queries)
    if not changed and as_of == before.as_of:
        return Due(NOTHING, NOTHING)
    reach = affected(changed, links, turned + borrowing)
    return Due(reach if len(borrowing) <= MOST_BORROWERS else affected(changed, links, turned), reach)


def _queues(rows: DataFrame) -> list[tuple[str, str, str]]:
    return [tuple(row) for row in rows.select(*QUEUE).distinct().collect()]
