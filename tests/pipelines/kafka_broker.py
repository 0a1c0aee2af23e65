"""A real Kafka broker of one node, from Maven Central's jars, for the tests of the topic source."""

import os
import socket
import subprocess
import time
from dataclasses import dataclass

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from deadletter.spark import jars

KAFKA = '<dependency org="org.apache.kafka" name="kafka_2.13" rev="3.9.1" conf="default"/>'
SMALL = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
SECONDS = 60
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={folder}/logs
auto.create.topics.enable=false
offsets.topic.replication.factor=1
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Broker:
    """A running broker; every topic has two partitions."""

    address: str
    process: subprocess.Popen

    def make(self, *topics):
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        options = {"num_partitions": 2, "replication_factor": 1}
        admin.create_topics(dict.fromkeys(topics, options), wait_for_metadata=True)
        admin.close()

    def send(self, topic, values):
        """Write records, dealt to the partitions in turn; returns what each got as ``(partition, offset)``."""
        producer = KafkaProducer(bootstrap_servers=self.address, acks="all")
        sent = [producer.send(topic, value, key=b"key", partition=n % 2) for n, value in enumerate(values)]
        places = [(done.partition, done.offset) for done in (future.get(timeout=SECONDS) for future in sent)]
        producer.close()
        return places

    def forget(self, topic, before):
        """Remove the records before the offsets of ``{partition: offset}``, as retention does."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        admin.delete_records({TopicPartition(topic, partition): offset for partition, offset in before.items()})
        admin.close()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def start(folder):
    """Start a broker that keeps its files in ``folder``; raises an error where its jars cannot be had."""
    java = [jars.java_command(), *SMALL, "-cp", os.pathsep.join(jars.fetch("a Kafka broker", KAFKA))]
    port, config, log = free_port(), folder / "server.properties", folder / "broker.log"
    config.write_text(SETTINGS.format(port=port, controller=free_port(), folder=folder))
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(config)], check=True, capture_output=True
    )
    with log.open("w") as sink:
        process = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=sink, stderr=sink)
    broker, end = Broker(f"127.0.0.1:{port}", process), time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return broker
        time.sleep(0.2)
    broker.stop()
    raise AssertionError(f"the broker did not start:\n{log.read_text()[-2000:]}")
