"""Where things run: the platform file, or the embedded stack in its place (docs/reference/platform.md)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from tidemark.domain.config.catalog import Catalog
from tidemark.domain.config.contract import Declaration
from tidemark.domain.config.cron import Cron
from tidemark.domain.config.kafka_properties import GROUP_ID_PREFIX, client_properties, spark_options
from tidemark.domain.config.naming import Identifier, Namespace
from tidemark.domain.config.section import FreeSection, PropertyValue, Section, bounds
from tidemark.domain.config.units import Count, Duration, PositiveDuration
from tidemark.domain.errors import TidemarkError
from tidemark.domain.secrets import Properties, without_login

CONNECTIONS = ("kafka", "schema_registry", "catalog", "spark")
"""Blocks of the platform file that say where a service is; with none of them the embedded stack is used."""


def _spark_address(value: str) -> str:
    try:
        sound = value.startswith("sc://") and urlsplit(value).port != 0
    except ValueError:
        sound = False
    if not sound:
        says = "is not the address of a Spark Connect server: sc://host:port, or sc://host:port/;key=value"
        raise PydanticCustomError("address", says)
    return value


def _user_info(value: str) -> str:
    if ":" not in value[1:]:
        raise PydanticCustomError("user_info", "must be user:password")
    return value


_TRANSPORTS: Mapping[str, tuple[str, ...]] = {
    "amazon_datazone_api": (),
    "async_http": ("url",),
    "composite": ("transports",),
    "console": (),
    "datadog": (),
    "file": ("log_file_path",),
    "gcplineage": (),
    "http": ("url",),
    "kafka": ("config",),
    "msk-iam": ("config",),
    "noop": (),
    "transform": (),
}
"""The transports of OpenLineage's client, and the keys that each certainly needs."""


