"""A Spark Connect server from pip's pyspark: one long-lived driver, loopback only, bounded in memory."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tidemark.domain.spark_server import BRIEF_CONSUMERS, JVM_OPTIONS
from tidemark.services import python_workers
from tidemark.services.catalog import NAME, LocalCatalog
from tidemark.services.class_archive import ClassArchive
from tidemark.services.java import version_of
from tidemark.services.manifest import ArtifactSet, classpath
from tidemark.services.own_jar import own_jar, pyspark_home
from tidemark.services.ports import LOOPBACK, accepts
from tidemark.services.processes import KEEP_LOG_BYTES, Command
from tidemark.services.progress import Step
from tidemark.services.service import Place

HEAP = "1536m"
# What Spark's own launcher passes (JavaModuleOptions, 4.1.1); calling java directly saves a JVM start and is
# not led astray by another Spark's SPARK_HOME, SPARK_CONF_DIR or spark-env.sh.
OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# Planning a batch is much code that runs seldom: at the JVM's own thresholds (a tenth of these) optimizing it takes a
# quarter of the CPU of small batches and is never earned back. What runs per record reaches them within a second.
PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
MEMORY = (
    "-Xms640m",  # room for the pages of open files: else each such batch begins with full collections
    "-XX:NewSize=85m",  # but an idle server touches no more of it than it needs
    f"-Xmx{HEAP}",
    "-XX:MetaspaceSize=256m",  # below it no full collection for the sake of classes: two at each start
    "-XX:+UseParallelGC",  # throughput: half the CPU per Kafka record of G1 on small machines
)
JVM = (
    *MEMORY,
    "-Xss4m",  # wide schemas make deep plans
    "-XX:+ExitOnOutOfMemoryError",  # Spark would stop, and its port go on to answer
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",  # Java 24 and later: Arrow in Netty's memory, nothing without it
    "-Duser.timezone=UTC",
    *PATIENT_COMPILER,
    *JVM_OPTIONS,
)
HADOOP_SINCE = 23
# Hadoop's own starts a `chmod` for each file that it writes to a local disk: sixteen processes a commit.
LOCAL_FILES = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
# Into the file that stdout and stderr go to: a relative path from the server's folder needs no escaping.
LOGGING = f"""\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.spark3util.name = org.apache.iceberg.spark.Spark3Util
logger.spark3util.level = error
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
# Errors of a statement go to the client, who has asked; here they would be joined by one per closed session.
logger.rpc.name = org.apache.spark.sql.connect.utils.ErrorUtils
logger.rpc.level = off
# Spark then does without, and says so with the plan; here its cause would be 80 KB more.
logger.code.name = org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator
logger.code.level = off
appender.out.type = RollingFile
appender.out.name = out
appender.out.fileName = ../logs/spark.log
appender.out.filePattern = ../logs/spark.log.%i
appender.out.policies.type = Policies
appender.out.policies.size.type = SizeBasedTriggeringPolicy
appender.out.policies.size.size = {KEEP_LOG_BYTES}
appender.out.strategy.type = DefaultRolloverStrategy
appender.out.strategy.max = 1
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def jars_beside(java: Path) -> tuple[ArtifactSet, ...]:
    """Sets of jars that this java needs before pyspark's: Hadoop 3.4.2 cannot say who the user is from Java 23 on."""
    return ("hadoop",) if (version_of(java) or 0) >= HADOOP_SINCE else ()


def settings(cores: int) -> dict[str, str]:
    """Everything but the addresses and the catalog; `cores` bounds what the server takes of the machine."""
    return {
        "spark.app.name": "tidemark",
        "spark.master": f"local[{cores}]",
        "spark.scheduler.mode": "FAIR",  # a large batch of one table must not hold up the small ones
        "spark.locality.wait": "0",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.default.parallelism": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.plugins": "tidemark.spark.TidemarkPlugin",  # Parquet is written column by column
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
        "tidemark.spark.TidemarkExtensions",
        "spark.sql.defaultCatalog": NAME,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.daemon.module": python_workers.__name__,
        "spark.hadoop.fs.file.impl": LOCAL_FILES,
        "spark.connect.session.planCache.enabled": "false",  # as in sessions of ours, for those of others
        "spark.connect.session.manager.defaultSessionTimeout": "30m",
        # With class loaders of their own, sessions would compile the code of each plan anew: each run (ConnectServer).
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.sql.codegen.cache.maxEntries": "1000",  # of which a table has seven, and Spark keeps 100
        # Else PySpark looks through its call stack at every column expression, a tenth of a small batch's client.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # A server that lives for weeks keeps no history: nobody looks at its UI.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.sql.connect.ui.retainedSessions": "10",
        "spark.sql.connect.ui.retainedStatements": "10",
        "spark.cleaner.periodicGC.interval": "10min",
        **BRIEF_CONSUMERS,
    }


class Spark:
    """The server at `remote`; `conf` adds to or overrides the settings, `extras` adds sets of jars."""

    name: Step = "spark"
    ports: tuple[str, ...] = ("spark",)
    patience = 300.0

    def __init__(self, extras: tuple[ArtifactSet, ...] = (), conf: Mapping[str, str] | None = None) -> None:
        self._extras = extras
        self._conf = dict(conf or {})

    def remote(self, place: Place) -> str:
        """The Spark Connect URL."""
        return f"sc://{LOOPBACK}:{place.ports['spark']}"

    def command(self, place: Place) -> Command:
        """Write spark.conf, empty the scratch space of the last life."""
        folder, package = place.home / "spark", pyspark_home()
        scratch = folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        (folder / "log4j2.properties").write_text(LOGGING)
        properties = folder / "spark.conf"
        properties.write_text(
            "".join(f"{key} {value}\n" for key, value in sorted(self._all(place, scratch).items()))
        )
        options = [
            *JVM,
            *self.archive(place.java).use(),
            f"-Djava.io.tmpdir={scratch}",
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(self._jars(place.java)),
        ]
        main = [
            "org.apache.spark.deploy.SparkSubmit",
            *("--properties-file", str(properties)),
            *("--class", "tidemark.spark.ConnectServer", "spark-internal"),
        ]
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment = {
            "SPARK_HOME": str(package),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_CONF_DIR": str(folder),
            **python,
        }
        return Command(place.java, options, main, cwd=folder, environment=environment)

    def archive(self, java: Path) -> ClassArchive:
        """With which it starts faster."""
        return ClassArchive(java, self._jars(java))

    def _jars(self, java: Path) -> list[str]:
        pinned = classpath("spark", *jars_beside(java), *self._extras)
        return [str(own_jar(java)), *pinned, str(pyspark_home() / "jars" / "*")]

    def is_ready(self, place: Place) -> bool:
        """True when the server listens, which it does when Spark is there."""
        return accepts(place.ports["spark"])

    def prepare(self, place: Place) -> None:
        """Nothing: walking through a write to be quicker at the first batch would take longer than it saves."""

    def _all(self, place: Place, scratch: Path) -> dict[str, str]:
        addresses = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(place.ports["spark"]),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        }
        cores = os.cpu_count() or 2
        return {**settings(cores), **addresses, **LocalCatalog(place.home).spark(), **self._conf}
