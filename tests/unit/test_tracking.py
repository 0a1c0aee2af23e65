"""Runs are kept in a local MLflow store and read back."""

import pytest

from deadletter.errors import DeadletterError, UsageError
from deadletter.tracking import compared, log_run, patterns_of

CURVE = [{"place": "zaqar orders", "delivery": 1, "reached": 10, "settled": 8}]


def pattern(name, count):
    return {"pattern_id": name, "template": f"é {name}", "kind": "error", "dead_letters": count, "status": "new"}


def test_two_runs_are_kept_and_compared(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = str(tmp_path / "a lake")
    (tmp_path / "a lake").mkdir()
    old, new = [pattern("a", 5), pattern("b", 1)], [pattern("a", 7)]
    first = log_run(folder, {"landing": "x"}, {"dead_letters": 6}, old, CURVE)
    second = log_run(folder, {"landing": "x"}, {"dead_letters": 7}, new, [])
    assert (tmp_path / "a lake" / "mlflow.db").is_file()
    assert [path.name for path in (tmp_path / "a lake" / "mlflow").rglob("survival.html")] == ["survival.html"]
    assert (patterns_of(folder, first), patterns_of(folder, second)) == (old, new)
    changes = {row["pattern_id"]: row["change"] for row in compared(old, new)}
    assert changes == {"a": 2, "b": -1}
    with pytest.raises(UsageError, match="no run with patterns"):
        patterns_of(folder, "0" * 32)


def test_what_mlflow_does_not_take_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'broken.db'}")
    (tmp_path / "broken.db").write_text("no database " * 1000)
    with pytest.raises(DeadletterError, match="the run is done, but MLflow at sqlite:.*did not keep it"):
        log_run(str(tmp_path), {}, {}, [], [])
    with pytest.raises(UsageError, match="no run with patterns"):
        patterns_of(str(tmp_path), "0" * 32)


def test_a_folder_that_keeps_no_runs_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UsageError, match="Is it a lake"):
        patterns_of(str(tmp_path / "typo"), "0" * 32)
    assert list(tmp_path.iterdir()) == []
