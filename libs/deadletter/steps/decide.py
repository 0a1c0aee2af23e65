"""What people decide about a pattern: written down, and the gold tables brought up to date with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deadletter import triage
from deadletter.errors import DeadletterError, UsageError
from deadletter.lake import Lake
from deadletter.snapshot import HALF_WRITTEN, gold_as_of, is_half_written
from deadletter.steps import gold
from deadletter.steps.quality import gated
from deadletter.steps.summary import Tell

ACTIONS = ("resolve", "reopen", "mute", "unmute", "merge", "split")
MOVES = ("merge", "split")
"""Decisions that move dead letters from pattern to pattern."""


@dataclass(frozen=True)
class Decided:
    """The whole ids of the ``pattern`` and of what it was merged ``into``; whether the decision ``shows`` already, or
    only from the first run that judges at ``effective_at`` (UTC) or later."""

    pattern: str
    into: str | None
    effective_at: datetime
    shows: bool


def decide(
    lake: Lake,
    pattern: str,
    action: str,
    by: str,
    why: str,
    at: datetime | None = None,
    into: str | None = None,
    along: str | None = None,
    tell: Tell = print,
) -> Decided:
    """Decide about a pattern, given by an id that it has or had or by the start of one; ``action`` is one of
    :data:`ACTIONS`, and merge needs what it is merged ``into``. In force from ``at`` (UTC) on, unless given the time
    that gold stands for.

    Raises :class:`UsageError` where nothing can be decided so, and :class:`DeadletterError` where somebody writes the
    tables, or was interrupted as they did: what people saw may be later than the decision.
    """
    if action not in ACTIONS or (action == "merge") != bool(into):
        raise UsageError(f"{action}: not one of {', '.join(ACTIONS)}, of which merge alone needs what to merge into")
    gold_as_of(lake)  # a path that is no lake stays as it is
    # under one lock: no run may come between the decision and what follows from it
    with gated(lake, tell) if action in MOVES else lake.lock() as gate:
        lake.create_missing()
        as_of = gold_as_of(lake)
        if is_half_written(lake):
            raise DeadletterError(f"{HALF_WRITTEN} Nothing was decided: what you saw may be later than the decision.")
        undoes = action == "split" and not along
        name = triage.undoable(lake, pattern, as_of) if undoes else triage.find(lake, pattern)
        target = triage.find(lake, into) if into else None
        if target == name:
            raise UsageError(f"{pattern} and {into} are the same pattern, {name}; nothing was changed")
        effective = at or as_of
        triage.write_down(lake, name, action, by, why, effective, target=target, along=along)
        if gate:
            gold.derive(lake, gate, as_of, tell=tell)
        else:
            triage.rejudge(lake, as_of)
    return Decided(name, target, effective, effective <= as_of)
