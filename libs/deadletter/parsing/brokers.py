"""All brokers together: the one list of what can be parsed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.parsing import pulsar, rabbitmq, zaqar
from deadletter.parsing.facts import Facts
from deadletter.spark.parallel import together
from deadletter.spark.staging import Stage

BROKERS = {module.SYSTEM: module for module in (zaqar, rabbitmq, pulsar)}
EVENT_COLUMNS = ("event_id", "system", "raw", "source_file", "captured_at", "reasons", "silent")


def parse(bronze: DataFrame, systems: list[str], stage: Stage) -> Facts:
    """The facts of bronze rows, for the ``systems`` that occur in them.

    Each raw line is parsed once: ``stage`` keeps the result, from which every kind of fact is read. Rows of
    other systems come back in ``events`` with a reason and no facts. ``raw`` is null where nothing can be refused any
    more.
    """
    known = [name for name in BROKERS if name in systems] or [zaqar.SYSTEM]
    parsed = dict(zip(known, together(partial(stage, _parsed(bronze, name)) for name in known), strict=True))
    if rabbitmq.SYSTEM in parsed:
        parsed[rabbitmq.SYSTEM] = rabbitmq.judge_patterns(parsed[rabbitmq.SYSTEM])
    told = [_with_event_columns(BROKERS[name].facts(frame)) for name, frame in parsed.items()]
    facts = reduce(Facts.union, told)
    others = [name for name in systems if name not in BROKERS]
    if others:
        facts = replace(facts, events=facts.events.unionByName(unknown_system(bronze)))
    return facts


def _parsed(bronze: DataFrame, system: str) -> DataFrame:
    """Parsed events of one broker; only those that are refused, or may be yet, keep their raw text, most of an event's
    bytes."""
    raw = F.when((F.size("reasons") > 0) | F.col("kind").isin(*rabbitmq.WITH_PATTERN), F.col("raw"))
    return BROKERS[system].parse(bronze).withColumn("raw", raw)


def _with_event_columns(facts: Facts) -> Facts:
    return replace(facts, events=facts.events.select(*EVENT_COLUMNS))


def unknown_system(bronze: DataFrame) -> DataFrame:
    """Rows of a landing folder that names no broker, each with its reason."""
    reason = F.concat(
        F.lit("unknown_system: the landing folder is '"),
        F.col("system"),
        F.lit(f"', not one of {', '.join(BROKERS)}; move the file into one of these"),
    )
    return bronze.where(~F.col("system").isin(*BROKERS)).select(
        "event_id",
        "system",
        "raw",
        "source_file",
        "captured_at",
        F.array(reason).alias("reasons"),
        F.lit(False).alias("silent"),
    )
