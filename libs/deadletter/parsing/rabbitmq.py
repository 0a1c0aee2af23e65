"""RabbitMQ: the firehose (``amq.rabbitmq.trace``), the event exchange (``amq.rabbitmq.event``), consumers' records.

The firehose tells every publish and every delivery, never an acknowledgement: only what a consumer wrote down does.
A dead letter shows in the ``x-death`` header of a delivery from the queue it went to, or in a consumer's record of a
reject.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.parsing.envelope import EARLIEST, ENVELOPE_RULES, MOST_SECONDS, clock, epoch, read_envelope, seconds
from deadletter.parsing.facts import Facts, message_fact, reasons, rows_of, without_claims
from deadletter.rules.rabbitmq import COUNTER_KINDS, SENDS, SHARED_KINDS
from deadletter.spark.regexes import unreadable
from deadletter.spark.sqltext import sql_list

SYSTEM = "rabbitmq"
FIELDS = {
    "surface": "surface",
    "routing_key": "routing_key",
    "payload": "payload",
    "headers": "properties.headers",
}
HEADERS = (
    "struct<properties:string,vhost:string,connection:string,channel:string,routed_queues:array<string>,"
    "name:string,type:string,arguments:string,pattern:string,priority:string,`apply-to`:string,"
    "definition:string,node:string,error:string,exchange_name:string,redelivered:string>"
)
DEATHS = "array<struct<count:bigint,reason:string,queue:string,time:string>>"

KINDS = {
    "publish": "surface = 'firehose' AND startswith(routing_key, 'publish.')",
    "deliver": "surface = 'firehose' AND startswith(routing_key, 'deliver.')",
    "ack": "surface = 'consumer' AND startswith(routing_key, 'ack.')",
    "requeue": "surface = 'consumer' AND startswith(routing_key, 'requeue.')",
    "reject": "surface = 'consumer' AND startswith(routing_key, 'reject.')",
    "declare": "surface = 'event_exchange' AND routing_key = 'queue.created'",
    "delete_queue": "surface = 'event_exchange' AND routing_key = 'queue.deleted'",
    "policy": "surface = 'event_exchange' AND routing_key = 'policy.set'",
    "operator_policy": "surface = 'event_exchange' AND routing_key = 'operator.policy.set'",
    "policy_cleared": "surface = 'event_exchange' AND routing_key = 'policy.cleared'",
    "operator_policy_cleared": "surface = 'event_exchange' AND routing_key = 'operator.policy.cleared'",
    "feature_flag": (
        "surface = 'event_exchange' AND routing_key = 'feature.flag.enabled'"
        " AND get_json_object(headers, '$.name') = 'classic_delivery_limits'"
    ),
    "mirror_synchronised": "surface = 'event_exchange' AND routing_key = 'queue.mirror.synchronised'",
    "mirror_promoted": "surface = 'event_exchange' AND routing_key = 'queue.mirror.promoted'",
    "recovered": "surface = 'event_exchange' AND routing_key = 'queue.recovered'",
}
OF_MESSAGE = ("deliver", "ack", "requeue", "reject")
WITH_PROPERTIES = ("publish", *OF_MESSAGE)
PROPERTIES = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)
"""What AMQP 0-9-1 names a message's properties. By other names, as some clients have them, nothing tells which message
it is."""
OF_QUEUE = ("declare", "delete_queue", *COUNTER_KINDS)
WITH_PATTERN = ("policy", "operator_policy")
"""The kinds of events whose pattern Spark has to be able to read."""
POLICY_KINDS = ("policy", "operator_policy", "policy_cleared", "operator_policy_cleared")

BROKER_HEADERS = (
    "x-death|x-delivery-count|x-first-death-.*|x-last-death-.*|x-acquired-count|x-stream-offset|x-opt-.*|CC|BCC"
)
"""Headers that the broker adds or takes away: no part of the message that stays the same on its way."""


def _terms_or_object(told: str) -> str:
    """SQL for whether names and values read: an object's, or a list's of terms such as ``{<<"x">>,signedint,3}``."""
    terms = f"from_json({told}, 'array<string>')"
    return f"startswith({told}, '{{') OR coalesce(forall({terms}, a -> a RLIKE r'^[{{]<<.*>>,.*[}}]$'), false)"


def argument(name: str) -> str:
    """SQL for one argument that a queue was declared with."""
    return _told(name, "head.arguments")


def setting(name: str) -> str:
    """SQL for one setting of a policy's ``definition``."""
    return _told(name, "head.definition")


