"""What was judged, kept run by run: rows of ``gold.quality_metrics``, and a rule's past read from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.gates.outcomes import Outcome
from deadletter.spark.frames import frame_of
from deadletter.tables import QUALITY_METRICS

KEPT = 30
"""Runs that make up a rule's past."""
RELEASE = "-release"
"""How the ids of runs end that judge what comes from quarantine again."""
STOPPED = "NOT passed AND NOT refused AND severity = 'critical'"
"""Rows of ``gold.quality_metrics`` that tell what stopped their run."""
Past = Mapping[tuple[str, str], list[tuple[int, int]]]
"""Of each rule, by table and rule id: rows and failing rows of its past runs, the newest first."""


def metrics(
    spark: SparkSession,
    outcomes: Iterable[Outcome],
    run_id: str,
    judged_at: datetime,
    drift: Mapping[tuple[str, str], float] | None = None,
) -> DataFrame:
    """Rows of ``gold.quality_metrics``. ``drift``: each rule's p by table and rule id, where it was tested."""
    rows = [
        (
            run_id,
            judged_at,
            outcome.table,
            outcome.rule.id,
            outcome.rule.name,
            outcome.rule.severity,
            outcome.rows,
            outcome.failing,
            outcome.passed,
            outcome.refused,
            outcome.observed,
            outcome.rule.expected,
            (drift or {}).get((outcome.table, outcome.rule.id)),
        )
        for outcome in outcomes
    ]
    return frame_of(spark, rows, QUALITY_METRICS.ddl)


def past(metrics: DataFrame, runs: int = KEPT) -> Past:
    """What the newest ``runs`` runs found, for each rule; small: one pair of counts a rule and run.

    Stopped runs are none of it: each try meets the same rows again, and soon there would be no other past. Nor are
    releases: what was refused once is not what usually comes.
    """
    runs_only = metrics.where(~F.endswith("run_id", F.lit(RELEASE)))
    went_on = runs_only.join(metrics.where(STOPPED).select("run_id"), "run_id", "left_anti")
    run = F.struct(F.unix_micros("judged_at").alias("at"), "run_id", "rows", "failing")
    newest = F.slice(F.sort_array(F.collect_list(run), asc=False), 1, runs)
    found = went_on.groupBy("table_name", "rule_id").agg(newest.alias("runs")).collect()
    return {
        (row["table_name"], row["rule_id"]): [(run["rows"], run["failing"]) for run in row["runs"]] for row in found
    }
