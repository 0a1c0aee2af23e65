"""Zaqar's silent move: which claim attempt moved which message to the dead letter queue.

No event tells it. The document says when a message is exhausted; which exhausted messages an attempt
reaches, and how long a message lives, are habits of the store. :data:`REDIS` holds those of Zaqar 23's
Redis store, :data:`DOCUMENT` what the document alone implies. Plain Python on one queue at a time: an
attempt's free places depend on the attempts before it.

Times are microseconds since 1970; the store itself counts whole seconds.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

SECOND = 1_000_000


MESSAGE_INPUT = (
    "tenant string, queue string, message_id string, place string, posted bigint, ttl bigint, delay bigint, "
    "settled bigint, counted array<bigint>, granted array<string>, claims array<struct<claim_id:string,"
    "claimed:struct<time:bigint,ttl:bigint,grace:bigint>,"
    "renewals:array<struct<time:bigint,ttl:bigint,grace:bigint>>,released:struct<time:bigint>>>"
)
"""A message that reached a limit: its place in the queue (an ordering text), life, claims that counted, attempts
that were granted it, and every claim that ever took it."""
ATTEMPT_INPUT = (
    "tenant string, queue string, event_id string, time bigint, limit bigint, granted bigint, "
    "first_granted string, claim_id string, ttl bigint, grace bigint, max_deliveries bigint, "
    "dead_letter_queue string, dead_letter_ttl bigint, "
    "renewals array<struct<time:bigint,ttl:bigint,grace:bigint>>, released struct<time:bigint>"
)
"""A claim attempt made while claims count: what it asked for and got, the place of the first message it was
granted, the policy then in force, and what became of its claim."""
MOVE_OUTPUT = (
    "tenant string, queue string, message_id string, died bigint, event_id string, dead_letter_queue string, "
    "claim_count bigint, max_deliveries bigint, expires bigint"
)


@dataclass(frozen=True)
class Habits:
    """What a store does beyond the document."""

    name: str
    scan_takes_followers: bool
    """A claim's scan takes everything behind the first message it took, claimed or delayed or not."""
    lifetime_restarts: bool
    """A message vanishes ``ttl`` after its post, its last release or renewal, whatever its expiry says."""
    dead_letter_ttl_counts: bool
    """``_dead_letter_queue_messages_ttl`` moves the expiry (document, 4.4) and is not only shown."""


REDIS = Habits("redis", scan_takes_followers=True, lifetime_restarts=True, dead_letter_ttl_counts=False)
DOCUMENT = Habits("document", scan_takes_followers=False, lifetime_restarts=False, dead_letter_ttl_counts=True)
STORES = {habits.name: habits for habits in (REDIS, DOCUMENT)}


def seconds(time: int) -> int:
    """The whole second of a time, in microseconds."""
    return time - time % SECOND


def claim_events(claim: dict) -> Iterator[tuple[int, str, dict]]:
    """What a claim does to its messages, in time order: ``take``, ``renew``, ``release``.

    A renewal or release after the claim's end does nothing. ``claim`` has ``claim_id``, ``claimed``
    (``time, ttl, grace``), ``renewals`` and ``released``.
    """
    claimed = claim["claimed"]
    yield claimed["time"], "take", claimed
    end = seconds(claimed["time"]) + claimed["ttl"] * SECOND
    released = claim["released"]
    steps = [(renewal["time"], "renew", renewal) for renewal in claim["renewals"] or []]
    steps += [(released["time"], "release", released)] if released else []
    for time, kind, step in sorted(steps, key=lambda s: s[:2]):
        if end <= seconds(time):
            return
        yield time, kind, step
        if kind == "release":
            return
        end = seconds(time) + step["ttl"] * SECOND


