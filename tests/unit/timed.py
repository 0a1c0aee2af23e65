"""Events at their seconds after a start."""

from datetime import UTC, datetime, timedelta

from tests.pipelines.broken_events import AT, claim

START = datetime(2026, 11, 20, 20, 0, tzinfo=UTC)


def at(seconds, event):
    return event | {"captured_at": (START + timedelta(seconds=seconds)).isoformat()}


def timed(events):
    """The events, one a second where they do not say when."""
    return [event if event["captured_at"] != AT else at(number, event) for number, event in enumerate(events)]


def grant(seconds, name):
    message = {"id": "z1", "href": f"/v2/queues/orders/messages/z1?claim_id={name}"}
    return at(seconds, claim(message))
