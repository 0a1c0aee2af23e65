"""RabbitMQ's dead letters: as ``x-death`` tells them, and as a consumer's reject or a classic queue's limit implies
them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts, counted_deliveries, dated
from deadletter.rules.policy import emptied_after, histories, policy_at
from deadletter.rules.rabbitmq import SENDS
from deadletter.rules.rabbitmq_counter import count_at, counter_steps
from deadletter.rules.rabbitmq_deaths import (
    end_of_death,
    first_told,
    is_same,
    returned_from,
    since_return,
    until_published_again,
)
from deadletter.spark.staging import Stage, as_it_is
from deadletter.tables import EVERY, QUEUE, QUEUE_KEY

_MAY_PASS = "evidence = 'observed' AND reason = 'expired'"
"""Of the deaths those that can have been the end of a delay."""


def deaths(facts: SilverFacts, stage: Stage = as_it_is) -> DataFrame:
    """Rows of ``tenant, queue, message_id, dead_letter_queue, reason, cause, claim_count, max_deliveries, posted_at,
    dead_lettered_at, evidence, event_id, told``: every message whose latest death its queue's own deliveries do not
    undo; ``told`` is the time of the event that tells of it, if one does.

    The broker's word comes first, then a consumer's that it rejected the message; where there is none, the death that
    :func:`over_limit` implies. ``cause`` is null where the reason says it. ``stage`` keeps what is asked several times.
    """
    # staged: a filter on a death would find it out once more for each of its columns
    found = stage(_by_broker_or_limit(facts, stage) if facts.counts_in_classic_queues else _by_broker(facts))
    retries = _with_ttl(facts.policies)
    if not retries.isEmpty():
        found = stage(_not_waiting(found, retries))
    # nothing is asked of all messages where nothing can have been delayed
    return found if found.where(_MAY_PASS).isEmpty() else _not_passing(found, facts)


def _by_broker(facts: SilverFacts) -> DataFrame:
    state = _with_told(_told_dead(facts)).withColumn("death", _told())
    return _rows(state, F.lit(None).cast("string"), counted_deliveries(F.col("policies")))


def _by_broker_or_limit(facts: SilverFacts, stage: Stage) -> DataFrame:
    state = _with_told(_judged_by_limit(facts))
    # a filter on a death that is implied would imply it once more
    state = state.withColumn("death", F.coalesce(_told(), _implied()))
    # deliveries are counted afterwards, of the dead alone
    kept = ("system", "tenant", "queue", "message_id", "deliveries", "deaths", "policies", "steps", "death")
    # what else a post holds is not read of all messages
    state = stage(state.select(*kept, F.struct("posted.time", "posted.ttl").alias("posted")))
    implied = (F.col("death.evidence") == "derived") & (F.col("death.reason") == "expired")
    cause = F.when(implied | killed_by_limit(), "delivery_limit")
    # the broker may have counted deliveries that were before the first event
    told = count_at(F.col("steps"), F.col("death.time"))
    counted = counted_deliveries(F.col("policies"))
    count = F.when(implied, F.greatest(counted, told)).otherwise(counted)
    return _rows(state, cause, count)


def _with_told(state: DataFrame) -> DataFrame:
    """Add ``told``, the death that the broker or a consumer tells. A column of its own: what is used several times
    would else be computed as often."""
    state = state.withColumn("deaths", dated(F.col("deaths"), F.col("deliveries")))
    told = F.size("failures") > 0
    later = F.when(told, F.transform("deaths", _after_its_delivery)).otherwise(F.col("deaths"))
    state = state.withColumn("deaths", later)
    held = F.when(told, F.filter("deaths", lambda death: ~_taken_back(death))).otherwise(F.col("deaths"))
    return state.withColumn("told", latest_death(held, F.col("deliveries"), F.col("deaths")))


def _taken_back(death: Column) -> Column:
    """Whether somebody acknowledged the message after a consumer had rejected it, or this consumer put it back into its
    queue: it had come back. Both times are of consumers' clocks, which can be ahead of the collector's that the
    delivery between is dated by; and a requeue by another one may have been before."""
    rejects = F.col("deaths")["event_id"]
    its_own = F.get(F.filter("failures", lambda f: f["event_id"] == death["event_id"]), 0)["consumer"]
    # nobody is the same as one who is not named
    same = F.filter("failures", lambda f: F.coalesce(f["consumer"] == its_own, F.lit(False)))
    requeued = F.exists(same, lambda f: (f["time"] > death["time"]) & ~F.array_contains(rejects, f["event_id"]))
    return _is_reject(death) & (F.coalesce(F.col("settled.time") > death["time"], F.lit(False)) | requeued)


def _after_its_delivery(death: Column) -> Column:
    """The death, with a consumer's reject not before the first delivery of a message that was seen since its post: the
    consumer is done with it sooner than a collector that lags dates the delivery by."""
    first = F.get("deliveries", 0)["time"]
    early = _is_reject(death) & F.col("posted").isNotNull() & (death["told"] < first)
    moved = death.withField("time", F.greatest(death["time"], first)).withField("told", first)
    return F.when(F.coalesce(early, F.lit(False)), moved).otherwise(death)


def _is_reject(death: Column) -> Column:
    """Whether a consumer tells of the death that it rejected the message: the same event tells its failure."""
    return F.array_contains(F.col("failures")["event_id"], death["event_id"])


def waits_for_its_next_try() -> Column:
    """Whether a message that is not dead was rejected at its last delivery: it lies in a retry queue, from which it
    comes back as a new one to its queue."""
    last = F.try_element_at("deliveries", F.lit(-1))["time"]

    def waits(death: Column) -> Column:
        # a consumer's clock may be ahead of the collector's, by which it was delivered since
        back = F.exists("deliveries", lambda delivery: returned_from(delivery, death, F.col("deaths")))
        return _is_reject(death) & (death["time"] >= last) & ~back & ~_taken_back(death)

    return (F.col("system") == "rabbitmq") & F.coalesce(F.exists("deaths", waits), F.lit(False))


def _rows(state: DataFrame, cause: Column, claim_count: Column) -> DataFrame:
    """The messages with a ``death``, as :func:`deaths` has them."""
    end = end_of_death(F.col("death.time"), F.col("death.evidence"))
    state = state.where("death IS NOT NULL")
    # counted are those that led to the death
    state = state.withColumn("deliveries", until_published_again(F.col("deliveries"), F.col("deliveries"), end))
    return state.withColumn("policy", policy_at(F.col("policies"), end)).select(
        "tenant",
        "queue",
        "message_id",
        "death.dead_letter_queue",
        "death.reason",
        cause.alias("cause"),
        claim_count.cast("bigint").alias("claim_count"),
        F.col("policy.max_deliveries").alias("max_deliveries"),
        F.col("posted.time").alias("posted_at"),
        F.col("death.time").alias("dead_lettered_at"),
        "death.evidence",
        "death.event_id",
        "death.told",
    )


def _with_ttl(policies: DataFrame) -> DataFrame:
    """``tenant, dead_letter_queue, there``: the queues that ever had a TTL, as what was rejected may go there, with
    their policies."""
    timed = policies.where("system = 'rabbitmq'").where(F.exists("policies", lambda p: p["default_ttl"].isNotNull()))
    return timed.select("tenant", F.col("queue").alias("dead_letter_queue"), F.col("policies").alias("there"))


def _not_waiting(found: DataFrame, retries: DataFrame) -> DataFrame:
    """The :func:`deaths` without what a consumer rejected into what was a retry queue then, see :func:`_with_ttl`: its
    TTL sends it back to its next try."""
    marked = found.join(retries, ["tenant", "dead_letter_queue"], "left")
    then = policy_at(F.col("there"), F.col("dead_lettered_at"))
    back = then["default_ttl"].isNotNull() & (then["dead_letter_queue"] == F.col("queue"))
    waits = F.expr("evidence = 'derived' AND reason = 'rejected'") & back
    return marked.where(~F.coalesce(waits, F.lit(False))).select(*found.columns)


def _not_passing(found: DataFrame, facts: SilverFacts) -> DataFrame:
    """The :func:`deaths` without what was delayed: it lay in a queue from which nothing was ever delivered until its
    TTL was over, and went to a work queue, or to one that sent messages on which died there otherwise; or to one to
    which somebody had posted it by the time the death was told, before it was delayed or afterwards, with its headers;
    or to a queue where it was delayed in turn."""
    state = facts.state.where("system = 'rabbitmq'")
    delivering = state.groupBy("tenant", "queue").agg(F.bool_or(F.size("deliveries") > 0).alias("delivers"))
    there = F.col("queue").alias("dead_letter_queue")
    work = work_queues(facts).unionByName(refusing_queues(facts)).distinct()
    work = work.select("tenant", there, F.lit(True).alias("works"))
    posted = state.select("tenant", there, "message_id", F.col("posted.time").alias("posted_there"))
    marked = (
        found.join(delivering, ["tenant", "queue"], "left")
        .join(work, ["tenant", "dead_letter_queue"], "left")
        .join(posted, ["tenant", "dead_letter_queue", "message_id"], "left")
    )
    waited = F.coalesce(F.expr(f"NOT delivers AND {_MAY_PASS}"), F.lit(False))
    arrived = F.coalesce(F.expr("works OR posted_there <= told"), F.lit(False))
    step = F.struct("queue", F.col("dead_letter_queue").alias("target"), arrived.alias("arrived"))
    steps = F.collect_list(F.when(waited, step)).over(Window.partitionBy("tenant", "message_id"))
    passed = waited & F.array_contains(_delayed_in(F.col("steps")), F.col("queue"))
    return marked.withColumn("steps", steps).where(~F.coalesce(passed, F.lit(False))).select(*found.columns)


def _delayed_in(steps: Column) -> Column:
    """The queues in which a message was only delayed, of the ``steps`` ``array<struct<queue, target, arrived>>`` that
    it took when a TTL was over: from there it ``arrived`` at a work queue, or went to another such queue.

    >>> steps = [("l5", "l3", False), ("l3", "orders", True), ("old", "l9", False)]
    >>> df = spark.createDataFrame([(steps,)], "steps array<struct<queue:string,target:string,arrived:boolean>>")
    >>> sorted(df.select(_delayed_in(F.col("steps"))).first()[0])
    ['l3', 'l5']
    """

    def names(chosen: Column) -> Column:
        return F.transform(chosen, lambda step: step["queue"])

    def one_more(known: Column, _: Column) -> Column:
        leading = F.filter(steps, lambda step: F.coalesce(F.array_contains(known, step["target"]), F.lit(False)))
        return F.array_union(known, names(leading))

    return F.aggregate(steps, names(F.filter(steps, lambda step: step["arrived"])), one_more)


def work_queues(facts: SilverFacts) -> DataFrame:
    """``system, tenant, queue`` of the queues to which messages were posted and that send dead letters on: a dead
    letter queue has hardly both."""
    posted = facts.state.where("system = 'rabbitmq' AND posted IS NOT NULL").select(*QUEUE).distinct()
    return posted.join(_leading_on(facts.policies), list(QUEUE), "left_semi")


def refusing_queues(facts: SilverFacts) -> DataFrame:
    """``system, tenant, queue`` of the queues that send dead letters on and in which consumers let messages die:
    somebody works there, also where all that comes to them was delayed. Or reads a dead letter queue that has one of
    its own."""
    refused = F.exists("deaths", lambda death: death["reason"].isin("rejected", "delivery_limit"))
    dying = facts.state.where("system = 'rabbitmq'").where(refused).select(*QUEUE).distinct()
    return dying.join(_leading_on(facts.policies), list(QUEUE), "left_semi")


def _leading_on(policies: DataFrame) -> DataFrame:
    """``system, tenant, queue`` of the queues that ever sent dead letters on."""
    exchange, key = SENDS

    def leads_on(policy: Column) -> Column:
        """Whether a policy sends dead letters anywhere: to an exchange with a name, whatever is bound to it, or by the
        default exchange with a routing key, which is a queue's name there."""
        return F.coalesce((policy[exchange] != "") | (policy[exchange].isNotNull() & (policy[key] != "")), F.lit(False))

    return policies.where(F.exists("policies", leads_on)).select(*QUEUE)


