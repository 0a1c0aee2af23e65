"""Zaqar's silent move: which claim attempt moved which message to the dead letter queue.

No event tells it, nor what a purge spared. Plain Python on one queue at a time, or on all of a project where a dead
letter queue has one of its own or was purged: an attempt's free places depend on the attempts before it. Times are
microseconds since 1970.
"""

from __future__ import annotations

import copy
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

from deadletter.rules.zaqar_store import NEVER, Habits, StoredMessage, claim_events

MESSAGE_INPUT = (
    "tenant",
    "scope",
    "queue",
    "message_id",
    "place",
    "posted",
    "came",
    "last",
    "ttl",
    "delay",
    "settled",
    "counted",
    "granted",
    "claims",
)
"""A message that reached a limit, or that a purge may have met: its place in the queue (an ordering text), when it was
posted and last granted here, ``ttl`` (null where no post was seen), the times of the claims that ``counted``, the
events of the attempts that were ``granted`` it, and every claim that ever took it: ``claim_id, claimed, renewals,
released``, where a claim and a renewal have ``time, ttl, grace`` and a release has ``time``. ``scope`` is what is
replayed together; ``came``: no post to this queue was seen."""
ATTEMPT_INPUT = (
    "tenant",
    "scope",
    "queue",
    "event_id",
    "time",
    "purges",
    "limit",
    "granted",
    "first_granted",
    "claim_id",
    "ttl",
    "grace",
    "max_deliveries",
    "dead_letter_queue",
    "dead_letter_ttl",
    "renewals",
    "released",
    "emptied",
)
"""A claim attempt made while claims count: what it asked for and got, the place of the first message it was
granted, the policy then in force, what became of its claim (as in :data:`MESSAGE_INPUT`), and when its queue was
deleted. Or, with ``purges``, a purge: it has a limit only while claims count."""
POPPED_AT_ONCE = 100
"""How many messages a purge pops at once."""
LAST_ID = "\U0010ffff"
"""Behind every message id."""
MOVE_OUTPUT = {
    "tenant": "string",
    "queue": "string",
    "message_id": "string",
    "died": "bigint",
    "event_id": "string",
    "dead_letter_queue": "string",
    "claim_count": "bigint",
    "max_deliveries": "bigint",
    "expires": "bigint",
    "removed": "bigint",
    "purged": "bigint",
}
"""A death, or with ``purged`` the removal by a purge. ``expires`` is null where the dead letter moved on, and
:data:`~deadletter.rules.zaqar_store.NEVER` where nothing tells it. It was ``removed`` by a purge where it lay."""


class Step(NamedTuple):
    """What a claim that ``started`` then did to a message: see :func:`deadletter.rules.zaqar_store.claim_events`."""

    time: int
    started: int
    claim_id: str | None
    kind: str
    term: dict


