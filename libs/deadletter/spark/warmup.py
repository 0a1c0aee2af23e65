"""``python -m deadletter.spark.warmup``: fetch Spark's jars and store its classes, once for an installation.

Runs the demo, so an installation that does not work says so here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deadletter.errors import DeadletterError
from deadletter.spark.session import STORED_CLASSES, java_path, require_java

PATIENCE = 120
"""Seconds that the JVM may take to write its classes after its work is done."""


def warm_up() -> None:
    """Make :data:`deadletter.spark.session.STORED_CLASSES`; raises :class:`DeadletterError` where the demo fails."""
    require_java()
    STORED_CLASSES.unlink(missing_ok=True)
    STORED_CLASSES.parent.mkdir(parents=True, exist_ok=True)
    fresh = STORED_CLASSES.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        _run_demo(folder, fresh)
    if fresh.exists():  # a JVM of another kind may store none, and starts slower
        fresh.rename(STORED_CLASSES)


def _run_demo(folder: str, classes: Path) -> None:
    options = {"DEADLETTER_JAVA_OPTIONS": java_path("ArchiveClassesAtExit", classes)}
    command = [sys.executable, "-m", "deadletter", "demo", "--out", f"{folder}/demo"]
    run = subprocess.Popen(
        command, env=os.environ | options, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, told = run.communicate()
    if run.returncode:
        raise DeadletterError(f"the demo does not run here:\n{told.decode(errors='replace').strip()}")
    _wait_for_group(run.pid)


def _wait_for_group(group: int) -> None:
    """Wait until the last process of the group, the JVM, has ended: only then its classes are written."""
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.2)


if __name__ == "__main__":
    try:
        warm_up()
    except DeadletterError as error:
        sys.exit(f"deadletter: {error}")
