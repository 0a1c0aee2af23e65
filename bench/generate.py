"""Raw Zaqar events of any number of messages, and the dead letters they imply: the data of every scenario.

    python bench/generate.py --messages 60000 --out DIR [--queues N] [--days N] [--seed S]

DIR/landing/zaqar/*.jsonl holds exchanges as a tap in front of Zaqar's API sees them (docs/events.md), files of
about 64 MB; DIR/truth.csv the dead letters (queue, message_id, died_at); DIR/sums.json what was written.

The life of a message: ten are posted in one exchange, claimed in one (limit 10, all granted, ttl 60, grace 60)
and 98 % deleted in one. The other 2 % are poison: claimed again when their claims have run out, in claims whose
limit is what they are granted, until each has three grants; a last claim with limit 20 is granted nothing and
moves them to the dead letter queue. No other claim has a free place. 1 % of the lines come twice, 1 % late:
both lie in files that come after all others. The same seed gives the same bytes, day by day: the last
days of a long history are those of a short one.
"""

import argparse
import json
import random
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import Pool
from pathlib import Path

SECOND = 1_000_000
END = datetime(2026, 11, 20, tzinfo=UTC)
"""The last day of every history."""
LIMIT, TTL, GRACE, BATCH, PLACES = 3, 60, 60, 10, 20
GROUP = 25
"""Batches of a queue whose poison messages are claimed again together."""
MESSAGES_A_FILE = 75_000
POISON, TWICE, LATE = 0.02, 0.01, 0.01
EVENTS = ("created", "paid", "merged", "shipped", "refunded")
CURRENCIES = ("EUR", "USD", "NZD", "JPY")
CLIENTS = [f"{n:08x}-8f4d-3e27-dda1-494c73cf256d" for n in range(1, 17)]


