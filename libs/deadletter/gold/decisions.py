"""What people decided about patterns: resolved, muted, merged, split. Few rows, made by hand.

The decisions are kept append-only in ``control.pattern_decisions``; what holds follows from all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

ACTIONS = ("resolve", "reopen", "mute", "unmute", "merge", "split")
ALONG = {"queue": ("system", "tenant", "queue"), "error": ("error_template",), "deviation": ("deviation_key",)}
"""What a pattern can be split along: the columns whose values then make a pattern each."""


@dataclass(frozen=True)
class Decisions:
    """What holds: when each resolved pattern was resolved (UTC), which are muted, what each merged one is part of,
    and what each split one is split along."""

    resolved: Mapping[str, datetime] = field(default_factory=dict)
    muted: frozenset[str] = frozenset()
    merged: Mapping[str, str] = field(default_factory=dict)
    split: Mapping[str, str] = field(default_factory=dict)


NONE = Decisions()


def standing(rows: Iterable[Mapping], names: Mapping[str, str] | None = None) -> Decisions:
    """What holds after ``rows`` of ``control.pattern_decisions``, in the order in which they were made.

    ``names`` leads from ids that patterns once had to those they have now. A split without ``along`` takes a
    merged pattern out again, or ends its own split.

    >>> made = [{"pattern_id": "a", "action": "merge", "target": "b"}, {"pattern_id": "b", "action": "mute"}]
    >>> made += [{"pattern_id": "b", "action": "merge", "target": "c"}, {"pattern_id": "c", "action": "split",
    ...          "along": "queue"}]
    >>> held = standing(made)
    >>> held.merged, sorted(held.muted), held.split
    ({'a': 'c', 'b': 'c'}, ['b'], {'c': 'queue'})
    >>> made = [{"pattern_id": "p", "action": "merge", "target": "x"}]
    >>> standing([*made, {"pattern_id": "q", "action": "merge", "target": "r"}], {"q": "p", "r": "p"}).merged
    {'p': 'x'}
    """
    resolved, muted, parents, split = {}, set(), {}, {}
    now = (names or {}).get
    for row in rows:
        pattern, action = now(row["pattern_id"], row["pattern_id"]), row["action"]
        if action == "resolve":
            resolved[pattern] = row["effective_at"]
        elif action == "reopen":
            resolved.pop(pattern, None)
        elif action == "mute":
            muted.add(pattern)
        elif action == "unmute":
            muted.discard(pattern)
        elif action == "merge":
            target = now(row["target"], row["target"])
            # by other parents than its own: two that were merged apart can be one pattern now
            others = {name: parent for name, parent in parents.items() if name != pattern}
            if root(others, target) != pattern:  # a circle would leave nobody
                parents[pattern] = target
        elif row.get("along"):
            split[pattern] = row["along"]
        else:
            parents.pop(pattern, None)
            split.pop(pattern, None)
    return Decisions(resolved, frozenset(muted), {name: root(parents, name) for name in parents}, split)


def root(parents: Mapping[str, str], pattern: str) -> str:
    """The pattern that ``pattern`` is part of in the end.

    >>> root({"a": "b", "b": "c"}, "a")
    'c'
    """
    while pattern in parents:
        pattern = parents[pattern]
    return pattern