def settings() -> str:
    """SQL for the names of all that a policy's ``definition`` sets, each of which a queue has to know."""
    term = r"regexp_extract(a, '^\\{<<\"([^\"]*)\">>,', 1)"
    return (
        "CASE WHEN startswith(head.definition, '{') THEN json_object_keys(head.definition)"
        f" ELSE transform(from_json(head.definition, 'array<string>'), a -> {term}) END"
    )


def _told(name: str, told: str) -> str:
    r"""SQL for the value of a name, as text: of a table of names and values, as the management API writes it, or of a
    list of Erlang terms such as ``{<<"x-delivery-limit">>,signedint,3}``, as the broker's events have it.

    A term's text is ``<<"orders">>``, or its bytes where one of them is no printable character of Latin-1: the name
    ``Ö`` is ``<<195,150>>``. An empty text counts as given, as the default exchange's name: it is ``<<>>``.
    """
    pattern = rf'^\\{{<<"{name}">>,(?:[a-z]+,)?(.*)\\}}$'
    given = f"filter(from_json({told}, 'array<string>'), a -> a RLIKE '{pattern}')"
    terms = f"transform({given}, a -> regexp_extract(a, '{pattern}', 1))"
    return (
        f"CASE WHEN startswith({told}, '{{') THEN from_json({told}, 'map<string,string>')['{name}']"
        f" ELSE get(transform({terms}, term -> {_VALUE}), 0) END"
    )


_BYTES = "transform(regexp_extract_all(term, '[0-9]+', 0), byte -> lpad(hex(try_cast(byte AS int)), 2, '0'))"
_VALUE = (
    rf"""CASE WHEN term RLIKE '^<<".*">>$' THEN regexp_replace(substr(term, 4, length(term) - 6), r'\\(["\\])', '$1')"""
    f" WHEN term RLIKE '^<<[0-9,]*>>$' THEN try_validate_utf8(CAST(unhex(array_join({_BYTES}, '')) AS string))"
    " ELSE term END"
)


def _given_and_not(name: str, test: str) -> str:
    """SQL for whether a queue's argument or a policy's setting is given, and not a whole number of which ``test``."""
    of_queue, of_policy = (
        f"{told} IS NOT NULL AND NOT coalesce(try_cast({told} AS bigint) {test}, false)"
        for told in (argument(f"x-{name}"), setting(name))
    )
    return f"(kind = 'declare' AND {of_queue}) OR (kind IN {sql_list(WITH_PATTERN)} AND {of_policy})"


# RabbitMQ's are Perl's: a named group (?P<name>...) or a brace that repeats nothing is no pattern here
FOREIGN = "foreign_pattern: the policy's pattern is no regular expression of Java's"
APPLIES_TO = ("all", "queues", "classic_queues", "quorum_queues", "streams", "qos0_queues", "exchanges")
"""What a policy can be for; the last queues are those of MQTT."""

