"""Secrets reach the clients and nothing else."""

import json
import string
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.contract.conftest import PLATFORM
from tidemark.domain.errors import ConfigurationError, Stopped, error_fields
from tidemark.domain.secrets import HIDDEN, Properties, is_secret, redact, redact_text

SECRET = "hunter2hunter2"
EVERYWHERE = f"""\
kafka:
  main: {{bootstrap.servers: "b:1", security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: u,
         sasl.password: "${{PW}}", ssl.key.pem: "{SECRET}", ssl.certificate.pem: c}}
  other: {{bootstrap.servers: "b:1"}}
schema_registry:
  main: {{url: "https://u:{SECRET}@registry", basic.auth.user.info: "u:{SECRET}"}}
  other: {{url: "https://registry", bearer.auth.token: {SECRET}}}
catalog: {{type: sql, uri: "postgresql://u:{SECRET}@h/d", warehouse: "s3://b", s3.secret-access-key: {SECRET},
          s3.access-key-id: {SECRET}, credential: "a:{SECRET}", token: {SECRET}, jdbc.password: {SECRET}}}
spark: {{remote: "sc://s:1/;token={SECRET}", conf: {{spark.hadoop.fs.s3a.secret.key: {SECRET}}}}}
defaults: {{table_properties: {{my.password: {SECRET}}}}}
"""


def test_nothing_that_is_printed_or_dumped_shows_a_secret(installation):
    installation.platform(EVERYWHERE).contract("topic: orders")
    configuration = installation.load(PW=SECRET)
    platform = configuration.platform
    parts = [
        *configuration.contracts,
        configuration,
        platform,
        platform.catalog,
        platform.catalog.properties,
        platform.spark,
        platform.kafka["main"],
        platform.kafka["main"].properties,
        platform.schema_registry["main"],
        platform.schema_registry["other"],
    ]
    for part in parts:
        assert SECRET not in repr(part)
        assert SECRET not in str(part)
        assert SECRET not in f"{part}"
    for model in (platform, *configuration.contracts):
        assert SECRET not in model.model_dump_json()
        assert SECRET not in json.dumps(model.model_dump(mode="json"))
        assert HIDDEN in model.model_dump_json()


def test_the_login_of_a_rest_catalog_is_shown_to_nobody_but_its_client(installation):
    login = f"{{type: basic, basic: {{username: u, password: {SECRET}}}}}"
    installation.platform(PLATFORM.replace('"http://catalog"', f'"http://c", auth: {login}'))
    platform = installation.load().platform
    assert SECRET not in repr(platform) + repr(platform.catalog) + platform.model_dump_json()
    assert platform.catalog.pyiceberg_properties()["auth"]["basic"]["password"] == SECRET
    installation.platform(PLATFORM.replace('"http://catalog"', f'"http://c", auth: {{type: [{SECRET}]}}'))
    with pytest.raises(ConfigurationError) as caught:
        installation.load()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_clients_get_their_secrets_in_the_clear(installation):
    platform = installation.platform(EVERYWHERE).load(PW=SECRET).platform
    assert platform.kafka["main"].client_properties()["sasl.password"] == SECRET
    assert platform.catalog.pyiceberg_properties()["token"] == SECRET
    assert SECRET in platform.spark.address
    assert platform.catalog.properties["credential"] == f"a:{SECRET}"


def test_complaints_about_a_secret_do_not_show_it(installation):
    text = PLATFORM.replace('"http://registry:8081"', f'"http://r", basic.auth.user.info: [{SECRET}]')
    installation.platform(text.replace('"http://catalog"', f'"http://c", token: [{SECRET}]'))
    with pytest.raises(ConfigurationError) as caught:
        installation.load()
    assert len(caught.value.problems) == 2
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert SECRET not in json.dumps(caught.value.as_json())


