"""``deadletter patterns`` and what it changes: decisions hold, are told, and are taken back."""

import json
import shutil
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables, triage
from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.queues import place_of
from deadletter.steps import gold
from deadletter.steps.decide import decide
from deadletter.steps.quality import gated
from tests import command
from tests.pipelines.conftest import few_lines, quiet

WHO = ("--by", "ann", "--why", "known")
FORMER, PART = "f" * 16, "e" * 16


@pytest.fixture
def own_lake(small_lake, tmp_path):
    return Lake(small_lake.spark, str(shutil.copytree(small_lake.root, tmp_path / "lake")))


def call(lake, *arguments):
    return command.call("patterns", *arguments, "--lake", lake.root).stdout


def listed(lake, *options):
    return {row["pattern_id"]: row for row in map(json.loads, call(lake, "list", "--json", *options).splitlines())}


def test_decisions_hold_and_are_taken_back(own_lake, monkeypatch):
    before = listed(own_lake)
    one, other = list(before)[:2]
    call(own_lake, "mute", one[:8], *WHO)
    told = command.call("patterns", "list", "--lake", own_lake.root)
    assert {line.split()[0] for line in told.stdout.splitlines()} == before.keys() - {one}
    assert told.stderr.endswith("1 muted; --all lists them\n")
    assert listed(own_lake, "--all").keys() == before.keys()
    call(own_lake, "unmute", one, *WHO)
    call(own_lake, "resolve", one, *WHO)
    assert listed(own_lake, "--status", "resolved").keys() == {one}
    call(own_lake, "reopen", one, *WHO)
    assert listed(own_lake) == before
    lock, locked = Lake.lock, []
    monkeypatch.setattr(Lake, "lock", lambda lake: locked.append("once") or lock(lake))
    call(own_lake, "merge", one, "--into", other, *WHO)
    assert locked == ["once"], "no run may come between the decision and what follows from it"
    merged = listed(own_lake)
    assert one not in merged
    assert merged[other]["dead_letters"] == before[one]["dead_letters"] + before[other]["dead_letters"]
    shown = json.loads(call(own_lake, "show", one, "--json"))  # by its former id
    assert shown["pattern_id"] == other and one in shown["former_ids"]
    assert [made["action"] for made in shown["decisions"]] == ["mute", "unmute", "resolve", "reopen", "merge"]
    with pytest.raises(UsageError, match="are the same pattern"):
        call(own_lake, "merge", one, "--into", other, *WHO)
    # as if it had got its id since, and had one that begins like the other's
    known = [(FORMER, one, "grouping"), (f"{other[:8]}{'f' * 8}", one, "grouping")]
    own_lake.append(own_lake.spark.createDataFrame(known, tables.PATTERN_ALIASES.ddl), tables.PATTERN_ALIASES)
    assert [triage.merged_id(own_lake, name) for name in (FORMER, FORMER[:9], one, other)] == [one, one, one, None]
    with pytest.raises(UsageError, match=f"{other} was not merged .* taken out by its own id: {one}"):
        call(own_lake, "split", other[:8], *WHO)
    assert listed(own_lake) == merged
    call(own_lake, "split", FORMER, *WHO)
    assert listed(own_lake) == before
    part = own_lake.read(tables.POISON_PATTERNS).where(F.col("pattern_id") == one)
    own_lake.append(part.withColumns({"pattern_id": F.lit(PART), "part_of": F.lit(one)}), tables.POISON_PATTERNS)
    for name, told in ((one, "--along queue, error or deviation splits it"), (PART, f"it is part of {one}, ")):
        with pytest.raises(UsageError, match=f"{name} was not merged or split, so there is nothing to undo; {told}"):
            call(own_lake, "split", name, *WHO)


