"""Independent Spark work at once: planning is single-threaded, so one thread leaves cores idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
AT_ONCE = 4


def together(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Make all calls, several at a time, and return their results; the first error is raised when all have ended.

    >>> together([lambda: 1, lambda: 2])
    [1, 2]
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]
