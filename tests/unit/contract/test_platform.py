"""Where things run: the platform file, or the embedded stack in its place."""

import json
from datetime import timedelta
from urllib.parse import quote

import pytest

from tests.unit.contract.conftest import PLATFORM
from tidemark.domain.errors import TidemarkError
from tidemark.engine.config.configuration import load_from_environment

STACK = {
    "kafka": {"bootstrap.servers": "127.0.0.1:9092"},
    "schema_registry": {"url": "http://127.0.0.1:8081/apis/ccompat/v7"},
    "spark": {"remote": "sc://127.0.0.1:15002"},
    "catalog": {
        "name": "lake",
        "properties": {
            "type": "sql",
            "uri": "sqlite:////home/catalog.db?timeout=60",
            "warehouse": "file:///home/w",
        },
    },
    "home": "/home",
    "processes": {"kafka": 1, "registry": 2, "spark": 3},
}


def test_the_whole_platform_file(installation):
    platform = (
        installation.platform("""
        default_namespace: raw
        kafka:
          main: {bootstrap.servers: "broker:9092", security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512,
                 sasl.username: tide, sasl.password: "${KAFKA_PASSWORD}"}
          other: {bootstrap.servers: "other:9092"}
        schema_registry:
          main: {url: "https://registry:8081/", basic.auth.user.info: "${REGISTRY_AUTH}"}
        catalog: {name: bronze, type: rest, uri: "https://catalog", warehouse: "s3://bucket/w", rest.sigv4-enabled: true}
        spark: {remote: "sc://spark:15002", conf: {spark.sql.shuffle.partitions: 8}}
        lanes: {fast: {poll: 1s, parallel: 8}, short: {max_run: 30s}}
        maintenance: {snapshots: "0 2 * * mon-fri"}
        defaults: {owners: {data: "team:data-platform"}}
        report_every: 30s
    """)
        .load(KAFKA_PASSWORD="hush", REGISTRY_AUTH="user:pass:word")
        .platform
    )
    assert not platform.embedded
    assert platform.default_namespace == "raw"
    assert platform.kafka["main"].client_properties()["sasl.password"] == "hush"
    assert platform.kafka["other"].properties == {"bootstrap.servers": "other:9092"}
    assert platform.schema_registry["main"].address == "https://registry:8081"
    assert platform.schema_registry["main"].basic_auth == ("user", "pass:word")
    assert (platform.catalog.name, platform.catalog.type) == ("bronze", "rest")
    assert platform.catalog.properties == {"rest.sigv4-enabled": "true"}
    assert platform.spark.address == "sc://spark:15002"
    assert platform.spark.conf == {"spark.sql.shuffle.partitions": "8"}
    assert set(platform.lanes) == {"default", "fast", "short"}
    assert platform.lanes["short"].linger == timedelta(seconds=30)
    assert (platform.lanes["fast"].poll, platform.lanes["fast"].linger) == (
        timedelta(seconds=1),
        timedelta(minutes=1),
    )
    assert platform.maintenance.compaction == "*/30 * * * *"
    assert platform.report_every == timedelta(seconds=30)


def test_a_dollar_can_be_written(installation):
    installation.platform(PLATFORM.replace("catalog}", "x}")).contract("topic: a\ndescription: costs $${X}")
    assert installation.only().description == "costs ${X}"


def test_without_a_platform_file_the_embedded_stack_is_used(installation):
    platform = installation.home("stack.json", json.dumps(STACK)).load().platform
    assert platform.embedded
    assert platform.default_namespace == "lake"
    assert platform.kafka["main"].client_properties() == STACK["kafka"]
    assert platform.schema_registry["main"].address == STACK["schema_registry"]["url"]
    assert platform.spark.address == "sc://127.0.0.1:15002"
    assert platform.catalog.pyiceberg_properties() == STACK["catalog"]["properties"]
    assert (
        platform.catalog.spark_conf()["spark.sql.catalog.lake.uri"]
        == "jdbc:sqlite:/home/catalog.db?busy_timeout=60000"
    )


def test_a_platform_file_that_names_no_service_keeps_the_embedded_stack(installation):
    installation.home("stack.json", json.dumps(STACK)).platform("lanes: {fast: {poll: 1s}}")
    platform = installation.load().platform
    assert platform.embedded
    assert set(platform.lanes) == {"default", "fast"}
    assert platform.spark.address == "sc://127.0.0.1:15002"


