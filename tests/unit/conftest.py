"""Unit tests have few rows, whatever ran before them in the session."""

import json
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from deadletter.gold.at_risk import receivable, waiting
from deadletter.gold.dead_letters import placed_deaths
from deadletter.gold.facts import each, until
from deadletter.parsing import brokers
from deadletter.parsing.envelope import with_captured_at
from deadletter.rules.zaqar_store import REDIS
from deadletter.silver import state
from deadletter.spark.frames import frame_of
from deadletter.spark.session import tune
from deadletter.spark.staging import held_if_few
from tests.unit.stories import apart, by_story, deaths
from tests.unit.timed import START, timed

LATER = START + timedelta(days=30)


@pytest.fixture(autouse=True, scope="module")
def few_rows():
    """Queries of a few rows take longest to compile: they are interpreted."""
    running = SparkSession.getActiveSession()
    if running:
        tune(running, 0)


@pytest.fixture(scope="session")
def parsed(spark):
    """What a broker's parser says of events."""

    def parse(system, events):
        rows = [(str(number), system, json.dumps(event), "f", LATER) for number, event in enumerate(events)]
        columns = "event_id STRING, system STRING, raw STRING, source_file STRING, ingested_at TIMESTAMP"
        return brokers.parse(with_captured_at(frame_of(spark, rows, columns)), [system], held_if_few)

    return parse


@pytest.fixture(scope="session")
def silver(parsed):
    """The facts of a broker's events, one a second where they do not say when."""

    def facts(system, events, seconds=3600):
        found = parsed(system, timed(events))
        batch = (state.message_state(found.messages), state.claims(found.claims), found.attempts, found.policies)
        return each(until(*map(held_if_few, batch), START + timedelta(seconds=seconds)), held_if_few)

    return facts


@pytest.fixture(scope="module")
def facts(silver, request):
    """The facts of a module's ``STORIES``."""
    stories = request.module.STORIES
    return silver(stories.system, apart(stories), stories.seconds)


@pytest.fixture(scope="module")
def dead(facts, request):
    """What died in a module's ``STORIES``."""
    return deaths(facts, request.module.STORIES.system)


@pytest.fixture(scope="module")
def died(facts, dead, request):
    """The dead letters of a story, by its tenant."""
    stories = request.module.STORIES
    seen = {row["tenant"] for row in facts.state.select("tenant").distinct().collect()}
    assert seen == {stories.tenant.format(name) for name in stories}, "events that are refused tell nothing"
    return by_story(placed_deaths(dead, facts).collect()).__getitem__


@pytest.fixture(scope="module")
def at_risk(facts, dead):
    """The messages of a story that somebody can receive, by its tenant."""
    return by_story(receivable(waiting(facts, dead, REDIS), facts, dead, REDIS).collect()).__getitem__
