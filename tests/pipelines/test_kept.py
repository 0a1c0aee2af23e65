"""What is kept of the messages of earlier days: with it a run derives what it would of all that silver has.

Twice: once after few runs, once after more, among them one that goes back in time and one that keeps nothing new."""

import json
import random
from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from deadletter import steps, tables
from deadletter.gold import healthy, kept
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import DOCUMENT
from deadletter.snapshot import gold_as_of
from deadletter.spark import session
from tests.models import zaqar
from tests.models.clock import SECOND, START
from tests.pipelines.comparing import COMPARED, assert_same_rows
from tests.properties.arriving import write

PROJECTS = 6
DAY = 3 * 86400 * SECOND
"""From one day with events to the next: a day beside one that changed is read, too."""
BEGAN = START - 30 * 86400 * SECOND
LATE = 0.03
SAMPLE = 5
MANY, FEW = 100, 100_000
"""Messages up to which a run keeps nothing new."""
WHOLE = 0
"""The project of which a dead letter queue has one of its own."""
LIMITED = "limited"
"""A project of which nothing is known for days but that its messages are claimed once and deleted."""


def played(project, number_of_days):
    """The lines of each day of a project's queues: most messages are settled after their only claim, some are claimed
    until they are moved, and what is left of a day is claimed on the next."""
    chance, days = random.Random(project), []
    store = zaqar.Store("document", f"project-{project}", chance)
    # what is replayed as a whole is never kept
    second = {"_max_claim_count": 2, "_dead_letter_queue": "q-dead"} if project == WHOLE else {}
    store.put(BEGAN - 2, "q-dlq", **second)
    store.put(BEGAN - 1, "q", _max_claim_count=chance.choice((2, 3)), _dead_letter_queue="q-dlq")
    for day in range(number_of_days):
        now = BEGAN + day * DAY
        for _ in range(9):
            now += chance.randint(70, 90) * SECOND
            store.post(now, "q", [(10 * 86400, None)] * chance.randint(1, 6))
            claim = store.claim(now + SECOND, "q", chance.randint(2, 7), 60, 60)
            for place, message in enumerate(claim.taken if claim else ()):
                if chance.random() < 0.8:
                    store.delete(now + (2 + place) * SECOND, message, "q", claim)
        again = store.claim(now + 20 * SECOND, "q-dlq", 1, 60, 60)
        if again:
            store.delete(now + 21 * SECOND, again.taken[0], "q-dlq", again)
        days.append([json.dumps(event) for event in store.events])
        store.events.clear()
    return days


def limited():
    """Messages of one day that are claimed and deleted; and, last, that their queue has a limit of one claim."""
    store = zaqar.Store("document", LIMITED, random.Random(LIMITED))
    store.post(BEGAN, "q", [(3600, None)] * 8)
    held = store.claim(BEGAN + SECOND, "q", 8, 60, 60)
    for number, message in enumerate(held.taken):
        store.delete(BEGAN + (2 + number) * SECOND, message, "q", held)
    store.put(BEGAN + 20 * SECOND, "q", _max_claim_count=1, _dead_letter_queue="q-dlq")
    return [json.dumps(event) for event in store.events]


def batches(days):
    """The first days, then day by day; a few of each day's lines come with a later batch, and so does a limit."""
    chance, made = random.Random(7), [[] for _ in range(days - 1)]
    for project in range(PROJECTS):
        for day, lines in enumerate(played(project, days)):
            first = max(0, day - 1)
            for line in lines:
                made[chance.randrange(first, len(made)) if chance.random() < LATE else first].append(line)
    *deleted, limit = limited()
    made[1] += deleted
    return [*made, [limit]]


def versions(lake):
    """The versions of bronze up to which messages of queues are kept."""
    return {row["source_version"] for row in lake.read(tables.KEPT_QUEUES).collect()}


SHORT = 3, (MANY, MANY, MANY), False, [{1}, {2}, {2}]
LONG = 5, (MANY, MANY, FEW, MANY, MANY), True, [{1}, set(), {2}, {2}, {2, 4}, {2, 4}]


@pytest.fixture(scope="module", params=[SHORT, pytest.param(LONG, marks=pytest.mark.soak)], ids=["short", "long"])
def case(request):
    """How many days, the messages up to which each run keeps nothing new, whether after the first one goes back in
    time, and up to which versions of bronze messages are kept after each run."""
    return request.param


@pytest.fixture(scope="module")
def lakes(spark, case, tmp_path_factory):
    """The lake of one run over all batches; that of a run for each; up to which version the latter kept messages after
    each run, and what it told."""
    folder, told, found = tmp_path_factory.mktemp("kept"), [], []
    once, each = (Lake(spark, str(folder / name)) for name in ("once", "each"))
    days, least, goes_back, _ = case

    def run(lake, most, **options):
        patch.setattr(kept, "AGAIN", most)
        return steps.run(lake, str(folder / "landing"), habits=DOCUMENT, tell=told.append, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "LEAST", 1)
        patch.setattr(healthy, "SAMPLES", (SAMPLE,))
        patch.setitem(session.TINY, session.HELD_ROWS, str(MANY))
        for number, (lines, most) in enumerate(zip(batches(days), least, strict=True)):
            write(folder / "landing", f"{number}.jsonl.gz", {"zaqar": lines})
            run(each, most)
            found.append(versions(each))
            if goes_back and number == 0:
                run(each, most, as_of=gold_as_of(each) - timedelta(days=2))
                found.append(versions(each))
        assert run(once, FEW).events_quarantined == 0
    return once, each, found, told


@pytest.mark.parametrize("table", COMPARED, ids=lambda table: table.full_name)
def test_the_same_tables_as_of_all_that_silver_has(lakes, table):
    assert_same_rows(*[lake.read(table) for lake in lakes[:2]])


def test_messages_were_kept(case, lakes):
    """Not anew where few were looked at; and no longer where a run went back in time."""
    days, *_, expected = case
    assert lakes[2] == expected
    kept_now = lakes[1].read(tables.COUNTED_MESSAGES).agg(F.sum("messages"), F.count_distinct("created_day")).first()
    assert kept_now[0] > 100 * days
    assert kept_now[1] == days


def test_a_rule_has_a_word_on_messages_that_were_counted(lakes):
    assert [text for text in lakes[3] if "messages that were counted" in text]