def _transport(value: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(value.get("type"), str):
        raise PydanticCustomError("transport", "needs a type: http, kafka, file, console …")
    kind = value["type"]
    if kind not in _TRANSPORTS and "." not in kind:
        known = ", ".join(sorted(_TRANSPORTS))
        raise PydanticCustomError(
            "transport",
            "has the type {type}, which OpenLineage does not know: {known}, or a class as in package.Class",
            {"type": repr(kind), "known": known},
        )
    lacking = next((key for key in _TRANSPORTS.get(kind, ()) if not value.get(key)), None)
    if lacking is not None:
        raise PydanticCustomError("transport", "of type {type} needs {key}", {"type": kind, "key": lacking})
    return value


class KafkaCluster(FreeSection):
    """Client properties of one cluster, in librdkafka's words."""

    root: dict[str, PropertyValue]

    @property
    def properties(self) -> Properties:
        """As written."""
        return Properties(self.root)

    @property
    def group_id_prefix(self) -> str:
        """What every consumer group that we name begins with."""
        return self.root.get(GROUP_ID_PREFIX, "tidemark")

    def client_properties(self) -> dict[str, str]:
        """For confluent-kafka, secrets in the clear. Raises TidemarkError when there is no address."""
        self._need_address()
        return client_properties(self.root)

    def spark_options(self) -> dict[str, str]:
        """For Spark's Kafka source, secrets in the clear; PEM files are read and sent as text.

        Raises TidemarkError when there is no address, ValueError on PEM files that Java cannot use.
        """
        self._need_address()
        return spark_options(self.root)

    def _need_address(self) -> None:
        if "bootstrap.servers" not in self.root:
            raise _no_address("Kafka", "kafka_down")


class SchemaRegistry(Section):
    """A registry that speaks Confluent's REST interface."""

    url: str | None = Field(None, min_length=1)
    user_info: Annotated[str, AfterValidator(_user_info)] | None = Field(None, alias="basic.auth.user.info")
    bearer_token: str | None = Field(None, alias="bearer.auth.token")
    ca_location: str | None = Field(None, alias="ssl.ca.location")
    certificate_location: str | None = Field(None, alias="ssl.certificate.location")
    key_location: str | None = Field(None, alias="ssl.key.location")

    @property
    def address(self) -> str:
        """The URL without user, password and a slash at its end. Raises TidemarkError when there is none."""
        if not self.url:
            raise _no_address("the schema registry", "registry_down")
        return without_login(self.url).rstrip("/")

    @property
    def basic_auth(self) -> tuple[str, str] | None:
        """(user, password), in the clear; those in the URL count where none stand beside it."""
        if self.user_info:
            user, _, password = self.user_info.partition(":")
            return user, password
        parts = urlsplit(self.url or "")
        return (unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None


class Spark(Section):
    """The Spark Connect server, and settings of the sessions on it."""

    remote: Annotated[str, AfterValidator(_spark_address)] | None = None
    conf: dict[str, PropertyValue] = Field(default_factory=dict)

    @property
    def address(self) -> str:
        """`sc://host:port`, a token in it in the clear. Raises TidemarkError when there is none."""
        if not self.remote:
            raise _no_address("Spark Connect", "spark_down")
        return self.remote


class Lane(Section):
    """How the runs of a lane go: look every `poll`, `parallel` tables at once, wait `linger` for more.

    A default gives way to the other key: `max_run: 30s` alone makes `linger` 30s.
    """

    poll: PositiveDuration = Field("5s", validate_default=True)
    parallel: Count = 4
    linger: Duration = Field("1m", validate_default=True)
    max_run: PositiveDuration = Field("5m", validate_default=True)
    _bounds = bounds("linger", "max_run")


class MaintenanceSchedules(Section):
    """When maintenance looks whether there is work: cron, in UTC."""

    compaction: Cron = "*/30 * * * *"
    snapshots: Cron = "15 3 * * *"
    orphans: Cron = "30 4 * * 0"


class OpenLineage(Section):
    """Where lineage events go."""

    transport: Annotated[dict[str, Any], AfterValidator(_transport)]


class Platform(Section):
    """The platform file, resolved."""

    embedded: ClassVar[bool] = False

    default_namespace: Namespace = "lake"
    kafka: dict[Identifier, KafkaCluster] = Field(default_factory=dict)
    schema_registry: dict[Identifier, SchemaRegistry] = Field(default_factory=dict)
    catalog: Catalog
    spark: Spark
    lanes: dict[Identifier, Lane] = Field(default_factory=dict)
    openlineage: OpenLineage | None = None
    maintenance: MaintenanceSchedules = MaintenanceSchedules()
    defaults: dict[str, Any] = Field(
        default_factory=dict, json_schema_extra={"properties": {key: {} for key in Declaration.model_fields}}
    )
    report_every: PositiveDuration = Field("1m", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _default_lane(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(lanes := value.get("lanes", {}), dict):
            return {**value, "lanes": {"default": {}, **lanes}}
        return value


class EmbeddedPlatform(Platform):
    """The services that Tidemark starts itself; without addresses when they never ran."""

    embedded: ClassVar[bool] = True


def stack_connections(stack: Mapping[str, Any]) -> dict[str, Any]:
    """The connection blocks of a platform file for an embedded stack, as `services status --json` prints it.

    What has no address yet is left out.
    """
    catalog = _known(stack.get("catalog"))
    properties = {key: value for key, value in _known(catalog.get("properties")).items() if key != "type"}
    return {
        "kafka": {"main": _known(stack.get("kafka"))},
        "schema_registry": {"main": _known(stack.get("schema_registry"))},
        "catalog": {**properties, "name": catalog.get("name", "lake"), "type": "sql"},
        "spark": _known(stack.get("spark")),
    }


def _known(block: Any) -> dict[str, Any]:
    return (
        {key: value for key, value in block.items() if value is not None} if isinstance(block, dict) else {}
    )


def _no_address(service: str, state: str) -> TidemarkError:
    return TidemarkError(
        f"{service} has no address: the embedded stack has not been started here",
        next_step="tidemark services up",
        state=state,
    )
