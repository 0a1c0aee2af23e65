"""RabbitMQ by its documents: where a queue's delivery limit comes from, and what a limit kills."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.spark.columns import bound

SHARED_KINDS = ("policy", "operator_policy", "policy_cleared", "operator_policy_cleared", "feature_flag")
"""Kinds of ``silver.queue_policies`` that hold for more than one queue."""
COUNTER_KINDS = ("mirror_synchronised", "mirror_promoted", "recovered")
"""Kinds of ``silver.queue_policies`` that change no policy, but what a classic queue remembers of its deliveries."""
CHANGE = (
    "struct<name:string,pattern:string,priority:bigint,`apply-to`:string,`queue-mode`:string,settings:array<string>>"
)
SENDS = ("dead_letter_exchange", "dead_letter_routing_key")
"""What says where a queue's dead letters go: each from the queue's own arguments, else from its policy."""
_OF_STREAMS = ("max-age", "stream-max-segment-size-bytes", "initial-cluster-size")
_OF_MIRRORS = ("ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure")
_OF_CLASSIC = ("max-priority", "queue-mode", "queue-master-locator", *_OF_MIRRORS)
_OF_QUORUM = ("dead-letter-strategy", "max-in-memory-length", "max-in-memory-bytes", "target-group-size")
LIMIT = "delivery-limit"
NOT_IN_CLASSIC = (*_OF_STREAMS, *_OF_QUORUM)
"""Settings that a classic queue knows nothing of: a policy that has one of them does not hold for it, whatever else is
in it (``unsupported_policies`` of ``rabbit_classic_queue``, RabbitMQ 3.13 to 4.1). :data:`LIMIT` is one, but where the
queue counts by the proposal."""
NOT_IN_QUORUM = (*_OF_STREAMS, *_OF_CLASSIC)
"""The same of a quorum queue."""
NOT_IN_STREAMS = (
    *("expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "max-length", "overflow"),
    *(*_OF_CLASSIC, *_OF_QUORUM),
)
"""The same of a stream, with :data:`LIMIT`."""


def change() -> Column:
    """A vhost's policy row as ``struct<valid_from, event_id, kind, max_deliveries, name, pattern, ...>``."""
    told = F.from_json("attributes", CHANGE)
    return F.struct(
        "valid_from",
        "event_id",
        "kind",
        "max_deliveries",
        *SENDS,
        "default_ttl",
        told["name"].alias("name"),
        told["pattern"].alias("pattern"),
        F.coalesce(told["priority"], F.lit(0)).alias("priority"),
        F.coalesce(told["apply-to"], F.lit("all")).alias("apply_to"),
        told["queue-mode"].alias("queue_mode"),
        told["settings"].alias("settings"),
    )


