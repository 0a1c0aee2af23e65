"""Who is at risk, and who died for another's poison, against the store's own snapshots."""

from collections import defaultdict
from statistics import mean

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from tests.pipelines import truth

TENANTS = {"midflight-a": "m11", "midflight-b": "m12"}


def in_the_store(name):
    """``{(queue, message id): record}`` of the last snapshot's queues that are no dead letter queues."""
    last = truth.read(f"zaqar/{name}.truth.json.gz")[-1]
    live = {queue: held for queue, held in last["queues"].items() if not queue.endswith("-dlq")}
    return {(queue, message): record for queue, held in live.items() for message, record in held.items()}


def test_messages_at_their_limit_have_the_stores_own_count(lake):
    """Where the store still has them, its claim count is ours; some it lost before their time by the document."""
    for name, tenant in TENANTS.items():
        store = in_the_store(name)
        rows = lake.read(tables.AT_RISK).where((F.col("tenant") == tenant) & F.col("max_deliveries").isNotNull())
        found = {(r["queue"], r["message_id"]): r for r in rows.where("risk != 'known_pattern'").collect()}
        both = found.keys() & store.keys()
        assert len(both) >= 0.8 * len(found) > 0, sorted(found.keys() - both)
        for key in both:
            assert abs(store[key]["claim_count"] - found[key]["claim_count"]) <= 1
            left = found[key]["max_deliveries"] - found[key]["claim_count"]
            assert found[key]["deliveries_left"] == left <= 1
            assert found[key]["risk"] == ("at_limit" if left <= 0 else "one_short")


def test_most_of_a_known_pattern_is_poison_in_truth(lake):
    families = {}
    for name in TENANTS:
        families |= {key[1]: record["family"] for key, record in in_the_store(name).items()}
    rows = lake.read(tables.AT_RISK).where("system = 'zaqar' AND pattern_id IS NOT NULL").collect()
    known = [families[row["message_id"]] for row in rows if row["message_id"] in families]
    assert len(known) > 50
    assert sum(family is not None for family in known) >= 0.98 * len(known)


def test_nobody_at_risk_is_dead_or_settled(lake):
    risky, key = lake.read(tables.AT_RISK), list(tables.MESSAGE_KEY)
    assert risky.join(lake.read(tables.DEAD_LETTERS), key, "left_semi").count() == 0
    settled = lake.read(tables.MESSAGE_STATE).where("settled IS NOT NULL")
    assert risky.join(settled, key, "left_semi").count() == 0


def test_victims_were_always_claimed_with_poison(lake):
    """Each victim's claims, taken from silver again in plain Python, hold a message that died of its payload."""
    victims = lake.read(tables.COLLATERAL).collect()
    assert len(victims) > 20
    patterns = lake.read(tables.POISON_PATTERNS)
    healthy = patterns.where("template = 'looks healthy'").first()["pattern_id"]
    dead = {(r["tenant"], r["queue"], r["message_id"]): r for r in lake.read(tables.DEAD_LETTERS).collect()}
    grants = (
        lake.read(tables.MESSAGE_STATE)
        .where("system = 'zaqar'")
        .select("tenant", "queue", "message_id", F.explode("deliveries").alias("d"))
    )
    claims = {}
    for row in grants.select("tenant", "queue", "message_id", "d.claim_id").collect():
        claims.setdefault((row["tenant"], row["queue"], row["claim_id"]), set()).add(row["message_id"])
    for victim in victims:
        place = victim["tenant"], victim["queue"]
        assert dead[(*place, victim["message_id"])]["pattern_id"] == healthy
        mine = [ids for key, ids in claims.items() if key[:2] == place and victim["message_id"] in ids]
        assert len(mine) >= victim["claims"] > 0
        poison = {
            message
            for message in set().union(*mine)
            if (*place, message) in dead and dead[(*place, message)]["pattern_id"] != healthy
        }
        assert sum(bool(ids & poison) for ids in mine) >= victim["claims"]
        assert set(victim["poison_message_ids"]) <= poison
        assert 0 < victim["by_chance"] <= 1


def test_every_victim_is_found(lake):
    """Dead in Zaqar with a healthy payload and no error, and each of its claims held one that died of its own fault."""
    rows = lake.read(tables.DEAD_LETTERS).where("system = 'zaqar'").collect()
    dead = {(row["tenant"], row["queue"], row["message_id"]): row for row in rows}
    state = lake.read(tables.MESSAGE_STATE).where("system = 'zaqar'")
    grants = state.select("tenant", "queue", "message_id", F.explode("deliveries").alias("d"))
    held, mine = {}, {}
    for row in grants.select("tenant", "queue", "message_id", "d.claim_id", "d.time").collect():
        key = (row["tenant"], row["queue"], row["message_id"])
        if key not in dead or row["time"] <= dead[key]["dead_lettered_at"]:
            claim = (*key[:2], row["claim_id"])
            held.setdefault(claim, set()).add(key)
            mine.setdefault(key, []).append(claim)

    def faulty(key):
        row = dead.get(key)
        healthy = row and row["error"] is None and row["deviation_key"] in ("looks healthy", "payload not seen")
        return row is not None and not healthy

    expected = {
        key: len(mine[key])
        for key, row in dead.items()
        if row["error"] is None and row["deviation_key"] == "looks healthy" and key in mine
        if all(any(map(faulty, held[claim])) for claim in mine[key])
    }
    victims = lake.read(tables.COLLATERAL).collect()
    assert {(row["tenant"], row["queue"], row["message_id"]): row["claims"] for row in victims} == expected
    poisoned = defaultdict(list)
    for (*queue, _), keys in held.items():
        poisoned[tuple(queue)].append(any(map(faulty, keys)))
    chances = [mean(poisoned[row["tenant"], row["queue"]]) ** row["claims"] for row in victims]
    assert [row["by_chance"] for row in victims] == pytest.approx(chances)
