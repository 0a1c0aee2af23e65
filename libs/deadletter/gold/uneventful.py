"""Messages that no rule has a word on: claimed once at most, and settled. Most are, and they are counted, not judged.

Only Zaqar's: RabbitMQ's acknowledgements are not observable, and on Pulsar a message's post and its acknowledgement are
in two rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts, each
from deadletter.gold.healthy import first_of_many, with_its_post
from deadletter.gold.kept import KeptTooLittle
from deadletter.gold.zaqar import replayed_queues
from deadletter.rules import zaqar as rules
from deadletter.rules.policy import is_purge, targets
from deadletter.spark.parallel import together
from deadletter.spark.staging import Stage, held_if_few
from deadletter.tables import COUNTED_MESSAGES, QUEUE_KEY

_QUEUE = ["tenant", "queue"]
UNEVENTFUL = "system = 'zaqar' AND posted IS NOT NULL AND settled IS NOT NULL AND size(deliveries) <= 1"
"""Nobody tells a failure or a death of a Zaqar message."""


def split(
    facts: SilverFacts, sample: int, stage: Stage, judged: DataFrame | None = None, kept: DataFrame | None = None
) -> SilverFacts:
    """The same facts, every frame staged, with the uneventful messages :func:`counted` and no longer in ``state``; so
    many of each queue are kept as its ``sample``.

    ``judged`` and ``kept`` are rows of ``control.judged_messages`` and ``control.counted_messages`` for messages that
    are not among the facts. Raises :class:`KeptTooLittle` where some of these were counted before a rule had a word on
    them.
    """
    staged = each(facts, stage, ("policies", "claims", "attempts"))
    ruled_queues = stage(ruled(staged.policies))
    if kept is not None and not _with_free(kept, ruled_queues).where("NOT free").isEmpty():
        raise KeptTooLittle("a rule has a word on messages that were counted")
    # held where they are few, which to find costs more than they do: many are what they were
    marked = held_if_few(found := _marked(facts.state, ruled_queues))
    uneventful = marked.where("uneventful")
    state = marked.where("NOT uneventful").select(*facts.state.columns)
    all_judged = state if judged is None else state.unionByName(judged)
    here, now_judged = together([partial(stage, counted(uneventful)), partial(stage, all_judged)])
    first = first_of_many(with_its_post(uneventful), here, sample, stage)
    return replace(
        staged,
        state=now_judged,
        uneventful=here if kept is None else stage(here.unionByName(kept)),
        sample=first,
        looked_at_many=marked is found,
    )


def ruled(policies: DataFrame) -> DataFrame:
    """``tenant, queue`` of the Zaqar queues where a rule has a word on each message; ``queue`` is null where all of a
    project are. ``policies`` as :func:`deadletter.rules.policy.histories`.

    There even an only claim can be one too many, or come too early; a purge may have met the message; or messages come
    from another queue or go to one where they can die again, with the id and the claims that they have. All of a
    project are where it is replayed as a whole: any claim of a message counts then, whichever queue it is told of.

    >>> def policy(queue, limit=None, target=None, delay=0, kind="declared"):
    ...     terms = {"max_deliveries": limit, "dead_letter_queue": target, "default_delay": delay, "kind": kind}
    ...     return ("zaqar", "p", queue, [terms])
    >>> rows = [policy("usual", 3, "dead"), policy("dead"), policy("off", None, "dead"), policy("once", 1, "dead"),
    ...         policy("late", delay=5), policy("purged", kind="purged"), policy("a", 3, "b"), policy("b", 3, "c")]
    >>> step = "max_deliveries bigint, dead_letter_queue string, default_delay bigint, kind string"
    >>> df = spark.createDataFrame(rows, f"system string, tenant string, queue string, policies array<struct<{step}>>")
    >>> sorted(row["queue"] for row in ruled(df.where("queue NOT IN ('a', 'b')")).collect())
    ['dead', 'late', 'once', 'purged']
    >>> sorted(str(row["queue"]) for row in ruled(df.where("queue IN ('a', 'b')")).collect())
    ['None', 'a', 'b', 'c']
    """
    queues = policies.where("system = 'zaqar'")
    own = (
        F.exists("policies", is_purge)
        | F.exists("policies", lambda policy: F.coalesce(policy["default_delay"] > 0, F.lit(False)))
        | F.coalesce(rules.lowest_limit(F.col("policies")) < 2, F.lit(False))
    )
    ways = queues.select(*_QUEUE, F.explode(targets(F.col("policies"))).alias("target")).where("target IS NOT NULL")
    limited = queues.where(rules.lowest_limit(F.col("policies")).isNotNull())
    again = ways.join(limited.select("tenant", F.col("queue").alias("target")), ["tenant", "target"], "left_semi")
    named = ways.select("tenant", F.col("target").alias("queue"))
    whole = replayed_queues(policies).where("scope = ''").select("tenant", F.lit(None).cast("string").alias("queue"))
    found = [queues.where(own).select(*_QUEUE), again.select(*_QUEUE), named, whole]
    return reduce(DataFrame.unionByName, found).distinct()


def _marked(state: DataFrame, ruled_queues: DataFrame) -> DataFrame:
    """The rows of ``silver.message_state`` with ``uneventful``: whether no rule has a word on them."""
    uneventful = F.coalesce(F.expr(UNEVENTFUL) & F.col("free"), F.lit(False))
    return _with_free(state, ruled_queues).withColumn("uneventful", uneventful)


def _with_free(messages: DataFrame, ruled_queues: DataFrame) -> DataFrame:
    """The messages with ``free``: whether they are in no queue where a rule has a word on each."""
    here = ruled_queues.where("queue IS NOT NULL").withColumn("ruled", F.lit(True))
    everywhere = ruled_queues.where("queue IS NULL").select("tenant", F.lit(True).alias("whole"))
    both = messages.join(F.broadcast(here), _QUEUE, "left").join(F.broadcast(everywhere), "tenant", "left")
    return both.withColumn("free", F.coalesce("ruled", "whole").isNull())


def counted(uneventful: DataFrame) -> DataFrame:
    """Rows of ``control.counted_messages``: how many ``messages`` came with one ``post``, by one ``producer``, were
    granted by one claim (``claimed_at``, ``event_id``, ``claim_id``, ``consumer``; null for those that never were) and
    were settled in one ``settled_hour``.

    ``post`` is ``struct<time, event_id, position>``, with the position of the first of them.
    """
    claim = F.get("deliveries", 0)
    told = {
        "time": F.col("posted.time"),
        "post_event_id": F.col("posted.event_id"),
        "producer": F.col("posted.producer"),
        "claimed_at": claim["time"],
        "event_id": claim["event_id"],
        "claim_id": claim["claim_id"],
        "consumer": claim["consumer"],
        "settled_hour": F.date_trunc("hour", "settled.time"),
    }
    flat = uneventful.select(
        *QUEUE_KEY,
        "created_day",
        *[value.alias(name) for name, value in told.items()],
        F.col("posted.position").alias("position"),
    )
    alike = flat.groupBy(*QUEUE_KEY, "created_day", *told)
    counts = alike.agg(F.count("*").alias("messages"), F.min("position").alias("position"))
    post = F.struct("time", F.col("post_event_id").alias("event_id"), "position")
    return counts.withColumn("post", post).select(*COUNTED_MESSAGES.column_names)
