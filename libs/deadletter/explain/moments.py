"""What happened to messages, one row a moment, in order."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from deadletter.gold.facts import SilverFacts, dated
from deadletter.gold.status import of_claims, with_purge
from deadletter.rules.limits import limit_counts
from deadletter.rules.policy import emptied_after, is_purge, last_sign, policy_at
from deadletter.rules.rabbitmq_deaths import of_one_kind
from deadletter.rules.zaqar_store import Habits
from deadletter.tables import MESSAGE_KEY, QUEUE_KEY

TEXTS = {
    "posted": (
        "concat('posted', coalesce(concat(', TTL ', m.ttl, ' s'), ''), coalesce(concat(', delay ', m.delay, ' s'), ''))"
    ),
    "deliveries": (
        "concat('delivery ', i + 1, coalesce(concat(' in claim ', m.claim_id), ''), "
        "coalesce(concat(' to ', m.consumer), ''), coalesce(concat(', broker counts ', m.broker_count), ''), "
        "CASE WHEN m.redelivered THEN ', redelivered' ELSE '' END)"
    ),
    "claim_changes": "concat('claim ', m.claim_id, ' ', m.how)",
    "failures": "concat(m.what, coalesce(concat(': ', m.error), ''))",
    "settled": "concat('settled by ', m.how)",
    "emptied": "concat('the queue was ', m.kind)",
    "deaths": "concat('the broker reports a death: ', m.reason, coalesce(concat(', to ', m.dead_letter_queue), ''))",
}
"""What is said of each moment ``m``, the ``i``-th of its kind. Of one time, they happened in this order."""


def moments(status: DataFrame, facts: SilverFacts, dead: DataFrame, habits: Habits) -> DataFrame:
    """One row a moment with ``*MESSAGE_KEY, micros, what, event_id``, in order.

    ``status`` are rows of :func:`deadletter.gold.status.message_status`, ``dead`` of ``gold.dead_letters``.
    """
    rows = _with_end(status, facts, dead, habits).withColumn("deaths", dated(F.col("deaths"), F.col("deliveries")))
    in_any_queue = Window.partitionBy("system", "tenant", "message_id")
    led = F.collect_list(F.expr("concat(array(posted.time), deliveries.time, failures.time)")).over(in_any_queue)
    read = F.expr("transform(deliveries, d -> named_struct('queue', queue, 'event_id', d.event_id))")
    reads = F.flatten(F.collect_list(read).over(in_any_queue))
    more = {"deaths": told_once(_reported()), "failures": _failures(), "emptied": _emptied()}
    more |= {"led": F.flatten(led), "reads": reads}
    rows = rows.withColumns(more)
    changes = of_claims(status, facts.claims, _changes(), "changes")
    rows = rows.join(changes, list(MESSAGE_KEY), "left").withColumn("claim_changes", F.filter("changes", _reaches))
    told = rows.select(*MESSAGE_KEY, "policies", F.explode(_all()).alias("m"))
    what = F.concat("m.what", F.when(F.col("m.kind") == "deliveries", _limit()).otherwise(""))
    ordered = told.orderBy("m.place", "m.rank", "m.newest", *QUEUE_KEY, "m.nth")
    return ordered.select(*MESSAGE_KEY, F.unix_micros("m.time").alias("micros"), what.alias("what"), "m.event_id")


def _reported() -> Column:
    """The deaths without those that a consumer's own reject tells of."""
    return F.filter("deaths", lambda death: ~F.array_contains(F.col("failures")["event_id"], death["event_id"]))


def _failures() -> Column:
    """The failures, with ``what`` the consumer did: its reject is a death, too."""

    def told(failure: Column) -> Column:
        rejected = F.array_contains(F.col("deaths")["event_id"], failure["event_id"])
        return failure.withField("what", F.when(rejected, "rejected").otherwise("negative acknowledgement"))

    return F.transform("failures", told)


def told_once(deaths: Column) -> Column:
    """Each death once, as ``struct<time, event_id, reason, dead_letter_queue, told, since>``, in no order: ``told`` is
    when an event first showed it, ``since`` when one last showed fewer deaths of its kind.

    A message keeps its ``x-death``, which each later delivery shows again, and a dead letter topic can be read twice.
    Of a death's times the earliest is the closest: each is that of the last delivery before an event that shows it.
    """

    def first_told(one: Column) -> Column:
        same = F.filter(deaths, lambda d: _which(d).eqNullSafe(one))
        time = F.array_min(F.transform(same, lambda d: F.least(d["time"], d["told"])))
        first = F.get(F.array_sort(F.transform(same, _teller)), 0)
        named = F.filter(same, lambda d: d["dead_letter_queue"].isNotNull())
        before = F.filter(deaths, lambda d: _comes_before(d, one) & (d["told"] < first["told"]))
        since = F.array_max(before["told"])
        return F.struct(
            F.greatest(time, F.date_trunc("second", since)).alias("time"),
            first["event_id"].alias("event_id"),
            one["reason"].alias("reason"),
            F.get(F.array_sort(F.transform(named, _teller)), 0)["dead_letter_queue"].alias("dead_letter_queue"),
            first["told"].alias("told"),
            since.alias("since"),
        )

    return F.transform(F.array_distinct(F.transform(deaths, _which)), first_told)