def may_have_led_on(policies: DataFrame, stage: Stage = as_it_is) -> DataFrame:
    """``system, tenant, queue`` of the queues in RabbitMQ's rows of ``silver.queue_policies`` that send nothing on, but
    may have seemed to before all of these rows were known: by a policy for their name, which what was told of the queue
    itself keeps from it. ``stage`` keeps the queues that such a policy names, which are asked for several times."""
    exchange, key = (F.get_json_object("attributes", f"$.{name}") for name in SENDS)
    named = policies.where("kind = 'policy'").where(F.coalesce(exchange, key).isNotNull())
    patterns = named.select("tenant", F.get_json_object("attributes", "$.pattern").alias("pattern"))
    # of one row alone none is missing: a queue of which nothing was told has no policy
    told = policies.where(F.col("queue") != EVERY).groupBy(*QUEUE).count().where("count > 1")
    matched = told.join(patterns, "tenant").where(F.regexp_like("queue", "pattern"))
    matched = stage(matched.select(*QUEUE).distinct())
    if matched.isEmpty():
        return matched  # which is nearly always so, and to say what held when is dear
    return matched.join(_leading_on(histories(policies)), list(QUEUE), "left_anti")


def _told_dead(facts: SilverFacts) -> DataFrame:
    """The messages that the broker or a consumer ever said were dead, with their queues' ``policies``."""
    state = facts.state.where("system = 'rabbitmq' AND size(deaths) > 0")
    return state.join(facts.policies, list(QUEUE_KEY), "left")


