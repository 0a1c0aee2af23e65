"""Rows are split, tables judged, and what stops a run says all that a person needs."""

from dataclasses import replace
from datetime import UTC, datetime
from unittest.mock import MagicMock

import pytest
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import DeadletterError, GateError
from deadletter.gates import suites
from deadletter.gates.docs import write_docs
from deadletter.gates.drift import ALPHA
from deadletter.gates.gate import Gate
from deadletter.gates.history import RELEASE, metrics, past
from deadletter.gates.judging import judge
from deadletter.gates.outcomes import Outcome, enforce
from deadletter.gates.rows import broken, reasons, split
from deadletter.gates.suites import Rule, Suite, load_all
from deadletter.lake import Lake
from deadletter.silver.quarantine import refused
from deadletter.steps import quality
from deadletter.steps.quality import gated

COLUMNS = {"event_id": "string", "limit": "bigint", "granted": "bigint"}
LIMIT = Rule(
    "r1", "expect_column_values_to_be_between", {"column": "limit", "min_value": 0}, "critical", "why 1", "do 1"
)
R2 = "00000000-0000-4000-8000-000000000002"  # as the Data Docs take it
GRANTED = Rule(R2, "expect_column_values_to_not_be_null", {"column": "granted"}, "warning", "why 2", "do 2")
UNIQUE = Rule("r3", "expect_column_values_to_be_unique", {"column": "event_id"}, "critical", "why 3", "do 3")
KNOWN = Rule(
    "r4",
    "unexpected_rows_expectation",
    {"unexpected_rows_query": "SELECT b.event_id FROM {batch} b LEFT ANTI JOIN bronze_queue_events e USING (event_id)"},
    "critical",
    "why 4",
    "do 4",
)
ID = Rule("r5", "expect_column_values_to_not_be_null", {"column": "event_id"}, "critical", "why 5", "do 5")


def suite(*rules):
    return Suite("silver.claim_attempts", rules, COLUMNS, ("event_id",))


@pytest.fixture(scope="module")
def attempts(spark):
    rows = [("a", 1, 1), ("b", -1, 0), ("c", 5, None), ("a", 2, 2), (None, -3, None)]
    return spark.createDataFrame(rows, "event_id string, `limit` bigint, granted bigint").coalesce(1)


def test_each_bad_row_goes_out_with_every_rule_it_broke(attempts):
    rules = suite(LIMIT, GRANTED, UNIQUE, ID)
    good, bad = split(attempts, rules)
    assert good.columns == bad.columns == ["event_id", "limit", "granted"]
    assert [tuple(row) for row in good.collect()] == [("a", 1, 1), ("c", 5, None), ("a", 2, 2)]
    told = bad.select("limit", broken(rules).alias("broken")).collect()
    assert [tuple(row) for row in told] == [(-1, ["r1"]), (-3, ["r1", "r5"])]


def test_a_suite_without_row_rules_lets_all_through(attempts):
    good, bad = split(attempts, suite(UNIQUE))
    assert (good.count(), bad.count()) == (5, 0)


def test_outcomes_tell_counts_and_an_example(attempts):
    limit, granted, unique = judge(attempts, suite(LIMIT, GRANTED, UNIQUE))
    assert (limit.passed, limit.failing, limit.rows, limit.example) == (False, 2, 5, '{"event_id":"b","limit":-1}')
    assert (granted.failing, granted.example) == (2, '{"event_id":"c","granted":null}')
    assert (unique.failing, unique.rows, unique.example) == (2, 4, '{"event_id":"a","rows_with_it":2}')


def test_a_query_reads_other_tables(spark, attempts):
    events = spark.createDataFrame([("a",), ("b",)], "event_id string")
    [known] = judge(attempts, suite(KNOWN), {"bronze.queue_events": events})
    assert (known.passed, known.failing) == (False, 2)
    assert known.example in ('{"event_id":"c"}', '{"event_id":null}')


def test_a_query_without_its_table_is_told(attempts):
    with pytest.raises(DeadletterError, match="silver.claim_attempts: a query of its suite does not work"):
        judge(attempts, suite(KNOWN))


@pytest.mark.parametrize(("rule", "column"), [(LIMIT, "limit"), (GRANTED, "granted"), (UNIQUE, "event_id")])
def test_a_rule_that_spark_does_not_take_is_told(attempts, rule, column):
    with pytest.raises(DeadletterError) as error:
        judge(attempts.drop(column), suite(*[other for other in (LIMIT, GRANTED, UNIQUE) if other != rule], rule))
    assert str(error.value).startswith(f"silver.claim_attempts: rule {rule.name} ({rule.id}) cannot be judged: ")
    assert f"`{column}`" in str(error.value)


def test_no_rows_break_nothing(attempts):
    outcomes = judge(attempts.where("false"), suite(LIMIT, GRANTED, UNIQUE))
    assert [(outcome.passed, outcome.rows) for outcome in outcomes] == [(True, 0)] * 3


