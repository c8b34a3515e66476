"""A real Kafka broker, single node, KRaft combined mode, loopback only."""

import base64
import os
import string
import subprocess
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.services.errors import ServiceError, ServiceFailed
from tidemark.services.manifest import classpath
from tidemark.services.ports import LOOPBACK, accepts
from tidemark.services.processes import Command
from tidemark.services.progress import Step
from tidemark.services.service import Place

# A single node cannot replicate; the internal topics default to 50 partitions, each with files and memory.
# After a kill -9 the broker is let in again only when its old session has ended: 9 s by default.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{broker},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{broker}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=16777216
log.segment.delete.delay.ms=1000
broker.session.timeout.ms=5000
broker.heartbeat.interval.ms=1000
"""
_PLAIN = frozenset(string.ascii_letters + string.digits + "/._-")
LOGGING = """\
Configuration:
  status: error
  Appenders:
    Console: {name: out, PatternLayout: {pattern: "%d{ISO8601} %p %c{1} - %m%n"}}
  Loggers:
    Root: {level: warn, AppenderRef: {ref: out}}
    Logger:
      - {name: kafka.server.KafkaRaftServer, level: info}
"""


class Kafka:
    """The broker at `bootstrap_servers`; its data and cluster id lie under home/kafka."""

    name: Step = "kafka"
    ports: tuple[str, ...] = ("kafka", "controller")
    patience = 300.0

    def bootstrap_servers(self, place: Place) -> str:
        """What a Kafka client connects to."""
        return f"{LOOPBACK}:{place.ports['kafka']}"

    def command(self, place: Place) -> Command:
        """Write server.properties, format the storage at the first start."""
        folder = place.home / "kafka"
        folder.mkdir(parents=True, exist_ok=True)
        properties, logging, data = folder / "server.properties", folder / "log4j2.yaml", folder / "data"
        if "," in str(data):
            raise ServiceError(
                f"Kafka takes {data} for two folders, for its comma",
                next_step="name a folder without one in TIDEMARK_HOME",
            )
        ports = {"broker": place.ports["kafka"], "controller": place.ports["controller"]}
        properties.write_text(PROPERTIES.format(host=LOOPBACK, data=_escaped(data), **ports))
        logging.write_text(LOGGING)
        options = [
            "-Xms128m",
            "-Xmx300m",
            "-XX:+UseSerialGC",
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            os.pathsep.join(classpath("kafka")),
        ]
        if not (data / "meta.properties").exists():
            _format(place, options, properties)
        return Command(place.java, options, ["kafka.Kafka", str(properties)], cwd=folder)

    def is_ready(self, place: Place) -> bool:
        """True when the broker answers a metadata request and leads every partition."""
        if not accepts(place.ports["kafka"]):
            return False
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers(place), "log_level": 0})
        try:
            cluster = client.list_topics(timeout=5)
        except KafkaException:
            return False
        partitions = [each for topic in cluster.topics.values() for each in topic.partitions.values()]
        return bool(cluster.brokers) and all(each.leader >= 0 for each in partitions)

    def prepare(self, place: Place) -> None:
        """Nothing: a broker that answers is up."""


def _escaped(path: Path) -> str:
    """As a value of Java's properties, which are read as ISO 8859-1."""
    units = str(path).encode("utf-16-be")
    letters = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(chr(each) if chr(each) in _PLAIN else f"\\u{each:04x}" for each in letters)


def _format(place: Place, options: list[str], properties: Path) -> None:
    log = place.log("kafka")
    log.parent.mkdir(parents=True, exist_ok=True)
    format_storage = ["kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(properties)]
    with log.open("ab") as out:
        code = subprocess.run(
            [place.java, *options, *format_storage, "--ignore-formatted"], stdout=out, stderr=out, check=False
        ).returncode
    if code:
        raise ServiceFailed("kafka", f"could not format its storage (exit {code})", log)


def _cluster_id() -> str:
    """A random UUID as Kafka writes it: 22 url-safe characters; a leading dash would read as an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