def _judged_by_limit(facts: SilverFacts) -> DataFrame:
    """The messages that a classic queue's limit may have killed, or that somebody says are dead: with their queues'
    ``policies``, the ``steps`` of the broker's count, and ``over``, see :func:`over_limit`."""
    limits = F.col("policies.max_deliveries")
    queues = facts.policies.withColumn("lowest", F.array_min(limits))
    # by the lowest limit of all queues first: most messages need no look at their own queue's
    state = facts.state.where("system = 'rabbitmq'").where(_may_die(queues.agg(F.min("lowest")).scalar()))
    state = state.join(queues, list(QUEUE_KEY), "left").where(_may_die(F.col("lowest"))).drop("lowest")
    # once a message: each moment would make them anew
    steps = counter_steps(since_return(F.col("deliveries"), F.col("deaths")), F.col("policies"))
    return state.withColumns({"steps": steps, "moments": lying_in_queue()}).withColumn("over", over_limit())


def _may_die(lowest: Column) -> Column:
    """Whether somebody says it is dead, or it was requeued and its count can be above ``lowest``, a limit that is
    not above any that the queue ever had: most messages need no closer look."""
    often = F.coalesce(F.size("deliveries") > lowest, F.lit(False))
    # compiled, as `exists` would not be
    counted = F.array_max(F.col("deliveries")["broker_count"]).isNotNull()
    return (F.size("deaths") > 0) | ((F.size("failures") > 0) & (often | counted))


