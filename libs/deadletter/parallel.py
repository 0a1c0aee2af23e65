"""Independent Spark work at once: planning is single-threaded, so one thread leaves cores idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 4


def together(calls: Iterable[Callable[[], object]]) -> None:
    """Make all calls, several at a time; the first error is raised when all have ended.

    >>> done = []
    >>> together([lambda: done.append(1), lambda: done.append(2)])
    >>> sorted(done)
    [1, 2]
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(call) for call in calls]
    for future in futures:
        future.result()
