"""What dead letters share: each gets a pattern, and each pattern a row."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.patterns.deviation import deviations
from deadletter.patterns.linking import pattern_keys
from deadletter.patterns.masking import mask, private_masks
from deadletter.patterns.profile import profile

QUIET_AFTER = timedelta(hours=24)
"""A pattern without a death for so long is quiet."""
NEW_FOR = timedelta(hours=24)
"""A pattern first seen less than this before ``as_of`` is new."""
EXAMPLES = 3


def compare_payloads(dead: DataFrame, healthy: DataFrame) -> DataFrame:
    """``gold.dead_letters`` with how each payload differs from the ``healthy`` ones of its queue.

    ``healthy`` has ``system, tenant, queue, payload``. Adds ``deviation_key`` and ``deviation`` (sentences).
    """
    queue = ["system", "tenant", "queue"]
    return deviations(dead, profile(healthy, "payload", queue), "payload", queue)


def assign_patterns(compared: DataFrame) -> DataFrame:
    """Compared dead letters with their ``pattern_id``, plus ``kind`` and ``template`` of the pattern.

    A dead letter is grouped by the error its consumer gave, or by how its payload differs. Reads
    ``compared`` several times.
    """
    keyed = pattern_keys(compared.drop("pattern_id"), "error")
    is_error = F.col("pattern_key").eqNullSafe(F.col("error_template"))
    return keyed.withColumns(
        {"kind": F.when(is_error, "error").otherwise("payload"), "template": F.col("pattern_key")}
    ).drop("error_template", "pattern_key", "deviation_key")


def status(first_seen: Column, last_seen: Column, as_of: datetime) -> Column:
    """``quiet`` after a day without a death, ``new`` in its first day, ``ongoing`` between."""
    now = F.lit(as_of)
    return (
        F.when(last_seen < now - F.lit(QUIET_AFTER), "quiet")
        .when(first_seen > now - F.lit(NEW_FOR), "new")
        .otherwise("ongoing")
    )


def poison_patterns(dead: DataFrame, as_of: datetime) -> DataFrame:
    """Rows of ``gold.poison_patterns`` from dead letters with ``kind`` and ``template``."""
    member = F.struct("dead_lettered_at", "system", "queue", "message_id", "payload")
    members = F.array_sort(F.collect_list(member))
    return (
        dead.groupBy("pattern_id")
        .agg(
            F.min("template").alias("template"),
            F.min("kind").alias("kind"),
            F.count("*").alias("dead_letters"),
            F.min("dead_lettered_at").alias("first_seen"),
            F.max("dead_lettered_at").alias("last_seen"),
            F.array_sort(F.collect_set(F.concat_ws(":", "system", "queue"))).alias("queues"),
            F.slice(members, 1, EXAMPLES).alias("members"),
        )
        .withColumns(
            {
                "example_message_ids": F.transform("members", lambda m: m["message_id"]),
                "example_payload": mask(F.get("members", F.lit(0))["payload"], private_masks()),
                "status": status(F.col("first_seen"), F.col("last_seen"), as_of),
            }
        )
        .select(*tables.POISON_PATTERNS.column_names)
    )
