"""One writer at a time in a lake that is a folder."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from deadletter.errors import BusyError, DeadletterError


@contextlib.contextmanager
def folder_lock(folder: str) -> Iterator[None]:
    """Hold the lake in ``folder``, which is made where it is missing. The lock ends with the process, however it ends.

    Raises :class:`BusyError` where another process holds it, :class:`DeadletterError` where nobody can.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        handle = Path(folder, "_run.lock").open("w")  # noqa: SIM115 - held until the lock ends
    except OSError as error:
        raise DeadletterError(f"cannot write to the lake {folder}: {error.strerror}. Nothing was changed.") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                f"another run is at work on {folder}; this one took nothing in. Try again when it ends."
            ) from None
        except OSError as error:
            raise DeadletterError(
                f"cannot lock the lake {folder}: {error.strerror}. Nothing was changed. Put the lake on a "
                "file system with locks (flock): a local disk, or NFS that is mounted with them."
            ) from None
        yield