@pytest.mark.parametrize("stack", [None, {"kafka": {"bootstrap.servers": None}, "spark": {"remote": None}}])
def test_everything_loads_while_the_stack_was_never_up_and_only_connecting_fails(installation, stack):
    if stack:
        installation.home("stack.json", json.dumps(stack))
    configuration = installation.contract("topic: orders").load()
    platform = configuration.platform
    assert platform.embedded
    assert [contract.table for contract in configuration.contracts] == ["lake.orders"]
    for connect in (
        platform.kafka["main"].client_properties,
        platform.kafka["main"].spark_options,
        platform.catalog.spark_conf,
        platform.catalog.pyiceberg_properties,
        lambda: platform.spark.address,
        lambda: platform.schema_registry["main"].address,
    ):
        with pytest.raises(TidemarkError, match="has not been started here") as caught:
            connect()
        assert caught.value.next_step == "tidemark services up"
        assert caught.value.fields["state"].endswith("_down")


def test_a_damaged_stack_file_is_named(installation):
    installation.home("stack.json", "{")
    assert installation.problem().file == "home/stack.json"


def test_the_block_that_confluent_cloud_gives_its_clients_is_taken_as_it_is(installation):
    installation.platform(
        PLATFORM.replace(
            PLATFORM.splitlines()[0],
            "kafka: {main: {bootstrap.servers: 'b:1', security.protocol: SASL_SSL, sasl.mechanisms: PLAIN, "
            "sasl.username: u, sasl.password: p, client.id: c, session.timeout.ms: 45000}}",
        )
    )
    options = installation.contract("topic: orders").load().platform.kafka["main"].spark_options()
    assert options["kafka.sasl.mechanism"] == "PLAIN"
    assert "kafka.session.timeout.ms" not in options, "no client of ours joins a group"


