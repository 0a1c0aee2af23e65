"""A tap for RabbitMQ: writes down what the firehose and the event exchange tell, as `docs/events.md` has it.

    pip install pika
    rabbitmqctl trace_on -p /                        # on every node, and again after each start
    rabbitmq-plugins enable rabbitmq_event_exchange  # on every node
    rabbitmqctl set_permissions -p / tap '^deadletter[.]' '^deadletter[.]' '^(deadletter|amq[.]rabbitmq)[.]'
    python rabbitmq_tap.py amqp://tap:PASSWORD@HOST:5672/%2F --folder landing/rabbitmq/HOST --idle 600

One process for each vhost; the event exchange is in the default vhost unless configured. What comes while the tap is
down waits in its queues, up to `--room` bytes; then the oldest are dropped and missing here. (Without such a limit a
broker that runs out of room would block all publishers.) It ends with code 1 when its connection or a queue of its own
is lost, and with `--idle` when the firehose told nothing for so long, as when it is off: have it started again, and
look. A message that was written, but not acknowledged by then, is written once more, and a delivery counts twice.

The firehose tells neither what became of a delivery nor why. A consumer writes that itself, to a spool of its own:

    spool = Spool(f"landing/rabbitmq/{socket.gethostname()}", seconds=600)

    def work(channel, method, properties, body):
        try:
            handle(body)
        except Exception as error:
            channel.basic_nack(method.delivery_tag, requeue=False)
            spool.write(outcome_of("reject", "orders", "/", WORKER, properties, body, error))
        else:
            channel.basic_ack(method.delivery_tag)
            spool.write(outcome_of("ack", "orders", "/", WORKER, properties, body))
"""

from __future__ import annotations

import argparse
import base64
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime

import pika
from spool import Spool, now

FIREHOSE = "amq.rabbitmq.trace"
SURFACES = {FIREHOSE: "firehose", "amq.rabbitmq.event": "event_exchange"}
MISSING = {
    FIREHOSE: "every vhost has it, so look at the user's rights",
    "amq.rabbitmq.event": "no queue's limit is known from here. Enable the plug-in rabbitmq_event_exchange, unless"
    " another tap reads it in another vhost",
}


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
    lag: float = 2,
) -> dict:
    """The event of what a consumer did with a delivery: ``what`` is ``ack``, ``requeue`` or ``reject``. ``worker``: a
    name that tells this consumer from others, the same each time. It is dated ``lag`` seconds later: the tap dates the
    delivery by when it gets it, and a reject before that would not count."""
    headers = {"vhost": vhost, "connection": worker, "channel": 1, "properties": _told(properties)}
    return {
        "captured_at": now(lag),
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
    parser.add_argument("--room", type=int, default=1 << 30, help="bytes that may wait in a queue (default: 1 GiB)")
    parser.add_argument("--idle", type=float, help="end when the firehose told nothing for so many seconds")
    given = parser.parse_args(arguments)
    spool, heard = Spool(given.folder, given.seconds), {"at": time.monotonic()}

    def keep(channel, method, properties, body) -> None:
        spool.write(event_of(method, properties, body))
        if method.exchange == FIREHOSE:
            heard["at"] = time.monotonic()
        channel.basic_ack(method.delivery_tag)  # only now: what was not written comes again

    channels = []
    with pika.BlockingConnection(pika.URLParameters(given.url)) as connection:
        for exchange in SURFACES:
            channel = connection.channel()  # one each: to ask for an exchange that is not there closes it
            try:
                channel.exchange_declare(exchange, passive=True)
            except pika.exceptions.ChannelClosedByBroker:
                print(f"{exchange} is not in this vhost: {MISSING[exchange]}", file=sys.stderr)
                continue
            queue = f"deadletter.tap.{SURFACES[exchange]}"
            kept = {"x-max-length-bytes": given.room, "x-overflow": "drop-head"}  # others: delete the queue first
            channel.queue_declare(queue, durable=True, arguments=kept)
            channel.queue_bind(queue, exchange, "#")
            channel.basic_qos(prefetch_count=1000)
            channel.basic_consume(queue, keep)
            channels.append(channel)
        try:  # a queue that is deleted, or whose node is lost, only ends its consumer
            while channels and all(channel.is_open and channel.consumer_tags for channel in channels):
                connection.process_data_events(time_limit=1)
                if given.idle and time.monotonic() - heard["at"] > given.idle:
                    print(f"the firehose told nothing for {given.idle:g} s: is it off?", file=sys.stderr)
                    return 1
        except KeyboardInterrupt:
            return 0
        finally:
            spool.close()
    print("nothing to consume, or no longer", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
