"""What a run tells: progress while it works, and a summary at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import functions as F

from deadletter import tables
from deadletter.lake import Lake
from deadletter.spark.parallel import together

Tell = Callable[[str], None]


@dataclass
class Summary:
    """What a run did: counts of events of this run, and of the lake at its end.

    ``messages`` counts rows of ``silver.message_state``: a message once for each queue it was in, and for each
    subscription. The report counts the messages themselves, which takes longer.
    """

    as_of: datetime | None = None
    events_in: int = 0
    events_new: int = 0
    events_quarantined: int = 0
    events_silent: int = 0
    messages: int = 0
    patterns: int = 0
    dead_letters: list[dict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    run_id: str = ""

    def describe(self, lake: Lake) -> None:
        """Fill in what the lake holds."""
        counted = (
            lake.read(tables.DEAD_LETTERS)
            .groupBy("system", "tenant", "queue", "subscription", "reason")
            .agg(F.count("*").alias("dead_letters"))
            .orderBy("system", "tenant", "queue", "subscription", "reason")
        )
        self.messages, self.patterns, rows = together(
            [lake.read(tables.MESSAGE_STATE).count, lake.read(tables.POISON_PATTERNS).count, counted.collect]
        )
        self.dead_letters = [row.asDict() for row in rows]
