"""The way back from quarantine: release after a fix ends in the tables that no mistake would have made."""

import hashlib
import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables
from deadletter.dashboard.server import bundled
from deadletter.errors import DeadletterError, UsageError
from deadletter.lake import Lake, Progress
from deadletter.lake.progress import CHOSEN, MERGING, RELEASING, STALE, SUITES
from deadletter.parsing import PARSER_VERSION, zaqar
from deadletter.report.queries import figures
from deadletter.silver.quarantine import RELEASED
from deadletter.snapshot import is_half_written
from deadletter.steps import Summary, silver
from deadletter.steps.quality import gated
from deadletter.steps.release import _raw_events, complete, release
from deadletter.triage import quarantined
from tests import command
from tests.pipelines.alerts import query_of
from tests.pipelines.comparing import COMPARED, assert_same_tables
from tests.pipelines.conftest import PULSAR, few_lines, quiet, write

DEPLOYMENT = Path(__file__).parents[2] / "docs" / "deployment.md"
TOO_STRICT = {"long_ttl: a TTL is above two hours": "kind = 'post' AND exists(messages, m -> m.ttl RLIKE '^720[1-9]$')"}
"""A mistake of the parser."""


@pytest.fixture(scope="module")
def refused(spark, tmp_path_factory):
    """A lake with Pulsar's events in the wrong folder, two good events that a mistake refused, and half a line."""
    base = tmp_path_factory.mktemp("refused")
    landing = few_lines(base / "landing", "plusar")
    write(landing / "zaqar", "hopeless.jsonl.gz", [b"{half ann@example.org\n"])
    made = Lake(spark, str(base / "lake"))
    with pytest.MonkeyPatch.context() as mistaken:
        mistaken.setattr(zaqar, "RULES", zaqar.RULES | TOO_STRICT)
        steps.run(made, str(landing), tell=quiet)
    return made


