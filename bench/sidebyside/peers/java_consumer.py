"""The limit of every JVM: the Java consumer, reading only."""

from pathlib import Path

from bench.sidebyside import jars
from bench.sidebyside.ground import FETCHES, JVM, Ground, Topic
from bench.sidebyside.meter import Cost, Meter
from bench.sidebyside.peers.flink import compile_java

SOURCE = Path(__file__).parent / "java" / "Consume.java"


class JavaConsumer:
    """One consumer of all partitions."""

    name = "java consumer"
    kinds = frozenset({"avro", "json", "protobuf", "upsert"})
    writes = False

    def prepare(self, ground: Ground) -> None:
        """Compile it against the client that Kafka Connect uses."""
        self._class_path = jars.class_path([str(ground.home / "classes"), jars.fetched("connect")])
        compile_java(ground, [SOURCE], self._class_path)

    def run(self, ground: Ground, topic: Topic, table: str) -> Cost:
        """One JVM."""
        settings = {"bootstrap.servers": ground.bootstrap, "isolation.level": "read_committed", **FETCHES}
        listed = [f"{key}={value}" for key, value in settings.items()]
        with Meter(ground.home / f"{table}.log") as meter:
            meter.run(
                [ground.java, *JVM, "-cp", self._class_path, "Consume", topic.name, str(topic.count), *listed]
            )
            return meter.stop()
