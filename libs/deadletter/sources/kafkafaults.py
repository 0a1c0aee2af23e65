"""What stops a Kafka stream, in words a person can act on."""

from __future__ import annotations

import re

from deadletter.errors import DeadletterError, UsageError, first_line
from deadletter.spark.jars import KAFKA_PACKAGE

UNREACHABLE = "no Kafka broker answers at {servers}"
FAULTS: tuple[tuple[str, type[DeadletterError], str], ...] = (
    (
        r"Failed to find (the )?data source",
        DeadletterError,
        f"this Spark session has no Kafka connector. Start it with --packages {KAFKA_PACKAGE}",
    ),
    (
        r"UnknownTopicOrPartition",
        UsageError,
        "there is no topic {topic} at {servers}. Make it or correct the name; nothing was taken in from it.",
    ),
    (
        r"KAFKA_DATA_LOSS|OffsetOutOfRange|data may have been lost",
        DeadletterError,
        "topic {topic} at {servers} no longer has records that were not read yet: they were kept too briefly, or the "
        "topic was made anew. Remove _checkpoints/queue_events/{checkpoint} in the lake to read it from its oldest "
        "record; known events count once.",
    ),
    (
        r"(Authentication|Authorization|SslHandshake)\w*Exception",
        DeadletterError,
        "topic {topic} at {servers} does not let this client in. Give its security settings, Kafka's client "
        "properties, with ?config=FILE, and let it read the topic.",
    ),
    (
        r"TimeoutException|Failed to create new KafkaAdminClient|No resolvable bootstrap",
        DeadletterError,
        f"{UNREACHABLE}, or it wants other security settings (?config=FILE), or names itself in a way that does not "
        "lead there from here (advertised.listeners). Nothing was taken in from it.",
    ),
)
"""What the connector or Kafka's client says, the error it is, and what to tell; the first that fits."""


def judge(error: Exception, **names: str) -> DeadletterError:
    """The error to raise for what stopped a stream; ``names`` are ``topic, servers, checkpoint``.

    >>> names = {"topic": "taps", "servers": "kafka:9092", "checkpoint": "c0ffee"}
    >>> judge(ValueError("org.apache.kafka.common.errors.UnknownTopicOrPartitionException"), **names)
    UsageError('there is no topic taps at kafka:9092. Make it or correct the name; nothing was taken in from it.')
    >>> judge(ValueError("quota"), **names)
    DeadletterError('topic taps at kafka:9092: quota')
    """
    said = f"{error} {error.__cause__ or ''}"
    for pattern, kind, told in FAULTS:
        if re.search(pattern, said):
            return kind(told.format(**names))
    return DeadletterError("topic {topic} at {servers}: ".format(**names) + first_line(error))
