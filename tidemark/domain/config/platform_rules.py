"""What the platform file must hold beyond the shape of its keys."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tidemark.domain.config.catalog import PLAIN_KEYS, Catalog
from tidemark.domain.config.kafka_properties import KNOWN, MECHANISMS, PROTOCOLS, key_fault, mechanism
from tidemark.domain.config.layering import Finding, KeyPath
from tidemark.domain.config.platform import Lane, Platform, SchemaRegistry, Spark
from tidemark.domain.config.units import parse_duration
from tidemark.domain.suggest import nearest

CATALOG_KEYS = frozenset({"name", "type", "uri", "warehouse", "auth", "ssl"})
"""Beside them any property of Iceberg's stands in the block, `PLAIN_KEYS` as the only bare words."""
_SPARKS_LOGIN = ("client.credentials-provider", "client.factory")
_ONE_SIDED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("s3.role-arn", "client.role-arn", "s3.anonymous"), ("Spark", _SPARKS_LOGIN)),
    **dict.fromkeys(("glue.access-key-id", "glue.secret-access-key"), ("Spark", _SPARKS_LOGIN)),
    "s3.proxy-uri": ("Spark", ("http-client.proxy-endpoint",)),
    "client.assume-role.arn": ("PyIceberg", ("s3.role-arn", "client.role-arn")),
}
"""Keys of the catalog block -> (who does not know it, the keys that say the same to that one)."""
_SQL_SCHEMES = ("sqlite", "postgresql")
_NEEDED = {
    "PLAIN": ("sasl.username", "sasl.password"),
    "SCRAM-SHA-256": ("sasl.username", "sasl.password"),
    "SCRAM-SHA-512": ("sasl.username", "sasl.password"),
    "GSSAPI": ("sasl.kerberos.principal", "sasl.kerberos.keytab"),
    "OAUTHBEARER": (
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
    ),
}
_SECOND = parse_duration("1s")
_UNREADABLE = (
    "is not a URL that every client reads alike: the port must be a number, user and password percent-encoded "
    "(/ as %2F, @ as %40; an @ behind the host, too)"
)
"""Of the value itself it says nothing: there may be a password in it."""


def platform_findings(platform: Platform) -> Iterator[Finding]:
    """Everything that is wrong with a platform that has the right shape."""
    if not platform.embedded and not platform.kafka:
        yield Finding(("kafka",), "names no cluster")
    for name, cluster in platform.kafka.items():
        yield from _kafka(cluster.root, ("kafka", name), need_address=not platform.embedded)
    for name, registry in platform.schema_registry.items():
        yield from _registry(name, registry, platform)
    if not platform.embedded:
        yield from _catalog(platform.catalog)
        yield from _spark(platform.spark, platform.catalog.name)
    for name, lane in platform.lanes.items():
        yield from _lane(lane, ("lanes", name))
        if name in {"maintenance", "marts"} or name.endswith("_upsert"):
            says = "is taken: runs of maintenance, of the marts, or of the upsert tables of a lane, go by it"
            yield Finding(("lanes", name), says)
    for key in ("topic", "topics"):
        if key in platform.defaults:
            yield Finding(("defaults", key), "is not a default: it says what one contract is about")


def _kafka(properties: Mapping[str, str], at: KeyPath, *, need_address: bool) -> Iterator[Finding]:
    for key in properties:
        if fault := key_fault(key):
            yield Finding((*at, key), *fault)
    if need_address and not properties.get("bootstrap.servers"):
        yield Finding((*at, "bootstrap.servers"), "is missing")
    yield from _security(properties, at)
    for part in ("ssl.certificate", "ssl.key"):
        if f"{part}.location" in properties and f"{part}.pem" in properties:
            yield Finding((*at, f"{part}.pem"), f"stands beside {part}.location: give one of the two")
    has = {
        part: f"{part}.location" in properties or f"{part}.pem" in properties
        for part in ("ssl.certificate", "ssl.key")
    }
    if has["ssl.certificate"] != has["ssl.key"]:
        yield Finding(at, "a client certificate needs its key: ssl.certificate.… and ssl.key.…")


def _security(properties: Mapping[str, str], at: KeyPath) -> Iterator[Finding]:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        yield _word((*at, "security.protocol"), properties["security.protocol"], PROTOCOLS)
        return
    if protocol.startswith("SASL"):
        yield from _sasl(properties, at)
    else:
        meant = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
        yield from _idle(properties, at, "sasl.", protocol, meant)
    if not protocol.endswith("SSL"):
        yield from _idle(properties, at, "ssl.", protocol, protocol.replace("PLAINTEXT", "SSL"))


def _sasl(properties: Mapping[str, str], at: KeyPath) -> Iterator[Finding]:
    named, word = mechanism(properties)
    if named == "sasl.mechanisms" and "sasl.mechanism" in properties:
        yield Finding((*at, named), "stands beside sasl.mechanism, its other name: give one of the two")
    if word not in MECHANISMS:  # librdkafka tells capitals apart
        yield _word((*at, named), word, MECHANISMS)
    for key in _NEEDED.get(word.upper(), ()):
        if key not in properties:
            yield Finding((*at, key), f"is missing: {word.upper()} needs it")
    if word.upper() == "OAUTHBEARER" and properties.get("sasl.oauthbearer.method", "").lower() != "oidc":
        says = "must be oidc: else librdkafka waits for a token that nobody brings"
        yield Finding((*at, "sasl.oauthbearer.method"), says, "oidc")


def _idle(
    properties: Mapping[str, str], at: KeyPath, prefix: str, protocol: str, meant: str
) -> Iterator[Finding]:
    for key in properties:
        if key.startswith(prefix) and key in KNOWN:
            yield Finding((*at, key), f"has no effect while security.protocol is {protocol}", meant)