def test_a_split_notes_which_part_keeps_the_id(own_lake):
    of_queue = {row["queues"][0]: name for name, row in listed(own_lake).items()}
    one, other = list(of_queue.values())[:2]
    call(own_lake, "merge", one, "--into", other, *WHO)
    whole = listed(own_lake)[other]
    dead = own_lake.read(tables.DEAD_LETTERS).where(F.col("pattern_id") == whole["pattern_id"])
    first = dead.orderBy("dead_lettered_at", *tables.MESSAGE_KEY).first()
    call(own_lake, "split", whole["pattern_id"], "--along", "queue", *WHO)
    made = triage.decisions(own_lake)[-1]
    assert (made["along"], made["target"]) == ("queue", f"{first['system']} {first['tenant']} {first['queue']}")
    parts = [row for row in listed(own_lake).values() if row["part_of"] == whole["pattern_id"]]
    assert len(parts) == len(whole["queues"]) - 1 > 0
    kept = listed(own_lake)[whole["pattern_id"]]
    assert kept["queues"] == [place_of(first)]
    assert kept["dead_letters"] + sum(row["dead_letters"] for row in parts) == whole["dead_letters"]


def test_a_decision_for_later_shows_later(own_lake):
    one = next(iter(listed(own_lake)))
    with pytest.raises(UsageError, match="--at soon: not an ISO 8601 time"):
        call(own_lake, "resolve", one, "--at", "soon", *WHO)
    told = command.call("patterns", "resolve", one, "--lake", own_lake.root, "--at", "2026-11-21T00:00:00Z", *WHO)
    assert "shows from the first run that judges at 2026-11-21T00:00:00+00:00 or later" in told.stderr
    assert listed(own_lake)[one]["status"] != "resolved"
    with gated(own_lake, quiet) as gate:
        gold.derive(own_lake, gate, datetime(2026, 11, 21, tzinfo=UTC), tell=quiet)
    assert listed(own_lake)[one]["status"] == "resolved"


def test_what_a_decision_noted_is_masked_unless_revealed(own_lake, monkeypatch):
    one = next(iter(listed(own_lake)))
    for action, target in (("mute", "told ada@example.org"), ("split", "heard eve@example.org")):
        made = {"pattern_id": one, "action": action, "target": target, "by": "ann", "why": "known"}
        monkeypatch.setattr(triage, "decisions", lambda lake, made=made: [dict(made)])
        shown, revealed = (json.loads(call(own_lake, "show", one, "--json", *more)) for more in ([], ["--reveal"]))
        assert shown["decisions"][0]["target"] == f"{target.split()[0]} <email>"
        assert revealed["decisions"][0]["target"] == target


@pytest.mark.parametrize(("action", "into"), [("forget", None), ("merge", None), ("mute", "a" * 16)])
def test_what_is_no_decision_is_refused(small_lake, action, into):
    with pytest.raises(UsageError, match="merge alone needs what to merge into"):
        decide(small_lake, "a" * 16, action, "ann", "known", into=into)


@pytest.mark.soak
def test_decisions_move_to_a_new_lake(own_lake, tmp_path):
    """Copied before its first run, as docs/operations.md tells for an upgrade."""
    one = next(iter(listed(own_lake)))
    call(own_lake, "mute", one, *WHO)
    decided = "control/pattern_decisions"
    shutil.copytree(f"{own_lake.root}/{decided}", tmp_path / "new" / decided)
    new = Lake(own_lake.spark, str(tmp_path / "new"))
    steps.run(new, str(few_lines(tmp_path / "landing")), tell=quiet)
    assert one not in listed(new)
    assert listed(new, "--all")[one]["muted"]


def test_an_example_is_masked_unless_revealed(small_lake):
    payloads = {row["message_id"]: row["payload"] for row in small_lake.read(tables.DEAD_LETTERS).collect()}
    told = [json.loads(call(small_lake, "show", name, "--json", "--reveal")) for name in listed(small_lake)]
    assert all(row["example_payload"] == payloads[row["example"]["message_id"]] for row in told)
    private = [row["pattern_id"] for row in told if "@example.org" in row["example_payload"]]
    assert "@example.org" not in call(small_lake, "show", private[0], "--json")
    assert "@example.org" not in call(small_lake, "list", "--json")


def test_a_pattern_whose_example_is_not_written_yet(small_lake, monkeypatch):
    """A run writes one table after the other, or was killed between them."""
    read, name = Lake.read, next(iter(listed(small_lake)))

    def without_dead_letters(lake, table, *version):
        rows = read(lake, table, *version)
        return rows.where("false") if table is tables.DEAD_LETTERS else rows

    monkeypatch.setattr(Lake, "read", without_dead_letters)
    for option in ([], ["--reveal"]):
        told = json.loads(call(small_lake, "show", name, "--json", *option))
        assert told["example_error"] is None and told["example"]
