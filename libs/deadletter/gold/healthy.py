"""Messages that did well: what their payloads say is what dead ones' are compared with."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import SilverFacts
from deadletter.gold.payload import PLACE, placed, with_payload
from deadletter.gold.profile import said
from deadletter.gold.removal import by_dead_letter_queue
from deadletter.spark.staging import Stage
from deadletter.tables import MESSAGE, QUEUE

SAMPLES = (1000, 500, 250, 100)
"""Messages of a queue that are looked at, by how many queues there are; the hashes of their ids decide which ones."""
SAMPLE_OF_ALL = 100_000
"""Messages of all queues that are looked at, unless the smallest sample of each are more."""
_PLACED = (*MESSAGE, *PLACE[1:])


def sample_of(queues: int) -> int:
    """How many messages of each queue are looked at. In steps: each step means to look at every queue again.

    >>> [sample_of(queues) for queues in (1, 100, 101, 1_000_000)]
    [1000, 1000, 500, 100]
    """
    return next((sample for sample in SAMPLES if sample * queues <= SAMPLE_OF_ALL), SAMPLES[-1])


def sampled(
    facts: SilverFacts,
    dead: DataFrame,
    sample: int = SAMPLES[0],
    former: DataFrame | None = None,
    still: DataFrame | None = None,
) -> DataFrame:
    """Up to ``sample`` healthy messages of each queue, with the place of their payload, see
    :func:`deadletter.gold.payload.placed`, and its ``facts`` where ``former`` rows of ``control.healthy_sample`` have
    them, else null.

    Healthy is what was settled, on RabbitMQ, whose acknowledgements are rarely seen, what was delivered; and neither
    died in the queue nor lies in it as a dead letter. ``dead`` are rows of ``gold.dead_letters``, and ``still`` those
    ``former`` rows whose messages nothing new is known of: they stand for all messages that are not among ``facts``,
    as far as :func:`reaches`.
    """
    delivered = _delivered(facts)
    if facts.sample is not None:
        delivered = delivered.unionByName(facts.sample)
    if still is not None:  # their facts are known, so nobody asks for the time of the post
        told = F.col("payload_event_id").alias("event_id"), F.col("payload_position").alias("position")
        post = F.struct(F.lit(None).cast("timestamp").alias("time"), *told).alias("post")
        delivered = delivered.unionByName(still.select(*MESSAGE, "created_day", post))
        delivered = delivered.dropDuplicates(list(MESSAGE))
    chosen = first_of_each(delivered.join(_lies_dead(dead), list(MESSAGE), "left_anti"), sample)
    chosen = placed(chosen, F.col("post")).select(*_PLACED, "created_day", "payload_day")
    if former is None:
        return chosen.withColumn("facts", F.lit(None).cast(tables.SAID))
    return chosen.join(former.select(*_PLACED, "facts"), list(_PLACED), "left")


def reaches(chosen: DataFrame, former: DataFrame, sample: int) -> bool:
    """Whether a sample that was chosen of few messages is that of all. A ``former`` one, of the same queues, that was
    full leaves out what comes after its last message: the new one must not go beyond that."""
    last = F.max(F.struct(F.xxhash64("message_id"), "message_id")).alias("last")
    full = former.groupBy(*QUEUE).agg(F.count("*").alias("n"), last).where(F.col("n") >= sample)
    now = chosen.groupBy(*QUEUE).agg(F.count("*").alias("n_now"), last.alias("last_now"))
    short = F.coalesce("n_now", F.lit(0)) < sample
    return full.join(now, list(QUEUE), "left").where(short | (F.col("last_now") > F.col("last"))).isEmpty()


def first_of_each(messages: DataFrame, sample: int) -> DataFrame:
    """Up to ``sample`` messages of each queue, those whose ids have the lowest hashes."""
    rank = F.row_number().over(Window.partitionBy(*QUEUE).orderBy(F.xxhash64("message_id"), "message_id"))
    return messages.withColumn("rank", rank).where(F.col("rank") <= sample).drop("rank")


def first_of_many(messages: DataFrame, counts: DataFrame, sample: int, stage: Stage) -> DataFrame:
    """:func:`first_of_each`, staged. Most messages are left out before any are sorted; all are sorted in the unlikely
    case that too few of a queue were left. ``counts`` say in ``messages`` how many there are, in rows for each queue.

    >>> queue = ["'s' AS system", "'t' AS tenant", "'q' AS queue"]
    >>> messages = spark.range(9000).selectExpr(*queue, "CAST(id AS string) AS message_id")
    >>> for claimed in (9000, 9_000_000):  # of more than there are, too few are left
    ...     counts = spark.range(1).selectExpr(*queue, f"{claimed} AS messages")
    ...     found = first_of_many(messages, counts, 100, lambda rows: rows)
    ...     print(found.count(), found.exceptAll(first_of_each(messages, 100)).isEmpty())
    100 True
    100 True
    """
    of_queue = counts.groupBy(*QUEUE).agg(F.sum("messages").alias("of_queue"))
    found = stage(first_of_each(_likely_first(messages, of_queue, sample), sample))
    have = found.groupBy(*QUEUE).agg(F.count("*").alias("have"))
    short = F.coalesce("have", F.lit(0)) < F.least("of_queue", F.lit(sample))
    enough = of_queue.join(have, list(QUEUE), "left").where(short).isEmpty()
    return found if enough else stage(first_of_each(messages, sample))


def _likely_first(messages: DataFrame, of_queue: DataFrame, sample: int) -> DataFrame:
    """Those with the lowest hashes of a queue, some more than are asked for: hashes are spread evenly, and eight
    standard deviations more are hardly ever too few."""
    enough = sample + 8 * sample**0.5 + 64
    place = F.xxhash64("message_id") / F.lit(2.0**64) + 0.5
    lowest = messages.join(F.broadcast(of_queue), list(QUEUE)).where(place * F.col("of_queue") <= enough)
    return lowest.select(*messages.columns)


def with_its_post(messages: DataFrame) -> DataFrame:
    """The keys of rows of ``silver.message_state``, no subscription's, with the ``post``, where the payload is."""
    post = F.struct("posted.time", "posted.event_id", "posted.position").alias("post")
    return messages.select(*MESSAGE, "created_day", post)


