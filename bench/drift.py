"""How often the test for drift tells of one that is none, and of one that is: python bench/drift.py.

Runs of 20 rules over 200 rows are drawn, seeded, and judged against pasts that were drawn the same way; then rises from
3 % to 10 % of 1,000 rows after 30 runs. docs/quality.md has the figures.
"""

import random

from deadletter.gates.drift import drifted
from deadletter.gates.outcomes import Outcome
from deadletter.gates.suites import Rule

TABLE, RULES, ROWS, RUNS, RISES = "bronze.queue_events", 20, 200, 1000, 200
SHARE, A, B = 0.03, 2, 2 / 0.03 - 2
"""The mean share of failing rows, and the beta distribution of that mean which varying shares have."""


def drawn(chance, rows, share):
    return rows, sum(chance.random() < share for _ in range(rows))


def outcome(number, rows, failing):
    rule = Rule(str(number), "expect_column_values_to_not_be_null", {"column": "raw"}, "warning", "why", "do")
    return Outcome(TABLE, rule, failing == 0, rows, failing, "", where="`raw` IS NULL")


def alarms(chance, earlier, varies):
    """The share of runs with any alarm, though nothing has changed; each has a past of its own."""

    def run():
        return drawn(chance, ROWS, chance.betavariate(A, B) if varies else SHARE)

    told = 0
    for _ in range(RUNS):
        pasts = {(TABLE, str(number)): [run() for _ in range(earlier)] for number in range(RULES)}
        told += bool(drifted([outcome(number, *run()) for number in range(RULES)], pasts))
    return told / RUNS


def rises(chance):
    """How many rises from 3 % to 10 % are told."""
    told = 0
    for _ in range(RISES):
        past = {(TABLE, "0"): [drawn(chance, 1000, SHARE) for _ in range(30)]}
        told += bool(drifted([outcome(0, *drawn(chance, 1000, 0.1))], past))
    return told


def main():
    chance = random.Random(7)
    print(f"rows fail independently, after 12 runs: an alarm in {alarms(chance, 12, False):.1%} of {RUNS:,} runs")
    for earlier in (5, 12, 30):
        print(
            f"the share varies, after {earlier} runs: an alarm in {alarms(chance, earlier, True):.1%} of {RUNS:,} runs"
        )
    print(f"a rise from 3 % to 10 % of 1,000 rows: told in {rises(chance)} of {RISES} cases")


if __name__ == "__main__":
    main()
