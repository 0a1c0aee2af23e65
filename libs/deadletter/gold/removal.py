"""Dead letters where they lie, and when somebody was done with them there."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.rules.pulsar import tenant_of
from deadletter.tables import MESSAGE, MESSAGE_KEY, QUEUE


def by_dead_letter_queue(dead: DataFrame) -> DataFrame:
    """Rows of ``gold.dead_letters`` by the queue where they went: ``tenant`` and ``queue`` are its."""
    there = {"tenant": F.expr(tenant_of("dead_letter_queue")), "queue": F.col("dead_letter_queue")}
    return dead.where("dead_letter_queue IS NOT NULL").withColumns(there)


def with_removal(dead: DataFrame, state: DataFrame, policies: DataFrame | None) -> DataFrame:
    """``dead``, rows of ``gold.dead_letters`` of RabbitMQ and Pulsar, with ``removed_at`` by :func:`removals`."""
    removed = removals(dead, state, policies)
    return dead.drop("removed_at").join(removed, list(MESSAGE_KEY), "left").select(*dead.columns)


def removals(dead: DataFrame, state: DataFrame, policies: DataFrame | None) -> DataFrame:
    """The key of each RabbitMQ and Pulsar dead letter that was acknowledged where it lies, and ``removed_at``, when.

    ``dead`` has the columns of ``gold.dead_letters``; ``state`` and ``policies`` the rows of ``silver.message_state``
    and ``silver.queue_policies`` of the queues where they lie, the latter needed where any is Pulsar's. A Pulsar topic
    keeps a message until all its subscriptions acknowledged it: those count that were there before the letter came, and
    those that had to do with it. Of several acknowledgements in a RabbitMQ queue the first is known, and one from
    before the death is of an earlier one. A Pulsar letter's id is of no other: what seems to be before its death, by
    the clock of the client that sent it, is as late.
    """
    others = dead.where("system != 'zaqar'").withColumn("origin", F.struct(*MESSAGE_KEY))
    its_id = F.coalesce("dead_letter_message_id", "message_id").alias("message_id")
    letters = by_dead_letter_queue(others).select(*QUEUE, its_id, "origin", "dead_lettered_at")
    # a row without a sign of life is of a message that is only told to have died
    there = state.where(
        "seen IS NOT NULL AND (system = 'rabbitmq' OR (system = 'pulsar' AND subscription != ''))"
    ).select(*MESSAGE, "subscription", F.col("settled.time").alias("acknowledged"), "seen")
    died = F.col("dead_lettered_at")
    no_earlier = F.when(F.col("acknowledged").isNotNull(), F.greatest("acknowledged", died))
    acknowledged = F.when((F.col("system") == "pulsar") | (F.col("acknowledged") >= died), no_earlier)
    told = letters.join(there, list(MESSAGE)).select("origin", "subscription", acknowledged.alias("acknowledged"))
    signs = there.select(*QUEUE, "subscription", "seen")
    if policies is not None:
        subscribed = policies.where("system = 'pulsar' AND kind = 'subscribed'")
        signs = signs.unionByName(subscribed.select(*QUEUE, "subscription", F.col("valid_from").alias("seen")))
    both = told.unionByName(_awaited(letters, signs), allowMissingColumns=True)
    each = both.groupBy("origin", "subscription").agg(F.max("acknowledged").alias("acknowledged"))
    found = each.groupBy("origin").agg(
        F.max("acknowledged").alias("removed_at"), F.bool_and(F.col("acknowledged").isNotNull()).alias("by_all")
    )
    return found.where("by_all").select("origin.*", "removed_at")


def _awaited(letters: DataFrame, signs: DataFrame) -> DataFrame:
    """Each of the ``letters`` with each ``subscription`` that was in its queue before it came, by its first sign."""
    known = signs.join(letters.select(*QUEUE).distinct(), list(QUEUE), "left_semi").groupBy(*QUEUE, "subscription")
    since = known.agg(F.min("seen").alias("since"))
    return letters.join(since, list(QUEUE)).where("since <= dead_lettered_at").select("origin", "subscription")
