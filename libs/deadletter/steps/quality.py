"""The gates of a run: every batch and table is judged before the next layer sees it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from deadletter import tables
from deadletter.errors import GateError, first_line
from deadletter.gates.docs import write_docs
from deadletter.gates.gate import Gate
from deadletter.gates.history import RELEASE, past
from deadletter.gates.suites import load_all
from deadletter.lake import Lake
from deadletter.spark.parallel import together
from deadletter.steps.summary import Tell


@contextmanager
def gated(lake: Lake, tell: Tell = print, releases: bool = False) -> Iterator[Gate]:
    """Hold the lake for one run, :func:`judged`. Raises before anything is read where a suite has a mistake, or where
    another run is at work."""
    load_all()
    with lake.lock():
        lake.clear_stage()  # of a run that was killed
        try:
            with judged(lake, tell, releases) as gate:
                yield gate
        finally:
            lake.clear_stage()


@contextmanager
def judged(lake: Lake, tell: Tell = print, releases: bool = False) -> Iterator[Gate]:
    """Give the gate that judges a run; ``releases``: what comes from quarantine again.

    At the end, also where the gate stopped the run, what it found is kept and shown; where anything fails, its warnings
    are told, as nobody else gets them then. What stopped the run is told even if it cannot be kept.
    """
    judged_at = datetime.now(UTC)
    run_id = f"{judged_at:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}{RELEASE if releases else ''}"
    gate = Gate(run_id, judged_at, lake=lake.root)
    try:
        try:
            yield gate
        except GateError:
            try:
                _keep(lake, gate, tell)
            except Exception as error:  # the gate's own word is what somebody has to act on
                tell(f"warning: what the gates found was not kept: {first_line(error)}")
            raise
        _keep(lake, gate, tell)
    except Exception:
        for warning in gate.warnings:
            tell(f"warning: {warning}")
        raise


def _keep(lake: Lake, gate: Gate, tell: Tell) -> None:
    """Add the run's outcomes to ``gold.quality_metrics`` and to the Data Docs."""
    if not gate.outcomes:
        return
    tell(f"quality: {len(gate.outcomes)} rules judged; writing their history and Data Docs")
    together(
        [
            partial(_keep_history, lake, gate),
            partial(write_docs, gate.outcomes, Path(lake.folder), gate.run_id, gate.judged_at),
        ]
    )


def _keep_history(lake: Lake, gate: Gate) -> None:
    released = gate.run_id.endswith(RELEASE)
    history = gate.history(lake.spark, {} if released else past(lake.read(tables.QUALITY_METRICS)))
    lake.append(history, tables.QUALITY_METRICS)
