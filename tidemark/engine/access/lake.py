"""The opened clients of one process: catalog, Spark session, Kafka clusters and registries, each on first use.

Made once by the shell or the command line and passed as an argument; safe to share between threads.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from threading import RLock

from confluent_kafka import KafkaException
from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.exceptions import RESTError
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.typedef import Properties
from pyspark.sql import SparkSession
from requests.exceptions import HTTPError

from tidemark.domain.columns.spark_types import quoted_name, quoted_text
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import NO_TABLE, Outage, Refused, Stopped
from tidemark.domain.ledger.guard import Topic, another_cluster, stopped_by
from tidemark.domain.ledger.quarantine_count import QuarantineCount
from tidemark.domain.secrets import redact_text
from tidemark.domain.states import State
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.access.listening import listens
from tidemark.engine.access.metadata_files import spare_parsing
from tidemark.engine.access.outages import state_of_error, translated
from tidemark.engine.access.registry import Registry
from tidemark.engine.access.spark import configure, connect, has_own_writer, make_active, verify
from tidemark.engine.access.spark_limits import NO_CODE
from tidemark.engine.access.table_state import TableState, read_state
from tidemark.engine.access.variant_metadata import FILE_IO, tolerant

FEW_ROWS = 1_000
"""Up to which Spark takes a plan as it is: making code for it costs as much as 15,000 rows lose without."""
CONNECT = 3.0
"""Seconds that Spark's server gets to accept a connection."""


class Lake:
    """Clients of the services that platform.yaml names. `session` makes a new Spark session of its own."""

    def __init__(
        self, configuration: Configuration, *, session: Callable[[], SparkSession] | None = None
    ) -> None:
        self.configuration = configuration
        self.platform = configuration.platform
        self._session = session or (lambda: connect(self.platform.spark.address))
        self._lock = RLock()
        self._catalog: Catalog | None = None
        self._unopened: tuple[float, Outage] | None = None
        """The catalog could not be opened: until when nobody asks again, which is for as long as asking took."""
        self._sessions: dict[bool, SparkSession] = {}
        """By whether Spark makes code for their plans."""
        self._kafka: dict[str, KafkaAdmin] = {}
        self._registries: dict[str, Registry] = {}
        self.writes_columns = False
        """Whether the server of the session writes Parquet with Tidemark's own classes."""
        self.made_by: dict[str, str] = {}
        """Contract files by tables that no contract names; empty where none has made the table."""
        self.passed_over: dict[str, float] = {}
        """Tables that no contract names and that did not answer: until when (monotonic) nobody asks again."""
        self.locations: dict[str, str] = {}
        """Of tables that were looked at as neighbours of another."""
        self.counted: dict[str, QuarantineCount] = {}
        """What waits in quarantine tables, as it was counted last."""
        self.waited_for: dict[State, float] = {}
        """Outages that a table has waited out in vain: whoever begins until then (monotonic) does not wait for them."""
        self.loaded: Callable[[str], bool] = lambda _: False
        """Whether some run has loaded a table: whoever has records of runs says so here."""

    @property
    def catalog(self) -> Catalog:
        """The Iceberg catalog as PyIceberg sees it."""
        with self._lock:
            began = time.monotonic()
            if self._unopened and began < self._unopened[0]:
                raise self._unopened[1]
            if self._catalog is None:
                block = self.platform.catalog
                try:
                    with translated():
                        spare_parsing()
                        properties = {PY_IO_IMPL: FILE_IO, **block.pyiceberg_properties()}
                        self._catalog = tolerant(_loaded(block.name, properties))
                except Outage as outage:
                    self._unopened = 2 * time.monotonic() - began, outage
                    raise
            return self._catalog

    def spark(self, *, rows: int | None = None) -> SparkSession:
        """A living, verified session; made anew after it was lost.

        For plans through which at most `rows` go it may be another, in which Spark makes no code; frames of the two
        cannot be joined.

        Raises:
            Outage: `spark_down`.
            Stopped: `misconfigured`, a server that must not be used.
        """
        makes_code = rows is None or rows > FEW_ROWS
        with self._lock:
            if makes_code not in self._sessions:
                address = self.platform.spark.address
                if not listens(address, CONNECT):
                    raise Outage("spark_down", NO_TABLE, f"nothing listens at {redact_text(address)}")
                try:
                    self._sessions[makes_code] = self._opened(makes_code=makes_code)
                except (Stopped, Outage):
                    raise
                except Exception as error:
                    raise Outage("spark_down", NO_TABLE, f"{type(error).__name__}: {error}"[:400]) from error
            make_active(self._sessions[makes_code])
            return self._sessions[makes_code]

    def require_spark(self) -> None:
        """Hear from the server in every open session: none notices when it is gone.

        One that the server has not heard of for half an hour it may close, however busy the other is.

        Raises:
            Outage: `spark_down`.
        """
        with translated():
            for each in [*self._sessions.values()] or [self.spark(rows=0)]:
                each.conf.get("spark.sql.session.timeZone")

    def _opened(self, *, makes_code: bool) -> SparkSession:
        spark = self._session()
        try:
            configure(spark, self.platform, {} if makes_code else NO_CODE)
            verify(spark, self.platform.catalog.name)
            self.writes_columns = has_own_writer(spark)
        except Stopped:
            spark.stop()
            raise
        return spark

    def lose_spark(self) -> None:
        """Forget the sessions: the next call makes a new one."""
        with self._lock:
            self._sessions.clear()

    def kafka(self, cluster: str) -> KafkaAdmin:
        """The admin client of a cluster of platform.yaml.

        Raises:
            Refused: platform.yaml has no such cluster.
            Stopped: `misconfigured` when librdkafka refuses what platform.yaml says, a file that is not there say.
        """
        if cluster not in self.platform.kafka:
            raise Refused(
                f"platform.yaml has no Kafka cluster {cluster}",
                next_step=f"name one of: {', '.join(self.platform.kafka)}",
                cluster=cluster,
            )
        with self._lock:
            if cluster not in self._kafka:
                properties = self.platform.kafka[cluster].client_properties()
                try:
                    self._kafka[cluster] = KafkaAdmin(cluster, properties)
                except KafkaException as error:
                    why = f"kafka.{cluster} in platform.yaml: {error.args[0].str()}"
                    raise Stopped("misconfigured", NO_TABLE, why, cluster=cluster) from error
            return self._kafka[cluster]

    def lose_kafka(self, cluster: str) -> None:
        """Forget the client: the next call makes a new one, which reads its certificates anew."""
        with self._lock:
            self._kafka.pop(cluster, None)

    def registry(self, cluster: str) -> Registry:
        """The schema registry of a cluster.

        Raises:
            Stopped: `misconfigured` when platform.yaml names none, or a URL or file for TLS that cannot be used.
        """
        with self._lock:
            if cluster not in self._registries:
                block = self.platform.schema_registry.get(cluster)
                if block is None:
                    raise Stopped(
                        "misconfigured", NO_TABLE, f"platform.yaml has no schema_registry.{cluster}"
                    )
                self._registries[cluster] = Registry(cluster, block)
            return self._registries[cluster]

    def topic(self, contract: Contract, *, one_of_many: bool = False, before: Topic | None = None) -> Topic:
        """The contract's topic as it is now; `one_of_many`: a cluster that does not answer is not waited for by each.

        With `before`, as it was described, only what tells whether it is the same (`KafkaAdmin.still`).

        Raises:
            Stopped: `topic_missing`; `cluster_changed` where another cluster was read, which may have it.
        """
        with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
            kafka = self.kafka(contract.cluster)
            found = (
                kafka.still(before)
                if before
                else kafka.describe([contract.topic], one_of_many=one_of_many).get(contract.topic)
            )
            if found is not None:
                return found
            ledger = self.state(contract.table, ledger=False).ledger
            if finding := another_cluster(ledger, kafka.cluster_id()):
                raise stopped_by(contract, finding)
            raise Stopped("topic_missing", NO_TABLE, "")

    def state(self, table: str, *, ledger: bool = True) -> TableState:
        """The table as it is now (see `read_state`); with `ledger` false a table that lost its own is let pass."""
        with translated(table):
            return read_state(self.catalog, table, ledger=ledger)

    def interrupt(self) -> None:
        """Cancel what the Spark sessions run; whoever waits for it then drops what was staged."""
        for each in [*self._sessions.values()]:
            with suppress(Exception):
                each.interruptAll()

    def identifier(self, table: str) -> str:
        """`namespace.name` as Spark SQL names it: quoted, with the catalog."""
        return quoted_name(self.platform.catalog.name, *table.split("."))

    def call(self, procedure: str, table: str, arguments: str) -> str:
        """The CALL of one of Iceberg's procedures on a table.

        The table is told with its catalog: its namespace may have that name, and both are `lake` by default.
        """
        catalog = quoted_name(self.platform.catalog.name)
        return (
            f"CALL {catalog}.system.{procedure}(table => {quoted_text(self.identifier(table))}, {arguments})"
        )

    def close(self) -> None:
        """Close what was opened; the session's own work on the server goes on."""
        with self._lock:
            for registry in self._registries.values():
                registry.close()
            while self._sessions:
                self._sessions.popitem()[1].stop()