RULES = ENVELOPE_RULES | {
    "unknown_surface: surface is none of firehose, event_exchange and consumer": (
        "readable AND NOT coalesce(surface IN ('firehose', 'event_exchange', 'consumer'), false)"
    ),
    "no_routing_key: routing_key is missing": "readable AND routing_key IS NULL",
    "unknown_routing_key: the firehose's keys begin with publish. or deliver., a consumer's with ack., requeue. or"
    " reject.": (
        "(surface = 'firehose' AND NOT (routing_key RLIKE '^(publish|deliver)[.]'))"
        " OR (surface = 'consumer' AND NOT (routing_key RLIKE '^(ack|requeue|reject)[.]'))"
    ),
    "bad_headers: properties.headers is missing or no object; vhost, connection, channel and the message's own"
    " properties are in it": "kind IS NOT NULL AND head IS NULL",
    "no_tenant: the vhost is missing": (
        "head IS NOT NULL AND kind IS NOT NULL AND kind != 'feature_flag' AND coalesce(head.vhost, '') = ''"
    ),
    "no_queue: the event names no queue": (
        f"(kind IN {sql_list(OF_MESSAGE)} AND queue = '')"
        f" OR (kind IN {sql_list(OF_QUEUE)} AND coalesce(head.name, '') = '')"
    ),
    "no_node: the event does not say which node's mirror it is about": (
        "kind IN ('mirror_synchronised', 'mirror_promoted') AND coalesce(head.node, '') = ''"
    ),
    "no_policy_name: the policy has no name": f"kind IN {sql_list(POLICY_KINDS)} AND coalesce(head.name, '') = ''",
    "bad_arguments: the queue's arguments are neither a list of Erlang terms nor an object": (
        f"kind = 'declare' AND NOT ({_terms_or_object('head.arguments')})"
    ),
    "bad_definition: the policy's definition is missing, or neither a list of Erlang terms nor an object": (
        f"kind IN {sql_list(WITH_PATTERN)} AND head IS NOT NULL"
        f" AND NOT coalesce({_terms_or_object('head.definition')}, false)"
    ),
    "bad_priority: the policy's priority is not a whole number": (
        f"kind IN {sql_list(WITH_PATTERN)} AND head.priority IS NOT NULL AND try_cast(head.priority AS bigint) IS NULL"
    ),
    "bad_apply_to: the policy's apply-to is none of " + ", ".join(APPLIES_TO): (
        f"kind IN {sql_list(WITH_PATTERN)} AND head.`apply-to` IS NOT NULL"
        f" AND head.`apply-to` NOT IN {sql_list(APPLIES_TO)}"
    ),
    "bad_limit: the queue's or policy's delivery limit is not a whole number": (
        _given_and_not("delivery-limit", "IS NOT NULL")
    ),
    "bad_ttl: the queue's or policy's message TTL is not a whole number of milliseconds from 0": (
        _given_and_not("message-ttl", ">= 0")
    ),
    "bad_pattern: the policy's pattern is missing": (
        f"kind IN {sql_list(WITH_PATTERN)} AND head IS NOT NULL AND head.pattern IS NULL"
    ),
    "bad_properties: the message's properties are missing, are not named as AMQP does, such as message_id, or its"
    " headers are no object": (
        f"kind IN {sql_list(WITH_PROPERTIES)} AND head IS NOT NULL AND (message IS NULL"
        " OR coalesce(message['message_id'], '') = ''"
        " AND size(map_filter(message, (name, value) -> value IS NOT NULL"
        f" AND name NOT IN {sql_list(PROPERTIES)})) > 0"
        " OR coalesce(message['headers'], '[]') != '[]'"
        " AND from_json(message['headers'], 'map<string,string>') IS NULL)"
    ),
    "no_routed_queues: a publish does not say which queues it went to, each by its name": (
        "kind = 'publish' AND head IS NOT NULL AND (head.routed_queues IS NULL"
        " OR exists(head.routed_queues, q -> coalesce(q, '') = ''))"
    ),
    "bad_expiration: expiration is not a whole number of milliseconds from 0, at most 100 years": (
        "kind = 'publish' AND message['expiration'] IS NOT NULL AND "
        f"NOT coalesce(try_cast(message['expiration'] AS bigint) BETWEEN 0 AND {MOST_SECONDS}000, false)"
    ),
    "bad_delivery_count: x-delivery-count is not a whole number from 0 to 2147483647": (
        "kind = 'deliver' AND message_headers['x-delivery-count'] IS NOT NULL AND "
        "NOT coalesce(try_cast(message_headers['x-delivery-count'] AS int) >= 0, false)"
    ),
    "bad_x_death: the x-death header does not read: each entry needs a queue, a reason, and a time since 2000, in"
    " seconds or milliseconds since 1970 or as ISO 8601": (
        "kind = 'deliver' AND x_death IS NOT NULL AND (deaths IS NULL OR exists(deaths, d -> d.queue IS NULL"
        f" OR d.reason IS NULL OR NOT coalesce(d.time >= TIMESTAMP'{EARLIEST} 00:00:00', false)))"
    ),
}