def best_policy(changes: Column, family: str, queue: Column, time: Column, queue_type: Column, flag: Column) -> Column:
    """The one of a ``family`` of policies (``policy`` or ``operator_policy``) that holds for ``queue``, as
    ``struct<priority, limit, dead_letter_exchange, dead_letter_routing_key, ttl, queue_mode>``, and the ``ignored``
    limit of one that would hold if the queue knew of limits.

    Of the policies that are set at ``time`` and whose regular expression matches the queue's name, the one of
    the highest priority applies, and only that one (RabbitMQ, policies); its limit is null where it sets none. A policy
    may be for queues of one ``queue_type`` only, and is for none that does not know all of its settings
    (:data:`NOT_IN_CLASSIC`). A classic queue knows of limits from ``flag`` on (null: never). A broker tells that an
    operator policy was set as if it were a policy, so what clears one clears the policy of its name, unless an operator
    policy of that name was set as such before.

    >>> row = spark.sql('''SELECT timestamp'2026-11-20 12:00:00' AS now, array(
    ...     named_struct('valid_from', timestamp'2026-11-20 10:00:00', 'event_id', 'a', 'kind', 'policy',
    ...         'max_deliveries', 10L, 'dead_letter_exchange', '', 'dead_letter_routing_key', 'dead',
    ...         'default_ttl', 60L, 'name', 'all', 'pattern', '.*',
    ...         'priority', 0L, 'apply_to', 'queues', 'queue_mode', NULL,
    ...         'settings', array('delivery-limit', 'dead-letter-exchange', 'dead-letter-routing-key')),
    ...     named_struct('valid_from', timestamp'2026-11-20 11:00:00', 'event_id', 'b', 'kind', 'policy',
    ...         'max_deliveries', 3L, 'dead_letter_exchange', NULL, 'dead_letter_routing_key', NULL,
    ...         'default_ttl', NULL, 'name', 'mine', 'pattern', '^ord',
    ...         'priority', 5L, 'apply_to', 'all', 'queue_mode', NULL, 'settings', array('delivery-limit')),
    ...     named_struct('valid_from', timestamp'2026-11-20 11:30:00', 'event_id', 'c', 'kind', 'policy',
    ...         'max_deliveries', NULL, 'dead_letter_exchange', NULL, 'dead_letter_routing_key', NULL,
    ...         'default_ttl', NULL, 'name', 'mirrored', 'pattern', '.*',
    ...         'priority', 9L, 'apply_to', 'all', 'queue_mode', 'lazy', 'settings', array('ha-mode', 'queue-mode'))
    ... ) AS changes, queue, type FROM VALUES ('orders', 'quorum'), ('audit', 'quorum'), ('audit', 'classic')
    ...     AS t(queue, type)''')
    >>> best = best_policy(F.col("changes"), "policy", F.col("queue"), F.col("now"), F.col("type"), F.lit(None))
    >>> row.select("queue", "type", best["limit"], best["dead_letter_routing_key"], best["queue_mode"],
    ...     best["ignored"]).toDF("queue", "type", "limit", "target", "mode", "ignored").show()
    +------+-------+-----+------+----+-------+
    | queue|   type|limit|target|mode|ignored|
    +------+-------+-----+------+----+-------+
    |orders| quorum|    3|  NULL|NULL|      3|
    | audit| quorum|   10|  dead|NULL|     10|
    | audit|classic| NULL|  NULL|lazy|   NULL|
    +------+-------+-----+------+----+-------+
    """
    own_type = (
        F.when(queue_type == "stream", "streams")
        .when(queue_type == "quorum", "quorum_queues")
        .otherwise("classic_queues")
    )
    of_family = F.filter(changes, lambda c: (c["kind"] == family) | _clears(c, family, changes))
    told = F.filter(of_family, lambda c: c["valid_from"] <= time)

    def holding(told: Column) -> Column:
        return F.filter(
            told,
            lambda c: (
                (c["kind"] == family)
                & (c["apply_to"].isin("queues", "all") | (c["apply_to"] == own_type))
                & F.regexp_like(queue, c["pattern"])
                & ~F.exists(told, lambda later: (later["name"] == c["name"]) & (_moment(later) > _moment(c)))
                & ~F.coalesce(F.arrays_overlap(c["settings"], _unknown(queue_type)), F.lit(False))
            ),
        )

    knows_limits = (queue_type == "quorum") | (~_is_stream(queue_type) & F.coalesce(flag <= time, F.lit(False)))

    def best(held: Column) -> Column:
        limited = F.array_max(F.transform(held, _rank))["limit"]
        known = F.filter(
            held, lambda c: knows_limits | ~F.coalesce(F.array_contains(c["settings"], LIMIT), F.lit(False))
        )
        return F.struct(F.array_max(F.transform(known, _rank)).alias("best"), limited.alias("ignored"))

    def both(found: Column) -> Column:
        names = ("priority", "limit", *SENDS, "ttl", "queue_mode")
        return F.struct(*[found["best"][name].alias(name) for name in names], found["ignored"].alias("ignored"))

    return bound(bound(bound(told, holding), best), both)


def _is_stream(queue_type: Column) -> Column:
    return F.coalesce(queue_type == "stream", F.lit(False))


def _unknown(queue_type: Column) -> Column:
    """The settings that a queue of this type knows nothing of, but for :data:`LIMIT`; a type that no argument tells is
    classic."""
    classic, quorum, stream = (F.array(*map(F.lit, names)) for names in (NOT_IN_CLASSIC, NOT_IN_QUORUM, NOT_IN_STREAMS))
    return F.when(queue_type == "quorum", quorum).when(_is_stream(queue_type), stream).otherwise(classic)


def _clears(change: Column, family: str, changes: Column) -> Column:
    """Whether ``change`` clears a policy of the ``family``."""
    own = change["kind"] == f"{family}_cleared"
    if family == "operator_policy":
        return own
    as_such = F.exists(
        changes,
        lambda c: (c["kind"] == "operator_policy") & (c["name"] == change["name"]) & (_moment(c) < _moment(change)),
    )
    return own | ((change["kind"] == "operator_policy_cleared") & ~as_such)


def _rank(change: Column) -> Column:
    return F.struct(
        change["priority"].alias("priority"),
        change["max_deliveries"].alias("limit"),
        *[change[name].alias(name) for name in SENDS],
        change["default_ttl"].alias("ttl"),
        change["queue_mode"].alias("queue_mode"),
    )


def counts_deliveries(queue_type: Column, flag: Column, time: Column) -> Column:
    """Whether a limit counts in a queue of this type: in quorum queues always, in classic ones from the time on
    when ``classic_delivery_limits`` was enabled (``flag``, null: never), in lazy ones not at all (notes).

    >>> row = spark.sql("SELECT 1 AS now, 2 AS later, explode(array('quorum', 'classic', 'lazy')) AS type")
    >>> on = counts_deliveries(F.col("type"), F.col("now"), F.col("later"))
    >>> off = counts_deliveries(F.col("type"), F.col("later"), F.col("now"))
    >>> row.select("type", on.alias("flag on"), off.alias("not yet")).show()
    +-------+-------+-------+
    |   type|flag on|not yet|
    +-------+-------+-------+
    | quorum|   true|   true|
    |classic|   true|  false|
    |   lazy|  false|  false|
    +-------+-------+-------+
    """
    return (queue_type == "quorum") | ((queue_type == "classic") & F.coalesce(flag <= time, F.lit(False)))


