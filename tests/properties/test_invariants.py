"""However a history arrives, the tables are the same; and what arrives late changes what it should."""

import json
import random
import re
import shutil
from itertools import chain

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import DOCUMENT
from deadletter.spark import session
from tests.models.clock import SECOND, START, iso
from tests.pipelines.comparing import GOLD, SILVER, assert_same_rows, assert_same_tables
from tests.pipelines.conftest import quiet
from tests.properties.arriving import (
    DAMAGED,
    DAYS,
    IN_TWO_PARTS,
    NAME,
    STEADY,
    everything,
    generated,
    late_cases,
    published,
    steady,
    write,
)
from tests.properties.test_histories import time

TABLES = (*SILVER, tables.QUARANTINE, *GOLD)
AT_REST = re.compile(r"(document|redis|mongodb|rabbitmq|pulsar)-\d*[02468]\b")
"""Tenants of a history whose lines all come with the first of two runs: the second leaves their rows as they are."""


@pytest.fixture(scope="module")
def disturbed_lake(spark, tmp_path_factory):
    """Two runs over shuffled halves with a third of the lines sent twice; the late facts come with the second. It has
    nothing of the tenants :data:`AT_REST`.

    Returns the lake, the dead letters of the late cases after each run, and what the runs told.
    """
    chance, batches = random.Random(3), ({}, {})
    for system, lines in generated().items():
        for line in chance.sample(lines * 2, len(lines) * 4 // 3) + lines:
            batch = batches[0] if AT_REST.search(line) else chance.choice(batches)
            batch.setdefault(system, []).append(line)
    for before, after in map(steady, STEADY):
        batches[0]["zaqar"] += before
        batches[1]["zaqar"] += after
    for early, withheld, _ in late_cases().values():
        batches[0]["zaqar"] += early
        batches[1]["zaqar"] += withheld
    for batch, now, *more in zip(batches, (START - DAYS, START), *(told() for told in IN_TWO_PARTS), strict=True):
        batch["rabbitmq"] += chain(published(now), *more)
    landing, lake = tmp_path_factory.mktemp("landing"), Lake(spark, str(tmp_path_factory.mktemp("lake")))
    found, told = [], []
    for number, batch in enumerate(batches):
        for lines in batch.values():
            chance.shuffle(lines)
        write(landing, f"{number}.jsonl.gz", batch)
        steps.run(lake, str(landing), habits=DOCUMENT, tell=told.append)
        found.append(late_deaths(lake))
    return lake, found, told


@pytest.mark.soak
def test_the_same_tables_by_the_settings_of_a_large_batch(spark, tmp_path, quiet_lake):
    """Compiled, planned again as it goes, in many partitions, and nothing held in memory."""
    lake = Lake(spark, str(tmp_path / "lake"))
    with pytest.MonkeyPatch.context() as patch:
        for bound in ("TINY_LOAD", "TINY_BATCH", "SMALL_BATCH"):
            patch.setattr(session, bound, -1)
        patch.setitem(session.LARGE, "spark.sql.shuffle.partitions", "8")
        steps.run(lake, str(quiet_lake[2]), habits=DOCUMENT, tell=quiet)
        assert session.held_rows(spark) == 0
    session.tune(spark, 0)
    assert_same_tables(lake, quiet_lake[0], TABLES)


def late_deaths(lake):
    dead = lake.read(tables.DEAD_LETTERS).where("tenant LIKE 'late-%'").select("tenant", "message_id").collect()
    return {(row["tenant"], row["message_id"]) for row in dead}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.full_name)
def test_the_same_tables_from_any_order(quiet_lake, disturbed_lake, table):
    left, right = (lake.read(table).drop("source_file") for lake in (quiet_lake[0], disturbed_lake[0]))
    assert_same_rows(left, right)
    assert not left.isEmpty()


def test_a_second_run_changes_nothing(quiet_lake):
    lake, _, landing = quiet_lake
    before = {table: lake.version(table) for table in TABLES}
    steps.run(lake, str(landing), tell=quiet)  # the lake knows whose habits it was derived with
    assert {table: lake.version(table) for table in TABLES} == before


def test_grants_never_shrink(disturbed_lake):
    lake, *_ = disturbed_lake
    grants = [
        lake.read(tables.MESSAGE_STATE, version).select("message_id", "subscription", F.explode("deliveries"))
        for version in range(1, lake.version(tables.MESSAGE_STATE) + 1)
    ]
    assert len(grants) == 2
    assert grants[0].exceptAll(grants[1]).count() == 0
    assert grants[0].count() < grants[1].count()