def _told() -> Column:
    """The death that is ``told``. What a consumer rejected goes where the queue's policy sends it, which nobody saw
    yet; a stream keeps it. What was read in several queues, as a tap beside the dead letter queue has each letter, lies
    in the one of these that the policy names."""
    rejected = _is_reject(F.col("told"))
    then = end_of_death(F.col("told.time"), F.when(~rejected, F.lit("observed")))
    policy = policy_at(F.col("policies"), then)
    named = policy["dead_letter_queue"]
    seen = F.exists("deaths", lambda d: is_same(d, F.col("told")) & (d["dead_letter_queue"] == named))
    death = F.struct(
        *[F.col(f"told.{name}").alias(name) for name in ("time", "event_id", "reason", "told")],
        F.when(rejected | seen, named).otherwise(F.col("told.dead_letter_queue")).alias("dead_letter_queue"),
        F.when(rejected, "derived").otherwise("observed").alias("evidence"),
    )
    stays = rejected & F.coalesce(policy["queue_type"] == "stream", F.lit(False))
    return F.when(F.col("told").isNotNull() & ~stays, death)


def _implied() -> Column:
    """The death at the moment of :func:`over_limit`, as the struct of :func:`_told`."""
    death = F.struct(
        F.col("over.time").alias("time"),
        F.col("over.event_id").alias("event_id"),
        F.lit("expired").alias("reason"),
        F.lit(None).cast("timestamp").alias("told"),
        policy_at(F.col("policies"), F.col("over.time"))["dead_letter_queue"].alias("dead_letter_queue"),
        F.lit("derived").alias("evidence"),
    )
    return F.when(F.col("over").isNotNull(), death)