@dataclass(eq=False)
class Candidate:
    """A message that may be exhausted, and the state of the replay on it."""

    row: dict
    stored: StoredMessage
    events: list[Step]
    """What its claims did, see :func:`_in_order`."""
    next_event: int = 0
    inherited: int = 0
    """Claims that counted in the queues it was moved from: a move keeps the claim count (document, 4.3)."""
    earlier: tuple[dict, ...] = ()
    """The deaths that brought it here, the earliest first."""
    has_left: bool = False
    """Whether it no longer lies in its queue."""

    @classmethod
    def of(cls, row: dict, habits: Habits) -> Candidate:
        """Start the replay of one row of :data:`MESSAGE_INPUT`."""
        claims = [claim for claim in row["claims"] or [] if claim["claimed"]]
        steps = [step for claim in claims for step in _steps(claim, habits)]
        stored = StoredMessage(row["posted"], row["ttl"], row["delay"], habits)
        return cls(row, stored, _in_order(steps))

    @property
    def place(self) -> tuple[str, str]:
        """Its place in its queue. Messages whose post was not seen can have the same time: their ids decide."""
        return self.row["place"], self.row["message_id"]

    def advance(self, time: int) -> None:
        """Apply what its claims did before ``time``."""
        while self.next_event < len(self.events) and self.events[self.next_event].time < time:
            step = self.events[self.next_event]
            granted = step.kind == "take"
            if self.stored.lives(step.time) or (granted and self.stored.habits.expired_linger):
                self.stored.apply(*step)
                if granted and step.time not in self.row["counted"]:
                    self.stored.count_anew(step.time)
            self.next_event += 1

    def counted(self, time: int) -> int:
        """Claims that counted before ``time`` and still do, by what was done to it until it was last advanced."""
        since = self.stored.counted_from
        inherited = 0 if self.earlier and self.earlier[-1]["died"] < since else self.inherited
        return inherited + sum(since <= granted < time for granted in self.row["counted"])

    def next_counted(self, time: int) -> int | None:
        """When an attempt sees the first claim that counts from ``time`` on; none if there is none."""
        return min((granted + 1 for granted in self.row["counted"] if granted >= time), default=None)

    def ready(self, lowest_limit: int) -> int:
        """The time after which the message can be exhausted under the lowest limit there was."""
        return sorted(self.row["counted"])[lowest_limit - 1] if lowest_limit else self.row["posted"]

    def is_gone(self, attempt: dict) -> bool:
        """Whether it was deleted at the attempt's time or before, or its queue was since it was moved here."""
        settled = self.row["settled"] is not None and self.row["settled"] <= attempt["time"]
        return settled or any(
            self.earlier[-1]["died"] < emptied <= attempt["time"] for emptied in attempt["emptied"] if self.earlier
        )

    @property
    def here_since(self) -> int:
        """When it came to its queue."""
        return self.earlier[-1]["died"] if self.earlier else self.row["posted"]

    def is_met(self, purge: dict) -> bool:
        """Whether a purge finds it in the queue. A later claim there proves that the purge let it be."""
        time = purge["time"]
        if self.has_left or time <= max(self.here_since, self.row["last"]) or self.is_gone(purge):
            return False
        self.advance(time)
        return self.stored.lives(time)

    def is_exhausted(self, attempt: dict) -> bool:
        """Posted, not granted in the attempt, and at its limit (document, 4.3)."""
        time = attempt["time"]
        return (
            self.here_since < time
            and attempt["event_id"] not in self.row["granted"]
            and self.counted(time) >= attempt["max_deliveries"]
        )

    def fate(self, attempt: dict) -> str:
        """What an attempt finds: a message that is ``gone``, ``stays`` because it is not exhausted, is ``held`` by a
        claim or its delay, or is ``free`` to be moved."""
        if self.is_gone(attempt):
            return "gone"
        self.advance(attempt["time"])
        if not self.is_exhausted(attempt):
            return "stays"
        if not self.stored.lives(attempt["time"]):  # nothing brings it back, unless it lingers until a later claim
            return "held" if self.stored.habits.expired_linger and self.is_claimed_later() else "gone"
        return "free" if self.stored.is_free(attempt["time"]) else "held"

    def is_claimed_later(self) -> bool:
        """Whether a claim takes it after what it was last advanced to."""
        return any(step.kind == "take" for step in self.events[self.next_event :])

    def free_from(self) -> int:
        """The time before which a message that is held stays so: its claim or its delay ends then, or an attempt sees
        the next thing that was done to it."""
        following = (step.time + 1 for step in self.events[self.next_event : self.next_event + 1])
        return min([self.stored.held_until, *following])


Fates = dict[str, list[Candidate]]
"""Candidates by what an attempt finds, see :meth:`Candidate.fate`."""


