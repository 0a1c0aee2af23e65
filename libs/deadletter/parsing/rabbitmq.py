"""RabbitMQ: the firehose (``amq.rabbitmq.trace``) and the event exchange (``amq.rabbitmq.event``).

The firehose tells every publish and every delivery, never an acknowledgement. A dead letter shows in the
``x-death`` header of a delivery from the queue it went to.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.parsing.envelope import ENVELOPE_RULES, read_envelope
from deadletter.parsing.facts import Facts, explode_messages, message_fact, reasons, rows_of

SYSTEM = "rabbitmq"
FIELDS = {
    "surface": "surface",
    "routing_key": "routing_key",
    "payload": "payload",
    "headers": "properties.headers",
}
HEADERS = (
    "struct<exchange_name:string,properties:string,vhost:string,connection:string,channel:string,"
    "routed_queues:array<string>,name:string,type:string,arguments:array<string>>"
)
DEATHS = "array<struct<count:bigint,reason:string,queue:string,time:string>>"

KINDS = {
    "publish": "surface = 'firehose' AND startswith(routing_key, 'publish.')",
    "deliver": "surface = 'firehose' AND startswith(routing_key, 'deliver.')",
    "declare": "surface = 'event_exchange' AND routing_key = 'queue.created'",
    "delete_queue": "surface = 'event_exchange' AND routing_key = 'queue.deleted'",
}

BROKER_HEADERS = "x-death|x-delivery-count|x-first-death-.*|x-last-death-.*|x-acquired-count"
"""Headers that the broker adds on the way: no part of the message as it was published."""

RULES = ENVELOPE_RULES | {
    "unknown_surface: surface is neither firehose nor event_exchange": (
        "readable AND NOT coalesce(surface IN ('firehose', 'event_exchange'), false)"
    ),
    "no_routing_key: routing_key is missing": "readable AND routing_key IS NULL",
    "unknown_routing_key: a firehose routing key begins with publish. or deliver.": (
        "surface = 'firehose' AND NOT (routing_key RLIKE '^(publish|deliver)[.]')"
    ),
    "bad_headers: properties.headers do not read": "kind IS NOT NULL AND head IS NULL",
    "no_tenant: the vhost is missing": "head IS NOT NULL AND kind IS NOT NULL AND head.vhost IS NULL",
    "no_queue: the event names no queue": (
        "(kind = 'deliver' AND queue = '') OR (kind IN ('declare', 'delete_queue') AND coalesce(head.name, '') = '')"
    ),
    "no_routed_queues: a publish does not say which queues it went to": (
        "kind = 'publish' AND head IS NOT NULL AND head.routed_queues IS NULL"
    ),
    "bad_x_death: the x-death header does not read": (
        "kind = 'deliver' AND x_death IS NOT NULL AND (deaths IS NULL OR exists(deaths, d -> d.queue IS NULL"
        " OR d.reason IS NULL OR d.time IS NULL))"
    ),
}


def parse(bronze: DataFrame) -> DataFrame:
    """RabbitMQ's bronze rows with what each event says: ``kind``, its parts, ``facts`` and ``reasons``."""
    events = read_envelope(bronze, SYSTEM, FIELDS)
    events = events.withColumns(
        {
            "kind": F.expr("CASE " + " ".join(f"WHEN {test} THEN '{name}'" for name, test in KINDS.items()) + " END"),
            "head": F.from_json("headers", HEADERS),
            "queue": F.expr("CASE WHEN startswith(routing_key, 'deliver.') THEN substring(routing_key, 9) ELSE '' END"),
        }
    )
    events = events.withColumns(
        {
            "tenant": F.col("head.vhost"),
            "message": F.expr("from_json(head.properties, 'map<string,string>')"),
        }
    )
    events = events.withColumn(
        "message_headers", F.expr("coalesce(from_json(message['headers'], 'map<string,string>'), map())")
    ).withColumn("x_death", F.expr("message_headers['x-death']"))
    events = events.withColumn("deaths", F.expr(_DEATHS)).withColumn("message_id", F.expr(_MESSAGE_ID))
    silent = "kind IS NULL OR (kind = 'publish' AND size(head.routed_queues) = 0)"
    return events.withColumns({"reasons": reasons(RULES), "silent": F.expr(silent), "facts": F.expr(_facts())})


