"""How messages fare from delivery to delivery, and which limit that speaks for.

The estimate is Kaplan and Meier's: time is the number of deliveries, the event is a settlement, and a
message that died or whose outcome is not known is censored after its last delivery. It assumes that
the limit in force, not the message, decided who was given up: where limits changed, later deliveries of
the queue tell what would have become of those that an earlier limit stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

WORTH_IT = 0.05
"""A further delivery is worth it while at least this share of the messages it is for succeed in the end."""
ENOUGH = 20
"""Messages that must have been delivered so often before a delivery says anything."""
DEVIATIONS = NormalDist().inv_cdf(0.975)
"""Standard deviations on each side of an estimate in which 95 % lie."""


@dataclass(frozen=True)
class Point:
    """Delivery k: how many messages it reached, settled and lost from sight; the share still unsettled after
    it with its 95 % interval (null where no estimate is possible)."""

    delivery: int
    reached: int
    settled: int
    censored: int
    unsettled: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Advice:
    """A limit in the broker's own terms, or ``None`` where the history speaks for none; and why."""

    limit: int | None
    reason: str


def curve(exits: Iterable[Mapping]) -> list[Point]:
    """The survival curve of rows with ``deliveries``, ``outcome`` and ``messages``, with Greenwood's interval.

    Only deliveries after which something was settled, or a message left, have a point. Libraries take one number a
    message, of which a queue can have more than the memory holds.

    >>> exits = [{"deliveries": 1, "outcome": "settled", "messages": 6}]
    >>> exits += [{"deliveries": 1, "outcome": "unknown", "messages": 2}]
    >>> exits += [{"deliveries": 2, "outcome": "settled", "messages": 1}]
    >>> exits += [{"deliveries": 2, "outcome": "dead_lettered", "messages": 1}]
    >>> for point in curve(exits):
    ...     print(point.delivery, point.reached, point.settled, point.censored, round(point.unsettled, 6))
    1 10 6 2 0.4
    2 2 1 1 0.2
    """
    settled, censored = _by_delivery(exits)
    points, reached, share, spread = [], sum(settled.values()) + sum(censored.values()), 1.0, 0.0
    for delivery in sorted(settled.keys() | censored.keys()):
        done, left = settled.get(delivery, 0), censored.get(delivery, 0)
        share *= 1 - done / reached
        low = high = None  # after the last settlement of all nothing tells how far off the estimate is
        if settled and done < reached:
            spread += done / (reached * (reached - done))
            far = DEVIATIONS * share * math.sqrt(spread)
            low, high = round(max(share - far, 0.0), 6), round(min(share + far, 1.0), 6)
        points.append(Point(delivery, reached, done, left, share, low, high))
        reached -= done + left
    return points


def _by_delivery(exits: Iterable[Mapping]) -> tuple[dict[int, int], dict[int, int]]:
    settled: dict[int, int] = {}
    censored: dict[int, int] = {}
    for row in exits:
        counts = settled if row["outcome"] == "settled" else censored
        counts[row["deliveries"]] = counts.get(row["deliveries"], 0) + row["messages"]
    return settled, censored


def unsettled_after(points: Iterable[Point], deliveries: int) -> float:
    """The estimated share that is not settled after so many deliveries."""
    return next((p.unsettled for p in reversed(list(points)) if p.delivery <= deliveries), 1.0)


def success_later(points: list[Point], done: int, allowed: int) -> float | None:
    """The chance that a message unsettled after ``done`` deliveries is settled by ``allowed``; null if unknown.

    It is unknown where no message of the history was delivered ``done + 1`` times.

    >>> points = [Point(1, 10, 6, 0, 0.4, None, None), Point(2, 4, 1, 3, 0.3, None, None)]
    >>> success_later(points, 1, 2), success_later(points, 2, 3)
    (0.25, None)
    """
    if not any(point.delivery > done for point in points):
        return None
    before = unsettled_after(points, done)
    return round(1 - unsettled_after(points, allowed) / before, 6) if before else None


def advice(points: list[Point], one_more: int = 0) -> Advice:
    """The smallest limit from 1 beyond which deliveries are not worth it (:data:`WORTH_IT`), with the reason.

    ``one_more``: deliveries a message has beyond the limit's number, see ``rules.limits.ONE_MORE``.

    >>> advice([Point(1, 1000, 900, 0, 0.1, None, None), Point(2, 100, 50, 0, 0.05, None, None),
    ...         Point(3, 50, 1, 49, 0.049, None, None)]).limit
    2
    >>> advice([Point(1, 1000, 900, 0, 0.1, None, None), Point(2, 100, 0, 100, 0.1, None, None)], one_more=1)
    Advice(limit=1, reason='after 1 delivery an estimated 90.0% of the messages are settled; of those delivered...
    >>> advice([Point(1, 1000, 0, 1000, 1.0, None, None)]).reason
    'no settlement is known, so nothing tells when a message is lost'
    """
    if not any(point.settled for point in points):
        return Advice(None, "no settlement is known, so nothing tells when a message is lost")
    told = [point for point in points if point.reached >= ENOUGH]
    if not told:
        return Advice(None, f"only {points[0].reached} messages were delivered; {ENOUGH} are needed to tell anything")
    last = told[-1].delivery
    for done in range(1, last):
        chance = success_later(points, done, last)
        if chance is not None and chance < WORTH_IT:
            return Advice(max(done - one_more, 1), _reason(points, done, last, chance))
    end = unsettled_after(points, last)
    return Advice(
        max(last - one_more, 1),
        f"delivery {last} still settles messages, or nothing beyond it was tried: an estimated {1 - end:.1%} are "
        f"settled by then, and fewer than {ENOUGH} messages were delivered more often. Try a higher limit to learn "
        "more",
    )


def _reason(points: list[Point], done: int, last: int, chance: float) -> str:
    reached = next(point.reached for point in points if point.delivery > done)
    shown = min(chance, WORTH_IT - 0.0001)  # rounded, it could say that it is not less
    deliveries = "1 delivery" if done == 1 else f"{done} deliveries"
    return (
        f"after {deliveries} an estimated {1 - unsettled_after(points, done):.1%} of the messages are settled; of "
        f"those delivered again ({reached:,} were) an estimated {shown:.2%} would be settled by delivery {last}, less "
        f"than {WORTH_IT:.0%}"
    )