@dataclass
class Waiting:
    """The candidates that lie in one queue.

    An attempt looks at those that may be free, and at those behind the first message it takes, so that many of them in
    one queue cost no more than as many in several.
    """

    lowest: int = 0
    """The lowest limit of the queue's attempts: below it a message is none of theirs until its next claim."""
    order: list[Candidate] = field(default_factory=list)
    """All, in the order of the queue."""
    awake: list[Candidate] = field(default_factory=list)
    """Those that may be free, in the order of the queue."""
    asleep: list[tuple[int, int, Candidate]] = field(default_factory=list)
    """A heap of the others, each with the time at which it is to be looked at again. Equal times come in any order."""

    def add(self, candidate: Candidate) -> None:
        """Let a message lie here."""
        insort(self.order, candidate, key=_place)
        insort(self.awake, candidate, key=_place)

    def remove(self, candidate: Candidate) -> None:
        """Let a message no longer lie here."""
        candidate.has_left = True  # it may be asleep
        _remove(self.order, candidate)
        _remove(self.awake, candidate)

    def moved_by(self, attempt: dict, habits: Habits) -> list[Candidate]:
        """Take the candidates away that an attempt moves, in the order of the queue.

        An attempt has as many places for exhausted messages as its limit leaves after what it granted:
        a moved message counts as taken.
        """
        places = attempt["limit"] - attempt["granted"]
        first = attempt["first_granted"] if habits.scan_takes_followers else None
        # one place is that of all messages of a claim whose posts were not seen: which are behind is not known
        behind = None if first is None else (first, LAST_ID)
        fates: Fates = {fate: [] for fate in ("gone", "stays", "held", "free")}
        self._wake(attempt["time"])
        for candidate in self.awake:
            if len(fates["free"]) >= places or (behind is not None and behind < candidate.place):
                break
            fates[candidate.fate(attempt)].append(candidate)
            if fates["free"] and habits.scan_takes_followers:
                behind = candidate.place
        self._put_to_sleep(fates, attempt["time"])
        if behind is not None:
            self._take_followers(behind, places, attempt, fates)
        for candidate in fates["gone"] + fates["free"]:
            self.remove(candidate)
        return fates["free"]

    def _put_to_sleep(self, fates: Fates, time: int) -> None:
        """Look at those that are held again when they may be free, at those below the lowest limit when they count
        again."""
        held = [(candidate.free_from(), candidate) for candidate in fates["held"]]
        short = [candidate for candidate in fates["stays"] if candidate.counted(time) < self.lowest]
        for again, candidate in held + [(candidate.next_counted(time), candidate) for candidate in short]:
            _remove(self.awake, candidate)
            if again is not None:  # else nothing will count
                heappush(self.asleep, (again, id(candidate), candidate))

    def _take_followers(self, behind: tuple[str, str], places: int, attempt: dict, fates: Fates) -> None:
        """Take what lies ``behind`` the first message that was taken, even if it is held, while there are places."""
        for at in range(bisect_right(self.order, behind, key=_place), len(self.order)):
            if len(fates["free"]) >= places:
                break
            fate = self.order[at].fate(attempt)
            fates["free" if fate == "held" else fate].append(self.order[at])

    def _wake(self, time: int) -> None:
        while self.asleep and self.asleep[0][0] <= time:
            *_, candidate = heappop(self.asleep)
            if not candidate.has_left:
                insort(self.awake, candidate, key=_place)


def purge(
    lying: Iterable[Candidate], attempt: dict, habits: Habits
) -> tuple[list[tuple[Candidate, dict]], list[Candidate]]:
    """The messages that a purge moves, of those ``lying`` in its queue, each with the pop that does, and those that it
    removes.

    The server pops, :data:`POPPED_AT_ONCE` at a time, until a pop returns nothing. What a claim holds is spared; where
    a pop is a claim, so is what is delayed, and what is exhausted is moved and not returned. Where a scan takes all
    behind the first message it takes, only what lies before the first free message is spared.
    """
    time = attempt["time"]
    met = sorted((candidate for candidate in lying if candidate.is_met(attempt)), key=_place)
    if not habits.pop_claims:
        return [], [candidate for candidate in met if not candidate.stored.is_claimed(time)]
    if not habits.scan_takes_followers:
        met = [candidate for candidate in met if candidate.stored.is_free(time)]
    limited, moved, removed, at = attempt["max_deliveries"] is not None, [], [], 0
    while at < len(met):
        if not met[at].stored.is_free(time):
            at += 1
            continue
        taken, at = met[at : at + POPPED_AT_ONCE], at + POPPED_AT_ONCE
        exhausted = [candidate for candidate in taken if limited and candidate.is_exhausted(attempt)]
        popped = [candidate for candidate in taken if candidate not in exhausted]
        pop = attempt | {"released": {"time": time} if popped else None}
        moved += [(candidate, pop) for candidate in exhausted]
        removed += popped
        if not popped:
            break
    return moved, removed


