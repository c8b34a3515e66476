"""PyIceberg's properties and Spark's settings come from one block."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import URL, make_url

from tidemark.domain.config.catalog import Catalog, jdbc

KEYS = st.from_regex(r"(s3|rest|client)\.[a-z-]{1,10}", fullmatch=True)
WORDS = st.text(string.ascii_letters + string.digits + "/:.", min_size=1, max_size=12)


def spark(catalog):
    prefix = f"spark.sql.catalog.{catalog.name}"
    conf = catalog.spark_conf()
    assert conf.pop(prefix) == "org.apache.iceberg.spark.SparkCatalog"
    return {key.removeprefix(f"{prefix}."): value for key, value in conf.items()}


@given(st.sampled_from(["rest", "glue", "hive"]), WORDS, WORDS, st.dictionaries(KEYS, WORDS, max_size=4))
def test_both_readers_get_the_same_address_warehouse_and_properties(kind, uri, warehouse, extras):
    catalog = Catalog.model_validate(
        {"name": "x", "type": kind, "uri": uri, "warehouse": warehouse, **extras}
    )
    for seen in (spark(catalog), catalog.pyiceberg_properties()):
        assert (seen["type"], seen["uri"], seen["warehouse"]) == (kind, uri, warehouse)
        assert extras.items() <= seen.items()


@given(st.sampled_from(["rest", "glue", "hive"]), st.dictionaries(KEYS, WORDS, max_size=3))
def test_the_cache_is_off_whatever_is_said(kind, extras):
    said = {"type": kind, "uri": "u", "warehouse": "w", "cache-enabled": "true", **extras}
    catalog = Catalog.model_validate(said)
    assert spark(catalog)["cache-enabled"] == "false"
    assert "cache-enabled" not in catalog.pyiceberg_properties()


@given(
    st.text(min_size=1, max_size=10),
    st.text(min_size=1, max_size=10),
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
)
def test_user_and_password_of_postgresql_reach_jdbc_as_they_are(user, password, database):
    uri = URL.create("postgresql+psycopg2", user, password, "host", 5432, database).render_as_string(
        hide_password=False
    )
    assert jdbc(uri) == {
        "uri": f"jdbc:postgresql://host:5432/{database}",
        "jdbc.user": user,
        "jdbc.password": password,
    }


def test_sqlite_is_the_same_file_with_the_same_patience_for_both():
    catalog = Catalog.model_validate(
        {"type": "sql", "uri": "sqlite:////a/b c.db?timeout=60", "warehouse": "file:///w"}
    )
    assert spark(catalog)["uri"] == "jdbc:sqlite:/a/b c.db?busy_timeout=60000"
    assert spark(catalog)["type"] == "jdbc"
    assert spark(catalog)["jdbc.schema-version"] == "V1"
    found = catalog.pyiceberg_properties()
    assert found["type"] == "sql"
    assert make_url(found["uri"]).database == "/a/b c.db"


def test_a_connection_to_a_database_server_is_tried_before_it_is_used_unless_said_otherwise():
    block = {"type": "sql", "uri": "postgresql://h/d", "warehouse": "w"}
    assert Catalog.model_validate(block).pyiceberg_properties()["pool_pre_ping"] == "true"
    said = Catalog.model_validate({**block, "pool_pre_ping": "false"})
    assert said.pyiceberg_properties()["pool_pre_ping"] == "false"
    assert "pool_pre_ping" not in spark(Catalog.model_validate(block))


@pytest.mark.parametrize(("kind", "uri"), [("sql", "postgresql://h/d"), ("hive", "thrift://h:9083")])
def test_object_stores_need_iceberg_io_where_javas_default_is_hadoop(kind, uri):
    catalog = Catalog.model_validate({"type": kind, "uri": uri, "warehouse": "s3://b/w"})
    assert spark(catalog)["io-impl"] == "org.apache.iceberg.io.ResolvingFileIO"
    own = Catalog.model_validate({"type": kind, "uri": uri, "warehouse": "s3://b/w", "io-impl": "own"})
    assert spark(own)["io-impl"] == "own"
    assert "io-impl" not in own.pyiceberg_properties()
    local = Catalog.model_validate({"type": kind, "uri": uri, "warehouse": "file:///w"})
    assert "io-impl" not in spark(local)


@pytest.mark.parametrize(("path_style", "virtual"), [(True, "false"), (False, "true")])
def test_path_style_access_is_said_once_for_both(path_style, virtual):
    said = {"type": "rest", "uri": "u", "s3.path-style-access": path_style}
    assert Catalog.model_validate(said).pyiceberg_properties()["s3.force-virtual-addressing"] == virtual


@pytest.mark.parametrize(("virtual", "path_style"), [("True", "false"), ("false", "true")])
def test_path_style_access_in_pyicebergs_words_is_said_to_both_too(virtual, path_style):
    said = {"type": "rest", "uri": "u", "s3.force-virtual-addressing": virtual}
    assert spark(Catalog.model_validate(said))["s3.path-style-access"] == path_style
    both = Catalog.model_validate({**said, "s3.path-style-access": "true"})
    assert spark(both)["s3.path-style-access"] == "true"
    assert both.pyiceberg_properties()["s3.force-virtual-addressing"] == virtual


def test_keys_of_the_store_are_known_to_java_by_its_own_names():
    """Given keys in words that PyIceberg alone knows, then Spark has them under its own, but for those that are said so, and unless it is told its own way to log in."""
    keys = {f"client.{key}": key for key in ("access-key-id", "secret-access-key", "session-token")}
    found = spark(Catalog.model_validate({"type": "rest", "uri": "u", **keys, "s3.session-token": "own"}))
    assert [found[f"s3.{key}"] for key in ("access-key-id", "secret-access-key")] == [*keys.values()][:2]
    assert found["s3.session-token"] == "own"
    provided = {"type": "rest", "uri": "u", **keys, "client.credentials-provider": "p.Provider"}
    assert not [key for key in spark(Catalog.model_validate(provided)) if key.startswith("s3.")]


def test_python_and_java_are_spared_each_others_classes():
    said = {"type": "rest", "uri": "u", "py-io-impl": "p", "io-impl": "j", "jdbc.user": "u"}
    catalog = Catalog.model_validate(said)
    assert "py-io-impl" not in spark(catalog)
    assert not {"io-impl", "jdbc.user"} & catalog.pyiceberg_properties().keys()


@pytest.mark.parametrize(
    ("more", "region"),
    [
        ({}, "eu-west-1"),
        ({"client.region": "us-east-1"}, "us-east-1"),
        ({"glue.region": "eu-north-1"}, "eu-north-1"),
    ],
)
def test_the_region_of_the_store_is_known_to_java_by_its_own_name(more, region):
    conf = Catalog.model_validate({"type": "rest", "uri": "u", "s3.region": "eu-west-1", **more}).spark_conf()
    assert conf["spark.sql.catalog.lake.client.region"] == region


def test_spark_asks_a_rest_catalog_for_credentials_as_pyiceberg_does_and_gives_it_up_in_time():
    """Given a REST catalog that vends credentials, when nothing is said of that, then Spark asks for them too: PyIceberg does unsaid, Java does not."""
    block = {"type": "rest", "uri": "u"}
    found = spark(Catalog.model_validate(block))
    assert found["header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    limits = ("rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms")
    assert [found[limit] for limit in limits] == ["10000", "60000"]
    said = {"header.x-iceberg-access-delegation": "", "rest.client.socket-timeout-ms": "5"}
    own = spark(Catalog.model_validate({**block, **said}))
    assert said.items() <= own.items()
    assert "header.X-Iceberg-Access-Delegation" not in own
    glue = spark(Catalog.model_validate({"type": "glue", "warehouse": "s3://b/w"}))
    assert not [key for key in glue if key.startswith(("header.", "rest."))]
