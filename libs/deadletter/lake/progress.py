"""How far each step of a run has come, and what it went by: the rows of ``control.progress``.

Of ``silver`` and ``gold`` ``source_version`` is the Delta version of bronze that is fully in them. What it says of the
others is told beside their names below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from deadletter.spark.frames import frame_of
from deadletter.tables import PROGRESS
from deadletter.times import from_micros

if TYPE_CHECKING:
    from deadletter.lake.lake import Lake

STALE = -1
"""A version that no table has: what gold or silver was derived from is no longer what its source holds."""
WRITING = "writing"
"""1 while gold is written and 0 afterwards: a run that is killed between leaves old and new tables, which the next one
derives anew."""
MERGING = "merging"
"""The same of silver, where the next run merges the same facts again."""
RELEASING, CHOSEN = "releasing", 2
"""The same of a release from quarantine: :data:`CHOSEN` while its events are judged, 1 while their facts are merged, 0
afterwards. Killed between, the events still wait, and the next run judges them again."""
PARSER = "parser"
"""The version of the parsers that read the events: others read all events again."""
SUITES = "suites"
"""A digest of the rules that judged what was merged last. Where others judge the rest of it, an event could be in
silver and in quarantine: all events are judged again then."""
DECISIONS, MASKS, HABITS, RULES, SAMPLE = "decisions", "masks", "habits", "rules", "sample"
"""What gold was derived by, as a count, a number or a digest: where one is another, all of gold is derived anew, see
:func:`deadletter.steps.due.sources_of`."""
STORE = "store"
"""A digest of the name of the Zaqar store that somebody chose."""


def digest(value: object) -> int:
    """A number that tells one value from another by its ``repr``, to be kept as a :class:`Progress`.

    >>> digest(("a", 1)) == digest(("a", 1)), digest(("a", 1)) == digest(("a", 2))
    (True, False)
    """
    return int(hashlib.sha256(repr(value).encode()).hexdigest()[:15], 16)


@dataclass(frozen=True)
class Progress:
    """How far a step has come: its source's Delta version, and the ``as_of`` (UTC) it stands for."""

    source_version: int
    as_of: datetime | None


def was_cut_short(notes: Mapping[str, Progress], step: str) -> bool:
    """Whether :data:`WRITING`, :data:`MERGING` or :data:`RELEASING` was begun and not finished."""
    return step in notes and notes[step].source_version == 1


def waits_for_release(notes: Mapping[str, Progress]) -> bool:
    """Whether a release from quarantine was begun and not finished."""
    return RELEASING in notes and notes[RELEASING].source_version != 0


def is_stale(notes: Mapping[str, Progress]) -> bool:
    """Whether gold is out of date, as a release or a run that was interrupted leaves it."""
    return "gold" in notes and notes["gold"].source_version == STALE


@dataclass(frozen=True)
class _Noted:
    """The newest note of each step as of a ``version`` of ``control.progress``, and the time of the ``newest``."""

    version: int
    notes: Mapping[str, Progress]
    newest: datetime | None


class ProgressNotes:
    """The notes of one lake. They are remembered for as long as nobody else notes anything."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._noted: _Noted | None = None

    def all(self) -> dict[str, Progress]:
        """The newest note of each step."""
        return dict(self._newest().notes)

    def of(self, step: str) -> Progress | None:
        """The newest note of ``step``; ``None`` before its first."""
        return self._newest().notes.get(step)

    def note(self, step: str, version: int, as_of: datetime | None) -> None:
        """Note that ``step`` holds everything of its source up to ``version``."""
        self.note_all({step: Progress(version, as_of)})

    def note_all(self, notes: Mapping[str, Progress]) -> None:
        """Note how far several steps have come, in one commit. The newest note counts, so it is later than all that are
        there: the clock may have been set back."""
        before, at = self._newest(), datetime.now(UTC)
        if before.newest is not None:
            at = max(at, before.newest + timedelta(microseconds=1))
        rows = [(step, note.source_version, note.as_of, at) for step, note in notes.items()]
        self._lake.append(frame_of(self._lake.spark, rows, PROGRESS.ddl), PROGRESS)
        if self._lake.version(PROGRESS) == before.version + 1:  # what is there now is known
            self._noted = _Noted(before.version + 1, {**before.notes, **notes}, at)

    def _newest(self) -> _Noted:
        version = self._lake.version(PROGRESS)
        if self._noted is None or self._noted.version != version:
            columns = {name: F.unix_micros(name).alias(name) for name in ("as_of", "finished_at")}
            note = F.struct("source_version", *columns.values())
            newest = self._lake.read(PROGRESS).groupBy("step").agg(F.max_by(note, "finished_at").alias("note"))
            rows = newest.select("step", "note.*").collect()
            notes = {row["step"]: Progress(row["source_version"], from_micros(row["as_of"])) for row in rows}
            newest_at = from_micros(max((row["finished_at"] for row in rows), default=None))
            self._noted = _Noted(version, notes, newest_at)
        return self._noted
