"""A tap for RabbitMQ: writes down what the firehose and the event exchange tell, as `docs/events.md` has it.

    pip install pika
    rabbitmqctl trace_on -p /                        # on every node, and again after each start
    rabbitmq-plugins enable rabbitmq_event_exchange  # on every node
    python rabbitmq_tap.py amqp://guest:guest@localhost:5672/%2F --folder landing/rabbitmq

One process for each vhost; the event exchange is in the default vhost unless configured. The queues that this makes are
durable: what comes while the tap is down waits there, and takes room. It ends with code 1 when it gets nothing any
more: have it started again. A message that was written, but not acknowledged by then, is written once more, and a
delivery counts twice. The firehose tells neither what became of a delivery nor why: where a consumer knows, have it
write :func:`outcome_of` to a spool of its own.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

import pika
from spool import Spool, now

SURFACES = {"amq.rabbitmq.trace": "firehose", "amq.rabbitmq.event": "event_exchange"}


def event_of(method: pika.spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> dict:
    """The event that a message of one of the :data:`SURFACES` is."""
    return {
        "captured_at": now(),
        "surface": SURFACES[method.exchange],
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": method.redelivered,
        "properties": _told(properties),
        "payload": text(body),
    }


def outcome_of(
    what: str,
    queue: str,
    vhost: str,
    worker: str,
    properties: pika.BasicProperties,
    body: bytes,
    error: BaseException | None = None,
) -> dict:
    """The event of what a consumer did with a delivery: ``what`` is ``ack``, ``requeue`` or ``reject``. ``worker``: a
    name that tells this consumer from others, the same each time."""
    headers = {"vhost": vhost, "connection": worker, "channel": 1, "properties": _told(properties)}
    return {
        "captured_at": now(),
        "surface": "consumer",
        "exchange": "",
        "routing_key": f"{what}.{queue}",
        "properties": {"headers": headers | ({"error": f"{type(error).__name__}: {error}"} if error else {})},
        "payload": text(body),
    }


def _told(properties: pika.BasicProperties) -> dict:
    return {name: plain(value) for name, value in vars(properties).items() if value is not None}


def plain(value: object) -> object:
    """A value of an AMQP table as JSON has it; its times are in UTC."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC).isoformat()
    if isinstance(value, bytes):
        return text(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def text(body: bytes) -> str:
    """A payload as text; one that is none as base64, the same wherever it is shown."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return base64.b64encode(body).decode()


def main(arguments: list[str] | None = None) -> int:
    """Consume until somebody presses Ctrl-C (code 0), or nothing comes any more (1)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="amqp://USER:PASSWORD@HOST:PORT/VHOST")
    parser.add_argument("--folder", required=True, help="landing/rabbitmq")
    parser.add_argument("--seconds", type=float, default=60, help="a new file after so many seconds (default: 60)")
    given = parser.parse_args(arguments)
    spool = Spool(given.folder, given.seconds)

    def keep(channel, method, properties, body) -> None:
        spool.write(event_of(method, properties, body))
        channel.basic_ack(method.delivery_tag)  # only now: what was not written comes again

    channels = []
    with pika.BlockingConnection(pika.URLParameters(given.url)) as connection:
        for exchange in SURFACES:
            channel = connection.channel()  # one each: to ask for an exchange that is not there closes it
            try:
                channel.exchange_declare(exchange, passive=True)
            except pika.exceptions.ChannelClosedByBroker:
                print(f"{exchange} is not in this vhost", file=sys.stderr)
                continue
            queue = f"deadletter.tap.{SURFACES[exchange]}"
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, exchange, "#")
            channel.basic_qos(prefetch_count=1000)
            channel.basic_consume(queue, keep)
            channels.append(channel)
        try:  # a queue that is deleted, or whose node is lost, only ends its consumer
            while channels and all(channel.is_open and channel.consumer_tags for channel in channels):
                connection.process_data_events(time_limit=1)
        except KeyboardInterrupt:
            return 0
        finally:
            spool.close()
    print("nothing to consume, or no longer", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
