"""What a run warns of by itself, without a rule; and what is told where it fails."""

from datetime import UTC, datetime, timedelta

import pytest

from deadletter.lake import Lake
from deadletter.steps import bronze, gold, silver
from deadletter.steps.run import _stuck, ahead, run


def test_a_collectors_clock_that_is_ahead():
    now = datetime.now(UTC)
    assert ahead(None) == ahead(now) == ahead(now + timedelta(minutes=4)) == []
    (told,) = ahead(now + timedelta(hours=1))
    assert "is yet to come: is a collector's clock or time zone wrong?" in told


def test_a_feed_that_is_stuck():
    """Whatever came last, by the newest event that the lake knows."""
    now = datetime.now(UTC)
    assert _stuck(None, None, "in") == _stuck(now, None, "in") == _stuck(now, now - timedelta(hours=1), "in") == []
    (told,) = _stuck(now, now, "in")
    assert f"the newest event is of {now.isoformat()}" in told and "is a feed stuck?" in told
    assert _stuck(None, now, "in")[0].startswith("no event came yet")


def test_what_was_warned_of_is_told_where_a_later_step_fails(spark, tmp_path, monkeypatch):
    """The next run does not see these events any more."""

    def merge(lake, gate, summary, tell):
        gate.warnings.append("rows refused")
        summary.events_quarantined = 1234

    def derive(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(bronze, "ingest", lambda lake, *_: lake.create_missing() or ["a line was cut"])
    monkeypatch.setattr(silver, "merge", merge)
    monkeypatch.setattr(gold, "derive", derive)
    (tmp_path / "landing" / "zaqar").mkdir(parents=True)
    (tmp_path / "landing" / "zaqar" / "a.jsonl").write_text("{}")
    told = []
    with pytest.raises(OSError, match="disk full"):
        run(Lake(spark, str(tmp_path / "lake")), str(tmp_path / "landing"), tell=told.append)
    assert {"warning: a line was cut", "warning: rows refused"} <= set(told)
    assert [text for text in told if text.startswith("events refused: 1,234.")]
