"""Small batches that follow a history: what scenarios B and C feed to a lake.

A batch claims the messages that the batch before it posted, settles 98 % of them, claims the poison of the two
batches before again, moves that of the third, and posts what the next batch claims. Of the main claims 1 % are late:
claims and posts of two days before the history's end arrive in this batch. A stream is the same whatever history it
follows; its queues are its own, or the history's where it has their prefix.
"""

import random
from dataclasses import dataclass
from pathlib import Path

from generate import (
    BATCH,
    PLACES,
    POISON,
    SECOND,
    body,
    claimed,
    day_start,
    declared,
    deleted,
    iso,
    posted,
    uuid,
    write,
)

EVERY = 1200 * SECOND
"""Between two batches; a claim has long run out by then."""
LATE_DAY = 2


@dataclass(frozen=True)
class Stream:
    """``claims`` messages are claimed in a batch; ``prefix`` (a letter) begins the names of its queues."""

    prefix: str
    claims: int
    queues: int = 1000
    seed: int = 7

    @property
    def slots(self):
        """Claims of ten messages in a batch."""
        return self.claims // BATCH

    def is_late(self, slot):
        return slot < max(1, self.slots // 100)

    def queue(self, slot):
        return f"{self.prefix}{slot % self.queues:04d}"

    def messages(self, slot, batch):
        """The messages that ``batch`` claims in a slot: id, body and whether poison."""
        rng = random.Random(f"{self.seed}/{self.prefix}/{slot}/{batch}")
        drawn = [(uuid(rng), not self.is_late(slot) and rng.random() < POISON) for _ in range(BATCH)]
        return [(key, body(rng, bad), bad) for key, bad in drawn]

    def poison(self, batch):
        """The poison messages that ``batch`` claims first, by queue, as many as one claim takes."""
        found = {}
        for slot in range(self.slots) if batch >= 0 else ():
            bad = [(key, text) for key, text, poison in self.messages(slot, batch) if poison]
            if bad:
                found.setdefault(self.queue(slot), []).extend(bad)
        return {queue: bad[:PLACES] for queue, bad in found.items()}


def start_of(batch):
    return day_start(-1) + batch * EVERY


def posts(stream, batch, late):
    """The exchanges that post what ``batch`` claims, late ones or the others."""
    for slot in range(stream.slots):
        if stream.is_late(slot) == late:
            messages = [(key, text) for key, text, _ in stream.messages(slot, batch)]
            yield posted(stream.queue(slot), posted_at(stream, slot, batch), messages)


def posted_at(stream, slot, batch):
    if stream.is_late(slot):
        return day_start(LATE_DAY) + (43_200 + 60 * batch) * SECOND + slot
    return start_of(batch) - 600 * SECOND + slot * 1000


def claims(stream, batch):
    """The main claims of ``batch`` and their settlements."""
    kept = stream.poison(batch)
    for slot in range(stream.slots):
        queue, messages = stream.queue(slot), stream.messages(slot, batch)
        at = posted_at(stream, slot, batch) + (SECOND if stream.is_late(slot) else 700 * SECOND)
        rng = random.Random(f"{stream.seed}/claim/{stream.prefix}/{slot}/{batch}")
        bad = {key for key, _ in kept.get(queue, [])}
        yield claimed(queue, at, [message[:2] for message in messages], BATCH, uuid(rng), 1)
        yield deleted(queue, at + SECOND, [key for key, *_ in messages if key not in bad])


def again(stream, batch):
    """The claims that follow on the poison of the batches before; the third's are moved."""
    for back, after in ((3, 0), (2, 20), (1, 40)):
        for queue, bad in stream.poison(batch - back).items():
            at = start_of(batch) + after * SECOND + int(queue[1:])
            claim = uuid(random.Random(f"{stream.seed}/again/{queue}/{batch}/{back}"))
            yield claimed(queue, at, [] if back == 3 else bad, PLACES if back == 3 else len(bad), claim, 1200 * back)


def backlog(stream, batches):
    """What must be there before the first batch: the queues, its messages, and the late messages of all."""
    used = sorted({stream.queue(slot) for slot in range(stream.slots)})
    lines = [line for queue in used for line in declared(queue, day_start(LATE_DAY))]
    lines += posts(stream, 0, late=False)
    for batch in range(batches):
        lines += posts(stream, batch, late=True)
    return [line for _, line in sorted(lines)]


def events(stream, batch):
    lines = [*again(stream, batch), *claims(stream, batch), *posts(stream, batch + 1, late=False)]
    return [line for _, line in sorted(lines)]


def deaths(stream, batch):
    """The dead letters of ``batch``, as a truth file tells them."""
    for queue, bad in stream.poison(batch - 3).items():
        died = iso(start_of(batch) + int(queue[1:]))
        yield from ((queue, key, died) for key, _ in bad)


def write_batch(stream, batch, folder):
    """Write the file of one batch, if it is not there yet; returns its path."""
    path = Path(folder, f"{stream.prefix}-batch-{batch:05d}.jsonl")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, events(stream, batch))
    return path