OAUTH = (
    "bootstrap.servers: 'b:1', security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER, "
    "sasl.oauthbearer.client.id: i, sasl.oauthbearer.client.secret: s"
)
ENDPOINT = "sasl.oauthbearer.token.endpoint.url: 'https://idp'"
# (what stands in this line of PLATFORM, or after it, line, key, part of the message, suggestion)
MISTAKES = [
    (
        f"kafka: {{main: {{{OAUTH}, sasl.mechanisms: OAUTHBEARER, sasl.oauthbearer.method: oidc, {ENDPOINT}}}}}",
        1,
        "kafka.main.sasl.mechanisms",
        "stands beside sasl.mechanism",
        None,
    ),
    ("defualts: {}", 5, "defualts", "unknown key", "defaults"),
    ("embedded: true", 5, "embedded", "unknown key", None),
    ("target_lag: 30s", 5, "target_lag", "unknown key", "defaults.target_lag"),
    ("owners: {data: me}", 5, "owners", "unknown key", "defaults.owners"),
    ("default_namespace: schema", 5, "default_namespace", "is a reserved namespace", None),
    ("default_namespace: a-b", 5, "default_namespace", "is not a name", "a_b"),
    ("lanes: {fast: {pol: 1s}}", 5, "lanes.fast.pol", "unknown key", "poll"),
    ("lanes: {fast: {poll: 500ms}}", 5, "lanes.fast.poll", "is below 1s", "1s"),
    ("lanes: {fast: {linger: 10m, max_run: 5m}}", 5, "lanes.fast.linger", "is longer than max_run", None),
    ("lanes: {fast_upsert: {}}", 5, "lanes.fast_upsert", "is taken", None),
    ("lanes: {maintenance: {}}", 5, "lanes.maintenance", "is taken", None),
    ("lanes: {marts: {}}", 5, "lanes.marts", "is taken", None),
    ("lanes: {fast-lane: {}}", 5, "lanes.fast-lane", "is not a name", "fast_lane"),
    ("maintenance: {compaction: '61 * * * *'}", 5, "maintenance.compaction", "'61' is not a minute", None),
    ("maintenance: {compaction: '* * * *'}", 5, "maintenance.compaction", "five fields", None),
    ("maintenance: {compaction: '0 0 30 2 *'}", 5, "maintenance.compaction", "never comes", None),
    ("maintenance: {compaction: '0 0 31 4,6 *'}", 5, "maintenance.compaction", "never comes", None),
    ("maintenance: {compaction: '0 0 30,31 feb mon'}", 5, "maintenance.compaction", "never comes", None),
    ("maintenance: {compaction: '0 0 5-3 * *'}", 5, "maintenance.compaction", "not a day of the month", None),
    ("maintenance: {compaction: '@dayly'}", 5, "maintenance.compaction", "is not a cron schedule", "@daily"),
    ("report_every: 1 minute", 5, "report_every", "is not a duration", "1m"),
    ("openlineage: {transport: {kind: http}}", 5, "openlineage.transport", "needs a type", None),
    ("openlineage: {transport: {type: carrier}}", 5, "openlineage.transport", "does not know", None),
    ("openlineage: {transport: {type: http}}", 5, "openlineage.transport", "needs url", None),
    ("defaults:\n  tabel: x", 6, "defaults.tabel", "unknown key", "table"),
    ("defaults:\n  lane: defalt", 6, "defaults.lane", "has no lane 'defalt'", "default"),
    ("defaults: {topic: x}", 5, "defaults.topic", "is not a default", None),
    ("report_every: 1m\nreport_every: 2m", 6, "report_every", "is given twice, first on line 5", None),
    (
        'kafka: {main: {bootstrap.server: "b:1"}}',
        1,
        "kafka.main.bootstrap.server",
        "no client property",
        "bootstrap.servers",
    ),
    (
        'kafka: {main: {bootstrap.servers: "b:1", group.id: a}}',
        1,
        "kafka.main.group.id",
        "set by Tidemark itself",
        None,
    ),
    (
        'kafka: {main: {bootstrap.servers: "b:1", isolation.level: a}}',
        1,
        "kafka.main.isolation.level",
        "itself",
        None,
    ),
    ("kafka: {}", 1, "kafka", "names no cluster", None),
    ("kafka: {main: {client.id: a}}", 1, "kafka.main.bootstrap.servers", "is missing", None),
    (
        'kafka: {main: {bootstrap.servers: "b:1", security.protocol: SASLSSL}}',
        1,
        "kafka.main.security.protocol",
        "none of",
        "SASL_SSL",
    ),
    (
        'kafka: {main: {bootstrap.servers: "b:1", sasl.username: a}}',
        1,
        "kafka.main.sasl.username",
        "no effect",
        "SASL_PLAINTEXT",
    ),
    (
        f"kafka: {{main: {{{OAUTH}, {ENDPOINT}}}}}",
        1,
        "kafka.main.sasl.oauthbearer.method",
        "must be oidc",
        "oidc",
    ),
    (
        f"kafka: {{main: {{{OAUTH}, sasl.oauthbearer.method: oidc}}}}",
        1,
        "kafka.main.sasl.oauthbearer.token.endpoint.url",
        "OAUTHBEARER needs it",
        None,
    ),
    (
        'kafka: {main: {bootstrap.servers: "b:1", ssl.ca.location: a}}',
        1,
        "kafka.main.ssl.ca.location",
        "no effect",
        "SSL",
    ),
    (
        "kafka: {main: {bootstrap.servers: [a]}}",
        1,
        "kafka.main.bootstrap.servers",
        "must be text, a number",
        None,
    ),
    (
        'schema_registry: {mian: {url: "http://r"}}',
        2,
        "schema_registry.mian",
        "no Kafka cluster 'mian'",
        "main",
    ),
    ("schema_registry: {main: {ulr: 'http://r'}}", 2, "schema_registry.main.ulr", "unknown key", "url"),
    ("schema_registry: {main: {url: 'r:8081'}}", 2, "schema_registry.main.url", "must begin with http", None),
    ("schema_registry: {main: {url: 'http://[bad'}}", 2, "schema_registry.main.url", "percent-encoded", None),
    (
        "schema_registry: {main: {url: 'http://r', basic.auth.user.info: a}}",
        2,
        "schema_registry.main.basic.auth.user.info",
        "user:password",
        None,
    ),
    (
        "schema_registry: {main: {url: 'https://r', ssl.key.location: /key}}",
        2,
        "schema_registry.main.ssl.key.location",
        "has no effect without ssl.certificate.location",
        None,
    ),
    (
        "schema_registry: {main: {url: 'https://r', bearer.auth.token: a, basic.auth.user.info: 'a:b'}}",
        2,
        "schema_registry.main.bearer.auth.token",
        "give one of the two",
        None,
    ),
    ("catalog: {type: jdbc, uri: a, warehouse: b}", 3, "catalog.type", "'jdbc' is none of", "sql"),
    ("catalog: {type: rset, uri: a}", 3, "catalog.type", "'rset' is none of", "rest"),
    ("catalog: {type: rest}", 3, "catalog.uri", "type rest needs it", None),
    ("catalog: {type: glue}", 3, "catalog.warehouse", "type glue needs it", None),
    ("catalog: {tpye: rest, uri: a}", 3, "catalog.tpye", "unknown key", "type"),
    ("catalog: {type: hive, uri: a, warehuose: b}", 3, "catalog.warehuose", "unknown key", "warehouse"),
    (
        "catalog: {type: rest, uri: 'http://a', cache-enabled: true}",
        3,
        "catalog.cache-enabled",
        "set by Tidemark itself",
        None,
    ),
    (
        "catalog: {type: rest, uri: 'http://a', py-catalog-impl: a.B}",
        3,
        "catalog.py-catalog-impl",
        "beside type",
        None,
    ),
    ("catalog: {type: glue, warehouse: b, ssl: {cabundle: c}}", 3, "catalog.ssl", "has no effect", None),
    (
        "catalog: {type: rest, uri: 'http://a', s3.sse.type: kms}",
        3,
        "catalog.s3.sse.type",
        "the bucket's default encryption",
        None,
    ),
    (
        "catalog: {type: rest, uri: 'http://a', s3.role-arn: r}",
        3,
        "catalog.s3.role-arn",
        "unknown to Spark, which writes, too: say client.credentials-provider or client.factory beside it",
        None,
    ),
    (
        "catalog: {type: rest, uri: 'http://a', client.factory: f, client.assume-role.arn: r}",
        3,
        "catalog.client.assume-role.arn",
        "unknown to PyIceberg",
        None,
    ),
    ("catalog: {type: sql, uri: 'mysql://h/d', warehouse: b}", 3, "catalog.uri", "SQLAlchemy URI", None),
    ("catalog: {type: sql, uri: 'sqlite:///a.db', warehouse: b}", 3, "catalog.uri", "absolute path", None),
    ("catalog: {type: rest, uri: 'http://[bad'}", 3, "catalog.uri", "percent-encoded", None),
    ("catalog: {type: rest, uri: 'nessie:19120/iceberg'}", 3, "catalog.uri", "must begin with http", None),
    ("catalog: {type: rest, uri: 'http://nessie:19120/main@1f'}", 3, "catalog.uri", "behind the host", None),
    ("spark: {remote: 'spark:15002'}", 4, "spark.remote", "sc://host:port", None),
    ("spark: {remote: 'sc://s:abc'}", 4, "spark.remote", "sc://host:port", None),
    ("spark: {remote: 'sc://s:99999'}", 4, "spark.remote", "sc://host:port", None),
    ("spark: {remote: 'sc://s:15002;token=x'}", 4, "spark.remote", "sc://host:port/;", None),
    ("spark: {conf: {a: b}}", 4, "spark.remote", "is missing", None),
    (
        "spark: {remote: 'sc://s', conf: {spark.sql.catalog.lake.uri: a}}",
        4,
        "spark.conf.spark.sql.catalog.lake.uri",
        "derived",
        None,
    ),
]


