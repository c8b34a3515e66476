"""Iceberg's own REST catalog server, as its project tests clients with it; tables lie on the local disk.

`python tests/support/rest_catalog.py` pins its jars anew (needs the network).
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guarded import Guarded, free_port

from tidemark.services.download import fetch_artifacts
from tidemark.services.java import find_java
from tidemark.services.manifest import Artifact, artifacts, cached, classpath
from tidemark.services.own_jar import pyspark_home
from tidemark.services.pin import pinned
from tidemark.services.ports import LOOPBACK, accepts
from tidemark.services.spark import jars_beside

PINS = Path(__file__).with_name("rest_catalog.json")
JARS = (  # Hadoop, which it reads its metadata files with, is pyspark's; SQLite's driver is that of the stack
    "org.apache.iceberg:iceberg-open-api:1.11.0:jar:test-fixtures",
    "org.apache.iceberg:iceberg-core:1.11.0",
    "org.apache.iceberg:iceberg-core:1.11.0:jar:tests",
    "org.apache.iceberg:iceberg-api:1.11.0",
    "org.apache.iceberg:iceberg-common:1.11.0",
    "org.apache.iceberg:iceberg-bundled-guava:1.11.0",
    "org.apache.avro:avro:1.12.1",
    "com.fasterxml.jackson.core:jackson-annotations:2.21",
    "com.fasterxml.jackson.core:jackson-core:2.21.3",
    "com.fasterxml.jackson.core:jackson-databind:2.21.3",
    "com.github.ben-manes.caffeine:caffeine:2.9.3",
    "jakarta.servlet:jakarta.servlet-api:6.0.0",
    "org.apache.httpcomponents.client5:httpclient5:5.6.1",
    "org.apache.httpcomponents.core5:httpcore5:5.4",
    "org.apache.httpcomponents.core5:httpcore5-h2:5.4",
    "org.eclipse.jetty.compression:jetty-compression-common:12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.5",
    "org.eclipse.jetty.compression:jetty-compression-server:12.1.5",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
    *(
        f"org.eclipse.jetty:jetty-{part}:12.1.5"
        for part in ("http", "io", "security", "server", "session", "util")
    ),
    "org.slf4j:slf4j-api:2.0.17",
    "org.slf4j:slf4j-simple:2.0.17",
)


@contextmanager
def rest_catalog(folder: Path) -> Iterator[tuple[Guarded, dict[str, str]]]:
    """The server, and the `catalog` block of a platform file with it."""
    wanted = [Artifact(**entry) for entry in json.loads(PINS.read_text())]
    java = find_java()
    driver = [each for each in artifacts("spark") if each.name == "sqlite-jdbc"]
    fetch_artifacts([*wanted, *driver])
    path = [str(cached(each)) for each in (*wanted, *driver)]
    path += [*classpath(*jars_beside(java)), *map(str, (pyspark_home() / "jars").glob("hadoop-client-*"))]
    port, warehouse = free_port(), (folder / "warehouse").as_uri()
    environment = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'rest.db'}",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
    }
    main = "org.apache.iceberg.rest.RESTCatalogServer"
    command = [java, "-Xmx256m", "-cp", os.pathsep.join(path), main]
    server = Guarded(command, folder / "rest.log", lambda: accepts(port), environment)
    server.start()
    try:
        yield (
            server,
            {"name": "rest", "type": "rest", "uri": f"http://{LOOPBACK}:{port}/", "warehouse": warehouse},
        )
    finally:
        server.kill()


if __name__ == "__main__":
    PINS.write_text(json.dumps([pinned(each) for each in JARS], indent=1) + "\n")
