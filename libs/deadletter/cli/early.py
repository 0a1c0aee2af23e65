"""What a command needs before its imports, which take seconds on a slow machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

INTERRUPTED = "interrupted; start the command again: what was written before is whole"
INTERRUPTED_CODE = 130
"""That of a program which SIGINT ends, as shells have it."""


@contextlib.contextmanager
def interrupt_told() -> Iterator[None]:
    """End with one line where the user interrupts the imports."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"deadletter: {INTERRUPTED}", file=sys.stderr)
        sys.exit(INTERRUPTED_CODE)