def parse(bronze: DataFrame) -> DataFrame:
    """RabbitMQ's bronze rows with what each event says: ``kind``, its parts, ``facts`` and ``reasons``."""
    events = read_envelope(bronze, SYSTEM, FIELDS)
    events = events.withColumns(
        {
            "kind": F.expr("CASE " + " ".join(f"WHEN {test} THEN '{name}'" for name, test in KINDS.items()) + " END"),
            "head": F.expr(f"CASE WHEN startswith(headers, '{{') THEN from_json(headers, '{HEADERS}') END"),
            "queue": F.regexp_extract("routing_key", r"(?s)^(?:deliver|ack|requeue|reject)\.(.*)$", 1),
        }
    )
    events = events.withColumns(
        {
            "tenant": F.col("head.vhost"),
            "message": F.expr(
                "from_json(CASE WHEN head.properties = '[]' THEN '{}' ELSE head.properties END, 'map<string,string>')"
            ),
        }
    )
    events = events.withColumn(
        "message_headers", F.expr("coalesce(from_json(message['headers'], 'map<string,string>'), map())")
    ).withColumn("x_death", F.expr("message_headers['x-death']"))
    events = events.withColumn("deaths", F.expr(_DEATHS)).withColumn("message_id", F.expr(_MESSAGE_ID))
    events = events.withColumn("silent", F.expr(_SILENT))
    return events.withColumns({"reasons": reasons(RULES), "facts": F.expr(_facts())}).drop("payload")


# a client for Node gives {"!":"timestamp","value":...}, one for Java milliseconds
_DEATH_TIME = "(CASE WHEN startswith(d.time, '{') THEN get_json_object(d.time, '$.value') ELSE d.time END)"
_DEATHS = (
    f"transform(from_json(x_death, '{DEATHS}'), d -> named_struct('queue', d.queue, 'reason', d.reason, 'count', "
    f"d.count, 'time', coalesce({clock(_DEATH_TIME)}, {epoch(_DEATH_TIME)}, {epoch(_DEATH_TIME, 1000)})))"
)

_NEWER = "slice(deaths, 1, i)"
"""The entries of ``x-death`` before the one at ``i``: the kind of death that was last comes first."""
_FIRST_THERE = "array_min(transform(filter(deaths, e -> e.queue = d.queue), e -> e.time))"
_CAME_BACK = (
    f"exists(array_append(transform({_NEWER}, e -> e.queue), queue),"
    f" later -> later != d.queue AND exists(deaths, e -> e.queue = later AND (e.time < {_FIRST_THERE}"
    " OR i = 0 AND later = queue AND e.time = d.time AND coalesce(e.count >= d.count, false))))"
)
"""Whether a message went on from a death to a queue where it died before it ever died in the death's own: it had waited
there for its next try, and came back. An entry keeps the time of the first death of its kind, in whole seconds; where
these are the same, the queue that it was read from has as many deaths as the one where it waited, and one more while it
waits."""
_WENT_TO = (
    "CASE WHEN i = 0 AND queue != d.queue THEN queue"
    f" WHEN i > 0 AND get(deaths, 0).queue != d.queue AND forall({_NEWER}, e -> e.queue = get(deaths, 0).queue)"
    " THEN get(deaths, 0).queue"
    f" WHEN i > 0 AND forall({_NEWER}, e -> coalesce(e.count, 1) <= 1)"
    " THEN nullif(get(deaths, i - 1).queue, d.queue) END"
)
"""The queue that a death led to: the last one to that which it was read from, unless the message is back; one before to
the queue where the message died from then on, if that is one, or where it died next, as it did if it died only once in
each since."""

_MESSAGE_ID = (
    "coalesce(nullif(message['message_id'], ''), concat('sha256:', sha2(concat_ws('\\u0000', payload, "
    # a client's list of properties has those that nobody set; the firehose tells 32 bits of a timestamp
    "to_json(array_sort(map_entries(transform_values(map_filter(message, "
    "(k, v) -> v IS NOT NULL AND k NOT IN ('headers', 'expiration', 'delivery_mode')), "
    "(k, v) -> CASE WHEN k = 'timestamp' THEN "
    "coalesce(cast(pmod(try_cast(v AS bigint), 4294967296L) AS string), v) ELSE v END)))), "
    "to_json(array_sort(map_entries(map_filter(message_headers, "
    f"(k, v) -> NOT (k RLIKE '^({BROKER_HEADERS})$')))))), 256)))"
)
"""Where a publisher sets no ``message_id``: the hash of what it did set, the same at publish and delivery.
Messages with equal properties and payload then count as one."""


_REPLY = "startswith({}, 'amq.rabbitmq.reply-to')"
"""A direct reply goes to a channel, which no queue is."""
_ROUTED = f"filter(head.routed_queues, q -> NOT {_REPLY.format('q')})"
_OF_BROKER = "head.exchange_name IN ('amq.rabbitmq.event', 'amq.rabbitmq.log')"
"""What the broker tells of itself and a collector reads: the firehose leaves out its own messages alone."""
_SILENT = (
    f"kind IS NULL OR kind = 'publish' AND size({_ROUTED}) = 0"
    f" OR kind = 'deliver' AND ({_REPLY.format('queue')} OR coalesce({_OF_BROKER}, false))"
)


