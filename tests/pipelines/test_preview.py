"""``deadletter preview``: what another limit or delay would have done, against a count in plain Python."""

import json

import pytest

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.gold.at_risk import OPEN
from deadletter.snapshot import gold_as_of, status_at
from deadletter.spark.session import tune
from tests.command import call

KEY = tables.MESSAGE_KEY
QUEUES = {"zaqar": "orders", "rabbitmq": "orders", "pulsar": "s1-orders"}
FIRST_IS_FREE = {"zaqar": 0, "rabbitmq": 1, "pulsar": 1}
"""Deliveries that the broker does not count."""


def told(lake, *arguments):
    tune(lake.spark, 0)  # as in a process of its own, where no run was
    return call("preview", "--lake", lake.root, *arguments).stdout


@pytest.fixture(scope="module")
def statuses(lake):
    """``{key: status}`` of all messages as they stand at the end."""
    rows = status_at(lake, gold_as_of(lake)).select(*KEY, "status").collect()
    return {tuple(row[:5]): row["status"] for row in rows}


def lives(lake, system, statuses):
    """``[(deliveries, settled, cause of its death, still open, gone)]`` of a queue's delivered messages."""
    here = f"system = '{system}' AND (queue = '{QUEUES[system]}' OR queue LIKE '%/{QUEUES[system]}')"
    dead = {tuple(row[:5]): row["cause"] for row in lake.read(tables.DEAD_LETTERS).select(*KEY, "cause").collect()}
    state = lake.read(tables.MESSAGE_STATE).where(here).selectExpr(*KEY, "size(deliveries) AS n", "settled").collect()
    found = [(tuple(row[:5]), row["n"], row["settled"] is not None) for row in state if row["n"]]
    return [(n, settled, dead.get(key), is_open(statuses[key], n), gone(key, statuses)) for key, n, settled in found]


def gone(key, statuses):
    """What RabbitMQ no longer has may have been acknowledged."""
    return key[0] != "rabbitmq" and statuses[key] in ("expired", "purged")


def is_open(status, deliveries):
    """A message that RabbitMQ delivered once counts as done: it tells nobody of acknowledgements."""
    return status in OPEN and (status != "outcome_unknown" or deliveries > 1)


def expected(rows, allowed):
    """The figures of ``allowed`` deliveries, message by message."""
    died = [(n, cause) for n, _, cause, _, _ in rows if cause]
    others = [(n, settled, gone) for n, settled, cause, _, gone in rows if not cause]
    lost = [n for n, _, gone in others if gone and n > allowed]
    return {
        "messages": len(rows),
        "dead_letters": len(died),
        "deaths_earlier": sum(n > allowed for n, _ in died),
        "deaths_put_off": sum(n < allowed and cause == "delivery_limit" for n, cause in died),
        "claims_saved": sum(max(n - allowed, 0) for n in [*lost, *(n for n, _ in died)]),
        "false_deaths": sum(n > allowed and settled for n, settled, _ in others),
        "deaths_of_lost": len(lost),
        "deaths_outcome_unknown": sum(n > allowed and not settled and not gone for n, settled, gone in others),
        "at_limit": sum(n == allowed and is_open for n, _, _, is_open, _ in rows),
    }


@pytest.mark.parametrize(("system", "limit"), [("zaqar", 5), *[(system, 1) for system in QUEUES]])
def test_figures_of_a_limit(lake, statuses, system, limit):
    found = json.loads(told(lake, "--system", system, "--queue", QUEUES[system], "--limit", str(limit), "--json"))
    allowed = limit + FIRST_IS_FREE[system]
    figures = expected(lives(lake, system, statuses), allowed)
    assert {name: found[name] for name in figures} == figures
    assert found["deliveries_allowed"] == allowed
    assert found["dead_letters"] == sum(row["dead_letters"] for row in found["by_pattern"]) > 0
    assert (found["deaths_earlier"] > 0) == (limit == 1) != (found["deaths_put_off"] > 0)


def test_for_a_person(lake):
    text = told(lake, "--system", "zaqar", "--queue", "orders", "--tenant", "p1", "--limit", "5", "--delay", "60")
    for part in (
        "zaqar p1/orders: 666 messages delivered, limits so far: 3",
        "deaths put off: 67",
        "default delay of 60 s",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--system", "zaqar", "--queue", "orders"], "say what to try: --limit N"),
        (["--system", "pulsar", "--queue", "s1-orders", "--delay", "5"], "--delay goes with --system zaqar"),
        (["--system", "zaqar", "--queue", "orders", "--limit", "0"], "_max_claim_count is at least 1"),
        (["--system", "zaqar", "--queue", "nowhere", "--limit", "2"], "no message of zaqar nowhere was ever delivered"),
    ],
)
def test_wrong_usage(lake, arguments, message):
    with pytest.raises(UsageError) as error:
        told(lake, *arguments)
    assert message in str(error.value)
