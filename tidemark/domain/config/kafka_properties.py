"""One set of client properties for librdkafka and for the Java client inside Spark's Kafka source.

The platform file speaks librdkafka (its CONFIGURATION.md). Each key is the same in Java, has another name
there, or is turned into something else (JAAS, PEM stores). A key that has no counterpart is refused: the two
readers of one topic must not see it differently.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tidemark.domain.suggest import nearest

GROUP_ID_PREFIX = "groupIdPrefix"
"""Spark's option for the consumer groups it names itself (ACLs); librdkafka's group.id begins with it too."""

SAME = frozenset(
    """
    bootstrap.servers client.id client.rack client.dns.lookup security.protocol sasl.mechanism
    sasl.kerberos.service.name sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.oauthbearer.token.endpoint.url ssl.key.password check.crcs connections.max.idle.ms
    metadata.max.age.ms fetch.min.bytes fetch.max.bytes max.partition.fetch.bytes
    reconnect.backoff.ms reconnect.backoff.max.ms retry.backoff.ms retry.backoff.max.ms
    socket.connection.setup.timeout.ms
    """.split()  # noqa: SIM905
)
RENAMED = {
    "sasl.mechanisms": "sasl.mechanism",
    "socket.timeout.ms": "request.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
}
MINUS_ONE = frozenset({"socket.receive.buffer.bytes", "socket.send.buffer.bytes", "connections.max.idle.ms"})
"""Where librdkafka's 0 (as the system does, never) is -1 in Java, whose client refuses 0 or takes it at its word."""
TRANSFORMED = frozenset(
    """
    sasl.username sasl.password sasl.kerberos.principal sasl.kerberos.keytab sasl.oauthbearer.method
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.scope
    sasl.oauthbearer.extensions ssl.endpoint.identification.algorithm ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.pem ssl.keystore.location
    ssl.keystore.password
    """.split()  # noqa: SIM905
)
JAVA_DOES = frozenset({"socket.keepalive.enable", "socket.nagle.disable"})
"""What Java's client does without being told."""
OF_GROUPS = frozenset({"session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"})
"""No client of Tidemark's joins a group: they change nothing, and are handed to none, for each client has bounds of
its own for how they go together."""
KNOWN = SAME | RENAMED.keys() | TRANSFORMED | JAVA_DOES | OF_GROUPS | {GROUP_ID_PREFIX}
OURS = frozenset(
    """
    group.id group.instance.id group.protocol isolation.level enable.auto.commit auto.offset.reset
    auto.commit.interval.ms enable.auto.offset.store enable.partition.eof
    partition.assignment.strategy max.poll.records transactional.id key.deserializer
    value.deserializer failOnDataLoss assign subscribe subscribePattern startingOffsets
    endingOffsets
    """.split()  # noqa: SIM905
)
"""What Tidemark sets itself on every client, because the exactly-once promise rests on it."""

MEANT = {
    **{java: ours for ours, java in RENAMED.items() if java not in SAME},
    "metadata.broker.list": "bootstrap.servers",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "sasl.jaas.config": "sasl.username",
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "group.id.prefix": GROUP_ID_PREFIX,
}
"""Names people use for what has another name here: Java's, and librdkafka's aliases."""

CLOSE = 0.8
"""Properties are much alike: what is less near is another one, which is not meant."""
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_LOGIN = "org.apache.kafka.common.security"
_OAUTH_HANDLER = f"{_LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler"


def mechanism(properties: Mapping[str, str]) -> tuple[str, str]:
    """(the key that names the SASL mechanism, the mechanism): librdkafka has two names for the key."""
    key = "sasl.mechanisms" if "sasl.mechanisms" in properties else "sasl.mechanism"
    return key, properties.get(key, "GSSAPI")


def key_fault(key: str) -> tuple[str, str | None] | None:
    """(what is wrong with this property name, the nearest valid one), or None."""
    if key in KNOWN:
        return None
    bare = key.removeprefix("kafka.")
    if bare in OURS:
        return "is set by Tidemark itself", None
    if bare in KNOWN:
        return "is written without the kafka. prefix", bare
    suggestion = MEANT.get(bare) or nearest(bare, KNOWN, close=CLOSE)
    return "is no client property that both librdkafka and Spark's Kafka source understand", suggestion


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """What confluent-kafka takes, secrets in the clear."""
    return {key: value for key, value in properties.items() if key not in {GROUP_ID_PREFIX, *OF_GROUPS}}