@dataclass
class StoredMessage:
    """A message's record in the store, as its claims leave it."""

    posted: int
    ttl: int
    delay: int
    habits: Habits
    claim_id: str | None = None
    claim_end: int = 0
    expires: int = field(init=False)
    vanishes: int = field(init=False)

    def __post_init__(self):
        self.expires = seconds(self.posted) + self.ttl * SECOND
        self.vanishes = self.posted + self.ttl * SECOND

    def lives(self, time: int) -> bool:
        """Whether a scan at ``time`` still finds the message."""
        return (self.vanishes if self.habits.lifetime_restarts else self.expires) > time

    def is_free(self, time: int) -> bool:
        """Whether no running claim holds it and its delay is over."""
        now = seconds(time)
        delayed_until = seconds(self.posted) + self.delay * SECOND
        return (self.claim_id is None or self.claim_end <= now) and delayed_until <= now

    def apply(self, time: int, kind: str, claim_id: str | None, step: dict) -> None:
        """Let a claim take, renew or release the message at ``time``."""
        if kind == "release":
            self._release(time, claim_id)
            return
        self.claim_id, self.claim_end = claim_id, seconds(time) + step["ttl"] * SECOND
        outlived = self.expires < self.claim_end or (kind == "renew" and self.expires == self.claim_end)
        if outlived:  # a claim keeps its messages alive until its grace is over
            self.ttl = step["ttl"] + step["grace"]
            self.expires = self.claim_end + step["grace"] * SECOND
        if kind == "renew":
            self._restart(time)

    def _release(self, time: int, claim_id: str | None) -> None:
        if self.habits.lifetime_restarts or self.claim_id == claim_id:
            self.claim_id, self.claim_end = None, seconds(time)
        self._restart(time)

    def _restart(self, time: int) -> None:
        if self.habits.lifetime_restarts and self.lives(time):
            self.vanishes = time + self.ttl * SECOND

    def move(self, time: int, dead_letter_ttl: int | None) -> None:
        """Change the TTL on the way to the dead letter queue (document, 4.4)."""
        if not dead_letter_ttl:
            return
        self.ttl = dead_letter_ttl
        if self.habits.dead_letter_ttl_counts:
            self.expires = seconds(time) + dead_letter_ttl * SECOND

    @property
    def gone_at(self) -> int:
        """When the dead letter queue no longer shows it."""
        return min(self.expires, self.vanishes) if self.habits.lifetime_restarts else self.expires


@dataclass(eq=False)
class Candidate:
    """A message that may be exhausted, and the state of the replay on it."""

    row: dict
    stored: StoredMessage
    events: list[tuple[int, str, str | None, dict]]
    next_event: int = 0

    @classmethod
    def of(cls, row: dict, habits: Habits) -> Candidate:
        """Start the replay of one row of :data:`MESSAGE_INPUT`."""
        events = [
            (time, kind, claim["claim_id"], step)
            for claim in row["claims"] or []
            if claim["claimed"]
            for time, kind, step in claim_events(claim)
        ]
        stored = StoredMessage(row["posted"], row["ttl"], row["delay"], habits)
        return cls(row, stored, sorted(events, key=lambda e: (e[0], e[1], e[2] or "")))

    def advance(self, time: int) -> None:
        """Apply what its claims did before ``time``."""
        while self.next_event < len(self.events) and self.events[self.next_event][0] < time:
            at, kind, claim_id, step = self.events[self.next_event]
            if self.stored.lives(at):
                self.stored.apply(at, kind, claim_id, step)
            self.next_event += 1

    def counted(self, time: int) -> int:
        """Claims that counted before ``time``."""
        return sum(granted < time for granted in self.row["counted"])

    def ready(self, lowest_limit: int) -> int:
        """The time after which the message can be exhausted under the lowest limit there was."""
        return sorted(self.row["counted"])[lowest_limit - 1] if lowest_limit else self.row["posted"]

    def is_settled(self, time: int) -> bool:
        """Whether it was deleted at ``time`` or before."""
        return self.row["settled"] is not None and self.row["settled"] <= time

    def is_exhausted(self, attempt: dict) -> bool:
        """Posted, not granted in the attempt, and at its limit (document, 4.3)."""
        time = attempt["time"]
        return (
            self.row["posted"] < time
            and attempt["event_id"] not in self.row["granted"]
            and self.counted(time) >= attempt["max_deliveries"]
        )