def moves(messages: list[dict], attempts: list[dict], habits: Habits) -> list[dict]:
    """What the claim attempts and purges of one scope did, as rows of :data:`MOVE_OUTPUT`: the messages that were
    moved, each with when, why and until when, and those that a purge removed.

    ``messages`` are rows of :data:`MESSAGE_INPUT` that reach the lowest limit of their queue's ``attempts`` at some
    time, and in a queue with a purge all that it can have met; ``attempts`` are rows of :data:`ATTEMPT_INPUT`. What was
    moved to a queue with a limit or a purge of its own is a message there, with the count it has; its row there says
    what became of it.
    """
    lowest = _lowest_limits(attempts)
    there = {(row["queue"], row["message_id"]): row for row in messages}
    coming = _coming(messages, lowest, habits)
    unexplained = {(one.row["queue"], one.row["message_id"]): one for *_, one in coming}
    waiting = {queue: Waiting(limit) for queue, limit in lowest.items()}
    lying = _lying(messages, unexplained, {attempt["queue"] for attempt in attempts if attempt["purges"]}, habits)
    removals: list[dict] = []
    deaths: dict[tuple[str, str], dict] = {}
    for attempt in sorted(attempts, key=lambda row: (row["time"], row["event_id"])):
        while coming and coming[-1][0] < attempt["time"]:
            _, _, candidate = coming.pop()
            if not candidate.has_left:
                waiting[candidate.row["queue"]].add(candidate)
        here = waiting.get(attempt["queue"])
        if attempt["purges"]:
            moved, removed = purge(lying[attempt["queue"]].values(), attempt, habits)
            removals += [_removal(one, attempt["time"]) for one in removed if attempt["time"] < one.stored.gone_at]
            for candidate in [*removed, *(candidate for candidate, _ in moved)]:
                candidate.has_left = True
                if here:
                    here.remove(candidate)
        else:
            moved = [(candidate, attempt) for candidate in (here.moved_by(attempt, habits) if here else [])]
        for candidate, by in moved:
            death, again = _death(candidate, by, there)
            deaths[death["queue"], death["message_id"]] = death  # where it died before it has come back
            queue, message_id = again.row["queue"], again.row["message_id"]
            if queue in lowest:
                if instead := unexplained.get((queue, message_id)):  # now its way there is known
                    waiting[queue].remove(instead)
                waiting[queue].add(again)
            if queue in lying:
                lying[queue][message_id] = again
    return [*deaths.values(), *removals]


def _lying(
    messages: list[dict], coming: dict[tuple[str, str], Candidate], queues: set[str], habits: Habits
) -> dict[str, dict[str, Candidate]]:
    """All messages of these ``queues`` by their ids, those that are ``coming`` among them."""
    lying: dict[str, dict[str, Candidate]] = {queue: {} for queue in queues}
    for row in messages:
        queue, message_id = row["queue"], row["message_id"]
        if queue in lying:
            lying[queue][message_id] = coming.get((queue, message_id)) or Candidate.of(row, habits)
    return lying


def _place(candidate: Candidate) -> tuple[str, str]:
    return candidate.place


def _remove(candidates: list[Candidate], candidate: Candidate) -> None:
    """Remove a candidate from a list in the order of the queue, if it is there."""
    at = bisect_left(candidates, candidate.place, key=_place)
    if at < len(candidates) and candidates[at] is candidate:
        del candidates[at]


def _lowest_limits(attempts: list[dict]) -> dict[str, int]:
    """The lowest limit of each queue's attempts."""
    lowest: dict[str, int] = {}
    for attempt in [attempt for attempt in attempts if not attempt["purges"]]:
        queue, limit = attempt["queue"], attempt["max_deliveries"]
        lowest[queue] = min(lowest.get(queue, limit), limit)
    return lowest


