"""The Spark Connect session: what must be true of the server before anything is written through it.

No correctness lives in the session; it may be lost at any moment and is then made anew.
"""

import atexit
import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast
from uuid import uuid4

from pyspark.errors import AnalysisException, IllegalArgumentException, UnknownException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.client.core import ChannelBuilder, SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.conf import RuntimeConf
from pyspark.sql.connect.session import SparkSession as ConnectSession

from tidemark.domain.config.platform import Platform
from tidemark.domain.errors import NO_TABLE, Stopped
from tidemark.domain.secrets import redact
from tidemark.engine.access.outages import translated
from tidemark.engine.access.spark_limits import SESSION_SETTINGS, missing_limits, missing_settings

HEARD_EVERY = 300.0
"""Seconds between two calls that keep a session alive: a server may close one after a good many more."""
SILENT = 330
"""Seconds without a word from a server until it is asked whether it lives; it refuses those who ask every 5 minutes."""
ANSWERS_WITHIN = 60
"""Seconds that it may take to answer: a machine that hangs or is out of reach would hold a run for good."""
OWN_EXTENSIONS = "tidemark.spark.TidemarkExtensions"
"""Of `tidemark/jvm`: Avro is read by a decoder that bounds what a damaged record may allocate."""
OWN_PLUGIN = "tidemark.spark.TidemarkPlugin"
REQUIRED_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

# Python runs this in whichever thread happens to collect garbage. It ends the threads that all sessions of the process
# share and waits for them: in one of those, or holding a lock that one of them needs, no session ever answers again.
# Whoever opens a session closes it (Lake.close).
if hasattr(ConnectSession, "__del__"):
    del ConnectSession.__del__

ChannelBuilder.GRPC_DEFAULT_OPTIONS += [
    ("grpc.keepalive_time_ms", SILENT * 1000),
    ("grpc.keepalive_timeout_ms", ANSWERS_WITHIN * 1000),
]

_LITERALS = "spark.sql.parser.escapedStringLiterals"
"""Where it is true a quote ends a text that has one, for ours are escaped. Deprecated: who sets it is warned."""


def connect(remote: str) -> SparkSession:
    """A session of its own on the Connect server at `remote` (sc://host:port), which is not asked anything yet.

    A call on a server that is gone fails after about five seconds: whether to try again is for the plan to say.
    PySpark would clear its cache of machine-learning models when this process ends; where the server is gone by then,
    that takes up to ten minutes a session.
    """
    session: SparkSession = SparkSession.builder.remote(remote).create()
    _impatient(cast("Any", session).client)
    logging.getLogger("SQLQueryContextLogger").setLevel(
        logging.CRITICAL
    )  # repeats each error with its JVM stack
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")  # the error itself says it
    return session


def _impatient(client: SparkConnectClient) -> None:
    atexit.unregister(client._cleanup_ml_cache)  # noqa: SLF001 - there is no switch
    client.set_retry_policies([DefaultPolicy(max_retries=5, max_backoff=2_000, max_server_retry_delay=2_000)])


def of_session(address: str, session_id: str) -> str:
    """The address at which every process is in the one session of this id."""
    server, _, parameters = address.partition("/;")
    return f"{server.rstrip('/')}/;{';'.join(filter(None, (parameters, f'session_id={session_id}')))}"


def begin_session(address: str, session_id: str, platform: Platform) -> None:
    """Open a session that another process is to find there, with the settings of platform.yaml.

    It brings the catalog if the server was started without it.

    Raises:
        Outage: `spark_down`.
        Stopped: `misconfigured`: the server refuses a setting.
    """
    with translated():
        client = SparkConnectClient(of_session(address, session_id))
        _impatient(client)
        try:
            conf = RuntimeConf(client)
            _bring_catalog(conf, platform)
            _set(conf, platform.spark.conf)
        finally:
            client.close()


def end_session(address: str, session_id: str) -> None:
    """Cancel what is done in a session, whichever process began it; whoever is left can begin nothing there any more.

    Raises:
        Outage: `spark_down`; a server that was started anew knows nothing of it.
    """
    with translated():
        client = SparkConnectClient(of_session(address, session_id))
        _impatient(client)
        try:
            client.get_configs("spark.sql.session.timeZone")  # one that was never opened could be opened yet
            client.release_session()
        except UnknownException as error:
            if "SESSION_CLOSED" not in str(error):
                raise
        finally:
            client.close()


def make_active(spark: SparkSession) -> None:
    """Let PySpark ask this session where a column needs one, as that of a `datetime` does.

    A thread keeps to the first session that it has opened, also once its server is gone or has closed it.
    """
    if isinstance(spark, ConnectSession):
        ConnectSession._active_session.session = spark  # noqa: SLF001 - there is no setter


