"""Housekeeping that changes no row: small files written together, replaced files deleted."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.steps.summary import Tell
from deadletter.tables import ALL_TABLES, PROGRESS, QUEUE_EVENTS

SHORTEST_RETENTION = 168
"""Hours; Delta's own safe minimum: a shorter one can take files from under a reader or a running write. Append-only
tables keep theirs longer, see :meth:`~deadletter.lake.Lake.vacuum`."""


@dataclass(frozen=True)
class Tidied:
    """What was done to a table: how many small files OPTIMIZE took, and how many it wrote instead."""

    table: str
    files_before: int
    files_after: int


def maintain(lake: Lake, retain_hours: int = SHORTEST_RETENTION, tell: Tell = print) -> list[Tidied]:
    """OPTIMIZE and VACUUM every table of the lake; those that were never created are left out, and bronze where silver
    has yet to read from it: it finds new events by the files that they came in.

    Raises :class:`~deadletter.errors.UsageError` for less than :data:`SHORTEST_RETENTION`.
    """
    if retain_hours < SHORTEST_RETENTION:
        raise UsageError(f"{retain_hours} hours are too few to keep replaced files: {SHORTEST_RETENTION} at least")
    done = []
    lake.read(PROGRESS)  # where there is no lake, this says so
    with lake.lock():
        for table in ALL_TABLES:
            if table is QUEUE_EVENTS and _is_to_be_read(lake):
                tell(f"maintain: {table.full_name} waits for the next run, which reads it")
            elif lake.exists(table):
                tell(f"maintain: {table.full_name}")
                done.append(Tidied(table.full_name, *lake.compact(table)))
                lake.vacuum(table, retain_hours)
    return done


def _is_to_be_read(lake: Lake) -> bool:
    if not lake.exists(QUEUE_EVENTS):
        return False
    done = lake.progress.of("silver")
    return done is not None and done.source_version < lake.version(QUEUE_EVENTS)
