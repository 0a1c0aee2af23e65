"""The figures of the report: small aggregates of the gold tables, never the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.health import MEASURES
from deadletter.lake import Lake
from deadletter.lake.masks import lake_masks
from deadletter.pages.rows import MOST_ROWS, rows
from deadletter.patterns.masking import mask, private_masks
from deadletter.queues import place
from deadletter.silver.quarantine import waiting
from deadletter.spark.frames import frame_of, only_row
from deadletter.spark.parallel import together
from deadletter.triage import quarantined

FIRST_DELIVERIES = 50
"""Deliveries of one message can be thousands, where nothing ends them."""
LOOKED_AT = 1000
"""Characters of a raw event in quarantine from which an example is made."""
MOST_PATTERNS = 20
MOST_RUNS = 100
BUCKETS = (("minute", 3 * 3600), ("hour", 5 * 86400), ("day", 400 * 86400), ("month", None))
"""Width of a bar in time, and the longest span in seconds it is used for."""
MOST_PLACES = 8
"""Queues that have a colour of their own in time; the others, with fewer dead letters, share one."""


@dataclass(frozen=True)
class Figures:
    """Everything the page shows, as plain rows; one more than it shows where there are others."""

    headline: dict
    bucket: str
    over_time: list[dict]
    by_reason: list[dict]
    survival: list[dict]
    patterns: list[dict]
    health: list[dict]
    delays: list[dict]
    discrepancies: list[dict]
    quarantine: list[dict]
    quality_runs: list[dict]
    quality_rules: list[dict]
    muted: int = 0


def figures(lake: Lake, reveal: bool = False) -> Figures:
    """Read the report's figures from the lake; ``reveal`` shows private values in the examples."""
    dead = lake.read(tables.DEAD_LETTERS).withColumn("place", place())
    told = dead.withColumn("reason", F.format_string("%s (%s)", "reason", "evidence"))
    by_reason = told.groupBy("place", "reason").agg(_count()).orderBy(F.desc("n"), "place", "reason")
    survival = lake.read(tables.DELIVERY_SURVIVAL).withColumn("place", place())
    first = partial(rows, most=MOST_ROWS + 1)
    read: dict[str, Callable[[], Any]] = {
        "headline": partial(_headline, lake, dead),
        "in_time": partial(_in_time, dead),
        "by_reason": lambda: first(by_reason),
        "survival": lambda: first(first_deliveries(survival)),
        "patterns": lambda: rows(top_patterns(lake, dead, reveal)),
        "muted": lake.read(tables.POISON_PATTERNS).where("muted").count,
        "health": lambda: first(_health(lake)),
        "delays": lambda: first(_health(lake).where("delayed > 0 OR expired_unseen > 0")),
        "discrepancies": lambda: first(_discrepancies(lake)),
        "quarantine": lambda: first(_quarantine(lake, reveal)),
        "quality_runs": lambda: rows(_quality_runs(_metrics(lake))),
        "quality_rules": lambda: first(_quality_rules(_metrics(lake))),
    }
    found = dict(zip(read, together(read.values()), strict=True))
    bucket, bars = found.pop("in_time")
    return Figures(bucket=bucket, over_time=bars, **found)


def _in_time(dead: DataFrame) -> tuple[str, list[dict]]:
    bucket = bucket_of(dead)
    return bucket, rows(over_time(dead, bucket))


def bucket_of(dead: DataFrame) -> str:
    """The width of a bar that suits the span of all deaths."""
    first, last = F.min("dead_lettered_at"), F.max("dead_lettered_at")
    span = only_row(dead.agg((F.unix_seconds(last) - F.unix_seconds(first)).alias("span")))["span"] or 0
    return next(name for name, longest in BUCKETS if longest is None or span <= longest)


def _count() -> Column:
    return F.count("*").alias("n")


def first_deliveries(survival: DataFrame) -> DataFrame:
    """What is shown of rows of ``gold.delivery_survival`` with their ``place``: the first :data:`FIRST_DELIVERIES` of
    each queue, those of the queues with most messages first. The start of a curve is one."""
    size = F.max("reached").over(Window.partitionBy("place"))
    shown = survival.where(F.col("delivery") <= FIRST_DELIVERIES).withColumn("_size", size)
    return shown.orderBy(F.desc("_size"), "place", "delivery").drop("_size")


def _headline(lake: Lake, dead: DataFrame) -> dict:
    done = lake.progress.of("gold")
    until = F.lit(done.as_of if done else None).cast("timestamp")
    died = F.exists("deaths", lambda death: death["time"] <= until)
    known = lake.read(tables.MESSAGE_STATE).where(until.isNull() | (F.col("seen") <= until) | died)
    counted = {
        "messages": known.select("system", "tenant", "message_id").distinct(),
        "dead letters": dead,
        "patterns": lake.read(tables.POISON_PATTERNS),
        "events in quarantine": quarantined(lake).where(waiting()),
    }
    counts = [frame.select(F.lit(name).alias("what")).groupBy("what").agg(_count()) for name, frame in counted.items()]
    told = {row["what"]: row["n"] for row in reduce(DataFrame.unionByName, counts).collect()}
    as_of = done.as_of.strftime("%Y-%m-%d %H:%M:%S UTC") if done and done.as_of else "no run yet"
    return {"as of": as_of} | {name: told.get(name, 0) for name in counted}


