"""What people decided about patterns: resolved, muted, merged, split. Few rows, made by hand.

The decisions are kept append-only in ``control.pattern_decisions``; what holds follows from all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

ALONG = {"queue": ("system", "tenant", "queue"), "error": ("error_template",), "deviation": ("deviation_key",)}
"""What a pattern can be split along: the columns whose values then make a pattern each."""


class Move(NamedTuple):
    """``pattern`` becomes part of the pattern ``value`` (merge), or is split along ``value``.

    The names of its parts are made of ``by_name``, which it had then: they stay when the pattern gets another name. The
    part that ``keeps`` it is told by what :func:`deadletter.gold.identity.part` says of it; null: nobody noted it.
    """

    action: str
    pattern: str
    value: str
    by_name: str = ""
    keeps: str | None = None


@dataclass(frozen=True)
class Decisions:
    """What holds: when each resolved pattern was resolved (UTC), with which templates each muted one was muted (null:
    whatever it says, as earlier versions noted none), what each merged one is part of in the end, and ``moves``: merges
    and splits in the order in which they were decided."""

    resolved: Mapping[str, datetime] = field(default_factory=dict)
    muted: Mapping[str, frozenset[str | None]] = field(default_factory=dict)
    merged: Mapping[str, str] = field(default_factory=dict)
    moves: tuple[Move, ...] = ()

    @property
    def split_along(self) -> frozenset[str]:
        """What patterns are split along, see :data:`ALONG`."""
        return frozenset(move.value for move in self.moves if move.action == "split")


def standing(rows: Iterable[Mapping], names: Mapping[str, str] | None = None) -> Decisions:
    """What holds after ``rows`` of ``control.pattern_decisions``, in the order in which they were made.

    ``names`` leads from ids that patterns once had to those they have now. A split without ``along`` undoes
    the later of a pattern's own merge and split: it takes it out again, or ends its split.

    >>> made = [{"pattern_id": "a", "action": "merge", "target": "b"}, {"pattern_id": "b", "action": "mute",
    ...          "target": "depot <*> is closed"}]
    >>> made += [{"pattern_id": "b", "action": "merge", "target": "c"}, {"pattern_id": "c", "action": "split",
    ...          "along": "queue"}]
    >>> held = standing(made)
    >>> held.merged, held.muted
    ({'a': 'c', 'b': 'c'}, {'b': frozenset({'depot <*> is closed'})})
    >>> [tuple(move) for move in held.moves]
    [('merge', 'a', 'b', 'a', None), ('merge', 'b', 'c', 'b', None), ('split', 'c', 'queue', 'c', None)]
    >>> made = [{"pattern_id": "p", "action": "merge", "target": "x"}]
    >>> standing([*made, {"pattern_id": "q", "action": "merge", "target": "r"}], {"q": "p", "r": "p"}).merged
    {'p': 'x'}
    >>> made = [{"pattern_id": "p", "action": "split", "along": "queue"}, {"pattern_id": "p", "action": "merge",
    ...          "target": "x"}]
    >>> [move.action for move in standing([*made, {"pattern_id": "p", "action": "split"}]).moves]
    ['split']
    """
    resolved: dict[str, datetime] = {}
    muted: dict[str, frozenset[str | None]] = {}
    moves: dict[tuple[str, str], Move] = {}
    now = (names or {}).get
    for row in rows:
        pattern, action = now(row["pattern_id"], row["pattern_id"]), row["action"]
        if action == "resolve":
            resolved[pattern] = row["effective_at"]
        elif action == "reopen":
            resolved.pop(pattern, None)
        elif action == "mute":
            # two patterns that were muted apart can be one now
            muted[pattern] = muted.get(pattern, frozenset()) | {row.get("target")}
        elif action == "unmute":
            muted.pop(pattern, None)
        elif action == "merge":
            target = now(row["target"], row["target"])
            # by other parents than its own: two that were merged apart can be one pattern now
            others = {name: parent for name, parent in _parents(moves).items() if name != pattern}
            if root(others, target) != pattern:  # a circle would leave nobody
                moves.pop(("merge", pattern), None)
                moves["merge", pattern] = Move("merge", pattern, target, row["pattern_id"])
        elif row.get("along"):
            moves.pop(("split", pattern), None)
            moves["split", pattern] = Move("split", pattern, row["along"], row["pattern_id"], row.get("target"))
        else:
            last = [move for move in moves if move in (("merge", pattern), ("split", pattern))][-1:]
            moves = {move: made for move, made in moves.items() if move not in last}
    parents = _parents(moves)
    return Decisions(resolved, muted, {name: root(parents, name) for name in parents}, tuple(moves.values()))


def _parents(moves: Mapping[tuple[str, str], Move]) -> dict[str, str]:
    return {move.pattern: move.value for move in moves.values() if move.action == "merge"}


def covering(templates: Iterable[str | None]) -> str:
    r"""A regular expression for the templates that say no more than one of these, also for parts that were split off.

    >>> told = covering({"depot <*> is closed", "queue full"})
    >>> [bool(re.search(told, text)) for text in ("depot Bern is closed", "queue full [queue zaqar p mail]")]
    [True, True]
    >>> [bool(re.search(told, text)) for text in ("depot <*> is <*>", "queue full of mail", "a depot Bern is closed")]
    [False, False, False]
    >>> bool(re.search(covering({None}), "whatever it says"))
    True
    """
    wide = [r"\S+".join(map(re.escape, text.split("<*>"))) if text is not None else ".*" for text in templates]
    return rf"(?s)^(?:{'|'.join(sorted(wide))})(?: \[(?:{'|'.join(ALONG)}) .*\])?$"


def root(parents: Mapping[str, str], pattern: str) -> str:
    """The pattern that ``pattern`` is part of in the end.

    >>> root({"a": "b", "b": "c"}, "a")
    'c'
    """
    while pattern in parents:
        pattern = parents[pattern]
    return pattern
