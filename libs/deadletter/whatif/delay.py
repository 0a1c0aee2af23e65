"""What a default delay would have done to a Zaqar queue (Delayed Queues)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.rules import zaqar as rules
from deadletter.rules.policy import policy_at
from deadletter.tables import QUEUE_KEY

LONGEST = 900
"""Seconds: ``max_message_delay`` unless the server is configured otherwise."""


def delayed(histories: DataFrame, policies: DataFrame, delay: int) -> DataFrame:
    """One row: how the recorded history fares if the queue's default delay had been ``delay`` seconds.

    In a delayed queue a message's own delay comes before the default; with 0 there is none (Delayed Queues,
    scenarios 1 to 3). Whole seconds count. A message whose post was not seen is left out and counted.

    - ``never_claimable``: delivered messages whose TTL is shorter than the delay: they would expire unseen. Of the
      others:
    - ``claims_put_off``: claims that were granted before the delay would have been over
    - ``messages_put_off``: messages with such a claim
    - ``retries_saved``: of those claims, the ones a later claim of the same message followed
    - ``deaths_within_delay``: messages that died before their delay would have been over
    - ``settled_within_delay``: messages that were settled before it; they would have waited
    - ``seconds_waited``: by how much first claims would have come later, summed over the messages
    """
    policy = policy_at(F.col("policies"), F.col("posted.time"))
    own = F.struct(F.lit(delay).cast("bigint").alias("default_delay"))
    known = histories.join(policies, list(QUEUE_KEY), "left").withColumns(
        {
            "wait": rules.effective_delay(F.col("posted.delay"), own),
            "ttl": rules.effective_ttl(F.col("posted.ttl"), policy),
        }
    )
    until = F.timestamp_seconds(F.unix_seconds("posted.time") + F.col("wait"))
    never = F.coalesce(F.col("posted").isNotNull() & rules.never_claimable(F.col("ttl"), F.col("wait")), F.lit(False))
    known = known.withColumn("never", never)
    timed = known.withColumn("until", F.when((F.col("wait") > 0) & ~F.col("never"), until))
    early = F.filter("times", lambda time: F.date_trunc("second", time) < F.col("until"))
    judged = timed.withColumn("early", F.greatest(F.size(early), F.lit(0)))
    put_off, last = F.col("early") > 0, F.col("early") == F.col("deliveries")
    waited = F.unix_micros("until") - F.unix_micros(F.get("times", 0))
    return judged.agg(
        F.count("*").alias("messages"),
        F.count_if(F.col("posted").isNull()).alias("posts_not_seen"),
        F.coalesce(F.sum("early"), F.lit(0)).alias("claims_put_off"),
        F.count_if(put_off).alias("messages_put_off"),
        F.coalesce(F.sum(F.col("early") - last.cast("int")), F.lit(0)).alias("retries_saved"),
        F.count_if(F.col("dead_lettered_at") < F.col("until")).alias("deaths_within_delay"),
        F.count_if((F.col("settled_at") < F.col("until")) & F.col("dead_lettered_at").isNull()).alias(
            "settled_within_delay"
        ),
        F.count_if("never").alias("never_claimable"),
        F.coalesce(F.sum(F.when(put_off, waited)) / 1_000_000, F.lit(0.0)).alias("seconds_waited"),
    )
