"""What the taps here share: events in files that appear whole, as a landing folder takes them."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO


def now() -> str:
    """The present, as ``captured_at``."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Spool:
    """One tap's events in a folder: a file is written under a hidden name, and renamed after some ``seconds`` and at
    :meth:`close`. Those that a killed tap left hidden are renamed by the next one. May be used by several threads."""

    def __init__(self, folder: str | Path, seconds: float = 60) -> None:
        self._folder, self._seconds = Path(folder), seconds
        self._lock, self._over = threading.Lock(), threading.Event()
        self._file: IO[str] | None = None
        self._number = 0
        self._folder.mkdir(parents=True, exist_ok=True)
        self._recover()
        threading.Thread(target=self._show_regularly, daemon=True).start()

    def write(self, event: dict) -> None:
        """Write one event. It is in the file when this returns, whatever becomes of the process."""
        line = json.dumps(event, ensure_ascii=False) + "\n"
        with self._lock:
            if self._file is None:
                self._file = self._begin()
            self._file.write(line)
            self._file.flush()

    def show(self) -> None:
        """Let what was written so far be read."""
        with self._lock:
            if self._file is not None:
                hidden = Path(self._file.name)
                hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))
                self._file.close()
                self._file = None

    def close(self) -> None:
        """Show the rest, and write no more."""
        self._over.set()
        self.show()

    def _begin(self) -> IO[str]:
        self._number += 1
        began = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f".tap-{began}-{socket.gethostname()}-{os.getpid()}-{self._number}.jsonl"
        file = (self._folder / name).open("a", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX)  # as long as this process lives
        return file

    def _recover(self) -> None:
        for hidden in self._folder.glob(".tap-*.jsonl"):
            with hidden.open("a", encoding="utf-8") as file, suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused where its tap is at work
                hidden.rename(hidden.with_name(hidden.name.removeprefix(".")))

    def _show_regularly(self) -> None:
        while not self._over.wait(self._seconds):
            self.show()
