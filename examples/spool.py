"""What the taps here share: events in files that appear whole, as a landing folder takes them."""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import threading
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

LOG = logging.getLogger(__name__)


def now(lag: float = 0) -> str:
    """The present, or so many seconds later, as ``captured_at``."""
    return (datetime.now(UTC) + timedelta(seconds=lag)).isoformat(timespec="microseconds")


class Spool:
    """One tap's events in a folder: a file is written under a hidden name, and renamed after some ``seconds``, at
    :meth:`close` and when the process ends. Those that a killed tap left hidden are renamed by the next one. May be
    used by several threads; a process that forks begins a file of its own. Give each host a folder below: on a shared
    file system another host may not see that a file is in use."""

    def __init__(self, folder: str | Path, seconds: float = 60) -> None:
        self._folder, self._seconds = Path(folder), seconds
        self._folder.mkdir(parents=True, exist_ok=True)
        self._anew()
        os.register_at_fork(after_in_child=self._anew)
        atexit.register(self.close)
        self._recover()

    def write(self, event: dict) -> None:
        """Write one event. It is in the file when this returns, whatever becomes of the process."""
        line = json.dumps(event) + "\n"
        with self._lock:
            if self._file is not None and time.monotonic() - self._since > self._seconds:
                self._show()
            if self._file is None:
                self._begin()
            assert self._file is not None
            self._file.write(line)
            self._file.flush()

    def show(self) -> None:
        """Let what was written so far be read."""
        with self._lock:
            self._show()

    def close(self) -> None:
        """Show the rest."""
        self._over.set()
        self.show()

    def _anew(self) -> None:
        """Neither a lock nor a thread outlives a fork, and the file is the parent's."""
        self._lock, self._over = threading.Lock(), threading.Event()
        self._file: IO[str] | None = None
        self._since = 0.0
        self._shows = False

    def _begin(self) -> None:
        """Begin a file that nobody else takes for one that was left, as this process has it locked."""
        began = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        while self._file is None:
            hidden = self._folder / f".tap-{began}-{uuid.uuid4().hex}.jsonl"
            file = hidden.open("x", encoding="utf-8")
            fcntl.flock(file, fcntl.LOCK_EX)
            if hidden.exists():  # else another one took it before it was locked
                self._file, self._since = file, time.monotonic()
        if not self._shows:
            self._shows = True
            threading.Thread(target=self._show_regularly, daemon=True).start()

    def _show(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            hidden = Path(file.name)
            hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))
            file.close()

    def _recover(self) -> None:
        for hidden in self._folder.glob(".tap-*.jsonl"):
            # gone: its tap showed it meanwhile; blocked: that is still at work
            with suppress(FileNotFoundError, BlockingIOError), hidden.open("r+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))

    def _show_regularly(self) -> None:
        over = self._over
        while not over.wait(self._seconds):
            try:
                self.show()
            except OSError:
                LOG.exception("what was tapped stays hidden in %s", self._folder)
