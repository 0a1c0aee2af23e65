"""Independent Spark work at once: planning is single-threaded, so one thread leaves cores idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from deadletter.spark.jvm import in_main_thread, queries_interrupted

AT_ONCE = 4
_stopping = threading.Event()
"""Whether the user interrupted what goes on: nothing more begins then."""


def together(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Make all calls, several at a time, and return their results; the first error is raised when all have ended.

    Where the user interrupts, those that run are stopped and waited for: nothing of them goes on when this is over.

    >>> together([lambda: 1, lambda: 2])
    [1, 2]
    """
    calls, pool = list(calls), ThreadPoolExecutor(AT_ONCE)
    try:
        futures = [pool.submit(_unless_stopped, call) for call in calls]
        wait(futures)
    except KeyboardInterrupt:  # only the main thread gets it: calls that make several themselves ask the flag
        _stopping.set()
        with queries_interrupted():
            pool.shutdown()
        raise
    finally:
        try:
            pool.shutdown()
        finally:
            if in_main_thread():
                _stopping.clear()
    return [future.result() for future in futures]


def _unless_stopped(call: Callable[[], Any]) -> Any:
    if _stopping.is_set():
        raise InterruptedError("the user interrupted it")
    return call()
