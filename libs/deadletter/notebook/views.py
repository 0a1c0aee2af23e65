"""Named looks at a lake, for notebooks: what died, what a pattern holds, what a limit would do.

Each takes a lake and returns a DataFrame that reads its tables; nothing is written. :func:`examples` shows payloads and
errors with their private values masked, as the report does. Rows of a table, as :func:`dead_letters` and
:func:`members` give them, have all that the table has.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.errors import UsageError
from deadletter.lake import Lake
from deadletter.lake.masks import lake_masks
from deadletter.pages.rows import rows as page_rows
from deadletter.patterns.masking import mask, private_masks
from deadletter.queues import place, short_name
from deadletter.report.queries import bucket_of, over_time
from deadletter.rules.pulsar import tenant_of
from deadletter.times import utc
from deadletter.triage import find


def dead_letters(lake: Lake, queue: str = "", since: str = "") -> DataFrame:
    """``gold.dead_letters`` with ``place``, of one ``queue`` or all.

    ``queue``: a name, also a Pulsar topic's without its prefix; or a place as the report names it. Empty: all.

    ``since``: an ISO 8601 time; only deaths from then on. Empty: all.
    """
    dead = _of_queue(lake.read(tables.DEAD_LETTERS), queue)
    if not since:
        return dead
    try:
        return dead.where(F.col("dead_lettered_at") >= F.lit(utc(since)))
    except ValueError as error:
        raise UsageError(f"since: {error}. Write it as 2026-11-20T21:00:00Z") from None


def what_died(dead: DataFrame) -> DataFrame:
    """``place, reason, evidence, cause, dead_letters, since, last, patterns``, the most deaths first."""
    return (
        dead.groupBy("place", "reason", "evidence", "cause")
        .agg(
            _count(),
            F.min("dead_lettered_at").alias("since"),
            F.max("dead_lettered_at").alias("last"),
            F.count_distinct("pattern_id").alias("patterns"),
        )
        .orderBy(F.desc("dead_letters"), "place", "reason", "evidence")
    )


def deaths_over_time(dead: DataFrame) -> DataFrame:
    """``time, place, n`` in bars whose width suits the span of all deaths."""
    return over_time(dead, bucket_of(dead))


def patterns_of(lake: Lake, dead: DataFrame) -> DataFrame:
    """The patterns of these dead letters: ``pattern_id, template, dead_letters, since, last, status, kind``.

    Without those that people muted, see :func:`muted_of`.
    """
    return (
        _patterns(lake, dead)
        .where("NOT muted")
        .select("pattern_id", "template", "dead_letters", "since", "last", "status", "kind")
        .orderBy(F.desc("dead_letters"), "pattern_id")
    )


def muted_of(lake: Lake, dead: DataFrame) -> DataFrame:
    """What :func:`patterns_of` leaves out, one row: ``muted_patterns, dead_letters``."""
    counted = (F.count("*").alias("muted_patterns"), F.coalesce(F.sum("dead_letters"), F.lit(0)).alias("dead_letters"))
    return _patterns(lake, dead).where("muted").agg(*counted)


def _patterns(lake: Lake, dead: DataFrame) -> DataFrame:
    counted = dead.groupBy("pattern_id").agg(
        _count(), F.min("dead_lettered_at").alias("since"), F.max("dead_lettered_at").alias("last")
    )
    named = lake.read(tables.POISON_PATTERNS).select("pattern_id", "kind", "template", "status", "muted")
    return counted.join(named, "pattern_id")


def examples(lake: Lake, dead: DataFrame, most: int = 5) -> DataFrame:
    """The latest deaths: ``place, message_id, dead_lettered_at, reason, evidence, claim_count, error, payload``."""
    named = ("place", "message_id", "dead_lettered_at", "reason", "evidence", "claim_count")
    latest = dead.orderBy(F.desc("dead_lettered_at"), "message_id").limit(most)
    return latest.select(*named, *_shown(lake, "error", "payload"))


def still_held(lake: Lake, dead: DataFrame) -> DataFrame:
    """What still lies in the dead letter queues, and when the broker drops the first of it.

    ``system, tenant, dead_letter_queue, dead_letters, first_expires``. What Zaqar had dropped by the time of the last
    run, or what was removed there or moved on, is left out; in RabbitMQ and Pulsar only an acknowledgement that was
    captured tells of that.
    """
    done = lake.progress.of("gold")
    dropped = F.col("expires_at") <= F.lit(done.as_of if done else None).cast("timestamp")
    onward = lake.read(tables.DEAD_LETTERS).where("system = 'zaqar'").alias("onward")
    moved_on = F.expr(
        "onward.system = here.system AND onward.tenant = here.tenant AND onward.queue = here.dead_letter_queue"
        " AND onward.message_id = here.message_id AND onward.dead_lettered_at > here.dead_lettered_at"
    )
    return (
        dead.where("dead_letter_queue IS NOT NULL AND removed_at IS NULL")
        .alias("here")
        .join(onward, moved_on, "left_anti")
        .where(~F.coalesce(dropped, F.lit(False)))
        .groupBy("system", F.expr(tenant_of("dead_letter_queue")).alias("tenant"), "dead_letter_queue")
        .agg(_count(), F.min("expires_at").alias("first_expires"))
        .orderBy(F.desc("dead_letters"), "system", "tenant", "dead_letter_queue")
    )


def pattern(lake: Lake, pattern_id: str = "") -> DataFrame:
    """The one row of ``gold.poison_patterns``.

    ``pattern_id``: an id that the pattern has or had, or the start of one. Empty: the pattern with the most dead
    letters, a muted one only where all are.

    Raises :class:`UsageError` where there is none, or several begin so.
    """
    found = lake.read(tables.POISON_PATTERNS)
    found = found.where(F.col("pattern_id") == find(lake, pattern_id)) if pattern_id else found
    one = found.orderBy("muted", F.desc("dead_letters"), "pattern_id").limit(1)
    if one.isEmpty():
        raise UsageError(f"no pattern {pattern_id or 'yet'} in gold.poison_patterns of {lake.root}")
    return one


def members(lake: Lake, pattern_id: str) -> DataFrame:
    """The dead letters of a pattern, named as for :func:`pattern`, with ``place``."""
    return dead_letters(lake).where(F.col("pattern_id") == find(lake, pattern_id))


def differences(dead: DataFrame) -> DataFrame:
    """How the payloads differ from healthy messages of their queues.

    ``difference, dead_letters, example`` (a message id); a payload can differ in several ways or in none.
    """
    told = F.when(F.size("deviation") > 0, F.col("deviation")).otherwise(F.array("deviation_key"))
    return (
        dead.select(F.explode(told).alias("difference"), "message_id")
        .groupBy("difference")
        .agg(_count(), F.min("message_id").alias("example"))
        .orderBy(F.desc("dead_letters"), "difference")
    )


def survival(lake: Lake, queue: str = "") -> DataFrame:
    """``gold.delivery_survival`` with ``place``, of one ``queue`` or all, as for :func:`dead_letters`."""
    return _of_queue(lake.read(tables.DELIVERY_SURVIVAL), queue).orderBy("place", "delivery")


def _of_queue(rows: DataFrame, queue: str) -> DataFrame:
    placed = rows.withColumn("place", place())
    return placed.where(F.lit(queue).isin(F.col("queue"), short_name(), F.col("place"))) if queue else placed


def limit_preview(curve: DataFrame, limit: int) -> DataFrame:
    """What a limit of ``limit`` deliveries would have done to what was seen, one row a queue.

    ``place``; ``delivered``: messages delivered at all; ``stopped``: those that were delivered more often than
    that; ``stopped_though_settled``: of these, how many a later delivery settled, which the limit would have
    killed for nothing; ``deliveries_saved``: all beyond it, also theirs, which ``deadletter preview`` leaves out of
    what it calls saved. A limit above what was seen saves and stops nothing: what further
    deliveries would have done, nobody saw.

    >>> curve = spark.sql("SELECT * FROM VALUES ('q', 1L, 10L, 6L), ('q', 2L, 4L, 1L), ('q', 3L, 3L, 2L) "
    ...                   "AS t(place, delivery, reached, settled)")
    >>> limit_preview(curve, 1).show()
    +-----+---------+-------+----------------------+----------------+
    |place|delivered|stopped|stopped_though_settled|deliveries_saved|
    +-----+---------+-------+----------------------+----------------+
    |    q|       10|      4|                     3|               7|
    +-----+---------+-------+----------------------+----------------+
    """
    later = F.col("delivery") > limit

    def total(name: str, counted: Column) -> Column:
        return F.coalesce(F.sum(F.when(counted, F.col(name))), F.lit(0).cast("bigint"))

    return (
        curve.groupBy("place")
        .agg(
            total("reached", F.col("delivery") == 1).alias("delivered"),
            total("reached", F.col("delivery") == limit + 1).alias("stopped"),
            total("settled", later).alias("stopped_though_settled"),
            total("reached", later).alias("deliveries_saved"),
        )
        .orderBy("place")
    )


def previews(curve: DataFrame, up_to: int) -> DataFrame:
    """:func:`limit_preview` for each limit from 1 to ``up_to``, all queues together, with ``limit``."""
    limits = curve.sparkSession.range(1, up_to + 1).withColumnRenamed("id", "limit")
    later = F.col("delivery") > F.col("limit")
    return (
        limits.join(curve.select("delivery", "reached", "settled"), later, "left")
        .groupBy("limit")
        .agg(
            F.coalesce(F.sum("settled"), F.lit(0)).alias("stopped_though_settled"),
            F.coalesce(F.sum("reached"), F.lit(0)).alias("deliveries_saved"),
        )
        .orderBy("limit")
    )


def rows(df: DataFrame, most: int = 10_000) -> list[dict]:
    """Up to ``most`` rows for a chart; times as text in UTC."""
    return page_rows(df, most)


def _count() -> Column:
    return F.count("*").alias("dead_letters")


def _shown(lake: Lake, *names: str) -> list[Column]:
    return [mask(F.col(name), private_masks(lake_masks(lake))).alias(name) for name in names]
