"""What the number of a delivery limit means, all brokers together."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.rules.zaqar import counts_claims
from deadletter.spark.columns import looked_up

ONE_MORE = {"zaqar": 0, "rabbitmq": 1, "pulsar": 1}
"""Deliveries a message may have beyond the limit's number: Zaqar moves it at the claim attempt that finds the
limit reached; RabbitMQ and Pulsar count the deliveries after the first one."""


def limit_counts(policy: Column) -> Column:
    """Whether a limit in ``policy`` holds in the row's ``system``: Zaqar's only beside a dead letter queue."""
    return (F.col("system") != "zaqar") | counts_claims(policy)


def most_deliveries(limit: Column) -> Column:
    """How many deliveries a message may have in the row's ``system``; null where the number is so high that it means no
    limit.

    >>> rows = [("zaqar", 3), ("rabbitmq", 3), ("pulsar", 3), ("pulsar", (1 << 63) - 1)]
    >>> df = spark.createDataFrame(rows, "system STRING, max_deliveries BIGINT")
    >>> [row[0] for row in df.select(most_deliveries(F.col("max_deliveries"))).collect()]
    [3, 4, 4, None]
    """
    return F.try_add(limit, F.coalesce(looked_up(ONE_MORE, F.col("system")), F.lit(0)))
