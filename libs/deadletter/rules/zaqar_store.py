"""Zaqar's store: how a message's record lives, held and kept by its claims, by the habits of the store.

The document says when a message is exhausted; which exhausted messages a claim attempt reaches, and how long a message
lives, are habits of the store. :data:`REDIS` holds those of Zaqar 23's Redis store, :data:`MONGODB` those that the
source of its MongoDB store has (``zaqar/storage/mongodb``), :data:`DOCUMENT` what the document alone implies.

Times are microseconds since 1970; the store itself counts whole seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

SECOND = 1_000_000
NEVER = 1 << 62
"""Behind every time."""


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
    counts_anew: bool = False
    """What writes a claim down without counting it sets the claim count to 0: a renewal, a release (after the claim's
    end, too, unless the message was claimed since), a claim made while the limit is off."""
    moved_are_out_of_reach: bool = False
    """Renewals, releases and deletions find only what lies in the queue that they name, not what was moved from it."""
    pop_claims: bool = True
    """A pop is a claim of what it deletes: it counts and moves. Else it only deletes what no running claim holds."""
    renewal_saves_at_its_end: bool = True
    """A renewal also keeps a message alive that would expire just when it ends; a claim never does."""
    splits_names: bool = False
    """Where what dies goes is read from ``project.queue``, split at every dot: a name or a project with one leads
    elsewhere."""
    expired_linger: bool = False
    """What has expired is there until the store's next sweep: a claim can still find it, and keeps it alive."""


REDIS = Habits(
    "redis", scan_takes_followers=True, lifetime_restarts=True, dead_letter_ttl_counts=False, splits_names=True
)
DOCUMENT = Habits("document", scan_takes_followers=False, lifetime_restarts=False, dead_letter_ttl_counts=True)
MONGODB = Habits(
    "mongodb",
    scan_takes_followers=False,
    lifetime_restarts=False,
    dead_letter_ttl_counts=False,
    counts_anew=True,
    moved_are_out_of_reach=True,
    pop_claims=False,
    renewal_saves_at_its_end=False,
    expired_linger=True,
)
STORES = {habits.name: habits for habits in (REDIS, MONGODB, DOCUMENT)}


def whole_second(time: int) -> int:
    """The whole second of a time, in microseconds."""
    return time - time % SECOND


def claim_events(claim: dict, habits: Habits) -> Iterator[tuple[int, str, dict]]:
    """What a claim does to its messages: ``take``, each ``renew``, ``release``.

    A renewal that succeeded was in time, whatever the collector's clock says, and before a release in the same moment.
    A release after the claim's end does nothing; only that of a store that ``counts_anew`` still sets back the count.
    ``claim`` has ``claim_id``, ``claimed`` (``time, ttl, grace``), ``renewals`` in time order, and ``released``.
    :func:`deadletter.gold.status.claim_steps` holds the same rules for Spark: both change together.
    """
    claimed, renewals, released = claim["claimed"], claim["renewals"] or [], claim["released"]
    yield claimed["time"], "take", claimed
    for renewal in renewals:
        yield renewal["time"], "renew", renewal
    last = renewals[-1] if renewals else claimed
    end = whole_second(last["time"]) + last["ttl"] * SECOND
    if released and (habits.counts_anew or whole_second(released["time"]) < end):
        yield released["time"], "release", released


@dataclass
class StoredMessage:
    """A message's record in the store, as its claims leave it.

    :func:`deadletter.gold.status.lifetime` holds the same rules for Spark: both change together.
    """

    posted: int
    ttl: int | None
    """None where nobody saw the post: the message is there until something else is known."""
    delay: int
    habits: Habits
    claim_id: str | None = None
    claim_end: int = 0
    counted_from: int = 0
    """Claims before this time count no more."""
    expires: int = field(init=False)
    vanishes: int = field(init=False)

    def __post_init__(self):
        self.expires = NEVER if self.ttl is None else whole_second(self.posted) + self.ttl * SECOND
        self.vanishes = NEVER if self.ttl is None else self.posted + self.ttl * SECOND

    def lives(self, time: int) -> bool:
        """Whether a scan at ``time`` still finds the message."""
        return (self.vanishes if self.habits.lifetime_restarts else self.expires) > time

    def is_free(self, time: int) -> bool:
        """Whether no running claim holds it and its delay is over."""
        return self.held_until <= whole_second(time)

    def is_claimed(self, time: int) -> bool:
        """Whether a running claim holds it."""
        return self.claim_id is not None and whole_second(time) < self.claim_end

    @property
    def held_until(self) -> int:
        """When its claim and its delay are over, unless something is done to it before."""
        delayed_until = whole_second(self.posted) + self.delay * SECOND
        return delayed_until if self.claim_id is None else max(delayed_until, self.claim_end)

    def apply(self, time: int, started: int, claim_id: str | None, kind: str, step: dict) -> None:
        """Let a claim that ``started`` then take, renew or release the message at ``time``."""
        # what the clock does not tell from its claim came after it
        counted_from = time + 1 if time == started else time
        if kind == "release":
            self._release(time, claim_id, counted_from)
            return
        self.claim_id, self.claim_end = claim_id, whole_second(time) + step["ttl"] * SECOND
        saved_at_end = kind == "renew" and self.habits.renewal_saves_at_its_end
        outlived = self.expires < self.claim_end or (saved_at_end and self.expires == self.claim_end)
        if outlived:  # a claim keeps its messages alive until its grace is over
            self.ttl = step["ttl"] + step["grace"]
            self.expires = self.claim_end + step["grace"] * SECOND
        if kind == "renew":
            self.count_anew(counted_from)
            self._restart(time)

    def _release(self, time: int, claim_id: str | None, counted_from: int) -> None:
        if self.habits.lifetime_restarts or self.claim_id == claim_id:
            self.claim_id, self.claim_end = None, whole_second(time)
            self.count_anew(counted_from)
        self._restart(time)

    def count_anew(self, time: int) -> None:
        """Have the claims from ``time`` on count alone, in a store that does so where it does not count."""
        if self.habits.counts_anew:
            self.counted_from = time

    def _restart(self, time: int) -> None:
        if self.habits.lifetime_restarts and self.ttl is not None and self.lives(time):
            self.vanishes = time + self.ttl * SECOND

    def move(self, time: int, dead_letter_ttl: int | None) -> None:
        """Change the TTL on the way to the dead letter queue (document, 4.4)."""
        if not dead_letter_ttl:
            return
        self.ttl = dead_letter_ttl
        if self.habits.dead_letter_ttl_counts:
            self.expires = whole_second(time) + dead_letter_ttl * SECOND

    @property
    def gone_at(self) -> int:
        """When the dead letter queue no longer shows it."""
        return min(self.expires, self.vanishes) if self.habits.lifetime_restarts else self.expires
