"""The gate of one run: what the steps call, and where the run's outcomes come together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from deadletter.gates import rows
from deadletter.gates.drift import Past, corrected_p, drifted
from deadletter.gates.history import metrics
from deadletter.gates.judging import judge
from deadletter.gates.outcomes import Outcome, enforce
from deadletter.gates.suites import suite_of
from deadletter.tables import Table


@dataclass
class Gate:
    """Judges a run's batches and tables. ``judged_at``: UTC; ``parameters``: values for ``$PARAMETER``; ``lake``: as
    the commands that show failing rows name it.

    May be used from several threads: each call judges a table of its own and adds to ``outcomes``.
    """

    run_id: str
    judged_at: datetime
    parameters: dict[str, Any] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lake: str = ""

    def split(self, batch: DataFrame, table: Table) -> tuple[DataFrame, DataFrame]:
        """The batch's good rows, and its bad ones. Reads nothing."""
        return rows.split(batch, suite_of(table).bind(self.parameters))

    def check(
        self, df: DataFrame, table: Table, tables: Mapping[str, DataFrame] | None = None, refused: bool = False
    ) -> bool:
        """Judge ``df`` by the table's suite, note the outcomes, and stop the run where a critical rule failed.

        ``tables``: what the suite's queries read, by full name. ``refused``: ``df`` is a batch before
        :meth:`split`; returns whether there is anything to split off. Raises :class:`~deadletter.errors.GateError`.
        """
        found = judge(df, suite_of(table), tables, self.parameters, refused)
        found = [replace(outcome, lake=self.lake) for outcome in found]
        self.outcomes += found
        self.warnings += enforce(found)
        return any(outcome.refused and not outcome.passed for outcome in found)

    def history(self, spark: SparkSession, past: Past) -> DataFrame:
        """The run's rows of ``gold.quality_metrics``; warns of each rule that left its ``past``."""
        p = corrected_p(self.outcomes, past)
        self.warnings += [drift.message for drift in drifted(self.outcomes, past, p)]
        return metrics(spark, self.outcomes, self.run_id, self.judged_at, p)