def latest_death(held: Column, deliveries: Column, deaths: Column) -> Column:
    """The latest of the ``held`` ones of a message's ``deaths`` that no later delivery from its own queue undoes; null
    where each is undone. Of the events that tell of it the first says when it was and where it went: from there
    somebody may have moved it on.

    ``x-death`` has one entry a queue and reason: its count grows with each death, its time stays that of the
    first. A delivery from the queue that shows a count says that the message came back from that many deaths.
    """

    def mine(death: Column) -> Column:
        return F.exists(deliveries, lambda d: d["event_id"] == death["event_id"])

    def undone(death: Column) -> Column:
        return F.exists(deliveries, lambda d: returned_from(d, death, deaths))

    standing = F.filter(held, lambda death: ~mine(death) & ~undone(death))
    known = F.transform(standing, lambda death: death.withField("time", first_told(death, deaths)["time"]))
    ranked = F.transform(
        known,
        lambda d: F.struct(
            d["dead_letter_queue"].isNotNull().alias("newest"),
            d["time"],
            (-F.unix_micros(d["told"])).alias("first"),
            d.alias("death"),
        ),
    )
    return F.array_max(ranked)["death"]


def lying_in_queue() -> Column:
    """The moments at which a message known to lie in its queue may exceed a limit, as ``struct<time, event_id>``: its
    return, then every change of what holds for the queue.

    Only a requeue that a consumer wrote down, with neither a delivery nor an acknowledgement after it, tells that a
    message lies there; null where there is none.
    """
    requeue = F.try_element_at("failures", F.lit(-1))
    delivered = F.try_element_at("deliveries", F.lit(-1))["time"]
    emptied = emptied_after(F.col("policies"), requeue["time"])
    changes = F.filter(
        "policies",
        lambda p: (p["valid_from"] > requeue["time"]) & F.coalesce(p["valid_from"] < emptied, F.lit(True)),
    )
    moments = F.concat(
        F.array(F.struct(requeue["time"].alias("time"), requeue["event_id"].alias("event_id"))),
        F.transform(changes, lambda p: F.struct(p["valid_from"].alias("time"), p["event_id"].alias("event_id"))),
    )
    return F.when(F.col("settled").isNull() & (requeue["time"] >= delivered), moments)


def over_limit() -> Column:
    """The first of the ``moments`` at which a classic queue's count of the message exceeds its limit; else null.

    Delivery limits, notes and replies: a timer folds over the queue and expires what was delivered more often than
    the limit, so a limit that is lowered, or comes into force, kills what lies there.
    """
    return F.get(F.filter("moments", lambda moment: _exceeds(moment["time"]) & _lives(moment["time"])), 0)


def _exceeds(time: Column) -> Column:
    """Whether the broker's count exceeds a classic queue's limit at ``time``."""
    policy = policy_at(F.col("policies"), time)
    # the limit first: where there is none, nothing is counted
    return (policy["queue_type"] == "classic") & (policy["max_deliveries"] < count_at(F.col("steps"), time))


def _lives(time: Column) -> Column:
    """Whether no TTL can have been over at ``time``."""
    ttl = _least_ttl(time)
    return F.coalesce(ttl.isNull() | (F.col("posted.time") + F.make_dt_interval(secs=ttl) > time), F.lit(False))


def _least_ttl(time: Column) -> Column:
    """The least of the message's own TTL and those that its queue had from the post until ``time``; of an unseen post,
    from the first delivery: a policy can bring one and take it away."""
    since = F.coalesce("posted.time", F.get("deliveries", 0)["time"])
    held = F.filter("policies", lambda p: p["valid_from"].between(since, time))
    later = F.array_min(held["default_ttl"])
    return F.least(F.col("posted.ttl"), policy_at(F.col("policies"), since)["default_ttl"], later)


def killed_by_limit() -> Column:
    """Whether ``expired`` means the delivery limit of a classic queue (delivery limits, last of the notes).

    A TTL cannot have been over, and at some moment of the death's second the broker had counted more deliveries than
    the limit: what holds for the queue may change within it.
    """
    time, end = F.col("death.time"), end_of_death(F.col("death.time"), F.lit("observed"))
    ttl = _least_ttl(end)
    over = ttl.isNotNull() & F.coalesce(F.col("posted.time") + F.make_dt_interval(secs=ttl) <= end, F.lit(True))
    changes = F.transform(F.filter("policies", lambda p: p["valid_from"].between(time, end)), lambda p: p["valid_from"])
    before = F.transform(changes, lambda change: change - F.expr("INTERVAL 1 MICROSECOND"))
    moments = F.concat(F.array(end), changes, before)
    exceeded = F.exists(moments, _exceeds)
    return (F.col("death.reason") == "expired") & exceeded & ~over
