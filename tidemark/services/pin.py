"""Write jars.json, the pinned manifest: `python -m tidemark.services.pin` (needs the network and Maven).

Change a version here, run it, commit the result. Kafka's dependencies are resolved by Maven; everything else
is listed without its transitives on purpose: Maven cannot resolve those of Spark's Kafka source everywhere.
"""

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tidemark.services.manifest import MANIFEST, Artifact, maven_url

KAFKA = "org.apache.kafka:kafka_2.13:4.3.1"
KAFKA_LOGGING = (
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"  # Kafka's jars log to slf4j 1.7, which has no binding
)
REGISTRY = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"  # 3.x needs Java 21
SPARK = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    # The released 4.1.x of the token provider cannot be had everywhere; the preview has the same classes.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.spark:spark-avro_2.13:4.1.1",
    "org.apache.kafka:kafka-clients:3.9.1",  # the version that spark-sql-kafka 4.1.1 is built against
    "org.apache.commons:commons-pool2:2.12.1",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",  # files on a local disk without a process for each
)
HADOOP = (  # in place of pyspark's 3.4.2, which calls what Java has no longer
    "org.apache.hadoop:hadoop-client-api:3.4.3",
    "org.apache.hadoop:hadoop-client-runtime:3.4.3",
)
AWS = ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)  # large, and only S3 and Glue need it
COMPILER = ("org.eclipse.jdt:ecj:3.42.0",)  # runs on Java 17; a runtime has no javac
POSTGRES = ("org.postgresql:postgresql:42.7.8",)


def closure(*coordinates: str) -> Iterator[str]:
    """Coordinates of these artifacts and everything that they need at run time, resolved together by Maven."""
    wanted = (each.split(":") for each in coordinates)
    listed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "</dependency>"
        for group, name, version in wanted
    )
    with tempfile.TemporaryDirectory() as folder:
        pom = Path(folder, "pom.xml")
        pom.write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId>"
            f"<version>1</version><dependencies>{listed}</dependencies></project>"
        )
        listing = Path(folder, "list.txt")
        options = ["-DincludeScope=runtime", f"-DoutputFile={listing}"]
        subprocess.run(["mvn", "-q", "-B", "-f", pom, "dependency:list", *options], check=True)
        for line in sorted(listing.read_text().splitlines()):
            match line.strip().split(":"):
                case [group, name, "jar", version, "compile" | "runtime", *_]:
                    yield f"{group}:{name}:{version}"
                case [group, name, "jar", classifier, version, "compile" | "runtime", *_]:
                    yield f"{group}:{name}:{version}:jar:{classifier}"


def pinned(coordinates: str) -> dict[str, Any]:
    """The manifest entry of `group:name:version[:extension[:classifier]]`, by downloading it once."""
    group, name, version, extension, classifier = [*coordinates.split(":"), "jar", ""][:5]
    entry = {"group": group, "name": name, "version": version, "extension": extension or "jar"}
    if classifier:
        entry["classifier"] = classifier
    artifact = Artifact(**entry, sha256="", size=0)
    digest, size = hashlib.sha256(), 0
    with httpx.stream("GET", f"{maven_url()}/{artifact.path}", follow_redirects=True, timeout=60) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes():
            digest.update(chunk)
            size += len(chunk)
    return {**entry, "sha256": digest.hexdigest(), "size": size}


def main() -> None:
    """Resolve, download, digest, write."""
    sets = {
        "kafka": (*closure(KAFKA), KAFKA_LOGGING),
        "registry": (REGISTRY,),
        "spark": SPARK,
        "hadoop": HADOOP,
        "aws": AWS,
        "postgres": POSTGRES,
        "compiler": COMPILER,
    }
    manifest = {name: [pinned(coordinates) for coordinates in members] for name, members in sets.items()}
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()