def healthy_sample(chosen: DataFrame, found: DataFrame) -> DataFrame:
    """Rows of ``control.healthy_sample`` from :func:`sampled` messages; the payloads of those without ``facts`` are
    among ``found``, see :func:`deadletter.gold.payload.payloads`."""
    new = with_payload(chosen.where("facts IS NULL").drop("facts"), found)
    read = new.withColumn("facts", said(F.col("payload"))).select(*tables.HEALTHY_SAMPLE.column_names)
    return chosen.where("facts IS NOT NULL").select(*read.columns).unionByName(read)


def _lies_dead(dead: DataFrame) -> DataFrame:
    """The keys of the dead letters in the queues where they died, and in those where they went."""
    here = dead.select(*MESSAGE)
    its_id = F.coalesce("dead_letter_message_id", "message_id").alias("message_id")
    return here.unionByName(by_dead_letter_queue(dead).select(*QUEUE, its_id)).distinct()


def _delivered(facts: SilverFacts) -> DataFrame:
    """Each message that was posted and delivered, with its ``post``. On Pulsar the topic's row has the post and a
    subscription's the acknowledgement."""
    well = F.expr("settled IS NOT NULL OR (system = 'rabbitmq' AND size(deliveries) > 0)")
    posted = facts.state.where("posted IS NOT NULL")
    one_row = posted.where((F.col("system") != "pulsar") & well)
    acknowledged = facts.state.where((F.col("system") == "pulsar") & well).select(*MESSAGE)
    topics = posted.where("system = 'pulsar'").join(acknowledged, list(MESSAGE), "left_semi")
    return with_its_post(one_row).unionByName(with_its_post(topics))