@pytest.fixture
def lake(refused, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(refused.root, tmp_path / "lake")
    return Lake(refused.spark, str(tmp_path / "lake"))


def call(*arguments):
    return command.call("quarantine", *arguments).stdout


def listed(lake, *options):
    rows = call("list", "--lake", lake.root, "--json", *options).splitlines()
    return {(row["system"], row["code"]): row["events"] for row in map(json.loads, rows)}


def decisions(lake):
    found = lake.read(tables.QUARANTINE_DECISIONS).groupBy("decision", "who", "why").count().collect()
    return {(row["decision"], row["who"], row["why"]): row["count"] for row in found}


WAITING = {("plusar", "unknown_system"): 200, ("zaqar", "long_ttl"): 2, ("zaqar", "not_json"): 1}


def test_list_and_show(refused):
    assert listed(refused) == WAITING
    table = call("list", "--lake", refused.root)
    assert "long_ttl" in table and "plusar" in table
    row = refused.read(tables.QUARANTINE).where("system = 'zaqar' AND raw LIKE '{half%'").first()
    shown = call("show", row["event_id"][:12], "--lake", refused.root)
    assert row["event_id"] in shown and "not_json: " in shown and "hopeless.jsonl.gz" in shown and "{half" in shown


def test_the_report_hides_private_values_unless_told_otherwise(refused):
    hidden, shown = ({row["example"] for row in figures(refused, told).quarantine} for told in (False, True))
    assert "{half <email>" in hidden and "{half ann@example.org" in shown


def test_the_reports_example_is_the_message_that_it_names(refused):
    dead = {row["message_id"]: row["payload"] for row in refused.read(tables.DEAD_LETTERS).collect()}
    shown = {reveal: figures(refused, reveal).patterns for reveal in (False, True)}
    assert shown[True] and [dead[row["example_id"]] for row in shown[True]] == [
        row["example_payload"] for row in shown[True]
    ]
    named = {row["pattern_id"]: row["example"] for row in refused.read(tables.POISON_PATTERNS).collect()}
    assert all(row["example_id"] == named[row["pattern_id"]]["message_id"] for row in shown[False])


def release_everything(lake, tmp_path):
    """The folder's name and the parser are fixed."""
    steps.run(lake, str(few_lines(tmp_path / "landing")), tell=quiet)
    return call("release", "--where", "true", "--lake", lake.root, "--by", "ann", "--why", "fixed")


def test_everything_released_after_its_fix(lake, small_lake, tmp_path):
    """The lake becomes what it would have been without mistakes."""
    told = release_everything(lake, tmp_path)
    assert "202 of 203 events released; 1 stay in quarantine" in told and "not_json" in told
    assert listed(lake) == {("zaqar", "not_json"): 1}
    assert decisions(lake) == {("released", "ann", "fixed"): 203}
    assert_same_tables(small_lake, lake, COMPARED)
    assert lake.progress.of("silver").as_of == small_lake.progress.of("silver").as_of == lake.progress.of("gold").as_of
    write(tmp_path / "landing" / "plusar", "again.jsonl.gz", PULSAR[:50])  # in the wrong folder once more
    steps.run(lake, str(tmp_path / "landing"), tell=quiet)
    assert listed(lake) == {("zaqar", "not_json"): 1}
    again = ("release", "--where", "system = 'plusar'", "--lake", lake.root, "--why", "again")
    done = command.call("quarantine", *again)
    assert "0 of 0 events released" in done.stdout and "out of date" not in done.stderr
    lake.progress.note("gold", STALE, None)  # as where gold was not derived any more
    assert "gold is out of date" in command.call("quarantine", *again).stderr
    decided = lake.read(tables.QUARANTINE_DECISIONS)
    event_id = decided.join(lake.read(tables.QUARANTINE), "event_id", "left_anti").first()["event_id"]
    with pytest.raises(UsageError, match="no such event in quarantine; gold is out of date.*`deadletter run` derives"):
        call("release", event_id, "--lake", lake.root, "--why", "again")


@pytest.mark.soak
def test_what_was_released_before_its_fix_leaves_quarantine_when_a_usable_copy_comes(lake, tmp_path):
    """As it does where the copy came first."""
    assert "0 of 200 events released" in call(
        *("release", "--where", "system = 'plusar'", "--lake", lake.root, "--by", "ann", "--why", "too early")
    )
    assert listed(lake) == WAITING
    write(tmp_path / "landing" / "pulsar", "again.jsonl.gz", PULSAR[:50])
    write(tmp_path / "landing" / "zaqar", "more.jsonl.gz", [b"{another half\n"])
    steps.run(lake, str(tmp_path / "landing"), tell=quiet)
    assert listed(lake) == WAITING | {("plusar", "unknown_system"): 150, ("zaqar", "not_json"): 2}


@pytest.mark.soak
def test_another_version_of_the_parsers_makes_silver_again(lake, small_lake, tmp_path, monkeypatch):
    """What was released stays so. Killed before gold was derived, this is still done."""
    release_everything(lake, tmp_path)
    wrong = lake.read(tables.MESSAGE_STATE).limit(1).withColumn("message_id", F.lit("as an earlier version read it"))
    lake.append(wrong, tables.MESSAGE_STATE)
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(silver, "PARSER_VERSION", silver.PARSER_VERSION + 1)
    told = []
    noted = []
    for place in ("deadletter.lake.lake.Lake.replace", "deadletter.steps.gold.derive"):
        with monkeypatch.context() as killed, pytest.raises(DeadletterError, match="killed"):
            killed.setattr(place, MagicMock(side_effect=DeadletterError("killed")))
            steps.run(lake, str(tmp_path / "empty"), tell=told.append)
        noted.append(lake.progress.of("parser").source_version)
    # of what was cut short no version takes the half for the whole
    assert noted == [STALE, silver.PARSER_VERSION]
    assert "silver: parsing all events again, as this version reads them differently" in told
    steps.run(lake, str(tmp_path / "empty"), tell=told.append)
    assert "silver: no new events" in told and "gold: already up to date" not in told
    assert_same_tables(small_lake, lake, COMPARED)
    assert listed(lake) == {("zaqar", "not_json"): 1}


def test_of_several_copies_the_last_is_judged_again(lake):
    """An event that was in the future when its first copy came is not any more."""
    some = lake.read(tables.QUEUE_EVENTS).where("system = 'plusar'").limit(20)
    ids, day = lake.stage(some.select("event_id", "captured_at")), F.expr("INTERVAL 1 DAY")
    for at in (F.col("ingested_at") + day, F.col("ingested_at") - day):
        lake.append(lake.stage(some).withColumn("ingested_at", at), tables.QUEUE_EVENTS)
    newest = lake.read(tables.QUEUE_EVENTS).join(ids, "event_id", "left_semi").agg(F.max("ingested_at")).first()[0]
    judged = _raw_events(lake, ids).collect()
    assert len(judged) == ids.count() and {row["ingested_at"] for row in judged} == {newest}


def release_killed_at(place, lake, chosen, monkeypatch):
    with monkeypatch.context() as killed:
        killed.setattr(place, MagicMock(side_effect=DeadletterError("killed")))
        with pytest.raises(DeadletterError, match="killed"):
            release(lake, chosen, "ann", "fix", quiet)


def test_a_release_stays_at_the_time_that_runs_judge_at(lake, monkeypatch):
    """And waits for a run where another version read the events. What it merged in part is told where it is killed."""
    early = datetime(2026, 11, 20, 20, 53, tzinfo=UTC)
    lake.progress.note("gold", lake.progress.of("gold").source_version, early)  # as `run --as-of` does
    assert early < lake.progress.of("silver").as_of
    chosen = quarantined(lake).where("system = 'zaqar' AND reasons[0] LIKE 'long_ttl:%'")
    lake.progress.note("parser", PARSER_VERSION - 1, None)
    with pytest.raises(UsageError, match="another version of deadletter read this lake's events.*run` first"):
        release(lake, chosen, "ann", "fix", quiet)
    assert lake.read(tables.QUARANTINE_DECISIONS).isEmpty()
    lake.progress.note("parser", PARSER_VERSION, None)
    release(lake, chosen, "ann", "fix", quiet)
    assert lake.progress.of("gold").as_of == early
    assert not is_half_written(lake) and lake.progress.of(RELEASING).source_version == 0
    others = quarantined(lake).where("system = 'zaqar'")
    release_killed_at("deadletter.lake.lake.Lake.revise", lake, others, monkeypatch)
    assert is_half_written(lake) and lake.progress.of(RELEASING).source_version == 1


def test_a_run_completes_a_release_that_was_cut_short(lake, monkeypatch):
    """Wherever it was killed; it judges what was released again, and nothing else."""
    chosen = quarantined(lake).where("system = 'zaqar' AND reasons[0] LIKE 'long_ttl:%'")
    ids = [row["event_id"] for row in chosen.collect()]
    merged = lake.read(tables.MESSAGE_STATE).where(F.col("posted.event_id").isin(ids))
    told = []
    release_killed_at("deadletter.lake.lake.Lake.revise", lake, chosen, monkeypatch)
    assert lake.progress.of(RELEASING).source_version == 1 and listed(lake) == WAITING
    assert not merged.isEmpty()
    with gated(lake, quiet):
        assert complete(lake, told.append) == []
        assert complete(lake, told.append) == []
    assert told.count("silver: completing a release from quarantine that was interrupted") == 1
    assert listed(lake) == {name: events for name, events in WAITING.items() if name[1] != "long_ttl"}
    assert lake.progress.of(RELEASING).source_version == 0 and lake.progress.of("gold").source_version == STALE


def test_a_release_that_failed_before_it_wrote_anything_is_over(lake, monkeypatch):
    """And one that was cut short before stays for the next run, which derives gold."""
    chosen = quarantined(lake).where("system = 'zaqar' AND reasons[0] LIKE 'long_ttl:%'")
    gold = lake.progress.of("gold")
    release_killed_at("deadletter.gates.gate.Gate.check", lake, chosen, monkeypatch)
    assert lake.progress.of(RELEASING).source_version == 0 and lake.progress.of("gold") == gold
    assert listed(lake) == WAITING
    lake.progress.note(RELEASING, CHOSEN, None)  # killed there
    assert "0 of 1 events released" in call(
        "release", "--where", "raw LIKE '{half%'", "--lake", lake.root, "--why", "x"
    )
    assert lake.progress.of(RELEASING).source_version == CHOSEN and lake.progress.of("gold") == gold
    call("discard", "--where", "reasons[0] LIKE 'long_ttl:%' AND raw LIKE '%7201%'", "--lake", lake.root, "--why", "x")
    with gated(lake, quiet):
        complete(lake, quiet)
    assert lake.progress.of("gold").source_version == STALE
    assert listed(lake, "--all")["zaqar", "long_ttl"] == 1, "what was discarded stays"


def test_what_other_suites_let_pass_is_judged_again_where_a_run_was_cut_short(lake):
    """Else an event would be in silver and in quarantine."""
    refused = lake.read(tables.QUARANTINE).where("system = 'plusar'")
    lake.progress.note_all({MERGING: Progress(1, None), SUITES: Progress(1, None)})
    told = []
    with gated(lake, quiet) as gate:
        silver.merge(lake, gate, Summary(), told.append)
    assert "silver: parsing all events again, as other suites judged what was merged when it was interrupted" in told
    assert lake.progress.of(MERGING).source_version == 0 and refused.count() == 200
    assert listed(lake) == {name: events for name, events in WAITING.items() if name[1] != "long_ttl"}


@pytest.mark.soak
def test_what_stays_has_the_reasons_of_now(lake, monkeypatch):
    monkeypatch.setitem(zaqar.RULES, "odd_ttl: a TTL is odd", "kind = 'post' AND exists(messages, m -> m.ttl = '7201')")
    told = call("release", "--where", "reasons[0] LIKE 'long_ttl:%'", "--lake", lake.root, "--why", "new rule")
    assert "1 of 2 events released; 1 stay" in told and "odd_ttl: a TTL is odd" in told
    assert listed(lake)["zaqar", "odd_ttl"] == 1
    assert ("zaqar", "long_ttl") not in listed(lake)


@pytest.mark.soak
def test_killed_and_started_again(lake, monkeypatch, tmp_path):
    """Killed after the facts were merged, the events still wait, and a run completes the release; killed before gold,
    the next run derives it although nothing new came. It ends in the tables of one quiet release."""
    other = Lake(lake.spark, str(shutil.copytree(lake.root, tmp_path / "other")))
    where, told = "system = 'zaqar'", []
    (tmp_path / "landing").mkdir()

    def killed_at(place):
        release_killed_at(place, lake, quarantined(lake).where(where), monkeypatch)

    killed_at("deadletter.lake.lake.Lake.revise")
    assert listed(lake) == WAITING
    again = Lake(lake.spark, str(shutil.copytree(lake.root, tmp_path / "again")))
    release(again, quarantined(again).where(where), "ann", "fix", quiet)
    run = Lake(lake.spark, str(shutil.copytree(lake.root, tmp_path / "run")))
    steps.run(run, str(tmp_path / "landing"), tell=told.append)
    assert "silver: completing a release from quarantine that was interrupted" in told
    lake.progress.note(RELEASING, 0, None)  # as if it were the first time
    killed_at("deadletter.steps.gold.derive")
    steps.run(lake, str(tmp_path / "landing"), tell=quiet)
    assert lake.progress.of("gold").as_of == lake.progress.of("silver").as_of
    assert lake.progress.of("gold").as_of.isoformat() == "2026-11-20T22:00:02+00:00"
    release(other, quarantined(other).where(where), "ann", "fix", quiet)
    assert_same_tables(other, lake, COMPARED)
    for completed in (again, run):
        assert_same_tables(other, completed, COMPARED)
    steps.run(again, str(tmp_path / "landing"), tell=quiet)  # once more, as nobody knows whose facts were there
    assert_same_tables(other, again, COMPARED)
    assert listed(run) == listed(lake) == listed(other) == {("plusar", "unknown_system"): 200, ("zaqar", "not_json"): 1}


def test_discard_and_a_resend(lake, tmp_path):
    """A discarded event leaves the list, also when it is sent again; its raw line stays."""
    asked = query_of("events_refused")
    assert lake.query(asked).first()["events"] == sum(WAITING.values())
    call("discard", "--where", "system = 'plusar'", "--lake", lake.root, "--by", "bo", "--why", "test data")
    assert lake.query(asked).first()["events"] == 3, "those that somebody discarded wait no more"
    assert listed(lake) == {("zaqar", "long_ttl"): 2, ("zaqar", "not_json"): 1}
    assert listed(lake, "--all") == WAITING
    assert decisions(lake) == {("discarded", "bo", "test data"): 200}
    waiting = lake.query(bundled().datasets["quarantine"]).collect()
    assert sorted((row["system"], row["events"]) for row in waiting) == [("zaqar", 3)]
    write(tmp_path / "landing" / "plusar", "again.jsonl.gz", PULSAR[:50])
    # as where decisions were copied from another lake: this one has yet to come
    late = [(hashlib.sha256(b"{a line").hexdigest(), RELEASED, "ann", "fix")]
    columns = "event_id string, decision string, who string, why string"
    lake.append_now(lake.spark.createDataFrame(late, columns), tables.QUARANTINE_DECISIONS, "decided_at")
    write(tmp_path / "landing" / "zaqar", "late.jsonl.gz", [b"{a line\n"])
    told, before = [], lake.progress.of("gold")
    steps.run(lake, str(tmp_path / "landing"), tell=told.append)
    assert "gold: no new fact" in told
    assert listed(lake) == {("zaqar", "long_ttl"): 2, ("zaqar", "not_json"): 2}
    assert lake.read(tables.QUEUE_EVENTS).where("system = 'plusar'").count() == 250
    event_id = lake.read(tables.QUARANTINE).where("system = 'plusar'").first()["event_id"]
    assert "discarded" in call("show", event_id, "--lake", lake.root)
    assert "0 of 1 events released" in call("release", event_id, "--lake", lake.root, "--why", "second thoughts")
    assert listed(lake)["plusar", "unknown_system"] == 1
    after = lake.progress.of("gold")  # what releases nothing derives nothing
    assert (after.source_version, after.as_of) == (before.source_version + 1, before.as_of)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["release", "--why", "x"], "which events?"),
        (["discard", "0000000000", "--where", "true", "--why", "x"], "which events?"),
        (["release", "0000000000", "--why", "x"], "0000000000: no such event in quarantine"),
        (["release", "00", "--why", "x"], "at least 8 characters"),
        (["discard", "--where", "nothing = 1", "--why", "x"], "--where nothing = 1: "),
        (["list", "--where", "1 +"], "--where 1 +: "),
        (["show", "ffffffff"], "no such event"),
    ],
)
def test_wrong_usage(refused, arguments, told):
    with pytest.raises(DeadletterError) as error:
        call(*arguments, "--lake", refused.root)
    assert told in str(error.value)
    assert error.value.exit_code == 2