def over_time(dead: DataFrame, bucket: str) -> DataFrame:
    """Deaths in each bar of time: ``time, place, n``. ``dead`` has ``dead_lettered_at`` and ``place``.

    However many queues and deaths there are, these are few rows: queues with few dead letters are one place.
    """
    counted = dead.groupBy(F.date_trunc(bucket, "dead_lettered_at").alias("time"), "place").agg(_count())
    largest = counted.groupBy("place").agg(F.sum("n").alias("all")).orderBy(F.desc("all"), "place").limit(MOST_PLACES)
    named = counted.join(largest.withColumn("own", F.lit(True)), "place", "left")
    shown = F.when(F.col("own"), F.col("place")).otherwise("other queues")
    return named.groupBy("time", shown.alias("place")).agg(F.sum("n").alias("n")).orderBy("time", "place")


def top_patterns(lake: Lake, dead: DataFrame, reveal: bool) -> DataFrame:
    """The patterns that nobody muted: new and regressed ones first, as they ask for somebody, then the largest."""
    order: list[Column | str] = [F.col("status").isin("new", "regressed").desc(), F.desc("dead_letters"), "pattern_id"]
    top = (
        lake.read(tables.POISON_PATTERNS)
        .where("NOT muted")
        .orderBy(*order)
        .limit(MOST_PATTERNS + 1)
        .withColumn("example_id", F.col("example.message_id"))
    )
    shown = dead.select(F.struct(*tables.MESSAGE_KEY).alias("example"), "payload", "error")
    told = top.join(shown, "example", "left").orderBy(*order)
    if reveal:
        return told.withColumns({"example_payload": F.col("payload"), "example_error": F.col("error")})
    return told.withColumn("example_error", mask(F.col("error"), private_masks(lake_masks(lake))))


def _health(lake: Lake) -> DataFrame:
    return (
        lake.read(tables.QUEUE_HEALTH)
        .groupBy(place().alias("place"))
        .agg(*[F.sum(name).alias(name) for name in MEASURES])
        .orderBy("place")
    )


def _discrepancies(lake: Lake) -> DataFrame:
    return (
        lake.read(tables.DISCREPANCIES)
        .groupBy(place().alias("place"), "kind")
        .agg(_count(), F.min("message_id").alias("example"))
        .orderBy(F.desc("n"), "place", "kind")
    )


def _quarantine(lake: Lake, reveal: bool) -> DataFrame:
    broken = quarantined(lake).where(waiting()).select("system", F.explode("reasons").alias("reason"), "raw")
    example = F.col("example") if reveal else mask(F.col("example"), private_masks(lake_masks(lake)), LOOKED_AT)
    return (
        broken.groupBy("system", "reason")
        .agg(_count(), F.min(F.make_valid_utf8(F.substring("raw", 1, LOOKED_AT + 1))).alias("example"))
        .withColumn("example", F.substring(example, 1, 300))
        .orderBy(F.desc("n"), "system", "reason")
    )


def _metrics(lake: Lake) -> DataFrame:
    """``gold.quality_metrics``; no rows in a lake of an earlier version, which has no such table."""
    if lake.exists(tables.QUALITY_METRICS):
        return lake.read(tables.QUALITY_METRICS)
    return frame_of(lake.spark, [], tables.QUALITY_METRICS.ddl)


def _quality_runs(metrics: DataFrame) -> DataFrame:
    """How many rules failed in each of the newest runs, by severity: ``time, severity, n``; 0 where all held."""
    newest = metrics.select("run_id", "judged_at").distinct().orderBy(F.desc("judged_at")).limit(MOST_RUNS)
    return (
        metrics.join(newest.select("run_id"), "run_id", "left_semi")
        .groupBy(F.col("judged_at").alias("time"), "severity")
        .agg(F.count_if(~F.col("passed")).alias("n"))
        .orderBy("time", "severity")
    )


def _quality_rules(metrics: DataFrame) -> DataFrame:
    """The rules that ever failed: in how many runs, when last, and what was found then. The latest come first."""
    last = F.max_by(F.struct("observed", "expected", "failing", "refused"), "judged_at")
    return (
        metrics.where(~F.col("passed"))
        .groupBy("table_name", "rule_id", "rule", "severity")
        .agg(F.count_distinct("run_id").alias("runs"), F.max("judged_at").alias("last_failed"), last.alias("last"))
        .select(
            *("table_name", "rule", "severity", "runs", "last_failed", "last.observed", "last.expected"),
            F.expr(
                "CASE WHEN last.refused THEN 'in quarantine'"
                " WHEN severity = 'critical' THEN 'run stopped' WHEN severity = 'info' THEN 'counted' ELSE 'told' END"
            ).alias("then"),
        )
        .orderBy(F.desc("last_failed"), "table_name", "rule", "rule_id")
    )