def _facts() -> str:
    """SQL for the array of message facts of an event."""
    # A publisher may set any timestamp, or none: one that is no time says nothing. Without it no event but the publish
    # knows the day by which a merge finds the message's row.
    created = epoch("message['timestamp']")
    posted = message_fact(
        queue="q",
        message_id="message_id",
        created_at=created,
        posted=(
            "named_struct('time', time, 'event_id', event_id, 'position', 0, 'ttl', "
            "try_cast(message['expiration'] AS bigint) DIV 1000, 'delay', NULL, 'producer', message['app_id'])"
        ),
    )
    delivered = message_fact(
        queue="queue",
        message_id="message_id",
        created_at=created,
        delivery=(
            "named_struct('time', time, 'event_id', event_id, 'claim_id', NULL, 'consumer', "
            "concat(head.connection, ' (', head.channel, ')'), "
            # what a queue delivers for the first time shows what was counted elsewhere, if it was sent on with it;
            # since 4.3 a message that was only returned on purpose shows how often it was acquired, and no count
            "'broker_count', CASE WHEN message_headers['x-delivery-count'] IS NOT NULL AND NOT coalesce(try_cast("
            "head.redelivered AS boolean), true) THEN 0L ELSE coalesce(try_cast(message_headers['x-delivery-count'] "
            "AS bigint), CASE WHEN message_headers['x-acquired-count'] IS NOT NULL THEN 0L END) END, "
            "'redelivered', try_cast(head.redelivered AS boolean))"
        ),
    )
    outcome = {"queue": "queue", "message_id": "message_id", "created_at": created}
    acknowledged = message_fact(
        **outcome, settled="named_struct('time', time, 'event_id', event_id, 'claim_id', NULL, 'how', 'ack')"
    )
    returned = message_fact(
        **outcome,
        failure=(
            "named_struct('time', time, 'event_id', event_id, 'consumer', "
            "concat(head.connection, ' (', head.channel, ')'), 'error', head.error)"
        ),
    )
    # the queue's policy says where to; ``x-death`` says it better, where the dead letter is read
    rejected = message_fact(
        **outcome,
        death=(
            "named_struct('time', time, 'event_id', event_id, 'reason', 'rejected', 'dead_letter_queue', NULL, "
            "'dead_letter_message_id', NULL, 'count', NULL, 'first', time, 'told', time)"
        ),
    )
    died = message_fact(
        queue="d.queue",
        message_id="message_id",
        created_at=created,
        death=(
            # the broker's clock may be ahead of the collector's, but what is shown had happened
            "named_struct('time', least(d.time, time), 'event_id', event_id, 'reason', d.reason, 'dead_letter_queue', "
            f"{_WENT_TO}, 'dead_letter_message_id', NULL, 'count', d.count, "
            "'first', d.time, 'told', time)"
        ),
    )
    return (
        f"CASE WHEN silent THEN array() ELSE CASE kind WHEN 'publish' THEN transform({_ROUTED}, q -> {posted})"
        f" WHEN 'deliver' THEN concat(array({delivered}), coalesce(filter(transform(deaths, (d, i) -> CASE WHEN NOT"
        f" {_CAME_BACK} THEN {died} END), death -> death IS NOT NULL), array()))"
        f" WHEN 'ack' THEN array({acknowledged}) WHEN 'requeue' THEN array({returned})"
        f" WHEN 'reject' THEN array({returned}, {rejected}) END END"
    )


def judge_patterns(parsed: DataFrame) -> DataFrame:
    """Parsed events, of which those whose policy's pattern Spark cannot read have :data:`FOREIGN` as a reason.

    ``parsed`` is read here, so it had better be staged.
    """
    told = parsed.where(F.col("kind").isin(*WITH_PATTERN) & (F.size("reasons") == 0)).select("head.pattern").distinct()
    patterns = [row["pattern"] for row in told.collect()]
    # Java takes Perl's classes such as [[:alpha:]] for a set of these characters
    foreign = unreadable(parsed.sparkSession, patterns) + [pattern for pattern in patterns if "[[:" in pattern]
    if not foreign:
        return parsed
    bad = F.col("kind").isin(*WITH_PATTERN) & F.col("head.pattern").isin(*foreign)
    return parsed.withColumn(
        "reasons", F.when(bad, F.array_append("reasons", F.lit(FOREIGN))).otherwise(F.col("reasons"))
    )