def spark_options(properties: Mapping[str, str], read: Callable[[str], str] | None = None) -> dict[str, str]:
    """Options of Spark's Kafka source: Java's names with the `kafka.` prefix, secrets in the clear.

    PEM files are read here (`read`: path -> text) and sent as text, so Spark's machines need no copy of them.
    Raises ValueError on a file that cannot be read, or key material that Java cannot read.
    """
    read = read or _read
    java = {
        RENAMED.get(key, key): "-1" if key in MINUS_ONE and value.strip() == "0" else value
        for key, value in properties.items()
        if key in SAME or key in RENAMED
    }
    java.update(_sasl(properties))
    java.update(_tls(properties, read))
    options = {f"kafka.{key}": value for key, value in java.items()}
    if GROUP_ID_PREFIX in properties:
        options[GROUP_ID_PREFIX] = properties[GROUP_ID_PREFIX]
    return options


def _sasl(properties: Mapping[str, str]) -> dict[str, str]:
    if not properties.get("security.protocol", "").upper().startswith("SASL"):
        return {}
    word = mechanism(properties)[1].upper()
    if word == "GSSAPI":
        return {"sasl.mechanism": word, "sasl.jaas.config": _kerberos(properties)}
    if word == "OAUTHBEARER":
        return {"sasl.jaas.config": _oauth(properties), "sasl.login.callback.handler.class": _OAUTH_HANDLER}
    module = "plain.PlainLoginModule" if word == "PLAIN" else "scram.ScramLoginModule"
    options = {
        "username": properties.get("sasl.username", ""),
        "password": properties.get("sasl.password", ""),
    }
    return {"sasl.jaas.config": _jaas(f"{_LOGIN}.{module}", options)}


def _kerberos(properties: Mapping[str, str]) -> str:
    options = {"useKeyTab": "true", "storeKey": "true", "keyTab": properties.get("sasl.kerberos.keytab", "")}
    options["principal"] = properties.get("sasl.kerberos.principal", "")
    return _jaas("com.sun.security.auth.module.Krb5LoginModule", options)


def _oauth(properties: Mapping[str, str]) -> str:
    options = {
        "clientId": properties.get("sasl.oauthbearer.client.id", ""),
        "clientSecret": properties.get("sasl.oauthbearer.client.secret", ""),
    }
    if scope := properties.get("sasl.oauthbearer.scope"):
        options["scope"] = scope
    for pair in filter(None, properties.get("sasl.oauthbearer.extensions", "").split(",")):
        name, _, value = pair.partition("=")
        options[f"extension_{name.strip()}"] = value.strip()
    return _jaas(f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule", options)


def _jaas(module: str, options: Mapping[str, str]) -> str:
    said = " ".join(f'{name}="{_escaped(value)}"' for name, value in options.items())
    return f"{module} required {said};"


def _escaped(value: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}
    return "".join(escapes.get(letter, letter) for letter in value)


def _tls(properties: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    java = {}
    if "ssl.endpoint.identification.algorithm" in properties:
        algorithm = properties["ssl.endpoint.identification.algorithm"]
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if authority := _pem(properties, "ssl.ca", read):
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if certificate := _pem(properties, "ssl.certificate", read):
        key = _pem(properties, "ssl.key", read) or ""
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate}
        java["ssl.keystore.key"] = _pkcs8(key)
    if store := properties.get("ssl.keystore.location"):
        java |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": store}
        java["ssl.keystore.password"] = properties.get("ssl.keystore.password", "")
    return java


def _pem(properties: Mapping[str, str], key: str, read: Callable[[str], str]) -> str | None:
    if f"{key}.pem" in properties:
        return properties[f"{key}.pem"]
    path = properties.get(f"{key}.location")
    if path is None or (key, path) == ("ssl.ca", "probe"):
        return None
    try:
        return read(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{key}.location {path}: {error}") from error


def _pkcs8(key: str) -> str:
    if "-----BEGIN PRIVATE KEY-----" in key or "-----BEGIN ENCRYPTED PRIVATE KEY-----" in key:
        return key
    raise ValueError(
        "ssl.key: Java reads PKCS#8 keys only; convert it: openssl pkcs8 -topk8 -in KEY -out KEY.pk8"
    )


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
