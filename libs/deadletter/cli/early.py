"""What a command needs before its imports, which take seconds on a slow machine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

INTERRUPTED = "interrupted; start the command again: what was written before is whole"
INTERRUPTED_CODE = 130
"""That of a program which SIGINT ends, as shells have it."""


def streams_opened() -> None:
    """Open what the caller closed of the three standard streams (``>&-``), to nowhere: what is opened next would get
    its number, here or in the JVM, and then what others print."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it takes the lowest number that is free
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


@contextlib.contextmanager
def interrupt_told() -> Iterator[None]:
    """End with one line where the user interrupts the imports."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"deadletter: {INTERRUPTED}", file=sys.stderr)
        sys.exit(INTERRUPTED_CODE)
