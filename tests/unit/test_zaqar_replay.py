"""The replay of claim attempts looks at few messages each time, and moves those that a look at all of them would."""

import random

import pytest

from deadletter.rules.zaqar_replay import Candidate, Waiting, moves
from deadletter.rules.zaqar_store import MONGODB, SECOND, STORES

HISTORIES = 1500


def attempt_of(number, time, **told):
    """A row of ATTEMPT_INPUT: the first 3 claims of a message count, and nothing is granted, unless ``told``."""
    row = {"tenant": "t", "scope": "", "queue": "q", "event_id": f"a{number:06}", "time": time, "limit": 10}
    row |= {"granted": 0, "first_granted": None, "claim_id": f"c{number}", "ttl": 60, "grace": 60, "emptied": []}
    row |= {"max_deliveries": 3, "dead_letter_queue": "dead", "dead_letter_ttl": None, "renewals": [], "released": None}
    return row | told


def message_of(number, posted, claims, **told):
    """A row of MESSAGE_INPUT that was claimed by the attempts ``claims``."""
    row = {"tenant": "t", "scope": "", "queue": "q", "message_id": f"m{number:06}", "posted": posted, "came": False}
    row |= {"place": f"{posted:017}:e:{number:06}", "ttl": 10**6, "delay": 0, "settled": None}
    row |= {"counted": [claim["time"] for claim in claims], "granted": [claim["event_id"] for claim in claims]}
    terms = ("time", "ttl", "grace")
    row["claims"] = [
        {"claim_id": claim["claim_id"], "claimed": {name: claim[name] for name in terms}}
        | {"renewals": claim["renewals"], "released": claim["released"]}
        for claim in claims
    ]
    return row | told


