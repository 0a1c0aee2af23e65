"""RabbitMQ as its documents and the notes on the real server describe it: plain Python, one event after another.

The truth holds what can be known: a death counts where something was read from the queue it led to, or where a
consumer wrote down that it rejected the message, or gave it back to a classic queue that then expired it.
"""

import json
import re
from dataclasses import dataclass, field

from tests.models.clock import SECOND, START, iso, uuid, whole

DLQ, RETRY = "q.dlq", "q.retry"


def term(key, value):
    """An Erlang pair as the event exchange writes it."""
    return '{<<"' + key + '">>,' + value + "}"


def text(value):
    """A binary as Erlang writes it: its bytes where one of them is no printable character of Latin-1."""
    given = value.encode()
    if all(32 <= byte < 127 or byte >= 160 for byte in given):
        return '<<"' + value.replace("\\", "\\\\").replace('"', '\\"') + '">>'
    return f"<<{','.join(map(str, given))}>>"


@dataclass
class Message:
    id: str
    posted: int
    deliveries: list = field(default_factory=list)
    count: int | None = None  # the broker's own, lost at a restart; none: a v1 record
    fresh: bool = True  # its queue has not delivered it yet
    again: list = field(default_factory=list)  # when it was published once more under its id
    missed: int = 0  # deliveries that the broker no longer counts
    lost: int | None = None  # when a delivery first came with too low a count
    outcomes: list = field(default_factory=list)  # what consumers wrote down: (when, ack, requeue or reject)
    deaths: list = field(default_factory=list)  # x-death, the newest first
    away_until: int = 0
    away: list = field(default_factory=list)  # when it went to the retry queue
    settled: bool = False
    died: dict | None = None
    read: list = field(default_factory=list)  # deliveries from the dead letter queue
    removed: int | None = None  # when somebody was done with it there
    purged: int | None = None


