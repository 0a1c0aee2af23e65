"""Dead Letter Office itself, as ``deadletter run`` runs it.

``DEADLETTER_BENCH_GATES=off`` takes the data quality gates out, to tell what they cost.
"""

import os
import time

import side

from deadletter import steps, tables
from deadletter.gates.gate import Gate
from deadletter.lake import Lake
from deadletter.spark.session import get_spark


def start():
    if os.environ.get("DEADLETTER_BENCH_GATES") == "off":
        Gate.check = lambda *given, **options: False
    return get_spark()


def bring_up(spark, landing, work):
    """One run; the seconds of its steps are those between what it tells."""
    told = [(time.perf_counter(), "start")]
    steps.run(Lake(spark, work), landing, tell=lambda text: told.append((time.perf_counter(), text.split(":")[0])))
    ends = [moment for moment, _ in told[1:]] + [time.perf_counter()]
    seconds = {}
    for (began, step), end in zip(told, ends, strict=True):
        seconds[step] = round(seconds.get(step, 0) + end - began, 3)
    return seconds


def dead_letters(spark, work, out):
    dead = Lake(spark, work).read(tables.DEAD_LETTERS)
    dead.selectExpr("queue", "message_id", "unix_micros(dead_lettered_at) AS died_us").toPandas().to_csv(
        out, index=False
    )


def sums(spark, work):
    state = Lake(spark, work).read(tables.MESSAGE_STATE)
    counted = ("count(posted) AS messages", "sum(size(deliveries)) AS grants", "count(settled) AS settled")
    return state.selectExpr(*counted).first().asDict()


if __name__ == "__main__":
    side.main(start, bring_up, dead_letters, sums)