@dataclass(frozen=True)
class Spec:
    """What to write: ``messages`` in ``queues``, spread over ``days`` that end with :data:`END`."""

    messages: int
    queues: int
    days: int
    seed: int = 7

    @classmethod
    def of(cls, messages, queues=None, days=None, seed=7):
        """A spec with 6,000 messages a queue up to 1,000 queues, and 200,000 a day, unless told."""
        return cls(messages, queues or min(1000, max(10, messages // 600)), days or max(1, messages // 200_000), seed)

    def batches(self, queue, day):
        """How many batches ``queue`` gets on ``day`` (0 is the last): the sum is ``messages / 10``."""
        a_day, more = divmod(self.messages // BATCH, self.days)
        a_day += day < more
        each, more = divmod(a_day, self.queues)
        return each + (queue < more)


def client(queue, first, count):
    """One of ``count`` clients that work on a queue, from the ``first`` on."""
    return first + int(queue[1:]) % count


def iso(time):
    """Microseconds since 1970 as the tap writes a time."""
    return datetime.fromtimestamp(time / SECOND, UTC).isoformat(timespec="microseconds")


def day_start(day):
    return int((END - timedelta(days=day)).timestamp()) * SECOND


def exchange(time, client, method, path, query, request, status, response):
    return (
        f'{{"captured_at": "{iso(time)}", "method": "{method}", "path": "/v2/queues/{path}", "query": {query}, '
        f'"project_id": "bench", "client_id": "{CLIENTS[client]}", "request_body": {request}, "status": {status}, '
        f'"response_body": {response}}}'
    )


def uuid(rng):
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def body(rng, poison):
    """A message's body of about 150 bytes, as it stands in a JSON string."""
    number = rng.getrandbits(40)
    order, cents, pick = number % 1_000_000, number // 1_000_000 % 100_000, number >> 30
    customer, amount = f'{{\\"id\\": \\"c-{order % 5000}\\"}}', f"{cents / 100}"
    if poison:
        customer, amount = (("null", amount), (customer, f'\\"{cents}\\"'), (customer, f"-{amount}"))[pick % 3]
    return (
        f'{{\\"event\\": \\"order.{EVENTS[pick % 5]}\\", \\"order_id\\": {order}, \\"customer\\": {customer}, '
        f'\\"amount\\": {amount}, \\"currency\\": \\"{CURRENCIES[pick % 4]}\\", '
        f'\\"created_at\\": \\"2026-11-{pick % 28 + 1:02d}T16:14:00Z\\", \\"schema_version\\": 2}}'
    )


def declared(queue, time):
    """The exchanges that declare a queue and its dead letter queue."""
    own = f'{{"_max_claim_count": {LIMIT}, "_dead_letter_queue": "{queue}-dlq"}}'
    return [
        (time, exchange(time, 0, "PUT", f"{queue}-dlq", "null", "{}", 201, "null")),
        (time + SECOND, exchange(time + SECOND, 0, "PUT", queue, "null", own, 201, "null")),
    ]


def posted(queue, time, messages):
    """One exchange that posts ``messages``: pairs of id and body."""
    asked = ", ".join(f'{{"body": "{text}", "ttl": 1209600}}' for _, text in messages)
    given = ", ".join(f'"/v2/queues/{queue}/messages/{key}"' for key, _ in messages)
    path = f"{queue}/messages"
    return time, exchange(
        time,
        client(queue, 0, 4),
        "POST",
        path,
        "null",
        f'{{"messages": [{asked}]}}',
        201,
        f'{{"resources": [{given}]}}',
    )


def claimed(queue, time, messages, limit, claim, age):
    """One claim that is granted ``messages``, ``age`` seconds old; a claim of nothing is a 204."""
    granted = ", ".join(
        f'{{"id": "{key}", "href": "/v2/queues/{queue}/messages/{key}?claim_id={claim}", "ttl": 1209600, '
        f'"age": {age}, "body": "{text}"}}'
        for key, text in messages
    )
    status, response = (201, f'{{"messages": [{granted}]}}') if messages else (204, "null")
    path, asked = f"{queue}/claims", f'{{"ttl": {TTL}, "grace": {GRACE}}}'
    return time, exchange(time, client(queue, 4, 12), "POST", path, f'{{"limit": {limit}}}', asked, status, response)


def deleted(queue, time, keys):
    path, query = f"{queue}/messages", f'{{"ids": "{",".join(keys)}"}}'
    return time, exchange(time, client(queue, 4, 12), "DELETE", path, query, "null", 204, "null")


def queue_day(spec, number, day):
    """A queue's exchanges of one day, its dead letters, and its sums."""
    rng = random.Random(f"{spec.seed}/{spec.queues}/{number}/{day}")
    queue, count = f"q{number:04d}", spec.batches(number, day)
    gap = min(600 * SECOND, 79_200 * SECOND // max(count, 1))
    if gap * GROUP < 75 * SECOND:
        raise SystemExit(f"{count * BATCH} messages of a queue in a day are too many: more queues or more days")
    start = day_start(day) + rng.randrange(1800 * SECOND)
    lines, dead, waiting = [], [], []
    sums = {"messages": count * BATCH, "grants": 0, "settled": 0}
    for n in range(count):
        time = start + n * gap
        batch = [(uuid(rng), rng.random() < POISON and len(waiting) < PLACES - BATCH) for _ in range(BATCH)]
        batch = [(key, body(rng, bad), bad) for key, bad in batch]
        messages = [(key, text) for key, text, _ in batch]
        good = [key for key, _, bad in batch if not bad]
        lines += [
            posted(queue, time, messages),
            claimed(queue, time + SECOND, messages, BATCH, uuid(rng), 1),
            *([deleted(queue, time + 3 * SECOND, good)] if good else []),
        ]
        sums["grants"] += BATCH
        sums["settled"] += len(good)
        waiting += [(time, key, text) for key, text, bad in batch if bad]
        if waiting and (n % GROUP == GROUP - 1 or n == count - 1):
            lines += _last_claims(queue, time, waiting, rng)
            dead += [(queue, key, iso(time + 210 * SECOND)) for _, key, _ in waiting]
            sums["grants"] += 2 * len(waiting)
            waiting = []
    return lines, dead, sums


def _last_claims(queue, time, waiting, rng):
    """Two more claims of the poison messages, and the attempt that moves them."""
    for later in (70 * SECOND, 140 * SECOND):
        age = (time + later - waiting[0][0]) // SECOND
        yield claimed(queue, time + later, [(k, t) for _, k, t in waiting], len(waiting), uuid(rng), age)
    yield claimed(queue, time + 210 * SECOND, [], PLACES, None, 0)


def write_shard(job):
    """Write one file of a day and the file of its late and repeated lines; returns its dead letters and sums."""
    spec, folder, day, shard, queues = job
    first_day = day == spec.days - 1
    lines, dead, sums = [], [], {"messages": 0, "grants": 0, "settled": 0}
    for number in queues:
        of_queue, died, counted = queue_day(spec, number, day)
        lines += of_queue + (declared(f"q{number:04d}", day_start(day)) if first_day else [])
        dead += died
        sums = {key: sums[key] + counted[key] for key in sums}
    lines.sort()
    rng = random.Random(f"{spec.seed}/disorder/{day}/{shard}")
    now, later = [], []
    for _, line in lines:
        drawn = rng.random()
        if drawn >= LATE:
            now.append(line)
        if drawn < LATE + TWICE:
            later.append(line)
    label = f"{99_999 - day:05d}-{shard:03d}.jsonl"
    sizes = [write(folder / f"part-{label}", now), write(folder / f"tail-{label}", later)]
    return dead, sums | {"exchanges": len(lines), "lines": len(now) + len(later), "bytes": sum(sizes)}


def write(path, lines):
    """Write a file under a hidden name, then give it its own: a reader sees it whole."""
    text = "\n".join(lines) + "\n" if lines else ""
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.rename(path)
    return len(text)


def shards(spec, folder):
    """The files to write: each a day and some of its queues."""
    a_file = max(1, min(spec.queues, MESSAGES_A_FILE * spec.queues * spec.days // spec.messages))
    return [
        (spec, folder, day, n, range(first, min(first + a_file, spec.queues)))
        for day in reversed(range(spec.days))
        for n, first in enumerate(range(0, spec.queues, a_file))
    ]


def generate(out, spec, processes=2):
    """Write ``spec`` below ``out``; returns the sums, ``message_events`` among them."""
    folder = Path(out, "landing", "zaqar")
    folder.mkdir(parents=True, exist_ok=True)
    total = {}
    with Pool(processes) as pool, Path(out, "truth.csv").open("w") as truth:
        truth.write("queue,message_id,died_at\n")
        for dead, sums in pool.imap(write_shard, shards(spec, folder)):
            truth.writelines(f"{','.join(row)}\n" for row in dead)
            sums["dead_letters"] = len(dead)
            total = {key: total.get(key, 0) + value for key, value in sums.items()}
    total["message_events"] = total["messages"] + total["grants"] + total["settled"]
    Path(out, "sums.json").write_text(json.dumps(asdict(spec) | total))
    return asdict(spec) | total


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--out", required=True)
    for option in ("messages", "queues", "days", "seed"):
        default = {"messages": 6_000_000, "seed": 7}.get(option)
        parser.add_argument(f"--{option}", type=int, default=default)
    given = parser.parse_args()
    print(json.dumps(generate(given.out, Spec.of(given.messages, given.queues, given.days, given.seed))))


if __name__ == "__main__":
    main()
