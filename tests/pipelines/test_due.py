"""What a run derives: the queues that something changed, and everything where that reaches further."""

import json
import random

import pytest

from deadletter import steps, tables
from deadletter.lake import Lake
from deadletter.steps.due import WRITING
from tests.models.clock import SECOND, START
from tests.models.pulsar import Topic
from tests.pipelines.conftest import quiet
from tests.pipelines.test_disorder import COMPARED, assert_same_tables

CITIES = ("Bern", "Lyon", "Oslo", "Riga", "Rome", "Cork", "Kiel", "Nice")
HEALTHY = 25


def topic(name, start, cities):
    """Lines of a topic with a yardstick of its own, and one death for each city: its error names the city."""
    made = Topic(random.Random(name), f"public/{name}", len(name))
    made.retry, now = False, start
    made.subscribe(now, "s", 0, f"{made.name}-dead")
    for number in range(HEALTHY + len(cities)):
        now += SECOND
        made.send(now)
        message = made.messages[-1]
        consumer = made.receive(now + 1, "s", message)
        if number < HEALTHY:
            made.acknowledge(now + 2, "s", message)
        else:
            made.fail(now + 2, "s", message, consumer)
            failed = next(event for event in reversed(made.events) if "error" in event)
            failed["error"] = f"no route from depot {cities[number - HEALTHY]} to customer"
    made.read_dead(now + SECOND)
    return [json.dumps(event) for event in made.events]


@pytest.fixture(scope="module")
def lakes(spark, tmp_path_factory):
    """One lake that got both topics at once; one that got the earlier topic last, what its second run told, and its
    landing folder."""
    folder, told = tmp_path_factory.mktemp("due"), []
    parts = {"later": topic("later", START + 3600 * SECOND, CITIES[1:2]), "sooner": topic("sooner", START, CITIES)}
    made = {name: Lake(spark, str(folder / name / "lake")) for name in ("at once", "in turn")}
    for name in parts:
        for lake in made:
            landing = folder / lake / "landing" / "pulsar"
            landing.mkdir(parents=True, exist_ok=True)
            (landing / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in parts[name]))
        told.clear()
        steps.run(made["in turn"], str(folder / "in turn" / "landing"), tell=told.append)
    steps.run(made["at once"], str(folder / "at once" / "landing"), tell=quiet)
    return made["at once"], made["in turn"], told, folder / "in turn" / "landing"


def test_a_pattern_that_widens_takes_other_queues_dead_letters_along(lakes):
    """The earliest member gives a pattern its id: one that comes late, in another queue, changes all members' ids."""
    at_once, in_turn, told, _ = lakes
    assert [text for text in told if "in 2 of the queues" in text]  # the topic and its dead letter topic
    assert [text for text in told if "another id" in text]
    assert_same_tables(at_once, in_turn)
    errors = in_turn.read(tables.DEAD_LETTERS).select("pattern_id", "tenant").distinct().collect()
    assert len({row["pattern_id"] for row in errors}) == 1
    assert len(errors) == 2


def test_after_a_write_that_was_not_finished_everything_is_derived(lakes):
    _, lake, _, landing = lakes
    before, told = {table: lake.read(table).collect() for table in COMPARED}, []
    lake.note_progress(WRITING, 1, None)
    steps.run(lake, str(landing), tell=told.append)
    assert [text for text in told if text.startswith("gold: judging") and "queues" not in text]
    after = {table: lake.read(table).collect() for table in COMPARED}
    assert all(sorted(map(str, before[table])) == sorted(map(str, after[table])) for table in COMPARED)
