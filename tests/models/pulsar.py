"""Pulsar as PIP-22 and the notes on the real client describe it: plain Python, one event after another.

The client dead-letters by the policy of the consumer that has the message; PIP-22 lets the last created consumer's
count. The dead letter topics are read at the end.
"""

import json
from dataclasses import dataclass, field

from tests.models.clock import SECOND, START, iso


@dataclass
class Copy:
    """A message as one subscription has it."""

    deliveries: list = field(default_factory=list)
    count: int = 0  # redeliveries as the broker remembers them
    failed: list = field(default_factory=list)
    acknowledged: int | None = None
    died: dict | None = None


class Topic:
    """One topic with its subscriptions, and what clients write down."""

    def __init__(self, chance, tenant, number):
        self.chance, self.tenant, self.number = chance, tenant, number
        self.name = f"persistent://{tenant}/t"
        self.consumers = {}  # subscription -> [(time, name, limit, dead letter topic)]
        self.messages, self.events = [], []  # (id, posted, delay, {subscription: Copy})
        self.cxx = chance.random() < 0.5
        self.retry = not self.cxx and chance.random() < 0.6  # of the C++ client none is known to have retry topics

    def tell(self, now, operation, **fields):
        self.events.append({"captured_at": iso(now), "operation": operation, "topic": self.name} | fields)

    def subscribe(self, now, subscription, limit, target):
        name = f"{subscription}-{len(self.consumers.setdefault(subscription, []))}"
        self.consumers[subscription].append((now, name, limit, target))
        named = target and self.number % 2 and target.removeprefix("persistent://") or target  # clients take both
        policy = {"maxRedeliverCount": limit, "deadLetterTopic": named} if limit is not None else None
        self.tell(now, "subscribe", subscription=subscription, consumer=name, dead_letter_policy=policy)

    def target(self, subscription, consumer):
        return consumer[3] or f"{self.name}-{subscription}-DLQ"

    def send(self, now):
        entry = len(self.messages)
        delay = self.chance.choice((None, None, None, 5, 90))
        batch = f":{entry % 3}" if self.number % 4 == 0 else ""
        name = f"{self.number}:{entry}:-1{batch}"
        self.messages.append((name, now, delay, {s: Copy() for s in self.consumers}))
        self.tell(now, "send", message_id=name, payload=f'{{"n": {entry}}}', deliver_after_s=delay, producer="p-0")

    def place(self, subscription, message):
        """Where the message lies now, under which id, with what properties: a retry topic counts in them."""
        copy = message[3][subscription]
        if not self.retry or not copy.count:
            return {"topic": self.name, "message_id": message[0], "properties": {"app": "shop"}}
        properties = {"REAL_TOPIC": self.name, "ORIGIN_MESSAGE_ID": message[0], "REAL_SUBSCRIPTION": subscription}
        properties |= {"RECONSUMETIMES": str(copy.count), "DELAY_TIME": "1000"}
        again = f"77{self.number}:{message[0].split(':')[1]}{copy.count}:-1"
        return {"topic": f"{self.name}-{subscription}-RETRY", "message_id": again, "properties": properties}

    def receive(self, now, subscription, message):
        _, posted, _, copies = message
        copy = copies[subscription]
        consumer = self.chance.choice(self.consumers[subscription])
        copy.deliveries.append((now, copy.count))
        count, published = 0 if self.retry else copy.count, posted // 1000
        fields = {"consumer": consumer[1], "redelivery_count": count, "publish_timestamp": published}
        self.tell(now, "receive", subscription=subscription, **fields, **self.place(subscription, message))
        return consumer

    def acknowledge(self, now, subscription, message):
        message[3][subscription].acknowledged = now
        self.tell(now, "acknowledge", subscription=subscription, **self.place(subscription, message))

    def fail(self, now, subscription, message, consumer):
        copy = message[3][subscription]
        copy.failed.append(now)
        place = self.place(subscription, message)
        self.tell(now, "negative_acknowledge", subscription=subscription, error="Broken: x", **place)
        if consumer[2] is not None and copy.count >= consumer[2]:
            copy.died = {"time": now // 1000 * 1000, "topic": self.target(subscription, consumer), "told": False}
            if not self.retry and self.chance.random() < 0.5:  # the client's own acknowledgement is no success
                self.tell(now + 1, "acknowledge", subscription=subscription, message_id=message[0])
        copy.count += 1

    def restart(self):
        """The broker forgets how often it delivered; what a retry topic's properties say stays."""
        if self.retry:
            return
        for _, _, _, copies in self.messages:
            for copy in copies.values():
                copy.count = 0

    def read_dead(self, now):
        for number, (name, _, _, copies) in enumerate(self.messages):
            for subscription, copy in copies.items():
                if not copy.died or self.chance.random() < 0.1:
                    continue
                copy.died["told"] = True
                ledger, entry, partition, *batch = name.split(":")
                origin = f"({ledger},{entry},{partition},{(batch or [-1])[0]})" if self.cxx else name
                java = {"REAL_SUBSCRIPTION": subscription} if not self.cxx else {}
                copy.died["new"] = f"99{self.number}:{number}:-1"
                now += 1
                self.events.append(
                    {
                        "captured_at": iso(now),
                        "operation": "dead_letter",
                        "topic": copy.died["topic"],
                        "message_id": copy.died["new"],
                        "properties": {"ORIGIN_MESSAGE_ID": origin, "REAL_TOPIC": self.name} | java,
                        "publish_timestamp": copy.died["time"] // 1000,
                        "payload": "{}",
                    }
                )

    def triage(self, now):
        """Somebody is done with every second dead letter that was read."""
        for number, (*_, copies) in enumerate(self.messages):
            for copy in copies.values():
                if number % 2 and copy.died and copy.died["told"] and copy.died["topic"].startswith(self.name):
                    copy.died["removed"] = now
                    letter = {"topic": copy.died["topic"], "message_id": copy.died["new"], "subscription": "triage"}
                    self.events.append({"captured_at": iso(now), "operation": "acknowledge"} | letter)

    def truth(self, now):
        rows = {}
        for name, posted, delay, copies in self.messages:
            if posted <= now:
                delayed = delay is not None and posted + delay * SECOND > now
                status = "delayed" if delayed else "available"
                rows[(self.tenant, self.name, "", kept(name))] = {"granted": 0, "status": status, "death": None}
            for subscription, copy in copies.items():
                row = self.copy_truth(now, subscription, copy, posted)
                if row:
                    rows[(self.tenant, self.name, subscription, kept(name))] = row
                if copy.died and copy.died.get("removed", now + 1) <= now:
                    there = (self.tenant, copy.died["topic"], "triage", copy.died["new"])
                    rows[there] = {"granted": 0, "status": "settled", "death": None}
        return rows

    def copy_truth(self, now, subscription, copy, posted):
        deliveries = [d for d in copy.deliveries if d[0] <= now]
        dead = copy.died and copy.died["told"] and copy.died["time"] <= now
        if not deliveries and not dead:
            return None
        failed = [t for t in copy.failed if t <= now]
        if dead:
            status = "dead_lettered"
        elif copy.acknowledged is not None and copy.acknowledged <= now or copy.died and copy.failed[-1] < now:
            status = "settled" if copy.acknowledged is not None else None
        elif failed and deliveries and failed[-1] > deliveries[-1][0]:
            status = "available"
        else:
            status = "claimed"
        last = [c for c in self.consumers[subscription] if dead and c[0] <= copy.died["time"]]
        removed = dead and copy.died.get("removed")
        removed = removed if removed and removed <= now else None
        death = dead and {
            "queue": self.name,
            "dead_letter_queue": copy.died["topic"],
            "reason": "max_redeliver_count",
            "cause": "delivery_limit",
            "claim_count": len(deliveries),
            "max_deliveries": last[-1][2] if last else None,
            "posted_at": posted,
            "died": copy.died["time"],
            "removed_at": removed,
            "expires_at": None,
        }
        # a count that is gone shows where one was above 0; a retry topic's is in the message
        lost = any(
            count == 0 < max((c for _, c in deliveries[:n]), default=0) for n, (_, count) in enumerate(deliveries)
        )
        return {"granted": len(deliveries), "status": status, "death": death or None, "lost_counter": lost}


def history(chance, tenant, size, number):
    """Raw events of one topic with ``size`` messages, and its truth as a function of time."""
    now, topic = START + chance.randrange(30 * SECOND), Topic(chance, tenant, number)
    elsewhere = chance.choice((f"{topic.name}-dead", f"persistent://public/dead/{number}"))
    plans = {"fulfil": (chance.randint(0, 3), None), "settle": (chance.choice((1, 2, None)), elsewhere)}
    for name in list(plans)[: chance.randint(1, 2)]:
        topic.subscribe(now, name, *plans[name])
        now += 1000
    held = []
    while len(topic.messages) < size or chance.random() < 0.98:
        now += 2 + chance.randrange(chance.choice((SECOND // 50, SECOND // 2, 5 * SECOND)))
        what, name = chance.random(), chance.choice(list(topic.consumers))
        if len(topic.messages) < size and what < 0.25:
            topic.send(now)
        elif what < 0.60:
            busy = {(held_message[0], s) for held_message, s, _ in held}
            ready = [
                m
                for m in topic.messages
                if (m[0], name) not in busy and m[3][name].acknowledged is None and not m[3][name].died
                and (m[2] is None or m[1] + m[2] * SECOND <= now or m[3][name].deliveries)
            ]  # fmt: skip
            if ready:
                message = chance.choice(ready[:5])
                held.append((message, name, topic.receive(now, name, message)))
        elif what < 0.95 and held:
            message, subscription, consumer = held.pop(chance.randrange(len(held)))
            if chance.random() < 0.3:
                topic.acknowledge(now, subscription, message)
            else:
                topic.fail(now, subscription, message, consumer)
        elif what < 0.96:
            topic.subscribe(
                now, name, plans[name][0] if plans[name][0] is None else chance.randint(0, 3), plans[name][1]
            )
        elif what < 0.965:
            topic.restart()
            held = []
    topic.read_dead(now + SECOND)
    topic.triage(now + 2 * SECOND)
    return [json.dumps(event) for event in topic.events], topic.truth


def kept(name):
    """An id as the lake keeps it: the first of a batch is as one that is in none."""
    return name.removesuffix(":0")
