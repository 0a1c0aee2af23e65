"""The JVM that Spark runs in, and how it and what Spark does in it are ended."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

JVM_MAY_TAKE = 5
"""Seconds that a JVM has for its end, in which it deletes its temporary files, before it is killed."""


class Jvm(subprocess.Popen):
    """The JVM that PySpark starts. It is known from the moment it is there, so that it can be ended before it answers:
    by itself it ends with this process only after PySpark has found it."""

    started: ClassVar[list[Jvm]] = []
    ending: ClassVar[bool] = False

    def __init__(self, *args, **kwargs) -> None:
        with interrupts_put_off():  # or the process is there and its number is lost
            super().__init__(*args, **kwargs)
            Jvm.started.append(self)


@contextlib.contextmanager
def known_jvm() -> Iterator[None]:
    """Know the JVM that PySpark starts meanwhile, and keep the program's own handler of SIGINT, if it has one.

    PySpark puts one in its place that asks the JVM to cancel all jobs, in the middle of whatever it is asked just then.
    """
    from pyspark import java_gateway  # not there where PySpark is a client only

    handler = signal.getsignal(signal.SIGINT)
    java_gateway.Popen = Jvm  # type: ignore[misc]
    try:
        yield
    finally:
        java_gateway.Popen = subprocess.Popen  # type: ignore[misc]
    if in_main_thread() and handler not in (None, signal.default_int_handler):
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def interrupts_put_off() -> Iterator[None]:
    """Have SIGINT come when this is over."""
    if not in_main_thread():  # only there does Python handle it
        yield
        return
    seen: list[tuple] = []
    handler = signal.signal(signal.SIGINT, lambda *told: seen.append(told))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if seen and callable(handler):
        handler(*seen[0])


def in_main_thread() -> bool:
    """Whether this thread may set what handles a signal."""
    return threading.current_thread() is threading.main_thread()


def end_jvm() -> None:
    """Have the JVM that this process started, if any, end: what waits for its answer fails then, unless it asks a
    server in it, see :func:`queries_interrupted`."""
    Jvm.ending = bool(Jvm.started)
    for jvm in Jvm.started:
        jvm.terminate()
        late = threading.Timer(JVM_MAY_TAKE, jvm.kill)
        late.daemon = True
        late.start()


@contextlib.contextmanager
def queries_interrupted() -> Iterator[None]:
    """Meanwhile have Spark stop, once a second, what this session asks of it: who makes several queries goes on with
    the next one. By a thread of its own, as the user's key may have come in the middle of a question to a server.

    Of an own JVM that is ended nothing is asked.
    """
    active, over = None if Jvm.ending else SparkSession.getActiveSession(), threading.Event()
    if active is None:
        yield
        return

    def interrupt() -> None:
        while True:
            with contextlib.suppress(Exception):  # a server that is gone works on nothing
                active.interruptAll()
            if over.wait(1):
                return

    asking = threading.Thread(target=interrupt, daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join(JVM_MAY_TAKE)


def leave_server() -> None:
    """Give back the session of a Spark Connect server, before the JVM that it is in is ended: a client that finds no
    server when the process ends asks for minutes. A session of others, as a notebook's, stays."""
    active = SparkSession.getActiveSession() if Jvm.started and is_remote() else None
    if active is not None:
        with contextlib.suppress(Exception):
            active.stop()


def wait_for_jvm() -> None:
    """Wait until :func:`end_jvm` is done."""
    for jvm in Jvm.started:
        jvm.wait()