TELLING = [
    'kafka: [{name: main, bootstrap.servers: b, sasl.password: "%s"}]',
    'schema_registry: {main: "https://user:%s@registry:8081"}',
    'catalog: "postgresql+psycopg2://u:%s@h/db"',
    'catalog: [{type: rest, credential: "%s"}]',
    'catalog: {type: rest, uri: "http://c", token: !%s x}',
    'catalog: {type: rest, uri: "http://c", token: "x${%s!}"}',
    'catalog: {type: sql, warehouse: /w, uri: "jdbc:postgresql://u:%s@h/db"}',
    'spark: "sc://x:15002/;token=%s"',
    'spark: {remote: "sc://s", conf: ["spark.hadoop.fs.s3a.secret.key=%s"]}',
    'openlineage: {transport: [{type: http, apiKey: "%s"}]}',
]
"""Mistakes whose key, or whose own text, tells that a secret is in them."""
ANY = [
    'kafka: {main: "%s"}',
    'kafka: {main: {bootstrap.servers: "b:1", security.protocol: "%s"}}',
    'openlineage: {transport: {type: "%s"}}',
    'report_every: "%s"',
]


@pytest.mark.parametrize("said", [*(t % SECRET for t in TELLING), *(t % "${PW}" for t in [*TELLING, *ANY])])
def test_a_secret_in_the_wrong_place_is_not_shown(installation, said):
    block = said.partition(":")[0]
    kept = "".join(line for line in PLATFORM.splitlines(keepends=True) if not line.startswith(f"{block}:"))
    with pytest.raises(ConfigurationError) as caught:
        installation.platform(f"{kept}{said}\n").load(PW=SECRET)
    shown = "".join(traceback.format_exception(caught.value)) + json.dumps(caught.value.as_json())
    assert SECRET not in shown.lower()


def test_a_value_from_the_environment_is_told_as_the_file_says_it(installation):
    installation.platform(f"{PLATFORM}report_every: ${{EVERY}}\n").contract("topic: a")
    assert installation.problem(EVERY="soon").message.startswith("'${EVERY}' is not a duration")


def test_no_error_shows_a_password_in_its_words_or_fields():
    error = Stopped(
        "misconfigured", "shop.orders", f"https://u:{SECRET}@h said no", uri=f"x://u:{SECRET}@h", token=SECRET
    )
    assert (
        SECRET not in f"{error}{error.as_json()}{error_fields(ValueError(f'jdbc:x://h?password={SECRET}'))}"
    )


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password", "ssl.key.password", "sasl.jaas.config", "basic.auth.user.info", "s3.secret-access-key",
        "s3.access-key-id", "s3.session-token", "credential", "token", "adls.account-key", "header.Authorization",
        "adls.connection-string", "sasl.oauthbearer.client.secret", "ssl.key.pem", "KAFKA_PASSWORD", "api_key",
        "gcs.encryption-key", "gcs.decryption-key", "spark.hadoop.fs.s3a.encryption.key", "pwd", "KAFKA_PWD",
        "spark.hadoop.fs.s3a.server-side-encryption.key", "gcs.service-account-json", "header.Cookie", "s3.sse.key",
        "x-functions-key", "fs.azure.sas.box.account", "sasl.oauthbearer.config", "header.Ocp-Apim-Subscription-Key",
    ],
)  # fmt: skip
def test_secret_names_are_recognised(key):
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "sasl.username", "ssl.key.location", "oauth2-server-uri", "sasl.oauthbearer.token.endpoint.url", "keys",
        "token-refresh-enabled", "client.credentials-provider", "ssl.ca.location", "key", "max_records", "table",
        "s3.sse.type", "sasl.mechanism", "design", "upsert.keys", "NoCredentialsError", "TokenExpiredException",
    ],
)  # fmt: skip
def test_names_that_only_sound_secret_are_shown(key):
    assert not is_secret(key)


