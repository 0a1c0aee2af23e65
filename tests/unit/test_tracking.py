"""Runs are kept in a local MLflow store and read back."""

import pytest

from deadletter.errors import UsageError
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