@pytest.mark.parametrize("name", ["renewed", "settled", "emptied", "released"])
def test_a_late_fact_takes_a_death_back(disturbed_lake, name):
    project = f"late-{name}"
    before, after = ({message for tenant, message in found if tenant == project} for found in disturbed_lake[1])
    assert len(before) == 1
    assert after == late_cases()[project][2]
    assert before != after


def test_the_same_id_days_later_is_the_same_message(disturbed_lake):
    """Published again in the second run, it has one row."""
    state = disturbed_lake[0].read(tables.MESSAGE_STATE).where("tenant = 'again'")
    assert [row["queue"] for row in state.collect()] == [NAME] * 3


def test_every_event_is_accounted_for(quiet_lake):
    """Events = in state, claims, attempts or policies + posts of the same message again + in quarantine + silent."""
    lake, summary, _ = quiet_lake
    state = lake.read(tables.MESSAGE_STATE)
    lists = [
        state.select(F.explode(F.transform(c, lambda f: f["event_id"]))) for c in ("deliveries", "failures", "deaths")
    ]
    claims = lake.read(tables.CLAIMS)
    named = [
        state.select("posted.event_id"),
        state.select("settled.event_id"),
        *lists,
        claims.select("claimed.event_id"),
        claims.select("released.event_id"),
        claims.select(F.explode("renewals.event_id")),
        lake.read(tables.CLAIM_ATTEMPTS).select("event_id"),
        lake.read(tables.QUEUE_POLICIES).select("event_id"),
    ]
    told = named[0]
    for part in named[1:]:
        told = told.union(part)
    refused = lake.read(tables.QUARANTINE).count()
    assert refused == len(DAMAGED)
    posted_again = posts_of_known_messages(everything(generated())["rabbitmq"])
    bronze = lake.read(tables.QUEUE_EVENTS).select("event_id").distinct().count()
    assert (
        bronze - told.where("event_id IS NOT NULL").distinct().count() - posted_again - refused - summary.events_silent
        == 0
    )


def posts_of_known_messages(lines):
    """How many posts are of a message that its queue had got before."""
    told = [event["properties"]["headers"] for event in map(json.loads, lines) if event["routing_key"] == "publish."]
    return len(told) - len({(p["vhost"], *p["routed_queues"], p["properties"]["message_id"]) for p in told})


def test_a_run_derives_the_queues_that_something_changed(disturbed_lake):
    lake, _, told = disturbed_lake
    judged = [int(found[1]) for text in told if (found := re.search(r"in (\d+) of the queues", text))]
    known = lake.read(tables.QUEUE_CHANGES).select("system", "tenant", "queue").distinct().count()
    assert 10 < judged[0] < judged[-1] < known
    assert [text for text in told if "went where none went before" in text], "what was put aside is looked at"
    assert lake.read(tables.DEAD_LETTERS).where("tenant = 'parked'").isEmpty()


def test_a_later_fact_does_not_count_though_it_is_known(spark, quiet_lake, tmp_path):
    """Going back in time: the tables are those of a lake that never heard of what came later.

    Zaqar's: its deaths are derived. The other brokers tell theirs later than they happened.
    """
    cut, (lake, _, landing) = START + 150 * SECOND, quiet_lake
    known = Lake(spark, str(shutil.copytree(lake.root, tmp_path / "known")))
    steps.run(known, str(landing), as_of=time(cut), tell=quiet)
    timed = [(re.search(r'"captured_at": "([^"+]+)', line), line) for line in everything(generated())["zaqar"]]
    early = [line for at, line in timed if at and at[1] <= iso(cut)[:26]]
    write(tmp_path / "early", "early.jsonl.gz", {"zaqar": early})
    then = Lake(spark, str(tmp_path / "then"))
    steps.run(then, str(tmp_path / "early"), as_of=time(cut), habits=DOCUMENT, tell=quiet)
    of_all = ("pattern_id", "signature", "deviation_key", "deviation")
    for table in (tables.DEAD_LETTERS, tables.QUEUE_HEALTH, tables.DELIVERY_SURVIVAL, tables.DISCREPANCIES):
        one, other = (of.read(table).where("system = 'zaqar'").drop(*of_all) for of in (known, then))
        assert_same_rows(one, other, table.full_name)
    assert then.read(tables.DEAD_LETTERS).count() > 5