def _coming(
    messages: list[dict], lowest: dict[str, int], habits: Habits
) -> list[tuple[int, tuple[str, str], Candidate]]:
    """The messages by the time after which they can be exhausted in the queue they were posted to, the latest first.

    A message that came to a queue from another one, where its post was seen, comes by its death there. Where no post
    was seen, it counts as posted here until a death brings it.
    """
    posted = {row["message_id"] for row in messages if not row["came"]}
    candidates = [
        Candidate.of(row, habits)
        for row in messages
        if len(row["counted"]) >= lowest.get(row["queue"], NEVER) and not (row["came"] and row["message_id"] in posted)
    ]
    ready = [
        (candidate.ready(lowest[candidate.row["queue"]]), _place(candidate), candidate) for candidate in candidates
    ]
    return sorted(ready, key=lambda entry: entry[:2], reverse=True)


def _removal(candidate: Candidate, time: int) -> dict:
    """The row of a removal by a purge. The death that brought the message here tells it too."""
    for death in candidate.earlier[-1:]:
        death["removed"] = time
    return {name: candidate.row[name] for name in ("tenant", "queue", "message_id")} | {"purged": time}


def _death(candidate: Candidate, attempt: dict, there: dict[tuple[str, str], dict]) -> tuple[dict, Candidate]:
    """The death by ``attempt``, and the message as it lies in the dead letter queue, where ``there`` has its row."""
    time, row = attempt["time"], candidate.row
    count = candidate.counted(time)
    candidate.stored.apply(time, time, attempt["claim_id"] or attempt["event_id"], "take", attempt)
    candidate.stored.move(time, attempt["dead_letter_ttl"])
    for death in candidate.earlier[-1:]:
        death["expires"] = None  # it did not stay there
    death = {
        "tenant": row["tenant"],
        "queue": row["queue"],
        "message_id": row["message_id"],
        "died": time,
        "event_id": attempt["event_id"],
        "dead_letter_queue": attempt["dead_letter_queue"],
        "claim_count": count,
        "max_deliveries": attempt["max_deliveries"],
    }
    moved = _moved_to(attempt, candidate, there.get((attempt["dead_letter_queue"], row["message_id"])))
    moved.inherited, moved.earlier = count, (*candidate.earlier, death)
    later = copy.copy(moved)
    later.stored = copy.copy(moved.stored)
    later.advance(NEVER)
    death["expires"] = later.stored.gone_at
    return death, moved


def _moved_to(attempt: dict, candidate: Candidate, row: dict | None) -> Candidate:
    """The message in the dead letter queue: the claim that moved it holds it on, with its renewals and its release
    where these reach it there."""
    claimed = {"time": attempt["time"], "ttl": attempt["ttl"], "grace": attempt["grace"]}
    claim = {"claim_id": attempt["claim_id"] or attempt["event_id"], "claimed": claimed} | {
        "renewals": attempt["renewals"],
        "released": attempt["released"],
    }
    habits = candidate.stored.habits
    out_of_reach = habits.moved_are_out_of_reach and attempt["dead_letter_queue"] != attempt["queue"]
    later = [] if out_of_reach else _steps(claim, habits)[1:]
    events = candidate.events[candidate.next_event :] + later
    none: dict[str, Any] = {"counted": [], "granted": [], "settled": None, "last": 0}
    fate = {name: row[name] for name in none} if row else none
    left = {candidate.row["queue"], *(death["queue"] for death in candidate.earlier)}
    # what was before it came back to a queue is in what it brings, or deleted nothing
    if row and attempt["dead_letter_queue"] in left:
        later_claims = [time for time in row["counted"] if time > attempt["time"]]
        settled = row["settled"] if (row["settled"] or 0) >= attempt["time"] else None
        fate |= {"counted": later_claims, "settled": settled}
    here = candidate.row | fate | {"queue": attempt["dead_letter_queue"]}
    return Candidate(here, candidate.stored, _in_order(events))


def _steps(claim: dict, habits: Habits) -> list[Step]:
    """What a claim did to its messages, in order."""
    started = claim["claimed"]["time"]
    return [Step(time, started, claim["claim_id"], kind, term) for time, kind, term in claim_events(claim, habits)]


def _in_order(steps: Iterable[Step]) -> list[Step]:
    """The steps of several claims. Not every collector's clock tells moments apart: of what was done at one, the claim
    that began first did what it did first, as no other could begin before it ended, and each in its own order."""
    return sorted(steps, key=lambda step: (step.time, step.started, step.claim_id or ""))
