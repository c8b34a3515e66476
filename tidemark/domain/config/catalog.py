"""One catalog block, from which PyIceberg's properties and Spark's settings are derived."""

from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tidemark.domain.config.login import Login, Tls
from tidemark.domain.config.naming import Identifier
from tidemark.domain.config.section import REVEAL, PropertyValue, Section
from tidemark.domain.errors import TidemarkError
from tidemark.domain.secrets import Properties

CatalogType = Literal["rest", "glue", "hive", "sql"]
PLAIN_KEYS = frozenset({"credential", "token", "scope", "audience", "resource", "prefix", "pool_pre_ping"})
"""Iceberg properties without a dot or a dash in their name; other bare words are taken for typing errors."""

_PYTHON_ONLY = frozenset({"py-io-impl", "init_catalog_tables", "pool_pre_ping", "echo"})
_JAVA_ONLY = frozenset({"io-impl", "cache-enabled", "cache.expiration-interval-ms", "clients"})
_JAVA_ONLY_PREFIXES = ("jdbc.", "table-default.", "table-override.", "http-client.")
_REST_DEFAULTS = {
    "header.X-Iceberg-Access-Delegation": "vended-credentials",
    "rest.client.connection-timeout-ms": "10000",
    "rest.client.socket-timeout-ms": "60000",
}
"""What PyIceberg asks for unsaid, and time limits, of which Iceberg's Java has none."""
_SPARKS_NAMES = (
    ("client.access-key-id", "s3.access-key-id"),
    ("client.secret-access-key", "s3.secret-access-key"),
    ("client.session-token", "s3.session-token"),
    ("glue.region", "client.region"),
    ("s3.region", "client.region"),
)
"""(PyIceberg's name, that of Iceberg's Java); a key that is said under Java's own name stays as it is."""
_OWN_LOGIN = frozenset({"client.credentials-provider", "client.factory"})
"""What tells Spark alone how to log in to a store: keys that are PyIceberg's would come before it."""
_HADOOP_IO = frozenset({"hive", "sql"})
_STORES = frozenset({"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs"})


_PRODUCTS = {
    **dict.fromkeys(["jdbc", "sqlite", "postgresql", "postgres"], "sql"),
    **dict.fromkeys(["polaris", "nessie", "unity", "s3tables", "lakekeeper", "biglake"], "rest"),
    **dict.fromkeys(["metastore", "hms"], "hive"),
    "aws": "glue",
}
"""What people write for the type that serves it."""


def _by_product(value: Any) -> Any:
    if isinstance(value, str) and value.lower() in _PRODUCTS:
        context = {"value": repr(value), "suggestion": _PRODUCTS[value.lower()]}
        raise PydanticCustomError("catalog_type", "{value} is none of rest, glue, hive, sql", context)
    return value


class Catalog(Section):
    """Where the tables are; any further Iceberg property stands beside these keys."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, PropertyValue] = Field(init=False)

    name: Identifier = "lake"
    type: Annotated[CatalogType, BeforeValidator(_by_product)]
    uri: str | None = Field(None, min_length=1)
    warehouse: str | None = Field(None, min_length=1)
    auth: Login | None = None
    ssl: Tls | None = None

    @property
    def properties(self) -> Properties:
        """The further Iceberg properties, as written."""
        return Properties(self.__pydantic_extra__)

    def pyiceberg_properties(self) -> dict[str, Any]:
        """What PyIceberg's catalog of this type takes, secrets in the clear.

        Raises TidemarkError when the catalog has no address yet (embedded stack that never ran).
        """
        extras = {
            key: value
            for key, value in self.__pydantic_extra__.items()
            if key not in _JAVA_ONLY and not key.startswith(_JAVA_ONLY_PREFIXES)
        }
        if path_style := extras.get("s3.path-style-access"):
            extras.setdefault("s3.force-virtual-addressing", _opposite(path_style))
        if self.type == "sql" and not (self.uri or "").startswith("sqlite"):
            # A server that was restarted, or whatever cuts idle connections on the way, is no outage.
            extras.setdefault("pool_pre_ping", "true")
        sections = (("auth", self.auth), ("ssl", self.ssl))
        mappings = {key: said.model_dump(context=REVEAL, exclude_none=True) for key, said in sections if said}
        return {"type": self.type, **self._place(), **extras, **mappings}

    def spark_conf(self) -> dict[str, str]:
        """`spark.sql.catalog.<name>…` settings of a session, secrets in the clear.

        The cache is off: with it a session goes on serving a table that others have changed.
        """
        java = {"type": "jdbc" if self.type == "sql" else self.type, **self._place()}
        if self.type == "sql":
            java |= {**jdbc(java["uri"]), "jdbc.schema-version": "V1"}
        if self.type in _HADOOP_IO and urlsplit(self.warehouse or "").scheme in _STORES:
            java["io-impl"] = "org.apache.iceberg.io.ResolvingFileIO"
        extras = {key: value for key, value in self.__pydantic_extra__.items() if key not in _PYTHON_ONLY}
        for said, name in _SPARKS_NAMES:
            if said in extras and not (name.startswith("s3.") and _OWN_LOGIN & extras.keys()):
                extras.setdefault(name, extras[said])
        if virtual := extras.get("s3.force-virtual-addressing"):
            extras.setdefault("s3.path-style-access", _opposite(virtual))
        if self.type == "rest":
            known = {key.lower() for key in extras}
            java |= {key: value for key, value in _REST_DEFAULTS.items() if key.lower() not in known}
        prefix = f"spark.sql.catalog.{self.name}"
        settings = {
            f"{prefix}.{key}": value for key, value in {**java, **extras, "cache-enabled": "false"}.items()
        }
        return {prefix: "org.apache.iceberg.spark.SparkCatalog", **settings}

    def _place(self) -> dict[str, str]:
        if not self.uri and not self.warehouse:
            raise TidemarkError(
                f"catalog {self.name} has no address: the embedded stack has not been started here",
                next_step="tidemark services up",
                state="catalog_down",
            )
        place = {"uri": self.uri, "warehouse": self.warehouse}
        return {key: value for key, value in place.items() if value}


def _opposite(word: str) -> str:
    return "false" if word.lower() == "true" else "true"


def jdbc(uri: str) -> dict[str, str]:
    """SQLAlchemy URI -> the JDBC catalog's uri, user and password; SQLite's timeout (s) -> busy_timeout (ms)."""
    parts = urlsplit(uri)
    query = f"?{parts.query}" if parts.query else ""
    if parts.scheme.startswith("sqlite"):
        wait = parse_qs(parts.query).get("timeout")
        return {
            "uri": f"jdbc:sqlite:{unquote(parts.path)[1:]}" + (f"?busy_timeout={wait[0]}000" if wait else "")
        }
    host = parts.netloc.rpartition("@")[2]
    java = {"uri": f"jdbc:postgresql://{host}{parts.path}{query}"}
    if parts.username:
        java["jdbc.user"] = unquote(parts.username)
    if parts.password:
        java["jdbc.password"] = unquote(parts.password)
    return java