def test_a_query_can_say_that_there_must_be_rows(attempts):
    query = "SELECT n FROM (SELECT count(1) AS n FROM {batch}) WHERE n = 0"
    some = replace(KNOWN, kwargs={"unexpected_rows_query": query})
    found = [judge(rows, suite(some))[0] for rows in (attempts, attempts.where("false"))]
    assert [(outcome.passed, outcome.failing) for outcome in found] == [(True, 0), (False, 1)]


def test_a_critical_failure_stops_with_all_that_is_needed(attempts):
    with pytest.raises(GateError) as error:
        enforce(judge(attempts, suite(LIMIT, GRANTED)))
    assert error.value.exit_code == 3
    told = str(error.value)
    assert "silver.claim_attempts: values_to_be_between(limit) failed (critical, rule r1)" in told
    assert "observed  2 of 5 rows\n  expected  min_value=0\n" in told
    assert 'example   {"event_id":"b","limit":-1}' in told
    assert "deadletter show" not in told  # these rows are not written
    assert "picks up where it stopped" in told
    assert R2 not in told


def test_refused_rows_and_warnings_do_not_stop(attempts):
    refused_rows, warned = enforce(judge(attempts, suite(LIMIT, GRANTED), refused=True))
    assert refused_rows.startswith("silver.claim_attempts: why 1: 2 of 5 rows refused, e.g. ")
    assert "deadletter show silver.quarantine --where" in refused_rows
    assert warned.startswith("silver.claim_attempts: why 2: 2 of 5 rows")
    assert warned.endswith("Rule values_to_not_be_null(granted). See: deadletter show silver.claim_attempts --where "
                           "'NOT (`granted` IS NOT NULL)'")  # fmt: skip


def with_reasons(bad, rules):
    return bad.withColumn("reasons", reasons(rules))


def test_bad_rows_become_quarantined_events(spark, attempts):
    _, bad = split(attempts, suite(LIMIT, ID))
    events = spark.createDataFrame(
        [("a", "zaqar", "{}", "f", None), ("b", "zaqar", "{x}", "f", None), ("b", "zaqar", "{x}", "g", None)],
        "event_id string, system string, raw string, source_file string, captured_at timestamp",
    )
    rules = suite(LIMIT, ID)
    found = refused(with_reasons(bad, rules), rules.key, bad, events)
    rows = tables.conform(found, tables.QUARANTINE).collect()
    assert [(r["event_id"], r["raw"], r["source_file"], r["reasons"]) for r in rows] == [
        ("b", "{x}", "f", ["values_to_be_between(limit): why 1"])
    ]


def test_every_event_behind_a_bad_row_is_refused(spark):
    """Also those that the row does not name any more; a part of its key may be missing."""
    named = replace(suite(replace(ID, kwargs={"column": "queue"})), columns={"queue": "string", "message_id": "string"})
    rule = replace(named, key=("queue", "message_id"))
    bad = spark.createDataFrame([(None, "m1", "a")], "queue string, message_id string, posted_by string")
    told = [(None, "m1", "a"), (None, "m1", "b"), (None, "m2", "c"), ("q", "m1", "d")]
    source_events = spark.createDataFrame(told, "queue string, message_id string, event_id string")
    events = [(name, "zaqar", "{}", "f", None) for name in "abcd"]
    copies = "event_id string, system string, raw string, source_file string, captured_at timestamp"
    found = refused(with_reasons(bad, rule), rule.key, source_events, spark.createDataFrame(events, copies))
    assert {row["event_id"] for row in found.collect()} == {"a", "b"}


def test_metrics_become_the_past(spark):
    runs = [metrics(spark, [Outcome("t", GRANTED, n == 0, 10, n, "")], f"run{n}", at(n)) for n in range(4)]
    every = runs[0].union(runs[1]).union(runs[2]).union(runs[3])
    assert past(every, runs=3) == {("t", GRANTED.id): [(10, 3), (10, 2), (10, 1)]}


def runs_of(spark, outcomes, name, hour, count):
    """History of so many runs that found the same."""
    names = F.array(*[F.lit(f"{name}{n}") for n in range(count)])
    return metrics(spark, outcomes, name, at(hour)).withColumn("run_id", F.explode(names))


def past_runs(spark):
    """Five in which 1 % of 1,000 rows had no ``granted``, and thirty later ones, stopped, with half of theirs."""
    share = Outcome("silver.claim_attempts", GRANTED, False, 1000, 10, "")
    stopping = Outcome("silver.claim_attempts", LIMIT, False, 1000, 1, "")
    tries = runs_of(spark, [replace(share, failing=500), stopping], "stopped", 2, 30)
    return runs_of(spark, [share], "good", 1, 5).union(tries)


