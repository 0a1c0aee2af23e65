"""Zaqar as its two documents and the notes on the real server describe it: plain Python, one event after another.

``Store("document")`` takes only free messages and lets ``_dead_letter_queue_messages_ttl`` count; ``Store("redis")``
has the habits of the real store (double claims, delays overtaken, lifetimes that begin again); ``Store("mongodb")``
looks for a message by its queue and its claim, and whatever writes a claim down without counting it writes 0.
"""

import json
from dataclasses import dataclass, field

from tests.models.clock import SECOND, iso, uuid, whole

DEFAULT_TTL = 3600


@dataclass
class Message:
    id: str
    origin: str
    queue: str
    posted: int
    ttl: int
    delay_until: int
    body: str
    expires: int = 0
    vanishes: int = 0
    claim: str | None = None
    claim_end: int = 0
    count: int = 0
    granted: dict = field(default_factory=dict)  # queue -> times
    never: bool = False
    early: bool = False
    gone: tuple | None = None  # (how, when)
    deaths: list = field(default_factory=list)


@dataclass
class Claim:
    id: str
    queue: str
    end: int
    known: bool
    taken: list
    released: bool = False


class Store:
    """One project's queues, and what a tap in front of the server writes down."""

    def __init__(self, habits, project, chance):
        self.redis, self.mongo = habits == "redis", habits == "mongodb"
        self.project, self.chance = project, chance
        self.policies, self.messages, self.claims, self.events = {}, [], {}, []
        self.flavors, self.pools = {}, {}  # flavor -> pools, queue -> pools
        self.apart = set()  # queues whose policy names a dead letter queue in another pool

    # what the tap sees

    def tell(self, now, method, path, status, query=None, request=None, response=None, of="queues"):
        self.events.append(
            {
                "captured_at": iso(now),
                "method": method,
                "path": f"/v2/{of}/{path}",
                "query": query,
                "project_id": self.project,
                "client_id": f"client-{self.chance.randrange(4)}",
                "request_body": request,
                "status": status,
                "response_body": response,
            }
        )

    # queues

    def put_flavor(self, now, flavor, pools):
        self.flavors[flavor] = set(pools)
        self.tell(now, "PUT", flavor, 201, request={"pool_list": pools}, response={"name": flavor}, of="flavors")

    def counts(self, queue):
        """Both are set, and both queues can be in the same pool."""
        policy = self.policies.get(queue, {})
        both = policy.get("_max_claim_count") is not None and policy.get("_dead_letter_queue") is not None
        return both and queue not in self.apart

    def place(self, queue):
        """Look at the pools when a policy is set."""
        target = self.policies[queue].get("_dead_letter_queue")
        apart = queue in self.pools and target in self.pools and not self.pools[queue] & self.pools[target]
        (self.apart.add if apart else self.apart.discard)(queue)

    def put(self, now, queue, **metadata):
        new = queue not in self.policies
        if new:
            self.policies[queue] = metadata
            if metadata.get("_flavor"):
                self.pools[queue] = self.flavors[metadata["_flavor"]]
            self.place(queue)
        self.tell(now, "PUT", queue, 201 if new else 204, request=metadata)

    def patch(self, now, queue, **metadata):
        self.policies[queue] = {k: v for k, v in (self.policies.get(queue, {}) | metadata).items() if v is not None}
        shown = {"_max_messages_post_size": 262144, "_default_message_ttl": 3600, "_default_message_delay": 0}
        self.place(queue)
        changes = [
            {"op": "remove" if v is None else "replace", "path": f"/metadata/{k}"} | ({} if v is None else {"value": v})
            for k, v in metadata.items()
        ]
        # unset values are listed as null, as the server does
        unset = {"_max_claim_count": None, "_dead_letter_queue": None, "_dead_letter_queue_messages_ttl": None}
        self.tell(now, "PATCH", queue, 200, request=changes, response=shown | unset | self.policies[queue])

    def empty(self, now, queue, how):
        for message in self.lying_in(queue):
            if self.shown_until(message) > now:
                message.gone = ("purged", now)
            else:
                message.gone = ("expired", self.shown_until(message))

    def purge(self, now, queue):
        """The server pops a hundred at a time, until a pop brings nothing. No tap sees these pops."""
        shown, found = {m.id: self.shown_until(m) for m in self.lying_in(queue)}, True
        while found:
            _, found = self.popped(now, queue, 100, "purged", told=False)
            for message in found:
                if shown[message.id] <= now:
                    message.gone = ("expired", shown[message.id])
        self.tell(now, "POST", f"{queue}/purge", 204, request={"resource_types": ["messages"]})

    def delete_queue(self, now, queue):
        self.empty(now, queue, "purged")
        self.policies.pop(queue, None)
        self.pools.pop(queue, None)
        self.tell(now, "DELETE", queue, 204)

    # messages

    def post(self, now, queue, wanted):
        """``wanted``: list of (ttl or None, delay or None)."""
        policy, made = self.policies.get(queue, {}), []
        for ttl, delay in wanted:
            life = ttl or policy.get("_default_message_ttl") or DEFAULT_TTL
            default = policy.get("_default_message_delay", 0)
            wait = (default if delay is None else delay) if default > 0 else 0
            message = Message(
                uuid(self.chance), queue, queue, now, life, whole(now) + wait * SECOND, f'{{"n": {len(self.messages)}}}'
            )
            message.expires, message.vanishes = whole(now) + life * SECOND, now + life * SECOND
            message.never = life < wait
            made.append((message, ttl, delay))
            self.messages.append(message)
        request = [
            {"body": m.body} | ({"ttl": t} if t is not None else {}) | ({"delay": d} if d is not None else {})
            for m, t, d in made
        ]
        paths = [f"/v2/queues/{queue}/messages/{m.id}" for m, _, _ in made]
        self.tell(now, "POST", f"{queue}/messages", 201, request={"messages": request}, response={"resources": paths})
        return [m for m, _, _ in made]

    def lying_in(self, queue):
        return [m for m in self.messages if m.queue == queue and not m.gone]

    def shown_until(self, message):
        return min(message.expires, message.vanishes) if self.redis else message.expires

    def lives(self, message, now):
        return (message.vanishes if self.redis else message.expires) > now

    def is_free(self, message, now):
        return message.delay_until <= whole(now) and (message.claim is None or message.claim_end <= whole(now))

    def hold(self, message, now, claim_id, ttl, grace, renewal=False):
        message.claim, message.claim_end = claim_id, whole(now) + ttl * SECOND
        # the server also keeps a message that a renewal ends together with, but not in MongoDB
        together = renewal and not self.mongo and message.expires == message.claim_end
        if message.expires < message.claim_end or together:
            message.ttl, message.expires = ttl + grace, message.claim_end + grace * SECOND

    def let_live(self, message, now):
        """The Redis store sets the key's lifetime again at a release or renewal."""
        if self.redis and self.lives(message, now):
            message.vanishes = now + message.ttl * SECOND

    # claims

    def take(self, now, queue, limit, ttl, grace, told=True):
        """What a claim attempt takes: the granted and the moved. A purge's pops are not ``told``."""
        policy, claim_id = self.policies.get(queue, {}), uuid(self.chance)
        highest, counting = policy.get("_max_claim_count"), self.counts(queue)
        granted, moved, begun = [], [], False
        for message in self.lying_in(queue):
            if len(granted) + len(moved) == limit:
                break
            free = self.is_free(message, now)
            if not self.lives(message, now) or not (free or (self.redis and begun)):
                continue
            begun = True
            over = counting and message.count >= highest
            if told and not over and message.delay_until > whole(now) and not message.granted.get(queue):
                message.early = True
            self.hold(message, now, claim_id, ttl, grace)
            if over:
                self.move(message, now, policy)
                moved.append(message)
            else:
                message.count = 0 if self.mongo and not counting else message.count + counting
                if told:
                    message.granted.setdefault(queue, []).append(now)
                granted.append(message)
        claim = Claim(claim_id, queue, whole(now) + ttl * SECOND, bool(granted), granted + moved)
        self.claims[claim_id] = claim
        return claim, granted

    def move(self, message, now, policy):
        life = policy.get("_dead_letter_queue_messages_ttl")
        if life:
            message.ttl = life
            if not self.redis and not self.mongo:
                message.expires = whole(now) + life * SECOND
        message.deaths.append(
            {
                "queue": message.queue,
                "dead_letter_queue": policy["_dead_letter_queue"],
                "claim_count": message.count,
                "max_deliveries": policy["_max_claim_count"],
                "died": now,
            }
        )
        message.queue = policy["_dead_letter_queue"]

    def claim(self, now, queue, limit, ttl, grace):
        claim, granted = self.take(now, queue, limit, ttl, grace)
        shown = [
            {
                "id": m.id,
                "href": f"/v2/queues/{queue}/messages/{m.id}?claim_id={claim.id}",
                "ttl": m.ttl,
                "age": (whole(now) - whole(m.posted)) // SECOND,
                "body": m.body,
            }
            for m in granted
        ]
        request = {"ttl": ttl, "grace": grace}
        response = {"messages": shown} if granted else None
        self.tell(now, "POST", f"{queue}/claims", 201 if granted else 204, {"limit": limit}, request, response)
        return claim if granted else None

    def unclaimed(self, now, queue, limit):
        """What MongoDB's pop finds: delays, limits and counts are nothing to it."""
        there = [m for m in self.lying_in(queue) if self.lives(m, now)]
        return [m for m in there if m.claim is None or m.claim_end <= whole(now)][:limit]

    def popped(self, now, queue, limit, how, told=True):
        """What a pop finds and deletes, and its claim where it makes one: that is given back at the end."""
        claim = None
        if self.mongo:
            found = self.unclaimed(now, queue, limit)
            for message in found if told else ():
                message.early |= message.delay_until > whole(now) and not message.granted.get(queue)
                message.granted.setdefault(queue, []).append(now)
        else:
            claim, found = self.take(now, queue, limit, 1, 0, told)
        for message in found:
            message.gone = (how, now)
        if found and claim:
            self.free_all(claim, now)
        return claim, found

    def pop(self, now, queue, limit):
        claim, granted = self.popped(now, queue, limit, "settled")
        shown = [
            {"id": m.id, "age": (now - m.posted) // SECOND, "ttl": m.ttl, "body": m.body}
            | {"claim_id": claim.id if claim else m.claim}  # MongoDB shows the claim that ran out
            for m in granted
        ]
        self.tell(
            now, "DELETE", f"{queue}/messages", 200 if granted else 204, {"pop": limit},
            response={"messages": shown} if granted else None,
        )  # fmt: skip

    def reached(self, now, claim):
        """What a renewal or release of the claim finds."""
        there = [m for m in claim.taken if not m.gone and self.lives(m, now)]
        if self.redis:  # a double claim's second holder is overruled by the first one's renewal
            return there
        # a moved message keeps its claim, but MongoDB looks in the queue where it was taken
        return [m for m in there if m.claim == claim.id and (not self.mongo or m.queue == claim.queue)]

    def renew(self, now, claim, ttl, grace):
        over = claim.released or claim.end <= whole(now)
        if self.mongo:  # a claim is what its messages say
            over = not any(message.claim_end > whole(now) for message in self.reached(now, claim))
        if not over:
            claim.end = whole(now) + ttl * SECOND
            for message in self.reached(now, claim):
                self.hold(message, now, claim.id, ttl, grace, renewal=True)
                self.let_live(message, now)
                message.count = 0 if self.mongo else message.count
        status = 404 if over else 204
        self.tell(now, "PATCH", f"{claim.queue}/claims/{claim.id}", status, request={"ttl": ttl, "grace": grace})

    def release(self, now, claim):
        if self.mongo or (not claim.released and claim.end > whole(now)):  # MongoDB does not ask when it ended
            self.free_all(claim, now)
        self.tell(now, "DELETE", f"{claim.queue}/claims/{claim.id}", 204)

    def free_all(self, claim, now):
        claim.released = True
        for message in self.reached(now, claim):
            message.claim, message.claim_end = None, 0
            self.let_live(message, now)
            message.count = 0 if self.mongo else message.count

    def delete(self, now, message, queue, claim):
        """A worker deletes what it claimed; only the holder of a running claim may. In MongoDB the last holder may,
        too, and a message that was moved away counts as deleted already."""
        there = not message.gone and message.queue == queue and self.lives(message, now)
        held = message.claim is not None and message.claim_end > whole(now)
        if self.mongo and message.queue != queue:
            status = 204
        elif not there:
            status = 404
        elif self.mongo and message.claim == claim.id:
            status, message.gone = 204, ("settled", now)
        elif not held:
            status = 400
        elif message.claim != claim.id:
            status = 403
        else:
            status, message.gone = 204, ("settled", now)
        self.tell(now, "DELETE", f"{queue}/messages/{message.id}", status, {"claim_id": claim.id})

    def bulk_delete(self, now, queue, messages):
        for message in messages:
            message.gone = ("settled", now)
        self.tell(now, "DELETE", f"{queue}/messages", 204, {"ids": ",".join(m.id for m in messages)})

    # the truth

    def status(self, message, queue, now):
        """Where the message stands in ``queue``, a queue in which it was."""
        if any(death["queue"] == queue for death in message.deaths):
            return "dead_lettered"
        how = message.gone[0] if message.gone else None
        if not how and self.shown_until(message) <= now:
            how = "expired"
        if how == "expired":
            return "expired" if message.granted.get(queue) else "expired_unseen"
        if how:
            return how
        if message.delay_until > now and not message.granted.get(queue):
            return "delayed"
        return "claimed" if message.claim is not None and message.claim_end > now else "available"

    def truth(self, now):
        """``{(tenant, queue, message id): row}`` at ``now``, after every operation until then."""
        rows = {}
        for m in self.messages:
            visited = [m.origin, *[death["dead_letter_queue"] for death in m.deaths]]
            for queue in visited:
                seen = m.granted.get(queue) or (m.gone and m.gone[0] == "settled" and m.queue == queue)
                unseen = queue != m.origin and not seen  # nothing told that it lies there
                if unseen and not any(death["queue"] == queue for death in m.deaths):
                    continue
                row = {"granted": len(m.granted.get(queue, [])), "status": self.status(m, queue, now), "death": None}
                row |= {"unseen": unseen, "payload": m.body, "count": m.count if queue == m.queue else None}
                row |= {"claimed_while_delayed": m.early} if queue == m.origin else {}
                row |= {"never_claimable": m.never} if queue == m.origin else {}
                for death in m.deaths:
                    if death["queue"] == queue:
                        last = death is m.deaths[-1]
                        gone = m.gone if last and m.gone and m.gone[0] != "expired" else None
                        row["death"] = death | {
                            "reason": "max_claim_count",
                            "cause": "delivery_limit",
                            "posted_at": m.posted if queue == m.origin else None,
                            "removed_at": gone[1] if gone else None,
                            # a purge's pop may find what no longer shows, and hold it a second longer
                            "expires_at": (m.gone[1] if m.gone else self.shown_until(m)) if last and not gone else None,
                        }
                rows[(self.project, queue, "", m.id)] = row
        return rows


def history(chance, project, habits, size, cut):
    """Play ``size`` messages through one project's queue and its dead letter queue.

    Returns the raw events, the truth at ``cut`` seconds after the start and at the end (as a function of time).
    """
    from tests.models.clock import START

    store, now = Store(habits, project, chance), START + chance.randrange(30 * SECOND)
    at_cut, cut = None, START + cut * SECOND
    grace, lives = (60, 61, 90), (60, 75, 150, 150, 600, 86400, None)
    usual = chance.random() < 0.3  # most messages are settled after their only claim
    delayed, lowest = not usual and chance.random() < 0.4, 2 if usual else 1
    policy = {}
    if delayed:
        policy["_default_message_delay"] = chance.choice((0, 1, 5, 20, 60))
    if chance.random() < 0.8:
        policy |= {"_max_claim_count": chance.randint(lowest, 4), "_dead_letter_queue": "q-dlq"}
    if chance.random() < 0.4:
        policy["_dead_letter_queue_messages_ttl"] = chance.choice((60, 300, 7200))
    if chance.random() < 0.3:
        policy["_default_message_ttl"] = chance.choice((70, 1000))
    pooled = chance.random() < 0.15
    if pooled:
        store.put_flavor(now, "gold", chance.choice((["a"], ["a", "b"])))
        store.put_flavor(now + 1, "slow", chance.choice((["b"], ["a"])))
        now += 2
    # a dead letter queue of the dead letter queue: not supported, yet a claim there moves messages on
    # or one that leads back
    target = chance.choice(("q-dead", "q-dead", "q", "q-dlq"))
    second = {"_max_claim_count": chance.randint(1, 3), "_dead_letter_queue": target}
    second = second if not usual and chance.random() < 0.3 else {}
    if chance.random() < 0.9:
        store.put(now, "q-dlq", **second, **({"_flavor": "slow"} if pooled else {}))
    now += 1 + chance.randrange(SECOND)
    if chance.random() < 0.95:
        store.put(now, "q", **policy, **({"_flavor": "gold"} if pooled else {}))
    posted, held = 0, []
    while posted < size or chance.random() < 0.98:
        now += 1 + chance.randrange(chance.choice((SECOND // 50, SECOND // 2, 5 * SECOND, 5 * SECOND, 25 * SECOND)))
        if at_cut is None and now > cut:
            at_cut = store.truth(cut)
        what = chance.random()
        if posted < size and what < 0.25:
            wanted = [
                (
                    chance.choice(lives),
                    chance.choice((None, None, 0, 3, 30, 80)) if delayed else chance.choice((None, 9)),
                )
                for _ in range(min(size - posted, chance.choice((1, 1, 1, 2, 3, 8))))
            ]
            store.post(now, "q", wanted)
            posted += len(wanted)
        elif what < 0.55:
            queue = "q" if chance.random() < (0.65 if second else 0.85) else "q-dlq"
            claim = store.claim(
                now, queue, chance.randint(1, 7), chance.choice((60, 60, 75, 120)), chance.choice(grace)
            )
            if claim:
                held.append(claim)
        elif what < 0.80 and held:
            claim = chance.choice(held)
            if chance.random() < (0.2 if usual else 0.5):
                store.release(now, claim)
                held.remove(claim)
            else:
                mine = [m for m in claim.taken if m.granted.get(claim.queue)]
                if mine:
                    store.delete(now, chance.choice(mine), claim.queue, claim)
        elif what < 0.83 and held:
            store.renew(now, chance.choice(held), chance.choice((60, 100, 300)), chance.choice(grace))
        elif what < 0.85 and held:
            held.pop(chance.randrange(len(held)))  # a consumer is gone
        elif what < 0.87:
            change = {"_max_claim_count": chance.choice((lowest, 2, 3, 5, None)), "_dead_letter_queue": "q-dlq"}
            if chance.random() < 0.2:
                change = {"_dead_letter_queue": None}
            if chance.random() < 0.3:
                change["_dead_letter_queue_messages_ttl"] = chance.choice((None, 60, 600))
            if delayed and chance.random() < 0.3:
                change["_default_message_delay"] = 10 if habits == "mongodb" else chance.choice((0, 10))
            if "q" in store.policies:
                store.patch(now, "q", **change)
        elif what < 0.88:
            queue = "q" if usual else chance.choice(("q", "q-dlq"))
            if chance.random() < 0.5 and "q" in store.policies and "q-dlq" in store.policies:
                store.put(now, queue, _max_claim_count=lowest, _dead_letter_queue="q-dlq")
        elif what < 0.885 and not usual:
            store.purge(now, chance.choice(("q", "q-dlq")))
        elif what < 0.888 and chance.random() < 0.3:
            queue = chance.choice(("q", "q-dlq"))
            store.delete_queue(now, queue)
            if pooled:  # the one that is made again has no flavor
                store.put(now + 1, queue, **(policy if queue == "q" else second))
                now += 1
        elif what < 0.90:
            store.pop(now, "q" if habits == "redis" else chance.choice(("q", "q-dlq")), chance.randint(1, 3))
        elif what < 0.92:
            queue = "q" if habits == "redis" else chance.choice(("q", "q-dlq"))
            there = [m for m in store.lying_in(queue) if store.lives(m, now)]
            if there:
                store.bulk_delete(now, queue, chance.sample(there, min(len(there), chance.randint(1, 3))))
    if at_cut is None:
        at_cut = store.truth(cut)
    return [json.dumps(event) for event in store.events], at_cut, store.truth