@pytest.mark.parametrize(("text", "line", "key", "message", "suggestion"), MISTAKES)
def test_a_mistake_in_the_platform_file(installation, text, line, key, message, suggestion):
    lines = PLATFORM.splitlines()
    place = min(line, 5) - 1
    lines[place : place + 1] = [text]
    installation.platform("\n".join(lines)).contract("topic: a\nvalue: {format: raw}")
    found = installation.problem()
    assert (found.file, found.line, found.key) == ("platform.yaml", line, key)
    assert message in found.message
    assert found.suggestion == suggestion


def test_a_role_that_is_told_to_both_is_fine(installation):
    said = "s3.role-arn: r, client.factory: f, client.assume-role.arn: r"
    text = with_line(3, f"catalog: {{type: rest, uri: 'http://a', {said}}}")
    catalog = installation.platform(text).load().platform.catalog
    assert catalog.properties == {"s3.role-arn": "r", "client.factory": "f", "client.assume-role.arn": "r"}


CUT_SHORT = ["ab[geheim]cd", "ab[cd", "p/w", "p#w", "p?w", "12/w", "/w"]
"""Passwords that must be percent-encoded in a URL."""
URLS = [
    (
        2,
        "schema_registry.main.url",
        "schema_registry: {main: {url: 'http://u:${PW}@r', bearer.auth.token: t}}",
    ),
    (
        3,
        "catalog.uri",
        "catalog: {type: sql, uri: 'postgresql+psycopg2://u:${PW}@pg/cat', warehouse: 's3://w'}",
    ),
    (3, "catalog.uri", "catalog: {type: rest, uri: 'http://u:${PW}@catalog'}"),
]


@pytest.mark.parametrize(("line", "key", "text"), URLS)
@pytest.mark.parametrize("password", CUT_SHORT)
def test_a_password_that_would_cut_its_url_short_is_refused_and_not_told(
    installation, line, key, text, password
):
    found = installation.platform(with_line(line, text)).problem(PW=password)
    assert (found.line, found.key) == (line, key)
    assert "percent-encoded" in found.message
    assert password not in found.message


