"""The facts that count at ``as_of``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.patterns.linking import says_something
from deadletter.rules.policy import histories, is_purge, policy_at
from deadletter.rules.pulsar import own
from deadletter.rules.rabbitmq_counter import counting_classic
from deadletter.rules.rabbitmq_deaths import end_of_death, of_one_kind, since_arrival, until_published_again
from deadletter.spark.parallel import together
from deadletter.spark.staging import Stage
from deadletter.tables import MESSAGE, QUEUE_KEY

FRAMES = ("state", "claims", "attempts", "policies")
OF_DEATH = ("dead_lettered_at", "evidence", "max_deliveries")
"""What :func:`of_its_end` asks of a message's row in ``gold.dead_letters``."""


@dataclass(frozen=True)
class SilverFacts:
    """The silver tables, without what happened after ``as_of``.

    ``state``, ``claims`` and ``attempts`` have their tables' columns; ``policies`` is one row a queue with its
    history, see :func:`deadletter.rules.policy.histories`. ``uneventful`` messages are not in ``state`` but
    :func:`~deadletter.gold.uneventful.counted`, and ``sample`` are the first of them in each queue, see
    :func:`~deadletter.gold.healthy.first_of_each`; both are ``None`` in facts that were not
    :func:`~deadletter.gold.uneventful.split`, which found whether it ``looked_at_many`` messages.
    """

    state: DataFrame
    claims: DataFrame
    attempts: DataFrame
    policies: DataFrame
    as_of: datetime
    uneventful: DataFrame | None = None
    sample: DataFrame | None = None
    looked_at_many: bool = False

    def posts(self) -> DataFrame:
        """The rows of ``state`` that have a message's post, one a queue: on Pulsar the topic's, no subscription's."""
        return self.state.where("posted IS NOT NULL AND (subscription = '' OR system != 'pulsar')")

    def with_post(self, messages: DataFrame) -> DataFrame:
        """Add ``post`` to rows of ``state``: their ``posted``, which on Pulsar the topic's row has."""
        topics = self.posts().where("system = 'pulsar'").select(*MESSAGE, F.col("posted").alias("post"))
        subscribed = messages.where("system = 'pulsar'").join(topics, list(MESSAGE), "left")
        return messages.where("system != 'pulsar'").withColumn("post", F.col("posted")).unionByName(subscribed)

    def policy_steps(self) -> DataFrame:
        """The steps of the ``policies``, one a row, with their queue's key."""
        return self.policies.select(*QUEUE_KEY, F.inline("policies"))

    @cached_property
    def counts_in_classic_queues(self) -> bool:
        """Whether any classic RabbitMQ queue ever counted deliveries: a proposal, which few lakes have to do with and
        which costs every plan it is in."""
        counting = F.exists("policies", counting_classic)
        return not self.policies.where((F.col("system") == "rabbitmq") & counting).isEmpty()

    @cached_property
    def has_zaqar_purges(self) -> bool:
        """Whether any of Zaqar's queues was ever purged: few lakes have to do with it, and what a purge spared costs a
        replay of all that lay in the queue."""
        purges = F.exists("policies", is_purge)
        return not self.policies.where((F.col("system") == "zaqar") & purges).isEmpty()

    @cached_property
    def has_acknowledgements(self) -> bool:
        """Whether anybody acknowledged a RabbitMQ or Pulsar message, as far as events tell: else no dead letter of
        theirs was removed."""
        return not self.state.where("system IN ('rabbitmq', 'pulsar') AND settled IS NOT NULL").isEmpty()

    @cached_property
    def purged(self) -> dict[str, DataFrame]:
        """What Zaqar's purges removed, by the name of the store's habits, once :func:`deadletter.gold.zaqar.deaths`
        found it: to find it is to replay it all."""
        return {}

    def systems(self) -> list[str]:
        """The brokers that any message is of."""
        frames = [df.select("system") for df in (self.state, self.uneventful) if df is not None]
        return [row["system"] for row in reduce(DataFrame.unionByName, frames).distinct().collect()]


def until(
    state: DataFrame, claims: DataFrame, attempts: DataFrame, policies: DataFrame, as_of: datetime
) -> SilverFacts:
    """Drop every fact later than ``as_of``."""
    limit = F.lit(as_of)
    # a function of an array's elements is not compiled, and most messages have nothing to cut
    in_arrays = F.concat(*[F.col(f"{facts}.time") for facts in ("deliveries", "failures", "deaths")])
    latest = F.greatest("posted.time", "settled.time", F.array_max(in_arrays))
    state = state.withColumn("touched", (F.size("deaths") > 0) | F.coalesce(latest > limit, F.lit(False)))
    # before the deliveries are cut: inside a lambda their name would mean the new column
    state = state.withColumn("deaths", _where_touched("deaths", dated(F.col("deaths"), F.col("deliveries"))))
    kept = {name: _kept(F.col(name), limit) for name in ("posted", "settled")}
    kept |= {name: _where_touched(name, _kept_in(name, limit)) for name in ("deliveries", "failures", "deaths")}
    kept_state = state.withColumns(kept).where((F.col("seen") <= limit) | (F.size("deaths") > 0)).drop("touched")
    kept_claims = claims.withColumns(
        {
            "claimed": _kept(F.col("claimed"), limit),
            "renewals": _kept_in("renewals", limit),
            "released": _kept(F.col("released"), limit),
        }
    )
    return SilverFacts(
        kept_state,
        kept_claims,
        attempts.where(F.col("time") <= limit),
        histories(policies.where(F.col("valid_from") <= limit)),
        as_of,
    )