def history(chance):
    """A random short history of a queue and its dead letter queue, which has one of its own."""
    span = chance.choice([20, 60, 300, 2000])

    def moment(most=span):
        """Many fall on the same whole second, or just behind it."""
        return chance.randrange(2 * most) * SECOND // 2 + chance.choice([0, 0, 1])

    emptied = {queue: [moment()] if chance.random() < 0.2 else [] for queue in ("q", "dead")}

    def attempted(number):
        time, queue, limit = moment(), chance.choice(["q", "q", "dead"]), chance.randrange(1, 6)
        later = [time + moment(40) for _ in range(2)]
        released = {"time": later[1]} if chance.random() < 0.3 else None
        renewal = {"time": later[0], "ttl": chance.choice([1, 5, 30]), "grace": chance.choice([0, 10])}
        terms = {"ttl": chance.choice([0, 1, 5, 30, 200]), "grace": chance.choice([0, 1, 10, 60])}
        return attempt_of(
            number, time, **terms, queue=queue, limit=limit, granted=chance.randrange(limit + 1),
            dead_letter_queue={"q": "dead", "dead": "last"}[queue], emptied=emptied[queue],
            max_deliveries=chance.choice([1, 2, 2, 2, 3]), dead_letter_ttl=chance.choice([None, None, 0, 5, 100]),
            renewals=[renewal] * (chance.random() < 0.3), released=released,
        )  # fmt: skip

    attempts = [attempted(number) for number in range(chance.randrange(1, 40))]
    messages = []
    for number in range(chance.randrange(1, 14)):
        posted, seen = moment(span // 2), chance.random() < 0.8
        claims = [a for a in attempts if a["granted"] and a["time"] > posted and chance.random() < 0.5]
        for queue in ("q", "dead"):
            mine = [claim for claim in claims if claim["queue"] == queue]
            told = {"ttl": chance.choice([2, 10, 60, 400, 5000]), "delay": chance.choice([0, 0, 0, 3, 30])}
            told["settled"] = chance.choice([None, None, None, moment()])
            if not seen:  # its place is that of the claim that showed it first
                told["place"] = f"{posted // 10:017}::000000"
            message = message_of(number, posted, mine, queue=queue, came=queue == "dead" or not seen, **told)
            messages.append(message)
            for claim in mine:
                claim["first_granted"] = min(claim["first_granted"] or message["place"], message["place"])
    return messages, attempts


class LooksAtAll(Waiting):
    """What the habits say, message by message."""

    def moved_by(self, attempt, habits):
        moved, first = [], attempt["first_granted"]
        for candidate in list(self.order):
            follows = bool(moved) or (first is not None and first < candidate.row["place"])
            reached = {"free": True, "held": habits.scan_takes_followers and follows}
            if len(moved) < attempt["limit"] - attempt["granted"] and reached.get(candidate.fate(attempt)):
                self.order.remove(candidate)
                moved.append(candidate)
        return moved


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_the_same_as_a_look_at_all(habits, monkeypatch):
    chance = random.Random(7)
    histories = [history(chance) for _ in range(HISTORIES)]
    few = [moves(*each, habits) for each in histories]
    monkeypatch.setattr("deadletter.rules.zaqar_replay.Waiting", LooksAtAll)
    assert few == [moves(*each, habits) for each in histories]
    assert sum(map(len, few)) > HISTORIES  # most histories have deaths, some a second death of a message
    assert any(len({death["message_id"] for death in deaths}) < len(deaths) for deaths in few)
    assert all(len({(death["queue"], death["message_id"]) for death in deaths}) == len(deaths) for deaths in few)


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_messages_whose_posts_were_not_seen(habits):
    """Two that one claim showed first lie at one place: neither is known to be behind the other. What nobody saw
    posted dies once in the dead letter queue, with the claims of both queues."""
    place = f"{10 * SECOND:017}::000000"
    grants = [(10, 5, ("a", "b")), (20, 100, ("b",)), (30, 5, ("a",))]
    claims = [
        attempt_of(n, time * SECOND, granted=len(ids), ttl=ttl, grace=0, max_deliveries=2, first_granted=place)
        for n, (time, ttl, ids) in enumerate(grants)
    ]
    both = [
        message_of(0, 10 * SECOND, [c for c, (*_, ids) in zip(claims, grants, strict=True) if name in ids],
                   message_id=name, place=place, came=True)
        for name in ("a", "b")
    ]  # fmt: skip
    assert moves(both, claims, habits) == []

    def attempts(queue, at, **told):
        return [attempt_of(100 + t, t * SECOND, queue=queue, ttl=5, grace=0, **told) for t in at]

    here = attempts("q", (10, 20), granted=1, max_deliveries=2)
    there = attempts("dead", (40, 50, 60), granted=1, max_deliveries=5, dead_letter_queue="last")
    ends = attempts("q", (30,), max_deliveries=2) + attempts("dead", (90,), max_deliveries=2, dead_letter_queue="last")
    rows = [
        message_of(0, claims[0]["time"], claims, queue=queue, came=True, place=f"{claims[0]['time']:017}::000000")
        for queue, claims in (("q", here), ("dead", there))
    ]
    dead = moves(rows, here + there + ends, habits)
    assert [(d["queue"], d["died"] // SECOND, d["claim_count"]) for d in dead] == [("q", 30, 2), ("dead", 90, 5)]


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
@pytest.mark.parametrize("held", [True, False], ids=["held", "free"])
def test_many_waiting_in_one_queue_are_not_looked_at_again_and_again(habits, held, monkeypatch):
    number = 2000
    claims = [attempt_of(n, n * SECOND, limit=number, granted=number, ttl=10**5 if held else 60) for n in range(3)]
    messages = [message_of(n, n, claims) for n in range(number)]
    attempts = [attempt_of(3 + n, 10**9 + n * 1000) for n in range(number // 5)]
    looks, fate = [], Candidate.fate
    monkeypatch.setattr(Candidate, "fate", lambda *args: looks.append(1) or fate(*args))
    dead = moves(messages, [*claims, *attempts], habits)
    assert len(dead) == (0 if held else number)
    assert len(looks) <= 2 * number


def test_what_counts_too_little_waits_for_its_next_claim(monkeypatch):
    """Also where nobody ever claims it again: messages that were released do not die in MongoDB."""
    number = 2000
    released = [{"released": {"time": n * 100 * SECOND + 5}} for n in range(3)]
    claims = [attempt_of(n, n * 100 * SECOND, limit=number, granted=number, **told) for n, told in enumerate(released)]
    attempts = [attempt_of(3 + n, 10**9 + n * 1000) for n in range(number // 5)]
    looks, fate = [], Candidate.fate
    monkeypatch.setattr(Candidate, "fate", lambda *args: looks.append(1) or fate(*args))
    assert moves([message_of(n, n, claims) for n in range(number)], [*claims, *attempts], MONGODB) == []
    assert len(looks) <= 2 * number


def claimed(second, **told):
    return attempt_of(second, second * SECOND, granted=1, **told)


def renewal(second, ttl=60):
    return {"time": second * SECOND, "ttl": ttl, "grace": 60}


def released(second):
    return {"time": second * SECOND}


def died(habits, claims, last, **message):
    """When it died, with which count, and until when it lies in the dead letter queue; in seconds."""
    dead = moves([message_of(1, SECOND, claims, **message)], [last], habits)
    return [(death["died"] // SECOND, death["claim_count"], death["expires"] // SECOND) for death in dead]


RELEASED_TWICE = [claimed(10, released=released(15)), claimed(20, released=released(25))]


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
@pytest.mark.parametrize(
    ("claims", "left"),
    [
        pytest.param([claimed(10), claimed(100)], 2, id="ran out"),
        pytest.param([claimed(10), claimed(100, released=released(120))], 0, id="released"),
        pytest.param([claimed(10), claimed(100, released=released(190))], 0, id="released late"),
        pytest.param([claimed(10, released=released(130)), claimed(100)], 2, id="another's by then"),
        pytest.param([claimed(10), claimed(100, renewals=[renewal(120)])], 0, id="renewed"),
        pytest.param([claimed(10), claimed(100, renewals=[renewal(190)])], 2, id="renewed late"),
        pytest.param([claimed(100, renewals=[renewal(190)], released=released(200))], 0, id="renewed, released late"),
        pytest.param([*RELEASED_TWICE, claimed(30), claimed(130)], 2, id="released, then ran out"),
    ],
)
def test_what_mongodb_writes_down_without_counting_it_sets_the_count_back(habits, claims, left):
    limit = 1 + (len(claims) > 1)
    last = attempt_of(300, 300 * SECOND, max_deliveries=limit)
    count = left if habits is MONGODB else len(claims)
    assert [counted for _, counted, _ in died(habits, claims, last)] == [count] * (count >= limit)


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
@pytest.mark.parametrize(("off", "left"), [(10, 2), (100, 1), (200, 0)])
def test_a_claim_while_the_limit_is_off_sets_mongodbs_count_back(habits, off, left):
    claims = [claimed(second) for second in (10, 100, 200)]
    counted = [claim["time"] for claim in claims if claim["time"] != off * SECOND]
    last = attempt_of(300, 300 * SECOND, max_deliveries=2)
    assert len(died(habits, claims, last, counted=counted)) == (habits is not MONGODB or left == 2)


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_what_was_moved_is_out_of_the_reach_of_mongodbs_claims(habits):
    """Neither the claim's renewal nor the dead letter TTL moves the expiry."""
    last = attempt_of(300, 300 * SECOND, max_deliveries=2, renewals=[renewal(310, 900)], dead_letter_ttl=5000)
    expires = {"redis": 1270, "mongodb": 401, "document": 5300}[habits.name]
    assert died(habits, [claimed(10), claimed(100)], last, ttl=400) == [(300, 2, expires)]


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_when_mongodbs_messages_expire(habits):
    """A renewal that ends together with the message does not keep it; a claim that found it expired does."""
    last = attempt_of(200, 200 * SECOND, max_deliveries=0)
    assert len(died(habits, [claimed(10, renewals=[renewal(60, 100)])], last, ttl=159)) == (habits is not MONGODB)
    last = attempt_of(200, 200 * SECOND, max_deliveries=2)
    assert len(died(habits, [claimed(10), claimed(110)], last, ttl=100)) == (habits is MONGODB)