def moves(messages: list[dict], attempts: list[dict], habits: Habits) -> list[dict]:
    """The messages of one queue that its claim attempts moved, each with when, why and until when.

    ``messages`` are rows of :data:`MESSAGE_INPUT` that reach the lowest limit of ``attempts`` at some time,
    ``attempts`` rows of :data:`ATTEMPT_INPUT`.
    """
    if not attempts:
        return []
    lowest = min(attempt["max_deliveries"] for attempt in attempts)
    candidates = [Candidate.of(row, habits) for row in messages if len(row["counted"]) >= lowest]
    coming = sorted(candidates, key=lambda c: (c.ready(lowest), c.row["place"]), reverse=True)
    waiting: list[Candidate] = []  # in the order of the queue
    dead = []
    for attempt in sorted(attempts, key=lambda row: (row["time"], row["event_id"])):
        while coming and coming[-1].ready(lowest) < attempt["time"]:
            bisect.insort(waiting, coming.pop(), key=lambda c: c.row["place"])
        waiting = [candidate for candidate in waiting if not candidate.is_settled(attempt["time"])]
        moved = _moved_by(attempt, waiting, habits)
        if moved:
            dead += [_death(candidate, attempt) for candidate in moved]
            waiting = [candidate for candidate in waiting if candidate not in moved]
    return dead


def _moved_by(attempt: dict, waiting: list[Candidate], habits: Habits) -> list[Candidate]:
    """The candidates that one attempt moves, in the order of the queue.

    An attempt has as many places for exhausted messages as its limit leaves after what it granted:
    a moved message counts as taken.
    """
    moved: list[Candidate] = []
    places = attempt["limit"] - attempt["granted"]
    time, first = attempt["time"], attempt["first_granted"]
    for candidate in waiting:
        if len(moved) >= places:
            break
        if not candidate.is_exhausted(attempt):
            continue
        candidate.advance(time)
        follows = bool(moved) or (first is not None and first < candidate.row["place"])
        reached = candidate.stored.is_free(time) or (habits.scan_takes_followers and follows)
        if reached and candidate.stored.lives(time):
            moved.append(candidate)
    return moved


def _death(candidate: Candidate, attempt: dict) -> dict:
    """The death by ``attempt``, with what later claims did to the message in the dead letter queue."""
    time, row = attempt["time"], candidate.row
    count = candidate.counted(time)
    claimed = {"time": time, "ttl": attempt["ttl"], "grace": attempt["grace"]}
    claim = {"claim_id": attempt["claim_id"] or attempt["event_id"], "claimed": claimed} | {
        "renewals": attempt["renewals"],
        "released": attempt["released"],
    }
    (_, _, taken), *later = claim_events(claim)
    candidate.stored.apply(time, "take", claim["claim_id"], taken)
    candidate.stored.move(time, attempt["dead_letter_ttl"])
    candidate.events = candidate.events[candidate.next_event :]
    candidate.events += [(at, kind, claim["claim_id"], step) for at, kind, step in later]
    candidate.events.sort(key=lambda e: (e[0], e[1], e[2] or ""))
    candidate.next_event = 0
    candidate.advance(1 << 62)
    return {
        "tenant": row["tenant"],
        "queue": row["queue"],
        "message_id": row["message_id"],
        "died": time,
        "event_id": attempt["event_id"],
        "dead_letter_queue": attempt["dead_letter_queue"],
        "claim_count": count,
        "max_deliveries": attempt["max_deliveries"],
        "expires": candidate.stored.gone_at,
    }
