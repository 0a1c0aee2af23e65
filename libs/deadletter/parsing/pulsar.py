"""Apache Pulsar: what producers and consumers did, and what lies in the dead letter topics.

One object a client operation: ``send``, ``receive``, ``acknowledge``, ``negative_acknowledge``,
``subscribe``, and ``dead_letter`` for a message read from a dead letter topic.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.parsing.envelope import ENVELOPE_RULES, MOST_SECONDS, epoch, read_envelope, whole
from deadletter.parsing.facts import Facts, message_fact, reasons, rows_of, without_claims
from deadletter.rules.pulsar import full_name, topic_tenant, whole_topic
from deadletter.spark.sqltext import sql_list

SYSTEM = "pulsar"
FIELDS = {
    name: name
    for name in (
        "operation",
        "topic",
        "subscription",
        "consumer",
        "producer",
        "properties",
        "error",
        "redelivery_count",
        "publish_timestamp",
        "deliver_after_s",
        "dead_letter_policy",
        "cumulative",
        "subscription_type",
    )
} | {"raw_id": "message_id"}

OPERATIONS = ("send", "receive", "acknowledge", "negative_acknowledge", "subscribe", "dead_letter")
ON_MESSAGES = ("send", "receive", "acknowledge", "negative_acknowledge", "dead_letter")
BY_CONSUMERS = ("receive", "acknowledge", "negative_acknowledge", "subscribe")

POLICY = ("maxRedeliverCount", "deadLetterTopic", "retryLetterTopic", "initialSubscriptionName")
"""What Pulsar's own ``DeadLetterPolicy`` calls its parts."""
_RETRIES = "property_map['RECONSUMETIMES']"
_LIMIT = "policy['maxRedeliverCount']"

_CUMULATIVE = (
    "coalesce(operation = 'acknowledge_cumulative' OR kind = 'acknowledge' AND try_cast(cumulative AS boolean), false)"
)
"""Of the messages that it settles it names the last one. Which others these are depends on the topic's order, of which
only the messages that were seen are known."""

RULES = ENVELOPE_RULES | {
    "unknown_operation: operation is not one of " + ", ".join(OPERATIONS): (
        f"readable AND NOT coalesce(operation IN {sql_list(OPERATIONS)}, false) AND NOT {_CUMULATIVE}"
    ),
    "cumulative_acknowledge: it settles all earlier messages too, which it does not name; write one acknowledge for"
    " each of them": _CUMULATIVE,
    "bad_topic: a topic is named persistent://tenant/namespace/topic": "kind IS NOT NULL AND coalesce(tenant, '') = ''",
    "no_subscription: the consumer's subscription is missing": (
        f"kind IN {sql_list(BY_CONSUMERS)} AND coalesce(subscription, '') = ''"
    ),
    "bad_message_id: a message id is ledger:entry:partition[:batch]": (
        f"kind IN {sql_list(ON_MESSAGES)} AND message_id IS NULL AND NOT (kind = 'send' AND silent)"
    ),
    "bad_origin: a dead letter names its origin as ORIGIN_MESSAGE_ID and REAL_TOPIC, and a retry not the retry topic,"
    " as old Java clients do": (
        "kind = 'dead_letter' AND (origin_id IS NULL OR coalesce(origin_tenant, '') = '')"
        " OR property_map['RECONSUMETIMES'] IS NOT NULL AND endswith(origin_topic, '-RETRY') AND origin_topic = CASE"
        " WHEN kind = 'dead_letter' THEN regexp_replace(topic, '-DLQ$', '-RETRY')"
        " WHEN kind IN ('receive', 'acknowledge', 'negative_acknowledge') THEN topic END"
    ),
    "bad_redelivery_count: redelivery_count, or a retry's RECONSUMETIMES, is not a whole number from 0": (
        f"kind = 'receive' AND NOT coalesce({whole('redelivery_count')} >= 0, false)"
        f" OR retried AND NOT coalesce({whole(_RETRIES)} >= 0, false)"
    ),
    "bad_publish_timestamp: publish_timestamp is not in milliseconds since 1970, from 2000 to 9999": (
        "kind IN ('receive', 'dead_letter') AND published IS NULL"
    ),
    "bad_delay: deliver_after_s is not a number from 0, at most 100 years": (
        "kind = 'send' AND deliver_after_s IS NOT NULL"
        f" AND NOT coalesce(try_cast(deliver_after_s AS double) BETWEEN 0 AND {MOST_SECONDS}, false)"
    ),
    "bad_policy: dead_letter_policy is no object, has none of Java's names such as maxRedeliverCount and"
    " deadLetterTopic, or its maxRedeliverCount is not a whole number from 0": (
        "kind = 'subscribe' AND dead_letter_policy IS NOT NULL AND (policy IS NULL"
        f" OR size(policy) > 0 AND NOT arrays_overlap(map_keys(policy), array{sql_list(POLICY)})"
        " OR policy['maxRedeliverCount'] IS NOT NULL"
        f" AND NOT coalesce({whole(_LIMIT)} >= 0, false))"
    ),
}


