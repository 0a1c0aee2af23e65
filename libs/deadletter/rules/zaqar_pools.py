"""Zaqar's pools: a dead letter queue lies in its queue's pool, or the limit does not hold."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FLAVOR = "flavor"
"""The kind of ``silver.queue_policies`` that says which pools a flavor stands for; ``queue`` is ``*``."""
_PLACES = "array<struct<valid_from:timestamp,pools:array<string>>>"


def in_other_pool(own: Column, target: Column) -> Column:
    """Whether a dead letter queue, in one of the ``target`` pools, cannot be in its queue's pool, one of ``own``.

    Dead Letter Queue, change 2: both have to be in the same pool. Pools that nobody told (null) are taken as the same.

    >>> rows = spark.sql("SELECT * FROM VALUES (array('a', 'b'), array('b')), (array('a'), array('b')),"
    ...                  " (array('a'), NULL) AS t(own, target)")
    >>> rows.withColumn("other", in_other_pool(F.col("own"), F.col("target"))).show()
    +------+------+-----+
    |   own|target|other|
    +------+------+-----+
    |[a, b]|   [b]|false|
    |   [a]|   [b]| true|
    |   [a]|  NULL|false|
    +------+------+-----+
    """
    return F.coalesce(~F.arrays_overlap(own, target), F.lit(False))


def without_foreign_limits(policies: DataFrame) -> DataFrame:
    """``silver.queue_policies`` with the limits of Zaqar queues whose dead letter queue is in another pool moved to
    ``ignored_limit``. A queue's pool is that of the flavor it was created with."""
    places = _places(policies)
    own = places.withColumnRenamed("places", "own_places")
    target = places.select(
        "system", "tenant", F.col("queue").alias("dead_letter_queue"), F.col("places").alias("there")
    )
    joined = policies.join(F.broadcast(own), ["system", "tenant", "queue"], "left").join(
        F.broadcast(target), ["system", "tenant", "dead_letter_queue"], "left"
    )
    time = F.col("valid_from")
    other = in_other_pool(_pools_at(F.col("own_places"), time), _pools_at(F.col("there"), time))
    limit = F.col("max_deliveries")
    return joined.withColumns({"ignored_limit": F.when(other, limit), "max_deliveries": F.when(~other, limit)}).select(
        *policies.columns
    )


def _pools_at(places: Column, time: Column) -> Column:
    """The pools a queue was created in, the latest time until ``time``; before the first, those of the first."""
    until = F.filter(places, lambda place: place["valid_from"] <= time)
    return F.coalesce(F.try_element_at(until, F.lit(-1)), F.get(places, F.lit(0)))["pools"]


def _places(policies: DataFrame) -> DataFrame:
    """Rows of ``system, tenant, queue, places``: when each queue was created, and in which pools (null: unknown)."""
    zaqar = policies.where("system = 'zaqar'")
    told = F.from_json("attributes", "struct<flavor:string,pools:array<string>>")
    flavors = (
        zaqar.where(F.col("kind") == FLAVOR)
        .select("tenant", "valid_from", "event_id", told.alias("told"))
        .groupBy("tenant", F.col("told.flavor").alias("flavor"))
        .agg(F.array_sort(F.collect_list(F.struct("valid_from", "told.pools"))).alias("stands_for"))
    )
    created = zaqar.where("kind = 'declared'").withColumn("flavor", F.get_json_object("attributes", "$._flavor"))
    placed = created.join(F.broadcast(flavors), ["tenant", "flavor"], "left").withColumn(
        "pools", _pools_at(F.col("stands_for"), F.col("valid_from"))
    )
    return placed.groupBy("system", "tenant", "queue").agg(
        F.array_sort(F.collect_list(F.struct("valid_from", "pools"))).cast(_PLACES).alias("places")
    )
