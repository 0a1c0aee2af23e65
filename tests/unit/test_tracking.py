"""Runs are kept in a local MLflow store and read back."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from deadletter.cli import cli
from deadletter.errors import DeadletterError, UsageError
from deadletter.tracking import (
    MOST_PATTERNS,
    SETTINGS,
    address,
    client,
    compared,
    log_run,
    patterns_of,
    require_place,
)

CURVE = [{"place": "zaqar orders", "delivery": 1, "reached": 10, "settled": 8}]


def pattern(name, count):
    return {"pattern_id": name, "template": f"é {name}", "kind": "error", "dead_letters": count, "status": "new"}


def test_two_runs_are_kept_and_compared(tmp_path, monkeypatch):
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    folder = str(tmp_path / "a lake")
    (tmp_path / "a lake").mkdir()
    old, new = [pattern("a", 5), pattern("b", 1)], [pattern("a", 7)]
    first = log_run(folder, {"landing": "x"}, {"dead_letters": 6}, old, CURVE)
    second = log_run(folder, {"landing": "x"}, {"dead_letters": 7}, new, [])
    assert (tmp_path / "a lake" / "mlflow.db").is_file()
    assert [path.name for path in (tmp_path / "a lake" / "mlflow").rglob("survival.html")] == ["survival.html"]
    assert (patterns_of(folder, first), patterns_of(folder, second)) == (old, new)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "/Users/ann/dead")
    third = log_run(folder, {}, {}, new, [])
    experiments = [client(folder).get_run(run).info.experiment_id for run in (first, second, third)]
    names = [client(folder).get_experiment(name).name for name in experiments]
    assert names == ["deadletter", "deadletter", "/Users/ann/dead"]
    changes = {row["pattern_id"]: row["change"] for row in compared(old, new)}
    assert changes == {"a": 2, "b": -1}
    with pytest.raises(UsageError, match="no run is kept"):
        patterns_of(folder, "0" * 32)


def test_of_a_run_that_kept_no_more_the_rest_is_not_known():
    """A pattern of rank 1,001 is not gone, and was perhaps there before."""
    most = [pattern(f"p{n}", 5) for n in range(MOST_PATTERNS)]
    other = [*most[1:], pattern("q", 7)]
    changes = {row["pattern_id"]: row["change"] for row in compared(most, other)}
    assert (changes.pop("q"), set(changes.values()), len(changes)) == (None, {0}, MOST_PATTERNS - 1)


def test_what_mlflow_does_not_take_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'broken.db'}")
    (tmp_path / "broken.db").write_text("no database " * 1000)
    with pytest.raises(DeadletterError, match="the run is done, but MLflow at sqlite:.*did not keep it"):
        log_run(str(tmp_path), {}, {}, [], [])
    with pytest.raises(DeadletterError, match="MLflow at sqlite:.* cannot be asked for runs") as told:
        patterns_of(str(tmp_path), "0" * 32)
    assert told.value.exit_code == 1, "the id may be right"


def test_what_a_plug_in_of_mlflow_lacks_is_told(tmp_path, monkeypatch):
    """A server may keep what runs leave where only a package that is not here can write."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client(str(tmp_path)).create_experiment("elsewhere", artifact_location="s3://bucket/mlflow")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "elsewhere")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(DeadletterError, match="the run is done, but MLflow at sqlite:.* did not keep it: .*boto3"):
        log_run(str(tmp_path), {}, {}, [pattern("a", 1)], [])
    kept = client(str(tmp_path))
    (run,) = kept.search_runs([kept.get_experiment_by_name("elsewhere").experiment_id])
    assert run.info.status == "FAILED", "it would be shown at work for ever"


def test_a_path_that_mlflow_reads_as_another_is_refused_at_once(monkeypatch, tmp_path):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    lake = str(tmp_path / "my%20lake")
    done = CliRunner().invoke(cli, ["run", "--landing", "no landing", "--lake", lake, "--track"])
    assert isinstance(done.exception, UsageError) and "would keep the run elsewhere" in str(done.exception)
    require_place(str(tmp_path / "100% lake #2"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    require_place(lake)


@pytest.mark.parametrize("variable", ["DATABRICKS_RUNTIME_VERSION", "MLFLOW_TRACKING_URI"])
def test_databricks_keeps_runs_under_a_path(monkeypatch, variable):
    """A volume bears no SQLite; and of an experiment without a path the run would hear at its end."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    require_place("/a lake")
    monkeypatch.setenv(variable, "databricks")
    assert address("/Volumes/dead/control/files") == "databricks"
    for name in ("", "dead"):
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", name)
        with pytest.raises(UsageError, match="--track: .* Set MLFLOW_EXPERIMENT_NAME to a path such as /Users/ME/"):
            require_place("/a lake")
    done = CliRunner().invoke(cli, ["run", "--landing", "no landing", "--lake", "catalog:dead", "--track"])
    assert isinstance(done.exception, UsageError) and "MLFLOW_EXPERIMENT_NAME" in str(done.exception)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "/Users/ann/dead")
    require_place("/a lake")


def test_a_folder_that_keeps_no_runs_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UsageError, match="Is it a lake"):
        patterns_of(str(tmp_path / "typo"), "0" * 32)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def server(tmp_path):
    """The address of a server that answers as MLflow's does, and keeps nothing but artifacts."""
    times = {"start_time": 1, "end_time": 1, "lifecycle_stage": "active"}
    info = {"run_id": "r1", "run_uuid": "r1", "experiment_id": "7", "status": "RUNNING", **times}
    run = {"info": info | {"artifact_uri": (tmp_path / "kept").as_uri()}, "data": {}}
    experiment = {"experiment_id": "7", "name": "deadletter", "lifecycle_stage": "active"}

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.dumps({"run": run, "run_info": run["info"], "experiment": experiment}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


def test_a_server_gets_the_run_and_standard_output_nothing(server, tmp_path, monkeypatch, capsys):
    """What a command prints there may be JSON. And no usage data goes to MLflow's makers."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    assert log_run("no lake", {"landing": "x"}, {"dead_letters": 5}, [pattern("a", 5)], []) == "r1"
    assert (tmp_path / "kept" / "templates.json").is_file()
    assert capsys.readouterr().out == ""
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