def dated(deaths: Column, deliveries: Column) -> Column:
    """The deaths, with the time of each repeated one moved to what it cannot have been before, if later.

    RabbitMQ's ``x-death`` counts a message's deaths of one queue and reason, but keeps the time of the first: the last
    delivery before the event that told of the death led to it, and an event before that which showed fewer of the kind
    was before it.
    """

    def put_right(death: Column) -> Column:
        before = F.filter(deliveries, lambda d: d["time"] < death["told"])
        last = F.date_trunc("second", F.try_element_at(before, F.lit(-1))["time"])
        fewer = F.filter(deaths, lambda d: _is_earlier(d, death))
        shown = F.date_trunc("second", F.array_max(fewer["told"]))
        later = death.withField("time", F.greatest(death["time"], last, shown))
        return F.when(death["count"] > 1, later).otherwise(death)

    return F.transform(deaths, put_right)


def _is_earlier(told: Column, death: Column) -> Column:
    return of_one_kind(told, death) & (told["count"] < death["count"]) & (told["told"] < death["told"])


def counted_deliveries(policies: Column | None = None) -> Column:
    """How many deliveries of a row of ``silver.message_state`` count against a limit, as far as the brokers' rules say.
    With its queue's ``policies`` no count is believed that a classic RabbitMQ queue leaves as the message brought it.

    RabbitMQ: the last delivery's own count and itself, since a quorum queue leaves out what is returned on purpose;
    where none is shown, those since the message last came to its queue. Else all, or the last one's count if that is
    more: it knows of deliveries before the first event. Pulsar's broker may forget some.
    """
    in_rabbitmq = F.col("system") == "rabbitmq"
    since = F.when(in_rabbitmq, since_arrival(F.col("deliveries"), F.col("deaths"))).otherwise(F.col("deliveries"))
    told = F.try_add(last_told(F.col("deliveries"), "broker_count"), F.lit(1))  # of those before it
    if policies is not None:
        then = policy_at(policies, F.try_element_at("deliveries", F.lit(-1))["time"])
        told = F.when(F.coalesce((then["queue_type"] == "quorum") | then["counts"], F.lit(True)), told)
    # the last one at least: a message that is sent anew without its header does not show what it came back from
    seen = F.greatest(F.size(since), F.least(F.size("deliveries"), F.lit(1))).cast("bigint")
    return F.when(in_rabbitmq, F.coalesce(told, seen)).otherwise(F.greatest(seen, told))


def of_its_end(told: str = "deliveries") -> Column:
    """The deliveries or failures (``told``) of the life of a message that ended in the settlement or the death that is
    known of it; of an open message all. The row of ``silver.message_state`` has ``dead_lettered_at`` (null: not dead),
    ``evidence`` and ``max_deliveries`` of the death.

    A Pulsar subscription that seeks back gets once more what it has settled, and what died: that begins a new count. So
    does a RabbitMQ message that is published again under its id.
    """
    facts, deliveries, died = F.col(told), F.col("deliveries"), F.col("dead_lettered_at").isNotNull()
    # brokers' clocks tell milliseconds
    before = F.filter(facts, lambda fact: F.unix_millis(fact["time"]) <= F.unix_millis("settled.time"))
    settled = F.when(F.col("settled").isNotNull(), F.when(F.size(before) > 0, before).otherwise(F.slice(facts, 1, 1)))
    death = end_of_death(F.col("dead_lettered_at"), F.col("evidence"))
    end = F.when(died, death).otherwise(F.col("settled.time"))
    return (
        F.when(end.isNull(), facts)
        .when(F.col("system") == "rabbitmq", until_published_again(facts, deliveries, end))
        .when(F.col("system") == "pulsar", F.when(died, own(told)).otherwise(settled))
        .otherwise(facts)
    )


def last_told(deliveries: Column, name: str) -> Column:
    """What the last delivery tells in its field ``name``, the greatest of those at the same time: not every clock tells
    these apart."""
    told = F.transform(deliveries, lambda d: F.struct(d["time"].alias("time"), d[name].alias("told")))
    return F.array_max(told)["told"]


def last_error(failures: Column) -> Column:
    """The last error that a consumer gave; null where none gave one that is not blank."""
    return F.try_element_at(F.filter(failures, lambda f: says_something(f["error"])), F.lit(-1))["error"]


def _kept(fact: Column, limit: Column) -> Column:
    return F.when(fact["time"] <= limit, fact)


def _kept_in(column: str, limit: Column) -> Column:
    return F.filter(column, lambda fact: fact["time"] <= limit)


def _where_touched(column: str, changed: Column) -> Column:
    return F.when(F.col("touched"), changed).otherwise(F.col(column))


def each(facts: SilverFacts, stage: Stage, frames: Sequence[str] = FRAMES) -> SilverFacts:
    """The same facts with each of the ``frames`` staged, several at a time."""
    staged = together(partial(stage, getattr(facts, name)) for name in frames)
    return replace(facts, **dict(zip(frames, staged, strict=True)))
