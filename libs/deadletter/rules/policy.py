"""Which policy held when: rules on a queue's policy history.

A history is ``silver.queue_policies`` of one queue as an array of structs in the order of
``(valid_from, event_id)``, see :func:`histories`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.rules import rabbitmq, zaqar_pools
from deadletter.tables import EVERY, QUEUE_KEY

OF_SEVERAL = (*rabbitmq.SHARED_KINDS, zaqar_pools.FLAVOR)
"""Kinds of ``silver.queue_policies`` that are about no one queue; a queue can be called as they call all."""

HISTORY_FIELDS = (
    "valid_from",
    "event_id",
    "kind",
    "max_deliveries",
    "dead_letter_queue",
    "dead_letter_ttl",
    "default_ttl",
    "default_delay",
    "queue_type",
    "ignored_limit",
    "counts",
    "node",
    *rabbitmq.SENDS,
)


def histories(policies: DataFrame) -> DataFrame:
    """One row a queue with ``policies``: its history in time order, structs of :data:`HISTORY_FIELDS`.

    RabbitMQ's policies for a whole vhost are in the history of each queue that they hold for. Besides the columns of
    ``silver.queue_policies`` a step has ``ignored_limit``, a limit that is set and does not hold; and for RabbitMQ
    ``queue_type`` (quorum, classic, lazy or stream), ``counts``, whether a limit would count in the queue, ``node``,
    the node that what changed the counters was about, and the exchange and routing key that dead letters go by: without
    a key the exchange of the queue's own arguments only.
    """
    told = {name: F.get_json_object("attributes", f"$.{name}") for name in ("queue_type", "node", *rabbitmq.SENDS)}
    derived = {"ignored_limit": F.lit(None).cast("bigint"), "counts": F.lit(None).cast("boolean")}
    typed = policies.withColumns(told | derived)
    by_vhost, everywhere = _shared(typed)
    own = (
        typed.where(~F.col("kind").isin(*OF_SEVERAL))
        .groupBy(*QUEUE_KEY)
        .agg(F.array_sort(F.collect_list(F.struct(*HISTORY_FIELDS))).alias("own"))
    )
    none = F.array().cast(by_vhost.schema["changes"].dataType)
    effective = rabbitmq.effective_history(
        F.col("own"), F.coalesce("changes", none), F.least("flag", "broker_flag"), F.col("queue")
    )
    history = (
        F.when(F.col("system") == "rabbitmq", effective)
        .when(F.size("pools") > 0, zaqar_pools.without_foreign_limits(F.col("own"), F.col("pools"), F.col("queue")))
        .otherwise(F.col("own"))
    )
    return (
        own.join(by_vhost, ["system", "tenant"], "left")
        .crossJoin(everywhere)
        .select(*QUEUE_KEY, history.alias("policies"))
    )


def _shared(typed: DataFrame) -> tuple[DataFrame, DataFrame]:
    """What holds for more than one queue. One row a vhost or project: RabbitMQ's ``changes`` of policies, the ``flag``
    that makes limits count, and what Zaqar told of ``pools``. One row at all: ``broker_flag``, the whole broker's."""
    shared = typed.withColumn("pools", zaqar_pools.told()).where(
        F.col("kind").isin(*rabbitmq.SHARED_KINDS) | F.col("pools").isNotNull()
    )
    flag = F.min(F.when(F.col("kind") == "feature_flag", F.struct("valid_from", "event_id")))
    is_change = F.col("kind").isin(*rabbitmq.SHARED_KINDS) & (F.col("kind") != "feature_flag")
    by_vhost = shared.groupBy("system", "tenant").agg(
        F.collect_list(F.when(is_change, rabbitmq.change())).alias("changes"),
        flag.alias("flag"),
        F.array_sort(F.collect_list("pools")).alias("pools"),
    )
    return by_vhost, shared.where(F.col("tenant") == EVERY).agg(flag.alias("broker_flag"))


def policy_at(policies: Column, time: Column) -> Column:
    """The policy in force at ``time``: the latest that took effect until then; null before the first.

    A purge is no policy. A deleted queue's policy is one without limit or dead letter queue.
    """
    held = F.filter(policies, lambda p: (p["valid_from"] <= time) & ~is_purge(p))
    return F.try_element_at(held, F.lit(-1))


def targets(policies: Column) -> Column:
    """The dead letter queue of each policy in a history, null where it names none that is known."""
    return policies["dead_letter_queue"]


def last_sign(posted: Column, deliveries: Column) -> Column:
    """When a message was last known to be in its queue: its latest grant or delivery, else its post."""
    return F.greatest(posted, F.try_element_at(deliveries, F.lit(-1))["time"])


def is_purge(step: Column) -> Column:
    """Whether a step of a queue's policies is a purge."""
    return step["kind"] == "purged"


def emptied_after(policies: Column, time: Column, purges: Column | None = None) -> Column:
    """When the queue was first purged or deleted after ``time``; null if never.

    ``purges``: whether a purge empties the queue. Zaqar's does not, see :func:`deadletter.rules.zaqar_replay.purge`;
    the others' do. For a message ``time`` is its :func:`last_sign`, not its post.
    """
    purges = F.lit(True) if purges is None else purges
    later = F.filter(
        policies,
        lambda p: (p["valid_from"] > time) & ((p["kind"] == "deleted") | (is_purge(p) & purges)),
    )
    return F.get(later, 0)["valid_from"]
