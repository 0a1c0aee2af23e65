"""Drift: told where a rule leaves its own past, and not fooled by small or by huge counts."""

import random

from deadletter.gates.drift import ALPHA, MOST_ROWS, corrected_p, drift_p, drifted
from deadletter.gates.outcomes import Outcome
from deadletter.gates.suites import Rule


def outcome(failing, rows, identity="r", severity="warning"):
    rule = Rule(identity, "expect_column_values_to_not_be_null", {"column": "raw"}, severity, "why", "do")
    return Outcome("bronze.queue_events", rule, failing == 0, rows, failing, "", where="`raw` IS NULL")


def told(failing, rows, past, severity="warning"):
    return drifted([outcome(failing, rows, severity=severity)], {("bronze.queue_events", "r"): past})


def test_small_counts_say_nothing():
    assert told(1, 3, [(3, 0)] * 10) == []
    assert told(2, 20, [(20, 1)] * 10) == []


def test_a_clear_rise_is_told():
    [drift] = told(100, 1000, [(1000, 10)] * 10)
    assert drift.p < ALPHA
    assert "10.00% of the rows fail, against 1.00%" in drift.message


def test_what_only_informs_is_measured_and_not_told():
    assert told(100, 1000, [(1000, 10)] * 10, "info") == []
    assert corrected_p([outcome(100, 1000, severity="info")], {("bronze.queue_events", "r"): [(1000, 10)] * 10})


def test_a_first_failure_after_a_long_clean_past_is_told():
    assert len(told(50, 1000, [(1000, 0)] * 10)) == 1


def test_runs_that_always_differ_are_no_drift():
    past = [(100_000, share * 1000) for share in (1, 9, 3, 12, 5, 2, 8, 10, 1, 6)]
    assert told(13_000, 100_000, past) == []
    assert len(told(60_000, 100_000, past)) == 1


def test_what_is_certain_but_tiny_is_not_told():
    assert drift_p(10_000_000, 1_000, [(10_000_000, 10)] * 10) < ALPHA
    assert told(1_000, 10_000_000, [(10_000_000, 10)] * 10) == []


def test_what_is_certain_but_a_small_part_of_a_large_share_is_not_told():
    past = [(10_000, 5_000)] * 10
    assert drift_p(10_000, 6_000, past) < ALPHA
    assert told(6_000, 10_000, past) == []
    assert len(told(7_600, 10_000, past)) == 1


def test_huge_counts_are_scaled_down():
    past = [(100_000, 50_000 + beside) for beside in (-300, 200, 0, 100, -100)]
    p = drift_p(MOST_ROWS, MOST_ROWS // 2 + 400, past)
    assert 0.001 < p < 0.5
    assert drift_p(100 * MOST_ROWS, 100 * (MOST_ROWS // 2 + 400), past) == p


def test_a_short_past_is_none():
    assert told(900, 1000, [(1000, 0)] * 4) == []


def test_better_is_no_drift():
    assert told(0, 1000, [(1000, 500)] * 10) == []


def test_many_rules_do_not_make_false_alarms():
    """100 runs of 20 rules whose shares vary from run to run like their past's: few runs with any alarm."""
    rng = random.Random(7)

    def run(rows):
        share = rng.betavariate(2, 60)
        return rows, sum(rng.random() < share for _ in range(rows))

    pasts = {("bronze.queue_events", str(rule)): [run(200) for _ in range(12)] for rule in range(20)}
    alarms = 0
    for _ in range(100):
        outcomes = [outcome(run(200)[1], 200, str(rule)) for rule in range(20)]
        alarms += bool(drifted(outcomes, pasts))
    assert alarms <= 10


def test_p_is_corrected_for_all_rules():
    pasts = {("bronze.queue_events", str(rule)): [(100, 2)] * 10 for rule in range(10)}
    alone = corrected_p([outcome(9, 100, "0")], pasts)
    among = corrected_p([outcome(9, 100, "0"), *[outcome(2, 100, str(rule)) for rule in range(1, 10)]], pasts)
    key = ("bronze.queue_events", "0")
    assert among[key] == 10 * alone[key]