class Queue:
    """One queue of one vhost, its retry and dead letter queues, and what the firehose and event exchange tell."""

    def __init__(self, chance, vhost, quorum, limit, ttl, retry):
        self.chance, self.vhost, self.quorum, self.ttl, self.retry = chance, vhost, quorum, ttl, retry
        self.argument, self.flag, self.lazy = limit, False, False
        self.tells = chance.random() < 0.8  # whether what listens to the firehose keeps ``redelivered``
        self.policies, self.limits, self.mirrors = {}, [], {}
        self.messages, self.events, self.held = [], [], []

    def tell(self, now, surface, key, headers, payload=""):
        event = {"captured_at": iso(now), "surface": surface, "exchange": "", "routing_key": key}
        self.events.append(event | {"properties": {"headers": headers | {"vhost": self.vhost}}, "payload": payload})

    def declare(self, now, name, arguments):
        terms = [
            term(key, f"signedint,{value}" if isinstance(value, int) else f"longstr,{text(value)}")
            for key, value in arguments.items()
        ]
        self.tell(now, "event_exchange", "queue.created", {"name": name, "arguments": terms})
        self.note_limit(now)

    def set_policy(self, now, kind, name, pattern, priority, limit, apply_to="queues"):
        self.policies[(kind, name)] = (pattern, priority, limit, apply_to)
        definition = {"delivery-limit": limit} if limit is not None else {}
        headers = {"name": name, "pattern": pattern, "priority": priority, "definition": definition}
        key = "policy.set" if kind == "policy" else "operator.policy.set"
        self.tell(now, "event_exchange", key, headers | {"apply-to": apply_to})
        self.note_limit(now)

    def clear_policy(self, now, kind, name):
        self.policies.pop((kind, name), None)
        key = "policy.cleared" if kind == "policy" else "operator.policy.cleared"
        self.tell(now, "event_exchange", key, {"name": name})
        self.note_limit(now)

    def limit(self):
        """The limit that counts: always in a quorum queue, in a classic one while the feature flag is on."""
        return self.lowest() if self.quorum or (self.flag and not self.lazy) else None

    def lowest(self):
        """The lowest of the argument and of the best policy and the best operator policy that match."""
        limits = [self.argument] if self.argument is not None else []
        for wanted in ("policy", "operator"):
            matching = [
                (priority, limit)
                for (kind, _), (pattern, priority, limit, apply_to) in self.policies.items()
                if kind == wanted and apply_to in ("queues", "all") and re.search(pattern, "q")
            ]
            best = max(matching, key=lambda m: m[0], default=(0, None))[1]
            limits += [best] if best is not None else []
        return min(limits, default=None)

    def note_limit(self, now):
        """A changed limit of a classic queue also kills what lies in it."""
        self.limits.append((now, self.limit()))
        if not self.quorum and self.limit() is not None:
            for message in self.free(now):
                if self.counted(message) > self.limit() and message not in self.held:
                    self.die(now, message, "expired", cause="delivery_limit")

    def counted(self, message):
        """A v1 record has no count: it reads as 0."""
        return message.count or 0

    def write_down(self, now, message, what):
        message.outcomes.append((now, what))
        self.tell_outcome(now, message, f"{what}.q")

    def tell_outcome(self, now, message, key):
        """A consumer's own record of what it did with a delivery."""
        where = {"connection": "1.2.3.4:5 -> 1.2.3.4:6", "channel": 1}
        headers = where | {"properties": {"message_id": message.id}, "error": "Broken: x"}
        self.tell(now, "consumer", key, headers, f'{{"id": "{message.id}"}}')

    def enable_flag(self, now):
        self.flag = True
        self.tell(now, "event_exchange", "feature.flag.enabled", {"name": "classic_delivery_limits"})
        self.note_limit(now)

    def set_counts(self, now, counts):
        """The queue goes on with these counts, those of a mirror or none."""
        for message in self.messages:
            count = counts.get(message.id)
            message.missed += self.counted(message) - (count or 0)
            message.count = count
        self.note_limit(now)

    def restart(self, now):
        """A classic queue's counters are in memory."""
        if not self.quorum:
            self.tell(now, "event_exchange", "queue.recovered", {"name": "q", "node": "rabbit@a"})
            self.set_counts(now, {})

    def synchronise(self, now, node):
        """A mirror gets the counts of the queue as they are; later deliveries do not reach it."""
        self.mirrors[node] = {message.id: message.count for message in self.messages}
        self.tell(now, "event_exchange", "queue.mirror.synchronised", {"name": "q", "node": node})

    def promote(self, now, node):
        self.tell(now, "event_exchange", "queue.mirror.promoted", {"name": "q", "node": node})
        self.set_counts(now, self.mirrors.get(node, {}))

    def limit_at(self, time):
        held = [limit for at, limit in self.limits if at <= time]
        return held[-1] if held else None

    def headers(self, message, count=None):
        deaths = [
            {k: death[k] for k in ("count", "reason", "queue")} | {"time": iso(death["time"])[:19] + "+00:00"}
            for death in message.deaths
        ]
        shown = {"x-death": deaths} if deaths else {}
        return shown | ({"x-delivery-count": count} if count is not None else {})

    def show(self, now, kind, queue, message, count=None, **more):
        properties = {"message_id": message.id, "timestamp": message.posted // SECOND}
        properties["headers"] = self.headers(message, count)
        where = {"connection": "1.2.3.4:5 -> 1.2.3.4:6", "channel": 1}
        key = f"{kind}.{queue}" if kind == "deliver" else "publish."
        self.tell(now, "firehose", key, where | {"properties": properties} | more, f'{{"id": "{message.id}"}}')

    def publish(self, now):
        message = Message(uuid(self.chance), now)
        self.messages.append(message)
        self.show(now, "publish", "q", message, routed_queues=["q"])

    def done(self):
        """What can be published once more: somebody is done with it, though nobody says so."""
        known = self.tells and not self.ttl
        ended = [m for m in self.messages if m.settled and m.purged is None and m.lost is None and not m.died]
        return [m for m in ended if known and (not m.outcomes or m.outcomes[-1][1] != "ack")]

    def publish_again(self, now, message):
        """To its queue that is another message, which it has never delivered."""
        message.settled, message.fresh, message.count, message.missed = False, True, None, 0
        for copy in self.mirrors.values():
            copy.pop(message.id, None)
        message.again.append(now)
        self.show(now, "publish", "q", message, routed_queues=["q"])

    def deliver(self, now, message):
        first = not message.count
        count = self.counted(message) if self.quorum and not (first and self.chance.random() < 0.5) else None
        message.deliveries.append(now)
        if message.missed > 0 and message.lost is None and self.flag and not self.lazy:
            message.lost = now
        if self.quorum or self.flag:
            message.count = self.counted(message) + 1
        told = {"redelivered": int(not message.fresh)} if self.tells else {}
        message.fresh = False
        self.show(now, "deliver", "q", message, count, **told)

    def fail(self, now, message, reject):
        """The consumer gives the message back, or refuses it for good."""
        limit = self.limit()
        if not reject and not self.retry and self.chance.random() < 0.6:
            self.write_down(now, message, "requeue")
        if reject:
            if not self.retry and int(message.id[2:4], 16) % 2:
                self.write_down(now, message, "reject")
            self.die(now, message, "rejected")
        elif limit is not None and self.counted(message) > limit:
            self.die(now, message, "delivery_limit" if self.quorum else "expired", cause="delivery_limit")

    def settle(self, now, message):
        message.settled = True
        if self.chance.random() < 0.3:
            self.write_down(now, message, "ack")

    def die(self, now, message, reason, cause=None):
        entry = next((d for d in message.deaths if (d["queue"], d["reason"]) == ("q", reason)), None)
        if entry:  # the count grows, the time stays that of the first death
            message.deaths.remove(entry)
            entry = entry | {"count": entry["count"] + 1}
        else:
            entry = {"count": 1, "reason": reason, "queue": "q", "time": whole(now)}
        message.deaths.insert(0, entry)
        message.count = None
        if self.retry and entry["count"] < 3 and self.chance.random() < 0.8:
            # since 4.0 a quorum queue takes a dead letter of one for delivered
            back, message.fresh = now + 2 * SECOND, not self.quorum or self.chance.random() < 0.5
            message.away.append(now)
            message.away_until = back
            old = next((d for d in message.deaths if d["queue"] == RETRY), None)
            message.deaths = [d for d in message.deaths if d is not old]
            returned = {"count": 1, "reason": "expired", "queue": RETRY, "time": whole(back)}
            message.deaths.insert(0, old | {"count": old["count"] + 1} if old else returned)
        else:
            at = max(entry["time"], whole(message.deliveries[-1])) if message.deliveries else entry["time"]
            causes = {"expired": "ttl", "rejected": "rejected"}
            message.died = {"reason": reason, "died": at, "told": False, "cause": cause or causes[reason]}
            known = message.outcomes and message.outcomes[-1] >= (message.deliveries[-1], "requeue")
            rejected = message.outcomes and message.outcomes[-1] == (now, "reject")
            if reason == "expired" and cause == "delivery_limit" and known or rejected:
                message.died["implied"] = now

    def expire(self, now):
        for message in self.free(now):
            over = self.ttl and message.posted + self.ttl * SECOND <= now
            if over and message not in self.held and not message.deaths:
                self.die(message.posted + self.ttl * SECOND, message, "expired")

    def free(self, now):
        return [m for m in self.messages if not m.settled and not m.died and m.purged is None and m.away_until <= now]

    def read_dead(self, now, message):
        message.died["told"] = True
        message.read.append(now)
        self.show(now, "deliver", DLQ, message)
        if message.removed is None and int(message.id[:2], 16) % 3 == 0:
            message.removed = now + 1
            self.tell_outcome(message.removed, message, f"ack.{DLQ}")

    def delete(self, now):
        for message in self.messages:
            # nobody knows of a death that was never read: as far as known, the message was still there
            message.purged = message.purged or now
        self.tell(now, "event_exchange", "queue.deleted", {"name": "q"})

    def outcome(self, message, deliveries, now):
        """What is known of the last delivery: ``ack``, or the status of the message."""
        if not deliveries:
            return "available"
        known = [what for at, what in message.outcomes if deliveries[-1] <= at <= now]
        return {"requeue": "available"}.get(known[-1], known[-1]) if known else "outcome_unknown"

    def truth(self, now):
        rows = {}
        for m in self.messages:
            if m.posted > now:
                continue
            deliveries = [t for t in m.deliveries if t <= now]
            told = m.died and m.died["told"]
            died = m.died and (m.died["died"] if told else m.died.get("implied"))
            dead = died is not None and died <= now
            death = dead and {
                "queue": "q",
                "dead_letter_queue": DLQ,
                "reason": m.died["reason"],
                "cause": m.died["cause"],
                # a new message when it is back
                "claim_count": len([t for t in deliveries if t > max(m.away + m.again, default=0)]),
                "max_deliveries": self.limit_at(died + SECOND if told else died),
                "posted_at": m.posted,
                "died": died,
                "removed_at": m.removed if m.removed and m.removed <= now else None,
                "expires_at": None,
            }
            gone = m.purged is not None and m.purged <= now
            outcome = self.outcome(m, deliveries, now)
            ends = m.posted + self.ttl * SECOND if self.ttl and outcome == "available" else None
            if ends is not None and ends <= now and not (gone and m.purged < ends):
                gone, outcome = False, "expired" if deliveries else "expired_unseen"
            status = "dead_lettered" if dead else "settled" if outcome == "ack" else "purged" if gone else outcome
            left = [t for t in m.away if whole(t) <= now]
            if not dead and left and not [t for t in deliveries if t > left[-1]]:
                status = None  # in the retry queue: what is known of it depends on what was read later
            again = next((t for t in m.away if t > now), None)
            if not dead and left and again and not [t for t in m.deliveries if now < whole(t) and t <= again]:
                status = None  # x-death keeps the time of the first death, and no delivery tells when the next was
            row = {"granted": len(deliveries), "status": status, "death": death or None}
            rows[(self.vhost, "q", "", m.id)] = row | {"lost_counter": m.lost is not None and m.lost <= now}
            read = [t for t in m.read if t <= now]
            if read:
                rows[(self.vhost, DLQ, "", m.id)] = {
                    "granted": len(read),
                    "status": "settled" if m.removed and m.removed <= now else "outcome_unknown",
                    "death": None,
                }
        return rows


def history(chance, vhost, size):
    """Raw events of one vhost with ``size`` messages, and its truth as a function of time."""
    now = START + chance.randrange(30 * SECOND)
    quorum, retry = chance.random() < 0.4, chance.random() < 0.2
    limit = chance.choice((None, 0, 1, 2, 3)) if quorum else None
    ttl = None if quorum or retry else chance.choice((None, None, None, None, None, 20, 60))
    queue = Queue(chance, vhost, quorum, limit, ttl, retry)
    if chance.random() < (0.4 if quorum else 0.9):
        queue.set_policy(now, "policy", "all", ".*", 0, chance.choice((1, 2, 5)))
    classic = not quorum and not retry and queue.ttl is None and chance.random() < 0.8
    queue.lazy = classic and chance.random() < 0.2
    arguments = {"x-queue-mode": "lazy"} if queue.lazy else {}
    arguments |= {"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": DLQ}
    arguments |= {"x-queue-type": "quorum"} if quorum else {}
    arguments |= {"x-delivery-limit": limit} if limit is not None else {}
    arguments |= {"x-message-ttl": queue.ttl * 1000} if queue.ttl else {}
    now += 1000
    queue.declare(now, "q", arguments)
    flagged = size // 4 if chance.random() < 0.3 else 0  # messages posted before the feature flag are v1
    held = queue.held
    names = [
        ("policy", "all", ".*"),
        ("policy", "mine", "^q$"),
        ("policy", "other", "^orders"),
        ("operator", "cap", "q"),
    ]
    while len(queue.messages) < size or chance.random() < 0.97:
        now += 1 + chance.randrange(chance.choice((SECOND // 50, SECOND // 2, 5 * SECOND)))
        queue.expire(now)
        if classic and not queue.flag and len(queue.messages) >= flagged:
            queue.enable_flag(now)
            now += 1000
        what, ready = chance.random(), [m for m in queue.free(now) if m not in held]
        if what < 0.03 and (done := queue.done()):
            queue.publish_again(now, chance.choice(done))
        elif len(queue.messages) < size and what < 0.3:
            queue.publish(now)
        elif what < 0.65 and ready:
            message = chance.choice(ready[:5])
            queue.deliver(now, message)
            held.append(message)
        elif what < 0.90 and held:
            message, outcome = held.pop(chance.randrange(len(held))), chance.random()
            if message.purged is not None:
                continue
            if outcome < 0.3:
                queue.settle(now, message)
            else:
                queue.fail(now, message, reject=outcome < (0.6 if retry else 0.4))
        elif what < 0.96:
            dead = [m for m in queue.messages if m.died]
            if dead:
                queue.read_dead(now, chance.choice(dead))
        elif what < 0.98:
            kind, name, pattern = chance.choice(names)
            if (kind, name) in queue.policies and chance.random() < 0.5:
                queue.clear_policy(now, kind, name)
            else:
                priority = {"all": 0, "mine": 5, "other": 9, "cap": 1}[name]
                apply_to = chance.choice(("queues", "queues", "all", "exchanges"))
                queue.set_policy(now, kind, name, pattern, priority, chance.choice((0, 1, 2, 4, None)), apply_to)
        elif what < 0.984 and chance.random() < 0.2:
            queue.restart(now)
        elif what < 0.99 and classic and chance.random() < 0.6:
            change = queue.synchronise if chance.random() < 0.6 else queue.promote
            change(now, chance.choice(("rabbit@b", "rabbit@c")))
        elif what < 0.993 and chance.random() < 0.25:
            queue.delete(now)
            held.clear()
            now += 1000
            queue.declare(now, "q", arguments)
    return [json.dumps(event) for event in queue.events], queue.truth