def test_a_lake_of_an_earlier_version(lake):
    """Without the table of decisions: the list works, and the first decision makes the table."""
    shutil.rmtree(f"{lake.root}/control/quarantine_decisions")
    assert listed(lake) == WAITING
    call("discard", "--where", "system = 'zaqar'", "--lake", lake.root, "--why", "known")
    assert listed(lake) == {("plusar", "unknown_system"): 200}


def test_an_event_that_bronze_does_not_hold_stays(lake, capsys):
    """It was not judged again, so nothing may take it out of quarantine. Called as in a notebook, in its session."""
    ghost = lake.read(tables.QUARANTINE).limit(1).withColumn("event_id", F.lit("0" * 64))
    lake.append(ghost, tables.QUARANTINE)
    (cell,) = re.findall(r"```python\n(.*?)```", DEPLOYMENT.read_text(), re.DOTALL)
    exec(cell.replace("catalog:CATALOG", lake.root).replace("EVENT_ID", "0" * 64))
    assert "0 of 1 events released; 1 stay" in capsys.readouterr().out
    assert lake.spark.range(1).count() == 1


@pytest.mark.soak
def test_what_was_chosen_by_its_decision_stays_chosen(lake):
    """A release is a decision: the rows are those that had none when it began."""
    told = call(
        "release", "--where", "decision IS NULL AND reasons[0] LIKE 'not_json%'", "--lake", lake.root, "--why", "x"
    )
    assert "0 of 1 events released; 1 stay" in told and "not_json" in told