@contextmanager
def renewing_spark(lake: Lake) -> Iterator[None]:
    """A session that was lost in here is made anew for whoever asks next."""
    try:
        yield
    except Outage as outage:
        if outage.state == "spark_down":
            lake.lose_spark()
        raise


def _is_no_old_metadata(record: logging.LogRecord) -> bool:
    """PyIceberg deletes old metadata files after each commit, and warns of those that a REST server has deleted."""
    return not record.getMessage().startswith("Failed to delete metadata file")


def _loaded(name: str, properties: Properties) -> Catalog:
    kind = properties["type"]
    if kind == "rest":
        logging.getLogger("pyiceberg.catalog").addFilter(_is_no_old_metadata)
    try:
        # Not `load_catalog`: it adds what .pyiceberg.yaml and PYICEBERG_… say, of which Spark knows nothing.
        made = _rest_catalog if kind == "rest" else AVAILABLE_CATALOGS[CatalogType(kind)]
        return made(name, properties)
    except (TypeError, ValueError, ImportError, AttributeError, RESTError) as error:
        if not _knows_no_warehouse(error) and state_of_error(error) != "failed":
            raise
        why = f"catalog in platform.yaml: {type(error).__name__}: {error}"
        raise Stopped("misconfigured", NO_TABLE, why) from error


def _knows_no_warehouse(error: Exception) -> bool:
    """Whether a REST catalog, and no proxy before it, answered 404 when it was asked for its configuration."""
    cause = error.__cause__
    answer = cause.response if isinstance(cause, HTTPError) else None
    if answer is None or answer.status_code != HTTPStatus.NOT_FOUND:
        return False
    return type(error) is RESTError and not str(error).startswith("RESTError")


def _rest_catalog(name: str, properties: Properties) -> Catalog:
    from tidemark.engine.access.rest_catalog import PatientRestCatalog  # noqa: PLC0415 - others need none of it

    return PatientRestCatalog(name, **properties)