def test_a_release_is_no_past(spark):
    """What was refused once is not what usually comes."""
    share = Outcome("t", GRANTED, False, 10, 1, "")
    released = metrics(spark, [replace(share, failing=9)], f"r{RELEASE}", at(2))
    assert past(metrics(spark, [share], "r", at(1)).union(released)) == {("t", GRANTED.id): [(10, 1)]}


def test_a_stopped_run_is_no_past(spark):
    gone_on = metrics(spark, [Outcome("t", LIMIT, False, 10, 1, "", refused=True)], "refused", at(1))
    found = past(past_runs(spark).union(gone_on))
    assert found == {("silver.claim_attempts", GRANTED.id): [(1000, 10)] * 5, ("t", "r1"): [(10, 1)]}


def test_a_run_tells_and_keeps_what_left_its_past(spark, tmp_path, monkeypatch):
    lake = Lake(spark, str(tmp_path))
    lake.create_missing([tables.QUALITY_METRICS])
    lake.append(past_runs(spark), tables.QUALITY_METRICS)
    monkeypatch.setattr(suites, "load_all", lambda: {"silver.claim_attempts": suite(GRANTED)})
    rows = spark.range(1000).selectExpr("id AS event_id", "nullif(id % 5, 0) AS granted")
    with gated(lake, lambda text: None) as gate:
        gate.check(rows, tables.CLAIM_ATTEMPTS)
        gate.warnings.clear()
    (told,) = gate.warnings
    assert "20.00% of the rows fail, against 1.00%" in told
    (kept,) = lake.read(tables.QUALITY_METRICS).where(F.col("run_id") == gate.run_id).collect()
    assert (kept["rule_id"], kept["failing"]) == (GRANTED.id, 200) and kept["drift_p"] < ALPHA


def test_what_stopped_a_run_is_told_even_if_it_cannot_be_kept(spark, tmp_path, monkeypatch):
    """Somebody has to act on it: exit code 3, not that of a full disk."""
    lake, told = Lake(spark, str(tmp_path)), []
    lake.create_missing([tables.QUALITY_METRICS])
    monkeypatch.setattr(suites, "load_all", lambda: {"silver.claim_attempts": suite(UNIQUE)})
    monkeypatch.setattr(quality, "write_docs", MagicMock(side_effect=OSError(28, "No space left on device")))
    twice = spark.range(2).selectExpr("'same' AS event_id")
    with pytest.raises(GateError, match=r"silver.claim_attempts: .*event_id"), gated(lake, told.append) as gate:
        gate.check(twice, tables.CLAIM_ATTEMPTS)
    assert "warning: what the gates found was not kept: [Errno 28] No space left on device" in told


def test_a_gate_notes_what_stopped_it(spark):
    gate = Gate("run", at(1), {"as_of": at(1)})
    rows = [("zaqar", "p", "q", "", "m", None, at(0), "", "")]
    keys = "system string, tenant string, queue string, subscription string, message_id string"
    found = spark.createDataFrame(rows, f"{keys}, kind string, at timestamp, broker_says string, rules_say string")
    good, bad = gate.split(found, tables.DISCREPANCIES)
    assert (good.count(), bad.count()) == (0, 1)
    with pytest.raises(GateError, match=r"values_to_not_be_null\(kind\)"):
        gate.check(found, tables.DISCREPANCIES)
    history = gate.history(spark, {}).where("NOT passed").select("table_name", "rule", "failing").collect()
    assert [tuple(row) for row in history] == [("gold.discrepancies", "values_to_not_be_null(kind)", 1)]


def test_docs_keep_the_newest_runs(tmp_path):
    suites = [found.bind({"as_of": at(1)}) for found in load_all().values()]
    outcomes = [
        Outcome(found.name, rule, False, 10, 1, "1 of 10 rows", "{}") for found in suites for rule in found.rules
    ]
    for run in range(3):
        index = write_docs(outcomes, tmp_path, f"run{run}", at(run), keep=2)
    pages = {path.parent.parent.name for path in index.parent.rglob("*.*.html")}
    assert pages == {"run1", "run2"}
    assert len(list(index.parent.rglob("run2/*/*.html"))) == len(suites)
    assert "What to do:" in next(index.parent.rglob("run2/*/gold.dead_letters.html")).read_text()


def test_what_somebody_sent_is_inert_in_the_docs(tmp_path):
    """In a folder of any name."""
    (found,) = [suite for name, suite in load_all().items() if name == "silver.message_state"]
    sent = '<img src=x onerror="alert(1)">'
    outcomes = [Outcome(found.name, rule, False, 10, 1, sent, sent) for rule in found.bind({"as_of": at(1)}).rules]
    index = write_docs(outcomes, tmp_path / "the $lake's", "run", at(1))
    assert index.is_relative_to(tmp_path / "the $lake's")
    pages = "".join(path.read_text() for path in index.parent.rglob("*.html"))
    assert "&lt;img src=x" in pages and "<img src=x" not in pages


def at(hour):
    return datetime(2026, 11, 20, hour, tzinfo=UTC)
