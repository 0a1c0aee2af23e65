"""Where a dead letter's payload is taken from, and that it is sought once."""

from datetime import UTC, datetime

import pytest

from deadletter import tables
from deadletter.gold.dead_letters import dead_letters, placed_deaths
from deadletter.gold.facts import SilverFacts
from deadletter.gold.payload import payloads
from deadletter.spark.staging import held_if_few

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
EVENTS = {"post": "as posted", "death": "as it lies dead", "requeue": "as given back", "policy": ""}
"""The events by what they are, each with the payload it holds."""
DEATHS = {"posted": ("observed", "death"), "shown": ("observed", "death"), "implied": ("derived", "policy")}
"""Messages by what is known of them: the post, the event that shows the death, or a failure of a consumer."""


def rows(spark, table, given):
    """Rows of a table from a dict for each; what one does not name is null."""
    return spark.createDataFrame([[row.get(name) for name in table.column_names] for row in given], table.ddl)


@pytest.fixture(scope="module")
def given(spark):
    key = {"system": "rabbitmq", "tenant": "/", "queue": "q", "subscription": ""}
    state = [key | {"message_id": name, "deliveries": [], "failures": [], "deaths": []} for name in DEATHS]
    state[0]["posted"] = (NOON, "post", 0, None, None, None)
    state[2]["failures"] = [(NOON, "requeue", None, "broken")]
    deaths = [
        key | {"message_id": name, "evidence": evidence, "event_id": event}
        for name, (evidence, event) in DEATHS.items()
    ]
    policies = spark.createDataFrame(
        [], "system string, tenant string, queue string, subscription string, "
        "policies array<struct<dead_letter_queue:string>>"
    )  # fmt: skip
    facts = SilverFacts(rows(spark, tables.MESSAGE_STATE, state), None, None, policies, NOON)
    odd = {"post": ', "weight": NaN'}
    raw = [
        {
            "event_id": name,
            "system": "rabbitmq",
            "raw": f'{{"payload": "{text}"{odd.get(name, "")}}}',
            "day": NOON.date(),
        }
        for name, text in EVENTS.items()
    ]
    return rows(spark, tables.DEAD_LETTERS, deaths), facts, rows(spark, tables.QUEUE_EVENTS, raw)


def judged(given, former=None):
    """The dead letters, and how many places were sought."""
    deaths, facts, events = given
    died = placed_deaths(deaths, facts, former)
    sought = died.where("NOT sought")
    return dead_letters(died, payloads([sought], events)), sought.count()


def by_message(dead):
    return {row["message_id"]: row["payload"] for row in dead.collect()}


def test_from_the_post_else_from_the_event_that_shows_it_else_from_the_last_failure(given):
    """An event that only implies the death, such as a new policy, holds no message."""
    dead, sought = judged(given)
    assert by_message(dead) == {"posted": "as posted", "shown": "as it lies dead", "implied": "as given back"}
    assert sought == len(DEATHS)


def test_what_a_former_run_took_is_not_sought_again(given):
    """Also where it found nothing; but where the post is known by now, the payload is another event's."""
    dead, _ = judged(given)
    kept = dead.selectExpr(
        *[name for name in tables.DEAD_LETTERS.column_names if name not in ("payload", "payload_event_id")],
        "CASE WHEN message_id = 'implied' THEN NULL ELSE 'kept' END AS payload",
        "CASE WHEN message_id = 'posted' THEN 'death' ELSE payload_event_id END AS payload_event_id",
    )
    again, sought = judged(given, held_if_few(kept.select(*tables.DEAD_LETTERS.column_names)))
    assert by_message(again) == {"posted": "as posted", "shown": "kept", "implied": None}
    assert sought == 1