# null where the arguments leave a classic queue's mode to the policies
_QUEUE_TYPE = (
    f"CASE WHEN head.type IN ('rabbit_quorum_queue', 'quorum') OR {argument('x-queue-type')} = 'quorum' THEN 'quorum'"
    f" WHEN {argument('x-queue-mode')} = 'lazy' THEN 'lazy'"
    f" WHEN head.type IN ('rabbit_stream_queue', 'stream') OR {argument('x-queue-type')} = 'stream' THEN 'stream'"
    f" WHEN {argument('x-queue-mode')} IS NOT NULL THEN 'classic' END"
)


def _limit(deliveries: str) -> str:
    # below 0 is RabbitMQ's way to say: no limit
    return f"CASE WHEN NOT startswith({deliveries}, '-') THEN try_cast({deliveries} AS bigint) END"


def _ttl(milliseconds: str) -> str:
    # what is derived asks whether a TTL can have been over: less is safe, more is not
    return seconds(f"try_cast({milliseconds} AS bigint) DIV 1000")


def _sends(exchange: str, target: str) -> str:
    """SQL for the part of ``attributes`` that says where dead letters go: a queue takes the one name from its own
    arguments and the other from a policy, so both are kept as they are given."""
    return ", ".join(f"'{name}', {told}" for name, told in zip(SENDS, (exchange, target), strict=True))


def _vhost_policies(parsed: DataFrame) -> DataFrame:
    """What holds for more than one queue: policies by pattern, and the feature flag of the whole broker."""
    target, exchange = map(setting, ("dead-letter-routing-key", "dead-letter-exchange"))
    return rows_of(
        parsed,
        tables.QUEUE_POLICIES,
        list(SHARED_KINDS),
        {
            "system": "system",
            "tenant": f"coalesce(tenant, '{tables.EVERY}')",
            "queue": f"'{tables.EVERY}'",
            "subscription": "''",
            "valid_from": "time",
            "event_id": "event_id",
            "kind": "kind",
            "max_deliveries": _limit(setting("delivery-limit")),
            "dead_letter_queue": f"CASE WHEN {exchange} IS NOT NULL THEN nullif({target}, '') END",
            "default_ttl": _ttl(setting("message-ttl")),
            "default_delay": "0L",
            "attributes": (
                "to_json(named_struct('name', head.name, 'pattern', head.pattern, 'priority', "
                "try_cast(head.priority AS bigint), "
                "'apply-to', head.`apply-to`, 'definition', head.definition, "
                f"'queue-mode', {setting('queue-mode')}, 'settings', {settings()}, {_sends(exchange, target)}))"
            ),
        },
    )


def facts(parsed: DataFrame) -> Facts:
    """The facts of parsed events."""
    common = {"system": "system", "tenant": "tenant", "queue": "head.name", "subscription": "''"}
    target, exchange = argument("x-dead-letter-routing-key"), argument("x-dead-letter-exchange")
    policies = rows_of(
        parsed,
        tables.QUEUE_POLICIES,
        list(OF_QUEUE),
        common
        | {
            "valid_from": "time",
            "event_id": "event_id",
            "kind": "CASE kind WHEN 'declare' THEN 'declared' WHEN 'delete_queue' THEN 'deleted' ELSE kind END",
            "max_deliveries": f"CASE WHEN kind = 'declare' THEN {_limit(argument('x-delivery-limit'))} END",
            "dead_letter_queue": f"CASE WHEN kind = 'declare' AND {exchange} IS NOT NULL THEN nullif({target}, '') END",
            "default_ttl": f"CASE WHEN kind = 'declare' THEN {_ttl(argument('x-message-ttl'))} END",
            "default_delay": "0L",
            "attributes": (
                f"to_json(named_struct('type', head.type, 'arguments', head.arguments, 'queue_type', {_QUEUE_TYPE}, "
                f"{_sends(exchange, target)}, 'node', CASE WHEN kind IN {sql_list(COUNTER_KINDS)} THEN head.node END))"
            ),
        },
    ).unionByName(_vhost_policies(parsed))
    return without_claims(parsed, policies)
