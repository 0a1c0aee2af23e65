"""``deadletter show``: rows for people, for programs, and as they were."""

import csv
import io
import json
import shutil

import pytest

from deadletter import tables, triage
from deadletter.cli.show import STANDING
from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.snapshot import gold_as_of
from tests.command import call


def called(lake, *arguments):
    return call(*arguments, "--lake", lake.root)


def shown(lake, *arguments):
    return called(lake, "show", *arguments).stdout


@pytest.fixture(scope="module")
def expected(lake):
    """The first three dead letters of RabbitMQ in the order of their key."""
    rows = lake.read(tables.DEAD_LETTERS).where("system = 'rabbitmq'").orderBy(*tables.MESSAGE_KEY)
    return [row["message_id"] for row in rows.limit(3).collect()]


@pytest.mark.parametrize("form", [["--json"], ["--format", "json"]], ids=" ".join)
def test_json_is_one_object_a_line(lake, expected, form):
    lines = shown(lake, "dead_letters", "--where", "system = 'rabbitmq'", "--limit", "3", *form).splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["message_id"] for row in rows] == expected
    assert list(rows[0]) == list(tables.DEAD_LETTERS.column_names), "nulls are told"


def test_csv(lake, expected):
    text = shown(lake, "gold.dead_letters", "--where", "system = 'rabbitmq'", "--limit", "3", "--format", "csv")
    assert [row["message_id"] for row in csv.DictReader(io.StringIO(text))] == expected


def test_for_people(lake, expected):
    text = shown(lake, "dead_letters", "--where", "system = 'rabbitmq'", "--limit", "3")
    assert all(message_id in text for message_id in expected)


def test_a_list_that_is_cut_says_so(lake, expected):
    """And one that is not does not: there are as many rows as are shown, or fewer."""
    where = ["--where", "message_id IN ({})".format(", ".join(f"'{name}'" for name in expected))]
    for options, told in ((["--limit", "2"], "first 2 rows; --limit N shows more\n"), (["--limit", "3"], ""), ([], "")):
        for form in ([], ["--json"]):
            done = called(lake, "show", "dead_letters", *where, *options, *form)
            assert done.stderr == told
            assert [name in done.stdout for name in expected] == [True, True, not told]
    assert called(lake, "show", "dead_letters").stderr == "first 20 rows; --limit N shows more\n"


def test_decisions_under_any_former_id(small_lake, tmp_path):
    """However many there are, and whichever of them it had when something was decided; also one of a pattern that was
    merged into it."""
    own = Lake(small_lake.spark, str(shutil.copytree(small_lake.root, tmp_path / "lake")))
    name = own.read(tables.POISON_PATTERNS).orderBy("pattern_id").first()["pattern_id"]
    former = [f"former{n:02}" for n in range(25)]
    rows = [(alias, name, "grouping") for alias in former[:-1]]
    rows += [("merged", name, "merged"), (former[-1], "merged", "grouping")]
    own.append(own.spark.createDataFrame(rows, tables.PATTERN_ALIASES.ddl), tables.PATTERN_ALIASES)
    triage.write_down(own, former[-1], "resolve", "ann", "known", gold_as_of(own))
    row = json.loads(called(own, "patterns", "show", name, "--json").stdout)
    assert set(former) <= set(row["former_ids"]) and [made["why"] for made in row["decisions"]] == ["known"]


def test_as_of(small_lake):
    """At the last event the dead are those of gold; before the first nothing had happened."""
    dead = {row["message_id"] for row in small_lake.read(tables.DEAD_LETTERS).select("message_id").collect()}
    at_the_end = ["--as-of", "2026-11-20T22:00:02Z", "--where", "status = 'dead_lettered'"]
    told = shown(small_lake, "message_state", *at_the_end, "--json").splitlines()
    rows = [json.loads(line) for line in told]
    assert {row["message_id"] for row in rows} == dead != set()
    assert set(rows[0]) - set(tables.MESSAGE_STATE.column_names) == set(STANDING)
    assert shown(small_lake, "message_state", "--as-of", "2026-01-01T00:00:00Z", "--json") == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["dead_leters"], "no table dead_leters. There are: bronze.queue_events"),
        (["dead_letters", "--where", "nothing = 1"], "--where nothing = 1: "),
        (["dead_letters", "--as-of", "2026-11-20T21:00:00Z"], "--as-of goes with message_state"),
        (["message_state", "--where", "status = 'delayed'"], "status is told with --as-of only"),
        (["message_state", "--where", "nothing = 1"], "--where nothing = 1: [UNRESOLVED_COLUMN"),
        (["message_state", "--as-of", "noon"], "--as-of noon: not an ISO 8601 time"),
        (["message_state", "--as-of", ""], "--as-of : not an ISO 8601 time"),
    ],
)
def test_wrong_usage(lake, arguments, told):
    with pytest.raises(UsageError) as error:
        shown(lake, *arguments)
    assert told in str(error.value)
