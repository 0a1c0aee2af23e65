"""Housekeeping that changes no row: small files written together, replaced files deleted."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.lake import Lake
from deadletter.steps.summary import Tell
from deadletter.tables import ALL_TABLES

SHORTEST_RETENTION = 168
"""Hours; Delta's own safe minimum: a shorter one can take files from under a reader or a running write."""


@dataclass(frozen=True)
class Tidied:
    """What was done to a table: how many small files OPTIMIZE took, and how many it wrote instead."""

    table: str
    files_before: int
    files_after: int


def maintain(lake: Lake, retain_hours: int = SHORTEST_RETENTION, tell: Tell = print) -> list[Tidied]:
    """OPTIMIZE and VACUUM every table of the lake; those that were never created are left out."""
    done = []
    with lake.lock():
        for table in ALL_TABLES:
            if lake.exists(table):
                tell(f"maintain: {table.full_name}")
                done.append(Tidied(table.full_name, *lake.compact(table)))
                lake.vacuum(table, retain_hours)
    return done