def test_a_password_with_an_at_sign_is_refused_where_python_and_java_would_end_it_elsewhere(installation):
    line, key, text = URLS[1]
    assert installation.platform(with_line(line, text)).problem(PW="p@w").key == key


@pytest.mark.parametrize("password", [*CUT_SHORT, "p@w"])
def test_a_password_that_is_percent_encoded_is_what_it_was(installation, password):
    registry = "schema_registry: {main: {url: 'http://u:${PW}@registry:8081'}}"
    text = with_line(3, URLS[1][2]).replace(PLATFORM.splitlines()[1], registry)
    platform = installation.platform(text).load(PW=quote(password, safe="")).platform
    assert platform.schema_registry["main"].basic_auth == ("u", password)
    assert platform.schema_registry["main"].address == "http://registry:8081"
    assert platform.catalog.spark_conf()["spark.sql.catalog.lake.jdbc.password"] == password


@pytest.mark.parametrize(
    ("line", "text", "url"),
    [
        (2, "schema_registry: {main: {url: '$'}}", "http://registry/a@b"),
        (3, "catalog: {type: sql, uri: '$', warehouse: /w}", "sqlite:////a:1/b@c.db"),
        (
            3,
            "catalog: {type: sql, uri: '$', warehouse: /w}",
            "postgresql://u:p@pg:5432/d?application_name=a@b",
        ),
        (3, "catalog: {type: rest, uri: '$'}", "http://nessie:19120/iceberg/main%401f"),
        (3, "catalog: {type: hive, uri: '$'}", "thrift://one:9083,thrift://two:9083"),
        (4, "spark: {remote: '$'}", "sc://s:15002/;token=t;user_id=a@b"),
    ],
)
def test_addresses_that_only_look_odd_are_fine(installation, line, text, url):
    platform = installation.platform(with_line(line, text.replace("$", url))).load().platform
    taken = {2: platform.schema_registry["main"].address, 3: platform.catalog.uri, 4: platform.spark.address}
    assert taken[line] == url


def with_line(number: int, text: str) -> str:
    lines = PLATFORM.splitlines()
    lines[number - 1] = text
    return "\n".join(lines)


def test_a_platform_file_with_one_service_must_name_the_others(installation):
    installation.platform('kafka: {main: {bootstrap.servers: "b:1"}}')
    assert [(each.key, each.message) for each in installation.problems()] == [
        ("catalog", "is missing"),
        ("spark", "is missing"),
    ]


def test_a_missing_environment_variable_is_named_with_the_nearest(installation):
    installation.platform(PLATFORM.replace("http://catalog", "${CATALOG_URI}"))
    found = installation.problem(CATALOG_URL="http://x")
    assert (found.line, found.key, found.suggestion) == (3, "catalog.uri", "CATALOG_URL")
    assert found.message == "the environment has no CATALOG_URI"


def test_a_platform_file_that_is_not_there(installation):
    installation.platform("").root.joinpath("platform.yaml").unlink()
    assert installation.problem().message == "cannot be read: No such file or directory"


@pytest.mark.parametrize("environ", [{}, {"TIDEMARK_CONTRACTS": "contracts"}], ids=["default", "named"])
def test_a_file_in_the_place_of_the_folder_of_contracts_is_a_problem(installation, environ):
    """Given a file called contracts, then it is no folder without contracts, nor one that is not there."""
    folder = installation.platform(PLATFORM).root / "contracts"
    folder.rmdir()
    folder.write_text("topic: orders")
    found = installation.problem(**environ)
    assert (found.file, found.message) == ("contracts", "is not a folder: contracts lie in one, a file each")


def test_the_environment_names_the_files(installation, monkeypatch):
    installation.platform(PLATFORM).contract("topic: orders")
    monkeypatch.chdir(installation.root)
    assert not load_from_environment().platform.embedded
    monkeypatch.setenv("TIDEMARK_CONTRACTS", "nowhere")
    with pytest.raises(TidemarkError, match="there is no such folder"):
        load_from_environment()
    monkeypatch.delenv("TIDEMARK_CONTRACTS")
    monkeypatch.setenv("TIDEMARK_CONFIG", "other.yaml")
    with pytest.raises(TidemarkError, match=r"other\.yaml: cannot be read"):
        load_from_environment()
    monkeypatch.delenv("TIDEMARK_CONFIG")
    (installation.root / "platform.yaml").unlink()
    monkeypatch.setenv("TIDEMARK_HOME", str(installation.root / "home"))
    installation.home("stack.json", json.dumps(STACK))
    assert load_from_environment().platform.spark.address == "sc://127.0.0.1:15002"