def _word(path: KeyPath, word: str, valid: tuple[str, ...]) -> Finding:
    return Finding(path, f"{word!r} is none of {', '.join(valid)}", nearest(word.upper(), valid))


def _registry(name: str, registry: SchemaRegistry, platform: Platform) -> Iterator[Finding]:
    at: KeyPath = ("schema_registry", name)
    if platform.kafka and name not in platform.kafka:
        yield Finding(at, f"there is no Kafka cluster {name!r} beside it", nearest(name, platform.kafka))
    if registry.url is not None:
        yield from _http(registry.url, (*at, "url"))
    elif not platform.embedded:
        yield Finding((*at, "url"), "is missing")
    if registry.key_location and not registry.certificate_location:
        yield Finding((*at, "ssl.key.location"), "has no effect without ssl.certificate.location")
    if _split(registry.url or "") and registry.bearer_token and registry.basic_auth:
        says = "stands beside a user and a password, in basic.auth.user.info or the url: give one of the two"
        yield Finding((*at, "bearer.auth.token"), says)


def _http(url: str, at: KeyPath) -> Iterator[Finding]:
    parts = _split(url)
    if parts is None:
        yield Finding(at, _UNREADABLE)
    elif parts.scheme not in {"http", "https"}:
        yield Finding(at, "must begin with http:// or https://")


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None where a port is none, or clients disagree about where user and password end."""
    try:
        parts = urlsplit(url)
        sound = parts.port != 0
    except ValueError:
        return None
    astray = "@" in url and ":" in parts.netloc and "@" not in parts.netloc
    return parts if sound and not astray else None


def mistyped_type(tree: Mapping[str, Any]) -> Iterator[Finding]:
    """The key that was meant for `catalog.type`: without a type the catalog's other keys are not looked at."""
    block = tree.get("catalog")
    if isinstance(block, Mapping) and "type" not in block:
        for key in block:
            if nearest(str(key), CATALOG_KEYS | PLAIN_KEYS) == "type":
                yield Finding(("catalog", key), "unknown key", "type")


def _catalog(catalog: Catalog) -> Iterator[Finding]:
    yield from _catalog_keys(catalog)
    if catalog.uri is None and catalog.type != "glue":
        yield Finding(("catalog", "uri"), f"is missing: type {catalog.type} needs it")
    if catalog.warehouse is None and catalog.type in {"glue", "sql"}:
        yield Finding(("catalog", "warehouse"), f"is missing: type {catalog.type} needs it")
    if catalog.type == "sql" and catalog.uri is not None:
        yield from _sql(catalog.uri)
    if catalog.type == "rest" and catalog.uri is not None:
        yield from _http(catalog.uri, ("catalog", "uri"))


def _catalog_keys(catalog: Catalog) -> Iterator[Finding]:
    for key in catalog.properties:
        if key == "cache-enabled":
            yield Finding(("catalog", key), "is set by Tidemark itself")
        elif key in {"catalog-impl", "py-catalog-impl"}:
            yield Finding(("catalog", key), "stands beside type, which names the class")
        elif key.startswith("s3.sse.") and "py-io-impl" not in catalog.properties:
            says = "is unknown to PyIceberg, which writes, too: set the bucket's default encryption instead"
            yield Finding(("catalog", key), says)
        elif not set(key) & {".", "-"} and key not in PLAIN_KEYS:
            yield Finding(("catalog", key), "unknown key", nearest(key, CATALOG_KEYS | PLAIN_KEYS))
        elif key in _ONE_SIDED:
            yield from _one_sided(key, catalog.properties)
    for key in ("auth", "ssl"):
        if catalog.type != "rest" and getattr(catalog, key):
            yield Finding(("catalog", key), f"has no effect on a catalog of type {catalog.type}")


def _one_sided(key: str, said: Mapping[str, str]) -> Iterator[Finding]:
    ignorant, partners = _ONE_SIDED[key]
    if not said.keys() & set(partners):
        says = f"is unknown to {ignorant}, which writes, too: say {' or '.join(partners)} beside it"
        yield Finding(("catalog", key), says)


def _sql(uri: str) -> Iterator[Finding]:
    parts = _split(uri)
    # SQLAlchemy takes a password to end at the first @, what Spark is told ends at the last
    if parts is None or "@" in (parts.password or ""):
        yield Finding(("catalog", "uri"), _UNREADABLE)
    elif parts.scheme.partition("+")[0] not in _SQL_SCHEMES:
        yield Finding(
            ("catalog", "uri"),
            "must be an SQLAlchemy URI: postgresql+psycopg2://user:password@host/database or sqlite:////path/to/file",
        )
    elif parts.scheme.startswith("sqlite") and not parts.path.startswith("//"):
        yield Finding(
            ("catalog", "uri"), "must be an absolute path (sqlite:////path): Spark runs in another folder"
        )


def _spark(spark: Spark, catalog: str) -> Iterator[Finding]:
    if spark.remote is None:
        yield Finding(("spark", "remote"), "is missing")
    for key in spark.conf:
        if key == f"spark.sql.catalog.{catalog}" or key.startswith(f"spark.sql.catalog.{catalog}."):
            yield Finding(("spark", "conf", key), "is derived from the catalog block; say it there")


def _lane(lane: Lane, at: KeyPath) -> Iterator[Finding]:
    if lane.poll < _SECOND:
        yield Finding((*at, "poll"), "is below 1s, which is as often as Dagster looks", "1s")
    if lane.linger > lane.max_run:
        yield Finding((*at, "linger"), "is longer than max_run")