_DEATHS = (
    f"transform(from_json(x_death, '{DEATHS}'), d -> named_struct('queue', d.queue, 'reason', d.reason, "
    "'count', d.count, 'time', coalesce(try_cast(d.time AS timestamp), timestamp_seconds(try_cast(d.time AS bigint)))))"
)

_MESSAGE_ID = (
    "coalesce(nullif(message['message_id'], ''), concat('sha256:', sha2(concat_ws('\\u0000', payload, "
    "to_json(array_sort(map_entries(map_filter(message, (k, v) -> k NOT IN ('headers', 'expiration'))))), "
    "to_json(array_sort(map_entries(map_filter(message_headers, "
    f"(k, v) -> NOT (k RLIKE '^({BROKER_HEADERS})$')))))), 256)))"
)
"""Where a publisher sets no ``message_id``: the hash of what it did set, the same at publish and delivery.
Messages with equal properties and payload then count as one."""


def _facts() -> str:
    """SQL for the array of message facts of an event."""
    created = "coalesce(timestamp_seconds(try_cast(message['timestamp'] AS bigint)), time)"
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
            "'broker_count', try_cast(message_headers['x-delivery-count'] AS bigint))"
        ),
    )
    died = message_fact(
        queue="d.queue",
        message_id="message_id",
        created_at=created,
        death=(
            # the newest death comes first; only that one led to the queue it was read from
            "named_struct('time', d.time, 'event_id', event_id, 'reason', d.reason, 'dead_letter_queue', "
            "CASE WHEN i = 0 THEN queue END, 'dead_letter_message_id', NULL, 'count', d.count)"
        ),
    )
    return (
        f"CASE kind WHEN 'publish' THEN transform(head.routed_queues, q -> {posted})"
        f" WHEN 'deliver' THEN concat(array({delivered}), coalesce(transform(deaths, (d, i) -> {died}), array())) END"
    )


def argument(name: str, kind: str = "[a-z]+") -> str:
    r"""SQL for one queue argument among Erlang terms such as ``{<<"x-delivery-limit">>,signedint,3}``."""
    pattern = rf'^\\{{<<"{name}">>,{kind},(?:<<")?(.*?)(?:">>)?\\}}$'
    return f"get(filter(transform(head.arguments, a -> regexp_extract(a, '{pattern}', 1)), v -> v != ''), 0)"


def facts(parsed: DataFrame) -> Facts:
    """The facts of parsed events."""
    common = {"system": "system", "tenant": "tenant", "queue": "head.name", "subscription": "''"}
    limit, ttl = argument("x-delivery-limit"), argument("x-message-ttl")
    target, exchange = argument("x-dead-letter-routing-key"), argument("x-dead-letter-exchange")
    policies = rows_of(
        parsed,
        tables.QUEUE_POLICIES,
        ["declare", "delete_queue"],
        common
        | {
            "valid_from": "time",
            "event_id": "event_id",
            "kind": "CASE kind WHEN 'declare' THEN 'declared' ELSE 'deleted' END",
            "max_deliveries": f"CASE WHEN kind = 'declare' THEN try_cast({limit} AS bigint) END",
            "dead_letter_queue": f"CASE WHEN kind = 'declare' AND {exchange} IS NOT NULL THEN {target} END",
            "default_ttl": f"CASE WHEN kind = 'declare' THEN try_cast({ttl} AS bigint) DIV 1000 END",
            "default_delay": "0L",
            "attributes": "to_json(named_struct('type', head.type, 'arguments', head.arguments))",
        },
    )
    none = parsed.where("false")
    return Facts(
        parsed,
        explode_messages(parsed),
        rows_of(none, tables.CLAIMS, [], {}),
        rows_of(none, tables.CLAIM_ATTEMPTS, [], {}),
        policies,
    )
