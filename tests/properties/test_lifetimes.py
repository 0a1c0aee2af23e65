"""What claims leave of a Zaqar message is the same to Spark, which tells its status, and to the replay, which tells its
death: both have the store's rules in a language of their own."""

import os
import random

import pytest
from pyspark.sql import functions as F

from deadletter.gold.status import claim_steps, lifetime
from deadletter.rules.zaqar_replay import Candidate
from deadletter.rules.zaqar_store import STORES
from tests.models.clock import SECOND, START

SEED = int(os.environ.get("DEADLETTER_SEED", "4"))
MESSAGES = 3000
SCHEMA = (
    "number int, posted_micros bigint, ttl bigint, claims array<struct<claim_id:string,"
    "claimed:struct<time:bigint,ttl:bigint,grace:bigint>,renewals:array<struct<time:bigint,ttl:bigint,grace:bigint>>,"
    "released:struct<time:bigint>>>"
)


def term(chance, time):
    return {"time": time, "ttl": chance.choice((60, 60, 61, 90, 300)), "grace": chance.choice((60, 61, 90))}


def claim(chance, number):
    """At any time, also while another one runs: the store that is asked for may be another than that of the events."""
    begun = term(chance, START + chance.randrange(400 * SECOND))
    renewals, now, end = [], begun["time"], begun["time"] + begun["ttl"] * SECOND
    while chance.random() < 0.3:
        now = min(now + chance.randrange(60 * SECOND), end)
        renewals.append(term(chance, now))
        end = now + renewals[-1]["ttl"] * SECOND
    released = {"time": now + chance.randrange(1, 200 * SECOND)} if chance.random() < 0.5 else None
    return {"claim_id": f"c{number}", "claimed": begun, "renewals": renewals, "released": released}


def messages():
    chance = random.Random(SEED)
    for number in range(MESSAGES):
        claims = [claim(chance, n) for n in range(chance.randrange(5))]
        yield number, START - chance.randrange(30 * SECOND), chance.choice((60, 75, 150, 600)), claims


def replayed(posted, ttl, claims, habits):
    """The record after all that the claims did."""
    row = {
        "claims": claims,
        "posted": posted,
        "ttl": ttl,
        "delay": 0,
        "counted": [c["claimed"]["time"] for c in claims],
    }
    one = Candidate.of(row, habits)
    one.advance(START + 10_000 * SECOND)
    held = one.stored.claim_end if one.stored.claim_id is not None else 0
    return result(one.stored.expires, one.stored.vanishes, held, claims, habits)


def result(expires, vanishes, held, claims, habits):
    """What counts of a record after all that the ``claims`` did: whether one holds it from then on."""
    last = max((time for claim in claims for time in times_of(claim)), default=0)
    return expires, vanishes if habits.lifetime_restarts else None, held if held > last else 0


def times_of(claim):
    return [term["time"] for term in (claim["claimed"], *claim["renewals"], claim["released"]) if term]


@pytest.fixture(scope="module")
def lived(spark):
    """The messages with the ``steps`` that their claims took, as :func:`deadletter.gold.status.message_status` makes
    them."""
    rows = spark.createDataFrame(list(messages()), SCHEMA)
    times = F.transform("claims", lambda c: F.struct(c["claim_id"].alias("claim_id"), *_typed(c)))
    claims = rows.select("number", F.inline(times))
    steps = claims.select(
        "number", F.explode(claim_steps(F.col("claimed"), F.col("renewals"), F.col("released"))).alias("step")
    )
    gathered = steps.groupBy("number").agg(F.array_sort(F.collect_list("step")).alias("steps"))
    posted = F.struct(F.timestamp_micros("posted_micros").alias("time"), F.col("ttl")).alias("posted")
    policy = F.struct(F.lit(None).cast("bigint").alias("default_ttl")).alias("policy")
    return rows.select("number", posted, policy).join(gathered, "number", "left")


def _typed(claim):
    def typed(term):
        time = F.timestamp_micros(term["time"]).alias("time")
        return F.when(term.isNotNull(), F.struct(time, term["ttl"].alias("ttl"), term["grace"].alias("grace")))

    released = F.struct(F.timestamp_micros(claim["released"]["time"]).alias("time"))
    return (
        typed(claim["claimed"]).alias("claimed"),
        F.transform(claim["renewals"], typed).alias("renewals"),
        F.when(claim["released"].isNotNull(), released).alias("released"),
    )


@pytest.mark.parametrize("store", STORES)
def test_status_and_replay_agree_on_what_claims_leave(lived, store):
    habits = STORES[store]
    rows = lived.select("number", lifetime(habits).alias("life")).select("number", "life.*").collect()
    life = {row["number"]: row for row in rows}
    wrong = []
    for number, posted, ttl, claims in messages():
        have = life[number]
        told = result(have["expires"], have["vanishes"], have["held_until"], claims, habits)
        if told != (replay := replayed(posted, ttl, claims, habits)):
            wrong.append((number, told, replay))
    assert len(life) == MESSAGES and not wrong, (len(wrong), wrong[:3])
