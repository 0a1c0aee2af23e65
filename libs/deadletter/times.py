"""Times in UTC, the same on every machine, whatever its time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload


@overload
def from_micros(micros: int) -> datetime: ...
@overload
def from_micros(micros: None) -> None: ...
def from_micros(micros: int | None) -> datetime | None:
    """The time of microseconds since 1970.

    >>> from_micros(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return None if micros is None else datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def utc(time: str | datetime) -> datetime:
    """A time, or the one that an ISO 8601 text tells, in UTC; without an offset it is taken as UTC. ``ValueError``
    where the text tells none.

    >>> utc("2026-11-20T21:00:00+01:00").isoformat()
    '2026-11-20T20:00:00+00:00'
    """
    given = datetime.fromisoformat(time) if isinstance(time, str) else time
    try:
        return given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError(f"{time} is before the year 1 or after 9999 in UTC") from None
