"""One run over every kind of broken event and good ones: each ends as the table says, and harms no other."""

import re
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables
from deadletter.lake import Lake
from tests.command import call
from tests.pipelines.broken_events import CASES, document
from tests.pipelines.comparing import COMPARED, assert_same_rows
from tests.pipelines.conftest import BUNDLED, lines_of, quiet, write

GOOD = {system: lines_of(BUNDLED / system / "orders-a.jsonl.gz")[:300] for system in ("zaqar", "rabbitmq", "pulsar")}
OF_TENANTS = [table for table in COMPARED if "tenant" in [column.name for column in table.columns]]
IDS = [f"{case.system}: {case.name}" for case in CASES]
NAMED = {
    tables.MESSAGE_STATE: (
        "concat(array(posted.event_id, settled.event_id), deliveries.event_id, failures.event_id, deaths.event_id)"
    ),
    tables.CLAIMS: "concat(array(claimed.event_id, released.event_id), renewals.event_id)",
    tables.CLAIM_ATTEMPTS: "array(event_id)",
    tables.QUEUE_POLICIES: "array(event_id)",
}
"""SQL for the ids of the events that a row of silver names."""


def lake_of(spark, base, broken):
    for system, lines in GOOD.items():
        write(base / "landing" / system, "good.jsonl.gz", lines)
    for number, case in enumerate(broken):
        folder = base / "landing" / case.system
        folder.mkdir(exist_ok=True)
        (folder / f"broken-{number:03}.jsonl").write_bytes(case.line + b"\n")
    made = Lake(spark, str(base / "lake"))
    return made, steps.run(made, str(base / "landing"), tell=quiet)


@pytest.fixture(scope="module")
def broken(spark, tmp_path_factory):
    """The lake with all broken events, and what the run told."""
    return lake_of(spark, tmp_path_factory.mktemp("broken"), CASES)


@pytest.fixture(scope="module")
def ends(broken):
    """Of each broken event: its reason codes, and whether any silver table has a fact of it."""
    lake, _ = broken
    files = lake.read(tables.QUEUE_EVENTS).where("source_file LIKE '%/broken-%'").select("event_id", "source_file")
    numbers = {row["event_id"]: int(re.search(r"broken-(\d+)", row["source_file"])[1]) for row in files.collect()}
    codes = {
        row["event_id"]: {reason.split(": ")[0] for reason in row["reasons"]}
        for row in lake.read(tables.QUARANTINE).select("event_id", "reasons").collect()
    }
    told = {
        row["event_id"]
        for table, named in NAMED.items()
        for row in lake.read(table).select(F.explode(F.expr(named)).alias("event_id")).collect()
    }
    return {number: (codes.get(event_id, set()), event_id in told) for event_id, number in numbers.items()}


def test_there_are_enough_kinds():
    assert len({case.line for case in CASES}) == len(set(IDS)) == len(CASES) >= 60


@pytest.mark.parametrize("number", range(len(CASES)), ids=IDS)
def test_a_broken_event_ends_as_the_table_says(ends, number):
    case = CASES[number]
    codes, told = ends[number]
    if case.code:
        assert codes == {case.code}
    else:
        assert codes == set()
        # of two posts of one id only the earlier is a fact
        assert told == (case.end.startswith("rule: ") and "other body" not in case.name)


@pytest.mark.parametrize("number", [number for number, case in enumerate(CASES) if "year 1" in case.name])
def test_an_event_of_a_time_that_python_has_no_name_for_is_shown(broken, number):
    lake, _ = broken
    ids = lake.read(tables.QUEUE_EVENTS).where(f"source_file LIKE '%/broken-{number:03}.jsonl'").select("event_id")
    event = ids.first()["event_id"]
    shown = call("quarantine", "show", event, "--lake", lake.root)
    assert f"reason   {CASES[number].code}: " in shown.stdout and "0001-01-01" in shown.stdout


def test_none_is_lost(broken, ends):
    lake, summary = broken
    assert sorted(ends) == list(range(len(CASES)))
    assert lake.read(tables.QUEUE_EVENTS).count() == len(CASES) + sum(map(len, GOOD.values()))
    refused = sum(case.code is not None for case in CASES)
    assert lake.read(tables.QUARANTINE).count() == summary.events_quarantined == refused


def test_what_counts_has_its_day_in_bronze(broken):
    """There its payload is sought, and no fact is later than a run's time."""
    lake, _ = broken
    counts = [f"broken-{number:03}.jsonl" for number, case in enumerate(CASES) if case.end.startswith("rule: ")]
    file = F.substring_index("source_file", "/", -1)
    assert lake.read(tables.QUEUE_EVENTS).where(file.isin(counts) & F.col("captured_at").isNull()).isEmpty()


def test_the_good_events_tables_are_the_same(spark, broken, tmp_path):
    lake, summary = broken
    clean, clean_summary = lake_of(spark, tmp_path, [])
    assert clean_summary.as_of == summary.as_of
    tenants = [row["tenant"] for row in clean.read(tables.MESSAGE_STATE).select("tenant").distinct().collect()]
    for table in OF_TENANTS:
        mixed = lake.read(table).where(F.col("tenant").isin(tenants)).drop("pattern_id")
        alone = clean.read(table).drop("pattern_id")
        assert_same_rows(mixed, alone, table.full_name)


def test_the_documents_table_is_current():
    written = Path(__file__).parents[2] / "docs" / "broken-events.md"
    assert written.read_text("utf-8") == document(), "run: python -m tests.pipelines.broken_events"