def test_secrets_inside_text_are_taken_out():
    assert redact_text("postgresql://u:pw@h/d") == "postgresql://u:***@h/d"
    assert redact_text("jdbc:x://h/d?user=u&password=pw&ssl=on") == "jdbc:x://h/d?user=u&password=***&ssl=on"
    assert redact_text("sc://h:1/;token=t;user_id=u") == "sc://h:1/;token=***;user_id=u"
    assert redact_text("https://h:8081/a@b") == "https://h:8081/a@b"
    assert redact_text("postgresql://u:p/w@h/d") == "postgresql://u:***@h/d"
    assert (
        redact_text("?client_secret=a&X-Amz-Signature=b&api_key=c")
        == "?client_secret=***&X-Amz-Signature=***&api_key=***"
    )
    assert redact_text('module required password="a b";') == 'module required password="***";'
    assert redact_text("config=a design=b") == "config=a design=b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{'password': 'hunter2', 'a': 1}", "{'password': '***', 'a': 1}"),
        ('{"client_secret": "abc", "a": 1}', '{"client_secret": "***", "a": 1}'),
        (r'"{\"client_secret\": \"abc\"}"', r'"{\"client_secret\": \"***\"}"'),
        ("Authorization: Bearer x", "Authorization: ***"),
        ("{'Authorization': 'Basic eDp5'}", "{'Authorization': '***'}"),
        ("token: abc\nuser: me", "token: ***\nuser: me"),
        ("credential=id:secret", "credential=***"),
        ("https://tok3n@host/v1", "https://***@host/v1"),
        (r'password="p a\"ss" x', 'password="***" x'),
        ("password='a b c' x", "password='***' x"),
        ("password = 'a b", "password = '***'"),
        ("https://a.blob/b?sp=r&sig=c%3D&se=1", "https://a.blob/b?sp=r&sig=***&se=1"),
    ],
)
def test_secrets_are_taken_out_of_text_however_they_are_written(text, shown):
    assert redact_text(text) == shown
    assert redact_text(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "kafka.main.sasl.password: is missing",
        "catalog.token: unknown key (did you mean credential?)",
        "customer.token: union of several types",
        "NoCredentialsError: Unable to locate credentials",
        "TopicAuthorizationException: Not authorized to access topics: [orders]",
        "password authentication failed for user",
        "abfss://box@account.dfs.core.windows.net/lake",
        "key: id, upsert.keys: [id], design=1",
        "oauth2-server-uri=https://h/oauth/tokens",
    ],
)
def test_words_that_only_sound_secret_stay(text):
    assert redact_text(text) == text


PLAIN = st.text(string.ascii_letters + string.digits + "-_.~/+", min_size=6)
SPACED = st.text(string.ascii_letters + string.digits + " :;,&@{}[]()=", min_size=6)


@given(
    st.sampled_from(["password", "sasl.password", "client_secret", "X-Amz-Security-Token", "pwd", "api-key"]),
    st.one_of(
        st.tuples(
            st.sampled_from(["{}={}", "{} = {}", "&{}={}&a=b", '"{}": {}']), PLAIN.map(lambda t: f"{t}7")
        ),
        st.tuples(st.sampled_from(['{}="{}"', "{}: '{}'", "{{'{}': '{}'}}", '{{"{}":"{}"}}']), SPACED),
        st.tuples(st.sampled_from(["{}={!r}", "{{'{}': {!r}}}"]), st.text(min_size=6)),
    ),
)
def test_no_secret_passes_whatever_it_is_made_of(key, written):
    shape, secret = written
    text = shape.format(key, secret)
    shown = redact_text(text)
    assert shown == redact_text(shown)
    another = redact_text(shape.format(key, "another1"))
    assert shown.replace('"', "'") == another.replace('"', "'"), "but for the quotes that repr chooses"


@given(st.text(string.printable))
def test_redacting_twice_is_redacting_once(text):
    shown = redact_text(f"password{text}")
    assert redact_text(shown) == shown


def test_redacting_goes_to_any_depth_and_keeps_the_shape():
    told = {"a": [{"password": "x"}, ("y",)], "secret": ["p", "q"], "n": 1}
    assert redact(told) == {"a": [{"password": HIDDEN}, ("y",)], "secret": HIDDEN, "n": 1}


def test_properties_read_like_a_mapping():
    properties = Properties({"a": "1", "b.password": "2"})
    assert properties == {"a": "1", "b.password": "2"}
    assert repr(properties) == "{'a': '1', 'b.password': '***'}"
