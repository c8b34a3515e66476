"""One set of client properties serves librdkafka and Spark's Kafka source."""

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.config.kafka_properties import (
    KNOWN,
    MEANT,
    OURS,
    client_properties,
    key_fault,
    spark_options,
)

SCRAM = {
    "bootstrap.servers": "b:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "tide",
    "sasl.password": 'a"b\\c;',
}
PKCS8 = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"


def test_plain_properties_only_get_the_prefix():
    assert spark_options({"bootstrap.servers": "b:1", "client.id": "x"}) == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.client.id": "x",
    }


def test_names_that_differ_in_java_are_translated():
    options = spark_options({"socket.timeout.ms": "1", "fetch.wait.max.ms": "2"})
    assert options == {"kafka.request.timeout.ms": "1", "kafka.fetch.max.wait.ms": "2"}


def test_the_mechanism_is_read_by_either_of_its_names_in_librdkafka():
    second = {"sasl.mechanisms" if key == "sasl.mechanism" else key: value for key, value in SCRAM.items()}
    assert spark_options(second) == spark_options(SCRAM)


def test_what_java_does_without_being_told_is_for_librdkafka_alone():
    properties = {
        "socket.keepalive.enable": "true",
        "socket.nagle.disable": "true",
        "ssl.ca.location": "probe",
    }
    assert spark_options(properties) == {}
    assert client_properties(properties) == properties


def test_a_zero_that_java_would_take_at_its_word_is_javas_word_for_the_same():
    options = spark_options(
        {"socket.send.buffer.bytes": "0", "socket.receive.buffer.bytes": "65536", "connections.max.idle.ms": "0",
         "fetch.min.bytes": "0"}
    )  # fmt: skip
    assert options == {
        "kafka.send.buffer.bytes": "-1",
        "kafka.receive.buffer.bytes": "65536",
        "kafka.connections.max.idle.ms": "-1",
        "kafka.fetch.min.bytes": "0",
    }


def test_user_and_password_become_a_login_module_with_its_quotes_escaped():
    options = spark_options(SCRAM)
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="tide" password="a\\"b\\\\c;";'
    )
    assert not any("sasl.password" in key or "sasl.username" in key for key in options)


def unescaped(text):
    """As Java's StreamTokenizer reads a quoted string."""
    found, letters = "", iter(text)
    for letter in letters:
        escape = next(letters) if letter == "\\" else None
        found += {"n": "\n", "r": "\r"}.get(escape, escape) if escape else letter
    return found


@given(st.text(max_size=20))
def test_any_password_arrives_in_java_as_it_was_written(password):
    config = spark_options({**SCRAM, "sasl.password": password})["kafka.sasl.jaas.config"]
    quoted = config.partition('password="')[2].removesuffix('";')
    assert "\n" not in quoted
    assert unescaped(quoted) == password


def test_oauth_and_kerberos_have_their_modules():
    oauth = spark_options({
        "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": "s", "sasl.oauthbearer.scope": "a b", "sasl.oauthbearer.extensions": "k=v",
        "sasl.oauthbearer.token.endpoint.url": "https://idp",
    })  # fmt: skip
    assert oauth["kafka.sasl.oauthbearer.token.endpoint.url"] == "https://idp"
    assert 'clientId="i" clientSecret="s" scope="a b" extension_k="v";' in oauth["kafka.sasl.jaas.config"]
    assert oauth["kafka.sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    kerberos = spark_options({
        "security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.principal": "p@R", "sasl.kerberos.keytab": "/k",
    })  # fmt: skip
    assert kerberos["kafka.sasl.mechanism"] == "GSSAPI"
    assert 'keyTab="/k" principal="p@R";' in kerberos["kafka.sasl.jaas.config"]


def test_pem_files_are_sent_as_text_so_that_executors_need_no_files():
    files = {"/ca": "CA", "/crt": "CERT", "/key": PKCS8}
    properties = {"ssl.ca.location": "/ca", "ssl.certificate.location": "/crt", "ssl.key.location": "/key"}
    assert spark_options(properties, files.__getitem__) == {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "CA",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "CERT",
        "kafka.ssl.keystore.key": PKCS8,
    }


def test_a_key_that_java_cannot_read_is_refused_with_the_way_to_convert_it():
    rsa = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"
    with pytest.raises(ValueError, match="openssl pkcs8 -topk8"):
        spark_options({"ssl.certificate.pem": "CERT", "ssl.key.pem": rsa})


@pytest.mark.parametrize("content", [None, b"\xff\xfeDER"])
def test_a_file_that_cannot_be_read_is_named_with_its_key(tmp_path, content):
    file = tmp_path / "ca"
    if content:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=f"ssl.ca.location {file}: "):
        spark_options({"ssl.ca.location": str(file)})


def test_switched_off_host_name_checks_are_an_empty_word_in_java():
    options = spark_options({"ssl.endpoint.identification.algorithm": "none"})
    assert options == {"kafka.ssl.endpoint.identification.algorithm": ""}


def test_the_prefix_of_consumer_groups_is_sparks_own_option_and_nothing_for_librdkafka():
    properties = {"bootstrap.servers": "b:1", "groupIdPrefix": "lake"}
    assert spark_options(properties)["groupIdPrefix"] == "lake"
    assert client_properties(properties) == {"bootstrap.servers": "b:1"}


@pytest.mark.parametrize("key", sorted(OURS))
def test_what_tidemark_sets_itself_is_refused(key):
    assert key_fault(key) == ("is set by Tidemark itself", None)


@pytest.mark.parametrize(("said", "meant"), sorted(MEANT.items()))
def test_names_of_the_other_client_are_refused_with_the_name_used_here(said, meant):
    fault = key_fault(said)
    assert fault is not None
    assert fault[1] == meant
    assert meant in KNOWN


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("kafka.client.id", "client.id"),
        ("sasl.usrname", "sasl.username"),
        ("zzzzzz", None),
        ("enable.ssl.certificate.verification", None),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(said, meant):
    fault = key_fault(said)
    assert fault is not None
    assert fault[1] == meant


@pytest.mark.parametrize("key", sorted(KNOWN - {"groupIdPrefix"}))
def test_librdkafka_knows_every_name_that_is_accepted(key):
    with pytest.raises(Exception, match=r".") as caught:
        AdminClient({"bootstrap.servers": "b:1", key: "\x00nonsense", "nonsense": "x"})
    assert f'No such configuration property: "{key}"' not in str(caught.value)
