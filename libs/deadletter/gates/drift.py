"""A rule whose failing share leaves its own past is told before it is a failure.

The test is the beta-binomial predictive one, one-sided: given the rule's past runs, how likely are as many
failing rows as now, or more? Why this one:

* small counts do not fool it: the past's own uncertainty is in it (Jeffreys prior), so 1 of 3 rows after
  0 of 3 says nothing, and 1 of 3 after 0 of 10,000 says much;
* large counts do not fool it: shares differ from run to run by more than chance among rows, and a binomial or
  Fisher test over millions of rows calls every such difference significant. The spread between the past's runs
  widens the distribution (the upper limit of Pearson's chi-squared gives the intraclass correlation);
* many rules do not fool it: p is corrected for all rules of a run (Holm);
* what is certain but too small to matter is not told: the share must rise by :data:`LEAST_RISE` and to
  :data:`LEAST_FACTOR` times the past's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deadletter.gates.history import Past
from deadletter.gates.outcomes import Outcome

ALPHA = 0.01
"""Chance of any false alarm in a run."""
LEAST_RUNS = 5
"""Fewer runs are no past: their spread cannot be told."""
LEAST_RISE = 0.005
LEAST_FACTOR = 1.5
MOST_ROWS = 100_000
"""Larger counts are scaled down to this: that makes the test a little more careful, and bounds its work."""


@dataclass(frozen=True)
class Drift:
    """A rule that left its past. ``p``: the chance, corrected for all rules, if nothing had changed."""

    outcome: Outcome
    past_share: float
    p: float

    @property
    def message(self) -> str:
        """One line for a person."""
        now = self.outcome.failing / self.outcome.rows
        return (
            f"{self.outcome.table}: {self.outcome.rule.name}: {now:.2%} of the rows fail, against "
            f"{self.past_share:.2%} in earlier runs (p = {self.p:.2g}): something has changed. "
            f"See: {self.outcome.command}"
        )


def drift_p(rows: int, failing: int, past: Sequence[tuple[int, int]]) -> float:
    """The chance of ``failing`` or more of ``rows``, given ``past``: rows and failing rows of earlier runs.

    >>> [round(drift_p(3, 1, [(n, 0)] * 5), 4) for n in (3, 2000)]
    [0.0859, 0.0001]
    """
    if failing == 0:
        return 1.0
    import numpy as np
    from scipy.special import betaln, gammaln  # slow to load, and not every run has a past

    mean, precision = _model(past)
    if rows > MOST_ROWS:
        rows, failing = MOST_ROWS, int(failing * MOST_ROWS / rows)
    a, b = mean * precision, (1 - mean) * precision
    k = np.arange(failing, rows + 1, dtype=float)
    ways = gammaln(rows + 1) - gammaln(k + 1) - gammaln(rows - k + 1)
    return float(min(1.0, np.exp(ways + betaln(k + a, rows - k + b) - betaln(a, b)).sum()))


def _model(past: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Mean and precision of the beta distribution of a run's true share.

    The precision is at most what the past's rows give, less where its runs differ by more than chance.
    """
    from scipy.special import chdtri

    total, failed = sum(rows for rows, _ in past), sum(failing for _, failing in past)
    mean = (failed + 0.5) / (total + 1)
    chi = sum((failing - rows * mean) ** 2 / (rows * mean * (1 - mean)) for rows, failing in past)
    # the upper 90 % limit: a few runs that happen to be alike do not make a narrow past
    spread = chi / chdtri(len(past) - 1, 0.9) if len(past) > 1 else 1.0
    size = total / len(past)
    correlation = min(max(spread - 1, 0) / max(size - 1, 1), 0.99)
    return mean, min(total + 1, 1 / correlation - 1) if correlation else total + 1


def corrected_p(outcomes: Iterable[Outcome], past: Past) -> dict[tuple[str, str], float]:
    """Each rule's p, corrected by Holm for all that were tested, by table and rule id.

    Rules that count rows are tested, where :data:`LEAST_RUNS` earlier runs had rows.
    """
    raw = {}
    for outcome in outcomes:
        key = (outcome.table, outcome.rule.id)
        runs = [(rows, failing) for rows, failing in past.get(key, []) if rows]
        if outcome.where and outcome.rows and len(runs) >= LEAST_RUNS:
            raw[key] = drift_p(outcome.rows, outcome.failing, runs)
    corrected, highest = {}, 0.0
    for place, key in enumerate(sorted(raw, key=raw.__getitem__)):
        highest = max(highest, min(1.0, raw[key] * (len(raw) - place)))
        corrected[key] = highest
    return corrected


def drifted(outcomes: Sequence[Outcome], past: Past, p: dict[tuple[str, str], float] | None = None) -> list[Drift]:
    """The rules whose failing share has left their past, but for those that only inform; ``p`` is what
    :func:`corrected_p` gave, if at hand."""
    p = corrected_p(outcomes, past) if p is None else p
    found = []
    for outcome in outcomes:
        key = (outcome.table, outcome.rule.id)
        if outcome.rule.severity == "info" or p.get(key, 1.0) >= ALPHA:
            continue
        before = sum(failing for _, failing in past[key]) / sum(rows for rows, _ in past[key])
        now = outcome.failing / outcome.rows
        if now - before >= LEAST_RISE and now >= LEAST_FACTOR * before:
            found.append(Drift(outcome, before, p[key]))
    return found