def message_id(text: str) -> str:
    """SQL that brings a message id to ``ledger:entry:partition``, with ``:batch`` where it is a batch's second or later
    one.

    The C++ and Python clients write ``(5,0,-1,-1)``, the Java client ``10:3:-1`` (brokers' own forms). Of a topic
    without partitions Go's clients say partition 0 where the others say -1, and of a message that is in no batch index
    0: the former is written -1 and the latter not at all, as ledger and entry alone tell messages apart, and an entry
    holds either one message or a batch. A chunked message has the ids of its first and its last chunk, of which the
    last is the message's. Null where the text is none of these.

    >>> for given in ("(5,0,-1,-1)", "10:3:0", "10:3:0:0", "10:3:2:4"):
    ...     print(spark.sql(f"SELECT {message_id(repr(given))}").first()[0])
    5:0:-1
    10:3:-1
    10:3:-1
    10:3:2:4
    """
    text = f"substring_index({text}, ';', -1)"
    parts = f"regexp_extract_all({text}, '-?[0-9]+', 0)"
    form = r"^([(][0-9]+,[0-9]+,-?[0-9]+(,-?[0-9]+)?[)]|[0-9]+:[0-9]+:-?[0-9]+(:-?[0-9]+)?)$"
    batch = f"CASE WHEN try_cast(get({parts}, 3) AS bigint) > 0 THEN concat(':', get({parts}, 3)) ELSE '' END"
    whole = f"regexp_replace(array_join(slice({parts}, 1, 3), ':'), ':0$', ':-1')"
    return f"CASE WHEN {text} RLIKE '{form}' THEN concat({whole}, {batch}) END"


def parse(bronze: DataFrame) -> DataFrame:
    """Pulsar's bronze rows with what each operation says: ``kind``, its parts, ``facts`` and ``reasons``."""
    events = read_envelope(bronze, SYSTEM, FIELDS)
    events = events.withColumns(
        {
            "kind": F.when(F.col("operation").isin(*OPERATIONS), F.col("operation")),
            "topic": F.expr(whole_topic("topic")),
            "tenant": F.expr(topic_tenant("topic")),
            "message_id": F.expr(message_id("raw_id")),
            "property_map": F.expr("coalesce(from_json(properties, 'map<string,string>'), map())"),
            "policy": F.expr("from_json(dead_letter_policy, 'map<string,string>')"),
            "published": F.expr(epoch(whole("publish_timestamp"), 1000)),
        }
    )
    events = events.withColumns(
        {
            "origin_id": F.expr(message_id(_ORIGIN_ID)),
            "origin_topic": F.expr(whole_topic("property_map['REAL_TOPIC']")),
            "origin_tenant": F.expr(topic_tenant("property_map['REAL_TOPIC']")),
        }
    )
    events = events.withColumns({"retried": F.expr(_RETRIED), "silent": F.expr(_SILENT)})
    return events.withColumns({"reasons": reasons(RULES), "facts": F.expr(_facts())})


_ORIGIN_ID = "coalesce(property_map['ORIGIN_MESSAGE_ID'], property_map['ORIGIN_MESSAGE_IDY_TIME'])"
"""Old Java clients write only the second, newer ones both."""


_SILENT = (
    "coalesce(kind IN ('send', 'receive', 'acknowledge', 'negative_acknowledge')"
    " AND startswith(topic, 'non-persistent://')"
    " OR kind = 'send' AND raw_id RLIKE '^[(]?-1[:,]-1[:,]'"
    " OR kind = 'dead_letter' AND startswith(origin_topic, 'non-persistent://'), false)"
)
"""No broker keeps the messages of such a topic: all have one id, none is delivered again or dies. What a client sent on
from there names none of them. A send of ledger -1 was not stored: the broker took it for one sent before."""


