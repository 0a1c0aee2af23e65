"""What a run warns of by itself, without a rule."""

from datetime import UTC, datetime, timedelta

from deadletter.steps.run import _ahead


def test_a_collectors_clock_that_is_ahead():
    now = datetime.now(UTC)
    assert _ahead(None) == _ahead(now) == _ahead(now + timedelta(minutes=4)) == []
    (told,) = _ahead(now + timedelta(hours=1))
    assert "is yet to come: is a collector's clock or time zone wrong?" in told
