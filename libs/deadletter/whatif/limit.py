"""What a delivery limit would have done: each message's fate under it, then figures by pattern."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FATES = ("earlier", "unchanged", "put_off", "false_death", "lost", "death_unknown", "at_limit", "alive")
"""What becomes of a delivered message, see :func:`fate`."""


def fate(allowed: int) -> Column:
    """A history's fate where a message may be delivered ``allowed`` times and no more.

    - ``earlier``: it died, and would have died before its last recorded delivery
    - ``unchanged``: it died, and would have all the same (the same number of deliveries, or another cause)
    - ``put_off``: it died of its limit, and would have been delivered again
    - ``false_death``: it would have died, yet a later delivery settled it
    - ``lost``: it would have died; nobody settled it, it expired or was purged
    - ``death_unknown``: it would have died; whether a later delivery settled it is not known
    - ``at_limit``: still open, with no delivery left
    - ``alive``: everything else

    >>> rows = [(4, "dead_lettered", "delivery_limit"), (2, "dead_lettered", "delivery_limit")]
    >>> rows += [(1, "dead_lettered", "ttl"), (3, "settled", None), (3, "unknown", None), (2, "settled", None)]
    >>> df = spark.createDataFrame(rows, "deliveries BIGINT, outcome STRING, cause STRING")
    >>> df = df.withColumns({"is_open": F.lit(False), "lost": F.lit(False)})
    >>> [row.fate for row in df.select(fate(2).alias("fate")).collect()]
    ['earlier', 'unchanged', 'unchanged', 'false_death', 'death_unknown', 'alive']
    >>> df.limit(2).select(fate(3).alias("fate")).collect()[1].fate
    'put_off'
    """
    more, fewer = F.col("deliveries") > allowed, F.col("deliveries") < allowed
    died, settled = (F.col("outcome") == outcome for outcome in ("dead_lettered", "settled"))
    return (
        F.when(died & more, "earlier")
        .when(died & fewer & (F.col("cause") == "delivery_limit"), "put_off")
        .when(died, "unchanged")
        .when(more & settled, "false_death")
        .when(more & F.col("lost"), "lost")
        .when(more, "death_unknown")
        .when(F.col("is_open") & ~fewer, "at_limit")
        .otherwise("alive")
    )


def seconds_earlier(allowed: int) -> Column:
    """How much earlier a death would have come, seconds; null unless the fate is ``earlier``.

    At the latest it comes where the delivery was made that the limit would have refused: counted from the last one,
    since the first ones may be of an earlier life or from before the first event.
    """
    beyond = F.col("deliveries") - allowed
    refused = F.get("times", F.greatest(F.size("times") - beyond, F.lit(0)).cast("int"))
    micros = F.unix_micros("dead_lettered_at") - F.unix_micros(refused)
    return F.when(fate(allowed) == "earlier", F.greatest(micros, F.lit(0)) / 1_000_000)


def counted(histories: DataFrame, allowed: int) -> DataFrame:
    """How many messages share pattern, outcome, cause and number of deliveries, with their fate.

    Columns: ``pattern_id``, ``outcome``, ``cause``, ``deliveries``, ``fate``, ``messages``, ``claims_saved``
    (deliveries beyond ``allowed`` of messages that died all the same, or that nobody settled) and ``seconds_earlier``
    (their sum).
    """
    judged = histories.withColumns({"fate": fate(allowed), "earlier": seconds_earlier(allowed)})
    in_vain = F.col("fate").isin("earlier", "lost")
    saved = F.when(in_vain, F.col("deliveries") - allowed).otherwise(F.lit(0))
    return (
        judged.groupBy("pattern_id", "outcome", "cause", "deliveries", "fate")
        .agg(
            F.count("*").alias("messages"),
            F.sum(saved).alias("claims_saved"),
            F.coalesce(F.sum("earlier"), F.lit(0.0)).alias("seconds_earlier"),
        )
        .orderBy("pattern_id", "outcome", "cause", "deliveries")
    )
