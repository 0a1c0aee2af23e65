"""How a command ends where something outside of it fails: one line that says what to do, and an exit code."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click
from pyspark.errors import PySparkException
from pyspark.sql.utils import is_remote

from deadletter import tables
from deadletter.cli.common import silence
from deadletter.cli.early import INTERRUPTED, INTERRUPTED_CODE
from deadletter.errors import DeadletterError, MissingTableError, SchemaError, UsageError, first_line, last_cause
from deadletter.lake import Lake
from deadletter.sources.landing import shown
from deadletter.spark import jvm

try:
    from py4j.protocol import Py4JError, Py4JJavaError
except ImportError:  # PySpark is a client only
    Py4JError = Py4JJavaError = ()

DEBUG = "DEADLETTER_DEBUG"
OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
SPARK_ENDED = (
    "Spark ended: out of memory? set DEADLETTER_DRIVER_MEMORY (4g unless set; on a cluster spark.executor.memory, too)"
    ", then start the command again: what was written before is whole"
)
ADVICE = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "give this user access to it"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), "check the path"),
}
"""What to do about what the system says."""


class Interrupted(DeadletterError):
    """The user's key ended the command (exit code 130)."""

    exit_code = INTERRUPTED_CODE


class Commands(click.Group):
    """The commands. A reader who has seen enough is no failure; a lake of another version is told as such, and so is
    the user's own key."""

    def make_context(self, info_name: str | None, args: list[str], *more, **kwargs) -> click.Context:
        """Parse the arguments, or print the help. Spark takes no text that is not UTF-8."""
        with _reader_may_leave(), _interrupt_told():
            for text in args:
                try:
                    text.encode()
                except UnicodeEncodeError:
                    raise UsageError(f"{shown(text)} is no UTF-8. Give what is meant in UTF-8.") from None
            return super().make_context(info_name, args, *more, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with _reader_may_leave(), _interrupt_told(), _version_told(ctx):
            return super().invoke(ctx)


@contextlib.contextmanager
def _reader_may_leave() -> Iterator[None]:
    """End well where nobody reads standard output any more, as in ``| head -1``: click itself would end with 1."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        gone = [stream for stream in (sys.stdout, sys.stderr) if _unread(stream)]
        for stream in gone:
            silence(stream)
        if sys.stdout not in gone:
            raise
        sys.exit(0)


def _unread(stream: TextIO) -> bool:
    asked = select.poll()
    asked.register(stream, 0)  # errors are told in any case
    return bool(asked.poll(0))


@contextlib.contextmanager
def _interrupt_told() -> Iterator[None]:
    """End at once where the user interrupts, and tell it as that: what fails as the JVM ends is no fault of its own."""
    pressed: list[int] = []

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough
        pressed.append(number)
        if not is_remote():
            jvm.end_jvm()
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    mine = jvm.in_main_thread() and before not in (None, signal.SIG_IGN)  # ignored: nobody's key is meant
    try:
        if mine:
            signal.signal(signal.SIGINT, end)
        yield
    except (Exception, KeyboardInterrupt) as error:
        if not (pressed or isinstance(error, KeyboardInterrupt)):
            raise
        with jvm.queries_interrupted():  # those that this thread itself made
            pass
        raise Interrupted(INTERRUPTED) from error
    finally:
        if pressed:
            jvm.leave_server()
            jvm.end_jvm()
            jvm.wait_for_jvm()
        if mine:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _version_told(ctx: click.Context) -> Iterator[None]:
    """Tell what does not fit the lake that the command opened as what it is: made by another version."""
    try:
        yield
    except (PySparkException, MissingTableError) as error:
        if ctx.obj is not None:
            with contextlib.suppress(PySparkException):  # the first error says as much
                ctx.obj.check_tables()
        if ctx.obj is not None and isinstance(error, MissingTableError):
            _check_absent(ctx.obj, *error.table.split("."))
        raise


def _check_absent(lake: Lake, layer: str, table: str) -> None:
    """Raise what is behind a table that is not found where a run has been."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        any(Path(lake.folder, layer, table, "_delta_log").iterdir())  # PermissionError: it may be there
    if lake.exists(tables.PROGRESS):
        raise SchemaError(
            f"{lake.root} was made by another version, or its first run did not end: it holds no table "
            f"{layer}.{table}. `deadletter run` makes it."
        )


def failure(error: Exception) -> DeadletterError | None:
    """What a person can act on; ``None`` where only a stack trace helps.

    >>> print(failure(PermissionError(13, "Permission denied", "/lake/gold")))
    /lake/gold: Permission denied; give this user access to it, then start the command again
    >>> print(failure(ConnectionRefusedError(111, "Connection refused")))
    Spark ended: out of memory? set DEADLETTER_DRIVER_MEMORY ...
    >>> failure(KeyError("x"))
    """
    if isinstance(error, DeadletterError):
        return error
    if isinstance(error, (PySparkException, Py4JJavaError)):
        found = first_line(error) if isinstance(error, PySparkException) else last_cause(error)
        return DeadletterError(SPARK_ENDED if OUT_OF_MEMORY in str(error) else found)
    if isinstance(error, (Py4JError, ConnectionError)) and "Trace:" not in str(error):  # a JVM that is there tells one
        return DeadletterError(SPARK_ENDED)
    return DeadletterError(_of_system(error)) if isinstance(error, OSError) else None


def _of_system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    advice = ADVICE.get(error.errno or 0)
    then = f"{advice}, then start the command again" if advice else f"{DEBUG}=1 tells where it happened"
    return f"{where}{error.strerror or first_line(error)}; {then}"


def debugging() -> bool:
    """Whether errors are to be told with their whole stack trace."""
    return os.environ.get(DEBUG, "0") not in ("", "0")


def quiet_bridge() -> None:
    """Keep what the bridge to the JVM logs of a JVM that ended, a stack trace for each call, from the terminal."""
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
