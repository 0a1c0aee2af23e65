"""What tests of a few events share: stories that are judged all at once, as to judge one alone takes as long, and what
another limit would have done."""

import json
from collections import defaultdict

from pyspark.sql import functions as F

from deadletter.gold.dead_letters import all_deaths
from deadletter.rules.zaqar_store import REDIS
from deadletter.spark.staging import held_if_few
from deadletter.whatif.history import Choice, histories
from deadletter.whatif.limit import counted
from tests.unit.timed import timed

TENANT = "broken"
"""Where the events of ``broken_events`` happened: a project, a vhost, a tenant."""


class Stories(dict):
    """One broker's stories, ``{name: events}``, judged ``seconds`` after their start; ``tenant`` is what the broker's
    tenant is called by a story's name."""

    def __init__(self, system, told=(), tenant="{}", seconds=3600):
        super().__init__(told)
        self.system, self.tenant, self.seconds = system, tenant, seconds

    def add(self, *events):
        """Have a story judged; returns its tenant."""
        name = f"story{len(self)}"
        self[name] = events
        return self.tenant.format(name)


def apart(stories):
    """The events of all stories, each story in a tenant that is called like it."""
    return [
        json.loads(json.dumps(event).replace(TENANT, name)) for name, told in stories.items() for event in timed(told)
    ]


def by_story(rows):
    """``{story: rows}`` of collected rows, none for a story that has none."""
    found = defaultdict(list)
    for row in rows:
        found[row["tenant"]].append(row)
    return found


def deaths(facts, system):
    """What died of one broker's, in the columns of ``gold.dead_letters``."""
    return held_if_few(all_deaths(facts, REDIS, held_if_few, [system]))


def lives(facts, dead, system, queue):
    """What the messages of a queue lived through, in every tenant that has one of that name."""
    named = dead.withColumn("pattern_id", F.lit("p"))
    lived = histories(facts, named, Choice(system, queue), REDIS)
    return held_if_few(lived.withColumn("pattern_id", F.col("message_id")))


def fates(lived, allowed):
    """``{message: (counted deliveries, claims saved, fate)}`` where a message may be delivered so often."""
    found = counted(lived, allowed).collect()
    return {row["pattern_id"]: (row["deliveries"], row["claims_saved"], row["fate"]) for row in found}