def _which(death: Column) -> Column:
    """Which death it is: RabbitMQ's by its number among those of its kind, Pulsar's by its dead letter."""
    letter = death["dead_letter_message_id"]
    return F.struct(
        death["reason"].alias("reason"),
        F.when(letter.isNull(), death["first"]).alias("first"),
        death["count"].alias("count"),
        F.when(letter.isNotNull(), death["dead_letter_queue"]).alias("dead_letter_queue"),
        letter.alias("letter"),
    )


def _comes_before(death: Column, other: Column) -> Column:
    """Whether RabbitMQ counts it before another one of its kind."""
    return of_one_kind(death, other) & (death["count"] < other["count"])


def _teller(death: Column) -> Column:
    return F.struct(*[death[name].alias(name) for name in ("told", "event_id", "dead_letter_queue")])


def _with_end(status: DataFrame, facts: SilverFacts, dead: DataFrame, habits: Habits) -> DataFrame:
    """Add the ``policies`` of each message's queue, and ``ended``: when the message was gone from it, null if not."""
    died = dead.groupBy(*MESSAGE_KEY).agg(F.min("dead_lettered_at").alias("died_at"))
    sign = last_sign(_first_sign(), F.col("deliveries"))
    emptied = emptied_after(F.col("policies"), sign, purges=F.col("system") != "zaqar")
    ends = ("settled.time", "died_at", "purged_at", "expires_at")
    return (
        with_purge(status, facts, habits)
        .join(facts.policies, list(QUEUE_KEY), "left")
        .join(died, list(MESSAGE_KEY), "left")
        .withColumn("ended", F.least(*ends, emptied))
    )


def _emptied() -> Column:
    """The purges and deletions of its queue that the message was there for."""

    def met(step: Column) -> Column:
        in_time = F.coalesce(step["valid_from"] <= F.col("ended"), F.lit(True))
        return (is_purge(step) | (step["kind"] == "deleted")) & (step["valid_from"] > _first_sign()) & in_time

    return F.transform(
        F.filter("policies", met), lambda p: F.struct(p["valid_from"].alias("time"), p["event_id"], p["kind"])
    )


def _first_sign() -> Column:
    return F.coalesce("posted.time", "seen")


def _changes() -> Column:
    """Renewals and release of a claim, a row of ``silver.claims``."""

    def change(step: Column, how: Column) -> Column:
        return F.struct(step["time"].alias("time"), step["event_id"].alias("event_id"), "claim_id", how.alias("how"))

    renewals = F.transform("renewals", lambda r: change(r, F.concat(F.lit("renewed for "), r["ttl"], F.lit(" s"))))
    released = F.when(F.col("released").isNotNull(), change(F.col("released"), F.lit("released")))
    return F.concat(renewals, F.array_compact(F.array(released)))


def _reaches(change: Column) -> Column:
    """Whether a change of a claim was one for the message: the claim was its latest, and it was still there."""
    latest = F.try_element_at(F.filter("deliveries", lambda d: d["time"] <= change["time"]), F.lit(-1))
    return (latest["claim_id"] == change["claim_id"]) & F.coalesce(change["time"] < F.col("ended"), F.lit(True))


def _all() -> Column:
    """All moments of a message, of any kind.

    ``x-death`` has whole seconds: what was in a death's own second, in any queue, before the event that tells of it,
    led to it. Of two deaths of one time the newest is the one whose queue the event was read from.
    """
    arrays = {"posted": "array(posted)", "settled": "array(settled)"}
    before = "filter(led, t -> date_trunc('second', t) = m.time AND t < m.told)"
    newest = {"deaths": "exists(reads, r -> r.queue = m.dead_letter_queue AND r.event_id = m.event_id)"}
    places = {"deaths": f"greatest(m.time, m.since, CASE WHEN system = 'rabbitmq' THEN array_max({before}) END)"}
    parts = [
        f"transform(filter({arrays.get(kind, kind)}, m -> m IS NOT NULL), (m, i) -> named_struct("
        f"'kind', '{kind}', 'place', {places.get(kind, 'm.time')}, 'rank', {rank}, "
        f"'newest', {newest.get(kind, 'false')}, 'nth', i, 'time', m.time, "
        f"'what', {text}, 'event_id', m.event_id))"
        for rank, (kind, text) in enumerate(TEXTS.items())
    ]
    # a message that no claim took, or whose queue has no policies, has no such arrays
    return F.concat(*[F.coalesce(F.expr(part), F.array()) for part in parts])


def _limit() -> Column:
    """The limit in force for a delivery, where one counts."""
    policy = policy_at(F.col("policies"), F.col("m.time"))
    target = F.coalesce(F.concat(F.lit(", to "), policy["dead_letter_queue"]), F.lit(""))
    said = F.concat(F.lit(" [limit "), policy["max_deliveries"], target, F.lit("]"))
    return F.coalesce(F.when(limit_counts(policy), said), F.lit(""))