def effective_history(policies: Column, changes: Column, flag: Column, queue: Column) -> Column:
    """A queue's own history with the vhost's policies in it: a step at each declaration and each policy event.

    Delivery limits, proposed changes 1 to 3: a limit comes from a policy, an operator policy or the argument
    ``x-delivery-limit``; RabbitMQ's documentation lets the lowest win. ``flag`` is as in
    :func:`counts_deliveries`, as ``struct<valid_from, event_id>``. Of the TTLs the least holds too; a queue's mode is
    its argument's, else its policy's, and so is each of the names that its dead letters go by: the exchange can be in
    the arguments and the routing key in the policy. Without an exchange they go nowhere; where the key is the
    queue's own name and the exchange not the default one, nobody knows where.
    """
    steps = F.concat(*[F.transform(part, _moment) for part in (policies, changes, F.array_compact(F.array(flag)))])
    rows = F.transform(F.array_sort(F.array_distinct(steps)), lambda at: _in_force(policies, changes, flag, queue, at))
    return F.filter(rows, lambda row: row.isNotNull())


def _moment(row: Column) -> Column:
    return F.struct(row["valid_from"].alias("time"), row["event_id"].alias("event_id"))


def _in_force(policies: Column, changes: Column, flag: Column, queue: Column, at: Column) -> Column:
    """What held for the queue from ``at`` on; null where the queue was not declared or is deleted."""
    held = F.filter(policies, lambda p: (_moment(p) <= at) & ~p["kind"].isin(*COUNTER_KINDS))
    held = F.try_element_at(held, F.lit(-1))
    own = F.get(F.filter(policies, lambda p: p["event_id"] == at["event_id"]), 0)

    def known(held: Column, own: Column) -> Column:
        best, operator = (
            best_policy(changes, family, queue, at["time"], held["queue_type"], flag["valid_from"])
            for family in ("policy", "operator_policy")
        )
        step = bound(
            best, lambda best: bound(operator, lambda operator: _step(at, held, own, best, operator, flag, queue))
        )
        return F.when(own.isNotNull() | (held["kind"] != "deleted"), step)

    return bound(held, lambda held: bound(own, lambda own: known(held, own)))


def _step(at: Column, held: Column, own: Column, best: Column, operator: Column, flag: Column, queue: Column) -> Column:
    """The step at ``at``: of the queue's ``own`` event there, if there is one, by what was ``held`` of its declaration
    and by the ``best`` policy and ``operator`` policy."""
    limit, ignored = (F.least(held["max_deliveries"], best[name], operator[name]) for name in ("limit", "ignored"))
    by_policy = F.when(best["queue_mode"] == "lazy", "lazy").otherwise("classic")
    queue_type = F.when(held["kind"].isNotNull(), F.coalesce(held["queue_type"], by_policy))
    counted = (held["kind"] != "deleted") & counts_deliveries(queue_type, flag["valid_from"], at["time"])
    exchange, key = (F.when(held["kind"] != "deleted", F.coalesce(held[name], best[name])) for name in SENDS)
    # the default exchange alone sends by the queue's name; by any other a queue's own name is what is bound elsewhere
    target = F.when(exchange.isNotNull() & ((key != queue) | (exchange == "")), F.nullif(key, F.lit("")))
    # a policy for a whole vhost holds for its dead letter queues too: they send nothing on by an exchange alone, nor to
    # themselves
    leads_away = (key != "") & ((key != queue) | (exchange != ""))
    told = F.when(held[SENDS[0]].isNotNull() | leads_away, exchange)
    return F.struct(
        at["time"].alias("valid_from"),
        at["event_id"].alias("event_id"),
        F.coalesce(own["kind"], F.lit("updated")).alias("kind"),
        F.when(counted, limit).alias("max_deliveries"),
        target.alias("dead_letter_queue"),
        held["dead_letter_ttl"].alias("dead_letter_ttl"),
        F.least(held["default_ttl"], best["ttl"], operator["ttl"]).alias("default_ttl"),
        held["default_delay"].alias("default_delay"),
        queue_type.alias("queue_type"),
        F.when((held["kind"] != "deleted") & ~counted, ignored).alias("ignored_limit"),
        F.coalesce(counted, F.lit(False)).alias("counts"),
        own["node"].alias("node"),
        *[value.alias(name) for name, value in zip(SENDS, (told, key), strict=True)],
    )