@contextmanager
def default_session(spark: SparkSession) -> Iterator[None]:
    """Meanwhile `getOrCreate()` gives this session in each new thread, for libraries that know no other way to one.

    The process's default may be any session that was opened before, long closed by a server that had not heard of it
    for half an hour; this one is heard of, however long its users are at other things.
    """
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(HEARD_EVERY):
            with suppress(Exception):  # who uses the session learns what is wrong with it
                spark.conf.get("spark.sql.session.timeZone")

    before = ConnectSession._default_session  # noqa: SLF001 - there is no setter
    ConnectSession._default_session = cast("ConnectSession", spark)  # noqa: SLF001
    keeper = threading.Thread(target=keep, name="spark-session", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()
        ConnectSession._default_session = before  # noqa: SLF001


def configure(spark: SparkSession, platform: Platform, own: Mapping[str, str]) -> None:
    """Give the session its own settings, what platform.yaml says, and the catalog when the server has none.

    Raises:
        Stopped: `misconfigured`: the server refuses a setting of platform.yaml.
    """
    _bring_catalog(spark.conf, platform)
    literals = {} if spark.conf.get(_LITERALS, "false") == "false" else {_LITERALS: "false"}
    _set(
        spark.conf,
        {
            **SESSION_SETTINGS,
            **literals,
            **own,
            "spark.sql.session.timeZone": "UTC",
            **platform.spark.conf,
        },
    )


def _set(conf: Any, settings: Mapping[str, Any]) -> None:
    """Raises Stopped: `misconfigured`."""
    for key, value in settings.items():
        try:
            conf.set(key, str(value))
        except (AnalysisException, IllegalArgumentException) as error:
            shown = redact(str(value), key)
            says = str(error).splitlines()[0].replace(str(value), shown)
            raise Stopped(
                "misconfigured",
                NO_TABLE,
                f"platform.yaml, spark.conf: the server refuses {key}: {shown}. What belongs to the server as a whole "
                f"is set where it starts. {says}",
            ) from None


def _bring_catalog(conf: Any, platform: Platform) -> None:
    if conf.get(f"spark.sql.catalog.{platform.catalog.name}", None) is None:
        for key, value in platform.catalog.spark_conf().items():
            conf.set(key, value)


def verify(spark: SparkSession, catalog: str) -> None:
    """Refuse a server on which a commit could be wrong.

    Raises:
        Stopped: `misconfigured`: the catalog is missing, its cache is on, or Iceberg's extensions are not loaded.
    """
    prefix = f"spark.sql.catalog.{catalog}"
    if not spark.conf.get(prefix, None):
        raise Stopped(
            "misconfigured",
            NO_TABLE,
            f"the Spark Connect server has no catalog {catalog}: set {prefix} on it",
        )
    if str(spark.conf.get(f"{prefix}.cache-enabled", "true")).lower() != "false":
        raise Stopped(
            "misconfigured",
            NO_TABLE,
            f"the Spark Connect server caches catalog {catalog}, so a commit could read a stale table: "
            f"start it with {prefix}.cache-enabled=false",
        )
    extensions = str(spark.conf.get("spark.sql.extensions", ""))
    if OWN_EXTENSIONS not in extensions and (missing := missing_limits(spark)):
        logging.getLogger(__name__).warning(
            "a damaged record could end this Spark server; start its JVMs with %s", " ".join(missing)
        )
    if missing := missing_settings(spark):
        logging.getLogger(__name__).warning(
            "a long backlog could fill the heap of this Spark server with idle Kafka readers; start it with %s",
            " ".join(missing),
        )
    if REQUIRED_EXTENSIONS not in extensions:
        raise Stopped(
            "misconfigured",
            NO_TABLE,
            f"the Spark Connect server lacks spark.sql.extensions={REQUIRED_EXTENSIONS}",
        )


def has_own_writer(spark: SparkSession) -> bool:
    """Whether the server writes Parquet with Tidemark's classes (`tidemark/jvm`), as the embedded one does."""
    return OWN_PLUGIN in str(spark.conf.get("spark.plugins", ""))


@contextmanager
def temp_view(rows: DataFrame, name: str) -> Iterator[str]:
    """`rows` under a name of their own that begins with `name`, for SQL of the same session."""
    view = f"tidemark_{name}_{uuid4().hex}"
    rows.createOrReplaceTempView(view)
    try:
        yield view
    finally:
        rows.sparkSession.catalog.dropTempView(view)


def checkpointed(rows: DataFrame) -> DataFrame:
    """`rows` computed once and kept by the server.

    The client takes the answer for one of the thread's active session, whichever session asked: so ours is made the
    active one meanwhile (pyspark.sql.connect.conversion, 4.1.1).
    """
    active, ours = ConnectSession._active_session, rows.sparkSession  # noqa: SLF001 - there is no public setter
    before = getattr(active, "session", None)
    active.session = ours
    try:
        return rows.localCheckpoint()
    finally:
        active.session = before