_RETRIED = (
    "coalesce(kind IN ('receive', 'acknowledge', 'negative_acknowledge') AND property_map['RECONSUMETIMES'] IS NOT NULL"
    " AND origin_id IS NOT NULL AND origin_tenant != '' AND NOT startswith(origin_topic, 'non-persistent://')"
    " AND topic != origin_topic AND NOT endswith(topic, '-DLQ')"
    " AND coalesce(property_map['REAL_SUBSCRIPTION'] = subscription, endswith(topic, '-RETRY')), false)"
)
"""A retry topic's message is the original one (PIP-22, solution 2): its properties hold the original's id and count.
Its subscription reads the topic and the retry topic alike; whoever reads a dead letter topic is another. Go's clients
keep the properties there and name no subscription: then only the topic's name tells. Which topics of other names are
dead letter topics only a policy says: see :func:`deadletter.rules.pulsar.of_last_life`.
"""


def _facts() -> str:
    """SQL for the array with the one message fact of an operation; empty for a subscribe."""
    here = {"queue": "topic", "message_id": "message_id"}
    mine = {
        "tenant": "CASE WHEN retried THEN origin_tenant ELSE tenant END",
        "queue": "CASE WHEN retried THEN origin_topic ELSE topic END",
        "message_id": "CASE WHEN retried THEN origin_id ELSE message_id END",
        "subscription": "subscription",
    }
    moment = "'time', time, 'event_id', event_id"
    send = message_fact(
        **here,
        created_at="time",
        posted=(
            f"named_struct({moment}, 'position', 0, 'ttl', NULL, "
            "'delay', ceil(try_cast(deliver_after_s AS double)), 'producer', producer)"
        ),
    )
    receive = message_fact(
        **mine,
        created_at="CASE WHEN NOT retried THEN published END",  # a copy in a retry topic was published later
        delivery=(
            f"named_struct({moment}, 'claim_id', NULL, 'consumer', consumer, "
            f"'broker_count', greatest({whole('redelivery_count')}, CASE WHEN retried THEN {whole(_RETRIES)} END), "
            "'redelivered', NULL)"
        ),
    )
    acknowledge = message_fact(**mine, settled=f"named_struct({moment}, 'claim_id', NULL, 'how', 'acknowledge')")
    negative = message_fact(**mine, failure=f"named_struct({moment}, 'consumer', consumer, 'error', error)")
    # a consumer's clock may be ahead of the collector's, but what was read had happened
    died_at = "least(published, time)"
    # which subscription it died in may be known only by the subscriptions' policies: gold finds it
    died = message_fact(
        tenant="origin_tenant",
        queue="origin_topic",
        subscription="coalesce(property_map['REAL_SUBSCRIPTION'], '')",
        message_id="origin_id",
        death=(
            f"named_struct('time', {died_at}, 'event_id', event_id, 'reason', 'max_redeliver_count', "
            f"'dead_letter_queue', topic, 'dead_letter_message_id', message_id, 'count', NULL, 'first', {died_at}, "
            "'told', time)"
        ),
    )
    return (
        "CASE WHEN silent THEN array() ELSE"
        f" CASE kind WHEN 'send' THEN array({send}) WHEN 'receive' THEN array({receive})"
        f" WHEN 'acknowledge' THEN array({acknowledge}) WHEN 'negative_acknowledge' THEN array({negative})"
        f" WHEN 'dead_letter' THEN array({died}) ELSE array() END END"
    )


def facts(parsed: DataFrame) -> Facts:
    """The facts of parsed operations."""
    # these subscriptions give nothing back message by message: their consumers dead-letter by a retry topic only
    dead_letters = (
        "(coalesce(lower(subscription_type) NOT IN ('exclusive', 'failover'), true)"
        " OR coalesce(trim(policy['retryLetterTopic']), '') != '')"
    )
    # the Python client's policy says an empty name where it means the default one
    named = whole_topic(full_name("nullif(trim(policy['deadLetterTopic']), '')"))
    policies = rows_of(
        parsed,
        tables.QUEUE_POLICIES,
        ["subscribe"],
        {
            "system": "system",
            "tenant": "tenant",
            "queue": "topic",
            "subscription": "subscription",
            "valid_from": "time",
            "event_id": "event_id",
            "kind": "'subscribed'",
            "max_deliveries": f"CASE WHEN {dead_letters} THEN {whole(_LIMIT)} END",
            "dead_letter_queue": (
                f"CASE WHEN policy IS NOT NULL AND {dead_letters}"
                f" THEN coalesce({named}, concat(topic, '-', subscription, '-DLQ')) END"
            ),
            "default_delay": "0L",
            "consumer": "consumer",
            "attributes": "dead_letter_policy",
        },
    )
    return without_claims(parsed, policies)
