"""Each run as an MLflow run: parameters, metrics, templates and the survival plot.

MLflow is imported only here and only when asked for: that takes seconds.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import DeadletterError, UsageError, first_line
from deadletter.lake import Lake
from deadletter.patterns.masking import mask_text, private_masks
from deadletter.spark.session import on_databricks

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "deadletter"
"""The experiment that runs are kept in, unless ``MLFLOW_EXPERIMENT_NAME`` names another."""
STORE = "mlflow.db"
WORKSPACE = "databricks"
"""The store of the workspace that a process on Databricks is in; ``databricks://PROFILE`` is that of another."""
TEMPLATES = "templates.json"
PLOT = "survival.html"
MOST_PATTERNS = 1000
"""Patterns of a run that are kept, those with most dead letters."""
SETTINGS = {
    # nothing leaves the machine but what goes to the server that somebody named
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # standard output is the command's own, often JSON
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""Variables that MLflow reads, the first one when it is imported."""
UNKNOWN_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""What a server says of an id that is no run's."""
SHOWN = ("pattern_id", "template", "kind", "dead_letters", "status")


def address(folder: str) -> str:
    """Where runs are kept: the server that ``MLFLOW_TRACKING_URI`` names, else the workspace's on Databricks, elsewhere
    ``mlflow.db`` in the lake's folder."""
    return _server() or f"sqlite:///{Path(folder, STORE)}"


def _shown(text: str) -> str:
    """A text without the password that the server's address may hold."""
    return mask_text(text, private_masks())


def _server() -> str | None:
    """The server's address; ``None`` where runs are kept in the lake's folder."""
    # SQLite locks and rewrites its file in place, which the volume that is a catalog's folder does not bear
    return os.environ.get("MLFLOW_TRACKING_URI") or (WORKSPACE if on_databricks() else None)


def require_place(folder: str) -> None:
    """Raise :class:`UsageError` where a run could not be kept: Databricks would not take the experiment's name, or
    MLflow would take the path of the lake's folder for another one."""
    if not _server() and unquote(folder) != folder:
        raise UsageError(
            f"--track: MLflow reads the % in {folder} as in a web address, and would keep the run elsewhere. Give the "
            "lake a folder without it, or set MLFLOW_TRACKING_URI to a server's address."
        )
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    if (_server() or "").startswith(WORKSPACE) and not name.startswith("/"):
        raise UsageError(
            f"--track: Databricks takes no experiment called {name}. Set MLFLOW_EXPERIMENT_NAME to a path such as "
            "/Users/ME/deadletter."
        )


def load_mlflow() -> ModuleType:
    """MLflow's module; whoever set one of :data:`SETTINGS` otherwise is obeyed."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    import mlflow

    return mlflow


def client(folder: str) -> MlflowClient:
    """MLflow's client at :func:`address`."""
    # a client of its own: mlflow.set_tracking_uri would change the variable for the whole process
    return load_mlflow().MlflowClient(address(folder))


def log_run(
    folder: str,
    parameters: Mapping[str, object],
    metrics: Mapping[str, float],
    patterns: Sequence[dict],
    curve: Sequence[dict],
) -> str:
    """Keep one run; returns its id. ``patterns`` have :data:`SHOWN`, ``curve`` what ``charts.survival`` draws.

    Raises :class:`DeadletterError` where MLflow does not take it; the lake is as the run left it all the same.
    """
    try:
        kept = client(folder)
        run = kept.create_run(_experiment(kept, folder)).info.run_id
        with _ended(kept, run):
            for name, value in parameters.items():
                kept.log_param(run, name, value)
            for name, value in metrics.items():
                kept.log_metric(run, name, value)
            kept.log_text(run, json.dumps(list(patterns), indent=1, ensure_ascii=False), TEMPLATES)
            if curve:
                from deadletter.pages.charts import survival  # plotly takes long to import, too

                kept.log_text(run, survival(list(curve)).to_html(include_plotlyjs="cdn"), PLOT)
        return run
    except Exception as error:  # plug-ins of MLflow keep artifacts: each raises errors of its own
        told = f"the run is done, but MLflow at {address(folder)} did not keep it: {first_line(error)}"
        raise DeadletterError(
            f"{_shown(told)}. See MLFLOW_TRACKING_URI in docs/patterns.md; with that put right, the next run is kept."
        ) from None


@contextmanager
def _ended(kept: MlflowClient, run: str) -> Iterator[None]:
    """Tell MLflow how a run ended, which it else shows at work for ever."""
    try:
        yield
    except Exception:
        with suppress(Exception):  # what failed may fail once more
            kept.set_terminated(run, "FAILED")
        raise
    kept.set_terminated(run)


def _experiment(kept: MlflowClient, folder: str) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    known = kept.get_experiment_by_name(name)
    if known is not None:
        return known.experiment_id
    local = None if _server() else str(Path(folder, "mlflow").absolute())
    return kept.create_experiment(name, artifact_location=local)


def patterns_of(folder: str, run_id: str, option: str = "--run") -> list[dict]:
    """The patterns that a run saw; :class:`UsageError` where no such run is kept, naming the ``option`` that asked, and
    :class:`DeadletterError` where a server that keeps runs cannot be asked."""
    if not _server() and not Path(folder, STORE).exists():  # MLflow would make one
        raise UsageError(f"{folder} keeps no runs. Is it a lake? `deadletter run --track` keeps them.")
    try:
        kept = client(folder)
        kept.get_run(run_id)
    except Exception as error:
        if _server() and getattr(error, "error_code", "") not in UNKNOWN_RUN:
            told = f"MLflow at {_server()} cannot be asked for runs: {first_line(error)}"
            raise DeadletterError(_shown(told)) from None
        raise UsageError(f"{option} {run_id}: no run is kept under this id ({_shown(first_line(error))})") from None
    try:
        with tempfile.TemporaryDirectory() as scratch:
            path = kept.download_artifacts(run_id, TEMPLATES, scratch)
            return json.loads(Path(path).read_text(encoding="utf-8"))
    except Exception as error:  # as in log_run
        raise UsageError(f"{option} {run_id}: the run keeps no patterns ({_shown(first_line(error))})") from None


def compared(old: Sequence[Mapping], new: Sequence[Mapping]) -> list[dict]:
    """The patterns of both runs with ``dead_letters`` of the new one, and ``change`` since the old one; the status of
    what only the old one has is ``gone``.

    Of a run that kept :data:`MOST_PATTERNS` nobody knows how many dead letters its other patterns had: what only the
    other run has, has no known change if that is the new one, and is left out if that is the old one.

    >>> old = [{"pattern_id": "a", "dead_letters": 5}, {"pattern_id": "b", "dead_letters": 2}]
    >>> for row in compared(old, [{"pattern_id": "a", "dead_letters": 7}]):
    ...     print(row)
    {'pattern_id': 'a', 'dead_letters': 7, 'change': 2}
    {'pattern_id': 'b', 'dead_letters': 0, 'status': 'gone', 'change': -2}
    """
    had = {row["pattern_id"]: row["dead_letters"] for row in old}
    others_had = None if len(old) >= MOST_PATTERNS else 0
    told = [dict(row) for row in new]
    if len(new) < MOST_PATTERNS:
        there = {row["pattern_id"] for row in new}
        told += [dict(row) | {"dead_letters": 0, "status": "gone"} for row in old if row["pattern_id"] not in there]

    def change(row: Mapping) -> int | None:
        earlier = had.get(row["pattern_id"], others_had)
        return None if earlier is None else row["dead_letters"] - earlier

    return [row | {"change": change(row)} for row in told]


def track(lake: Lake, parameters: Mapping[str, object], metrics: Mapping[str, float]) -> str:
    """Keep a run of the lake as it is now; returns the run's id. Errors as of :func:`log_run`."""
    from deadletter.pages.rows import MOST_ROWS
    from deadletter.queues import place
    from deadletter.report.queries import first_deliveries

    patterns = lake.read(tables.POISON_PATTERNS).orderBy(F.desc("dead_letters"), "pattern_id").limit(MOST_PATTERNS)
    curve = lake.read(tables.DELIVERY_SURVIVAL).withColumn("place", place())
    curve = first_deliveries(curve).limit(MOST_ROWS)
    rows = [[row.asDict() for row in df.collect()] for df in (patterns.select(*SHOWN), curve)]
    return log_run(lake.folder, parameters, metrics, *rows)
