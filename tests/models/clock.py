"""Time and names for the models: microseconds since 1970, whole seconds where a broker counts in them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

SECOND = 1_000_000
START = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()) * SECOND


def iso(micros):
    return (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)).isoformat(timespec="microseconds")


def whole(micros):
    """The whole second that a broker would write down."""
    return micros - micros % SECOND


def uuid(chance):
    return str(UUID(int=chance.getrandbits(128), version=4))
