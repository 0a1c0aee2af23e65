"""What the brokers themselves said at the end of each capture."""

import gzip
import json
from datetime import datetime
from pathlib import Path

CAPTURES = Path(__file__).parent.parent / "captures"


def read(name):
    path = CAPTURES / name
    packed = path.read_bytes()
    return json.loads(gzip.decompress(packed) if path.suffix == ".gz" else packed)


def zaqar_dead(queues):
    """``{(dead letter queue, message id): stored claim count}`` of one snapshot."""
    return {
        (queue, message): record["claim_count"]
        for queue, messages in queues.items()
        if queue.endswith("-dlq")
        for message, record in messages.items()
    }


def zaqar_snapshots(name):
    """Each snapshot's time and dead letters."""
    return [(datetime.fromisoformat(s["at"]), zaqar_dead(s["queues"])) for s in read(name)]


def rabbitmq_dead():
    """``(origin queue, message id, reason)`` of every message in a dead letter queue."""
    return sorted(
        (message["headers"]["x-death"][0]["queue"], name, message["headers"]["x-death"][0]["reason"])
        for queue, messages in read("rabbitmq/orders-a.truth.json").items()
        if queue.endswith(".dlq")
        for name, message in messages.items()
    )


def pulsar_dead():
    """``(dead letter topic, origin message id)`` of every message in a dead letter topic."""
    return sorted(
        (topic, ":".join(message["properties"]["ORIGIN_MESSAGE_ID"].strip("()").split(",")[:3]))
        for topic, messages in read("pulsar/orders-a.truth.json").items()
        for message in messages
    )
