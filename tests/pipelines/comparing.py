"""Whether two frames hold the same rows."""

from collections import Counter


def assert_same_rows(one, other, what=""):
    """Both hold the same rows, each as often. They are few: collecting them costs less than a query that compares."""
    left, right = (Counter(map(str, frame.collect())) for frame in (one, other))
    extra, missing = list(left - right)[:3], list(right - left)[:3]
    assert (extra, missing) == ([], []), what
