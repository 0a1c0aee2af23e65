"""Events of RabbitMQ messages at times of their own, in seconds after the start."""

from tests.pipelines.broken_events import firehose, queue_created, rabbit, to
from tests.unit.stories import TENANT
from tests.unit.timed import START, at


def entry(queue, seconds, reason="rejected", count=1):
    """An entry of ``x-death``: how often a message died in a queue, and when first, in seconds after the start."""
    return {"queue": queue, "reason": reason, "count": count, "time": int(START.timestamp()) + seconds}


def read(seconds, queue, *entries, **more):
    headers = ({"x-death": list(entries)} if entries else {}) | more
    return at(seconds, firehose(f"deliver.{queue}", headers=headers))


def posted(seconds, queue, message="r1"):
    return at(seconds, firehose("publish.", {"message_id": message}, routed_queues=[queue]))


def acked(seconds, queue):
    told = {"headers": {"vhost": TENANT, "properties": {"message_id": "r1"}}}
    return at(seconds, rabbit(f"ack.{queue}", told, "consumer"))


def deleted(queue):
    return rabbit("queue.deleted", {"headers": {"name": queue, "vhost": TENANT}}, "event_exchange")


def rejected(seconds, how="reject", by="worker-1"):
    headers = {"vhost": TENANT, "properties": {"message_id": "r1"}, "error": "KeyError: amount"}
    headers |= {"connection": by, "channel": 1}
    return at(seconds, rabbit(f"{how}.orders", {"headers": headers}, "consumer", payload="the body"))


def returned(seconds, by="worker-1"):
    return rejected(seconds, "requeue", by)


WORK = [at(0, queue_created(*to("dlq", limit=2))), posted(1, "orders", "other")]
"""A queue with a limit, from which dead letters go to another, and where somebody posts."""
