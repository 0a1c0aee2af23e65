"""The replay of claim attempts looks at few messages each time, and moves those that a look at all of them would."""

import random

import pytest

from deadletter.rules.zaqar_replay import Candidate, Waiting, moves
from deadletter.rules.zaqar_store import MONGODB, NEVER, SECOND, STORES

HISTORIES = 1500


def attempt_of(number, time, **told):
    """A row of ATTEMPT_INPUT: the first 3 claims of a message count, and nothing is granted, unless ``told``."""
    row = {"tenant": "t", "scope": "", "queue": "q", "event_id": f"a{number:06}", "time": time, "limit": 10}
    row |= {"granted": 0, "first_granted": None, "claim_id": f"c{number}", "ttl": 60, "grace": 60, "emptied": []}
    row |= {"purges": False}
    row |= {"max_deliveries": 3, "dead_letter_queue": "dead", "dead_letter_ttl": None, "renewals": [], "released": None}
    return row | told


def purge_of(second, **told):
    """A row of ATTEMPT_INPUT that is a purge."""
    return attempt_of(second, second * SECOND, purges=True, limit=100, claim_id=None, ttl=1, grace=0) | told


def message_of(number, posted, claims, **told):
    """A row of MESSAGE_INPUT that was claimed by the attempts ``claims``."""
    row = {"tenant": "t", "scope": "", "queue": "q", "message_id": f"m{number:06}", "posted": posted, "came": False}
    row |= {"place": f"{posted:017}:e:{number:06}", "ttl": 10**6, "delay": 0, "settled": None}
    row |= {"counted": [claim["time"] for claim in claims], "granted": [claim["event_id"] for claim in claims]}
    row["last"] = max(row["counted"], default=0)
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
    for attempt in chance.sample(attempts, len(attempts) // 10):
        kept = ("event_id", "time", "queue", "dead_letter_queue", "emptied")
        attempt |= purge_of(0) | {name: attempt[name] for name in kept}
    messages = []
    for number in range(chance.randrange(1, 14)):
        posted, seen = moment(span // 2), chance.random() < 0.8
        claims = [a for a in attempts if a["granted"] and a["time"] > posted and chance.random() < 0.5]
        for queue in ("q", "dead"):
            mine = [claim for claim in claims if claim["queue"] == queue]
            told = {"ttl": chance.choice([2, 10, 60, 400, 5000]), "delay": chance.choice([0, 0, 0, 3, 30])}
            told["settled"] = chance.choice([None, None, None, moment()])
            if not seen:  # its place is that of the claim that showed it first
                told |= {"place": f"{posted // 10:017}::000000", "ttl": None, "delay": 0}
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
                self.remove(candidate)
                moved.append(candidate)
        return moved


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_the_same_as_a_look_at_all(habits, monkeypatch):
    chance = random.Random(7)
    histories = [history(chance) for _ in range(HISTORIES)]
    few = [moves(*each, habits) for each in histories]
    monkeypatch.setattr("deadletter.rules.zaqar_replay.Waiting", LooksAtAll)
    assert few == [moves(*each, habits) for each in histories]
    purged = [row for rows in few for row in rows if "purged" in row]
    few = [[row for row in rows if "died" in row] for rows in few]
    assert sum(map(len, few)) > HISTORIES  # most histories have deaths, some a second death of a message
    assert len(purged) > HISTORIES // 10
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
        pytest.param([claimed(10), claimed(100, renewals=[renewal(190)])], 0, id="renewed late"),
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


def fates(habits, messages, attempts):
    """``{(queue, message id): how it ended and when}``, in seconds."""
    told = moves(messages, attempts, habits)
    assert len(told) == len({(row["queue"], row["message_id"]) for row in told})
    return {
        (row["queue"], row["message_id"]): (how, row[how] // SECOND)
        for row in told
        for how in ("died", "purged")
        if row.get(how)
    }


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_a_purge_spares_what_is_claimed(habits):
    """It dies at the next attempt after its claim; what is not exhausted lies on."""
    claims = [claimed(10, ttl=300), claimed(11, ttl=300)]
    both = [message_of(n, SECOND, claims[n : n + 1], message_id=name) for n, name in enumerate(("a", "b"))]
    both[1]["counted"] = []
    later = attempt_of(400, 400 * SECOND, max_deliveries=1)
    assert fates(habits, both, [*claims, purge_of(20, max_deliveries=1), later]) == {("q", "a"): ("died", 400)}


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_a_purge_takes_what_is_free(habits):
    """And moves what is at its limit, where a pop is a claim."""
    claims = [claimed(10), claimed(11)]
    both = [message_of(n, SECOND, claims[n : n + 1], message_id=name) for n, name in enumerate(("a", "b"))]
    both[1]["counted"] = []
    ends = {("q", "a"): ("died" if habits.pop_claims else "purged", 100), ("q", "b"): ("purged", 100)}
    assert fates(habits, both, [*claims, purge_of(100, max_deliveries=1)]) == ends
    without_limit = purge_of(100, max_deliveries=None)
    assert set(fates(habits, both, [*claims, without_limit]).values()) == {("purged", 100)}


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_whom_a_purge_meets(habits):
    """The scan of a pop takes all behind the first free message, in one store. What was deleted or has expired is not
    there, what was granted later was spared."""
    claims = {second: claimed(second, ttl=ttl) for second, ttl in ((10, 300), (20, 300), (30, 60), (200, 60))}
    messages = [
        message_of(1, SECOND, [claims[10]], message_id="held before"),
        message_of(2, 2 * SECOND, [], message_id="expired", ttl=50),
        message_of(3, 3 * SECOND, [claims[30]], message_id="deleted", settled=40 * SECOND),
        message_of(4, 4 * SECOND, [claims[30], claims[200]], message_id="granted later"),
        message_of(5, 5 * SECOND, [], message_id="delayed", delay=900),
        message_of(6, 6 * SECOND, [claims[30]], message_id="free"),
        message_of(7, 7 * SECOND, [claims[20]], message_id="held behind"),
        message_of(8, 150 * SECOND, [], message_id="came later"),
    ]
    met = {"redis": {"free", "held behind"}, "mongodb": {"free", "delayed"}, "document": {"free"}}[habits.name]
    removed = fates(habits, messages, [*claims.values(), purge_of(100)])
    assert removed == {("q", name): ("purged", 100) for name in met}


def test_a_purge_pops_a_hundred_at_a_time():
    """So a held message is spared where a pop begins; and a pop that only moves messages is the last."""
    holding = claimed(90, ttl=300)
    messages = [message_of(n, n * 1000, [holding] if n == 100 else []) for n in range(250)]
    removed = fates(STORES["redis"], messages, [holding, purge_of(100)])
    assert len(removed) == 249 and ("q", "m000100") not in removed
    exhausting = claimed(10)
    messages = [message_of(n, n * 1000, [exhausting] if n < 100 else []) for n in range(250)]
    moved = fates(STORES["redis"], messages, [exhausting, purge_of(100, max_deliveries=1)])
    assert len(moved) == 100 and set(moved.values()) == {("died", 100)}


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
@pytest.mark.parametrize(("second", "spared"), [(330, True), (370, False)])
def test_a_purge_of_the_dead_letter_queue_spares_what_the_claim_that_moved_it_holds(habits, second, spared):
    claims = [claimed(10), claimed(100)]
    ends = [attempt_of(300, 300 * SECOND, max_deliveries=2), purge_of(second, queue="dead", max_deliveries=None)]
    gone = {} if spared else {("dead", "m000001"): ("purged", second)}
    message = message_of(1, SECOND, claims)
    (death,) = [row for row in moves([message], [*claims, *ends], habits) if "died" in row]
    assert death.get("removed") == (None if spared else second * SECOND)
    assert fates(habits, [message], [*claims, *ends]) == {("q", "m000001"): ("died", 300)} | gone


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
@pytest.mark.parametrize("seconds", [(100, 3701, 7302), (100, 161, 222)])
def test_what_nobody_saw_posted_does_not_expire(habits, seconds):
    """Nothing tells its TTL: it dies at the attempt after its last claim, and lies there until somebody deletes it."""
    claims = [claimed(second, ttl=3600 if seconds[2] > 3600 else 60) for second in seconds]
    last = seconds[2] + claims[0]["ttl"] + 1
    message = message_of(1, seconds[0] * SECOND, claims, came=True, ttl=None)
    (death,) = moves([message], [*claims, attempt_of(last, last * SECOND)], habits)
    assert (death["died"] // SECOND, death["claim_count"], death["expires"]) == (last, 3, NEVER)


@pytest.mark.parametrize("habits", STORES.values(), ids=STORES)
def test_a_clock_of_whole_seconds_tells_who_was_first_by_the_claims(habits):
    """A claim is released, the next one takes the message and is released, all within one second: it is free."""
    first, second, last = (attempt_of(n, at * SECOND, granted=1, limit=1) for n, at in ((1, 5), (2, 6), (3, 6)))
    for claim, end in ((first, 6), (second, 6)):
        claim["released"] = {"time": end * SECOND}
    message = message_of(0, 0, [first, second])
    asked = attempt_of(9, 7 * SECOND, max_deliveries=2)
    died = [] if habits.counts_anew else [7 * SECOND]
    assert [row["died"] for row in moves([message], [first, second, asked], habits)] == died
    held = message_of(0, 0, [first, last | {"claim_id": "b"}])
    assert moves([held], [first, last, asked], habits) == []


def test_mongodb_forgets_a_claim_that_is_released_at_once():
    claim = attempt_of(1, 5 * SECOND, granted=1, limit=1, released={"time": 5 * SECOND})
    asked = attempt_of(2, 70 * SECOND, max_deliveries=1)
    assert moves([message_of(0, 0, [claim])], [claim, asked], MONGODB) == []


@pytest.mark.parametrize("habits", ["redis", "document"])
def test_what_was_granted_in_the_second_in_which_it_came_counts_there(habits):
    """By a clock of whole seconds: it was never there before."""
    taken = attempt_of(1, SECOND, granted=1, max_deliveries=1)
    moving = attempt_of(2, 70 * SECOND, max_deliveries=1, released={"time": 70 * SECOND})
    ends = {"queue": "dead", "max_deliveries": 2, "dead_letter_queue": "last"}
    granted = attempt_of(3, 70 * SECOND, granted=1, **ends)
    both = [taken, granted]
    here = message_of(0, 0, both, counted=[SECOND], granted=[taken["event_id"]])
    there = message_of(0, 0, both, queue="dead", came=True, counted=[70 * SECOND], granted=[granted["event_id"]])
    told = moves([here, there], [taken, moving, granted, attempt_of(4, 200 * SECOND, **ends)], STORES[habits])
    assert [(row["queue"], row["died"] // SECOND) for row in told] == [("q", 70), ("dead", 200)]


@pytest.mark.parametrize("habits", STORES)
def test_what_comes_back_dies_there_again_by_what_was_since(habits):
    """It brings the claims of its first stay; a deletion by then deleted nothing."""
    back = {"queue": "dead", "max_deliveries": 1, "dead_letter_queue": "q"}
    taken = attempt_of(1, SECOND, granted=1, max_deliveries=1)
    moving, returning = attempt_of(2, 70 * SECOND, max_deliveries=1), attempt_of(3, 140 * SECOND, **back)
    here = message_of(0, 0, [taken], settled=100 * SECOND)
    there = message_of(0, 0, [taken], queue="dead", came=True, counted=[])
    told = moves(
        [here, there], [taken, moving, returning, attempt_of(4, 210 * SECOND, max_deliveries=1)], STORES[habits]
    )
    assert sorted((row["queue"], row["died"] // SECOND, row["claim_count"]) for row in told) == [
        ("dead", 140, 1), ("q", 210, 1)
    ]  # fmt: skip
