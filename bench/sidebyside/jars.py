"""The jars that the peers need: pinned in jars.json beside this file, kept in the cache of the embedded stack.

`python -m bench.sidebyside.jars` pins them anew (needs the network and Maven).
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tidemark.services.download import fetch_artifacts
from tidemark.services.manifest import Artifact, artifacts, cached
from tidemark.services.pin import closure, pinned
from tidemark.services.progress import silent

HADOOP_CONF = Path(__file__).with_name("hadoop")
PINS = Path(__file__).with_name("jars.json")
HADOOP = ("org.apache.hadoop:hadoop-client-api:3.4.1", "org.apache.hadoop:hadoop-client-runtime:3.4.1")
CONNECT = (
    "org.apache.iceberg:iceberg-kafka-connect:1.12.0",
    "org.apache.iceberg:iceberg-parquet:1.12.0",
    "org.apache.iceberg:iceberg-data:1.12.0",
    "org.apache.kafka:connect-runtime:4.3.1",
    "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",
    *HADOOP,
)
FLINK = (
    *(
        f"org.apache.flink:flink-{name}:2.1.1"
        for name in (
            "table-api-java-bridge",
            "clients",
            "table-runtime",
            "table-planner-loader",
            "connector-base",
            "connector-files",
            "json",
        )
    ),
    "com.google.protobuf:protobuf-java:4.33.5",  # of PROTOC's version
    *HADOOP,
)
FLINK_BUNDLES = (  # each carries what it needs inside itself
    "org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0",
    "org.apache.flink:flink-sql-connector-kafka:4.0.1-2.0",
    "org.apache.flink:flink-sql-avro-confluent-registry:2.1.0",
    "org.apache.flink:flink-protobuf:2.2.0",  # there is none of 2.1, and that of 2.0 wants an older protobuf-java
)

PROFILER = "tools.profiler:async-profiler:4.6"
PROTOC = (
    "com.google.protobuf:protoc:4.33.5:exe:linux-x86_64"  # what Flink's format needs; only Linux measures it
)

Peer = Literal["connect", "flink"]


def jars(peer: Peer) -> list[Artifact]:
    """What a peer runs on; its JDBC catalog's driver and its local file system are those that Spark uses."""
    own = [Artifact(**entry) for entry in json.loads(PINS.read_text())[peer]]
    shared = {"sqlite-jdbc", "hadoop-bare-naked-local-fs"}
    return [*own, *(each for each in artifacts("spark") if each.name in shared)]


def fetched(peer: Peer) -> str:
    """A class path of jars that are in the cache and whole."""
    wanted = jars(peer)
    fetch_artifacts(wanted, silent)
    return class_path([*(str(cached(each)) for each in wanted), str(HADOOP_CONF)])


def single(name: Literal["profiler", "protoc"]) -> Path:
    """A file that is used by itself: async-profiler's jar, which carries its native library; protoc."""
    (artifact,) = (Artifact(**entry) for entry in json.loads(PINS.read_text())[name])
    fetch_artifacts([artifact], silent)
    return cached(artifact)


def class_path(paths: Sequence[str]) -> str:
    """Joined as java wants it."""
    return os.pathsep.join(paths)


def main() -> None:
    """Resolve, download, digest, write."""
    sets = {
        "protoc": [PROTOC],
        "connect": closure(*CONNECT),
        "flink": [*closure(*FLINK), *FLINK_BUNDLES],
        "profiler": [PROFILER],
    }
    found = {name: [pinned(coordinates) for coordinates in members] for name, members in sets.items()}
    PINS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
