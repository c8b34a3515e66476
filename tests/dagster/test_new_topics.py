"""Rule: an installation that has nothing but a pattern waits for its first topics, and says when they come."""

from threading import Barrier

import dagster as dg
import pytest

import resources.lake as configuration_module
from orchestration.definitions import build_defs
from resources.lake import LakeResource, configuration_of
from sensors.discover import remark_on
from tidemark.domain.columns.types import LONG, Field, Struct
from tidemark.domain.errors import Outage
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import STACK_FILE
from tidemark.engine.config.follow import Followed
from tidemark.engine.look.topics import list_topics, refresh_topics, with_listed


@pytest.fixture
def where(where):
    for contract in where.contracts_dir.iterdir():
        contract.unlink()
    (where.contracts_dir / "shops.yaml").write_text("topics: '^shop[.](?P<name>.*)$'\ntable: shop.{name}\n")
    return where


def test_the_first_topics_of_a_pattern_are_noticed_without_any_table(where, lake, defs, resource, instance):
    def tick():
        sensor = defs.resolve_sensor_def("new_topics")
        with dg.build_sensor_context(
            instance=instance, definitions=defs, resources={"lake": resource}
        ) as context:
            return sensor.evaluate_tick(context).skip_message

    assert [each.name for each in defs.sensors] == ["new_topics"]
    lake.ends = {"elsewhere": {0: 1}}
    assert tick() == "no topic matches a pattern yet"
    lake.ends["shop.orders"] = {0: 5, 1: 3}
    assert tick() == "new topics match a pattern, reload the definitions: shop.orders"
    assert discovery.read(where.home).topics("main")["shop.orders"] == {"partitions": 2}


def test_a_topic_whose_table_is_another_topics_is_named_with_every_look(where):
    """Given a table that a pattern fills, when a topic comes that would take it, then it keeps its topic and the reason names the newcomer."""
    (where.contracts_dir / "shops.yaml").write_text("topics: '^[a-z]+[.](?P<name>.*)$'\ntable: shop.{name}\n")
    listed = {"main": {"us.orders": 1, "eu.orders": 1}}
    columns = Struct((Field("id", LONG),))
    discovery.update(where.home, lambda seen: with_listed(seen, listed))
    discovery.update(
        where.home, lambda seen: seen.with_columns("shop.orders", columns, topic=("main", "us.orders"))
    )
    said = remark_on(configuration_of(where), listed)
    assert said.startswith("left out: table shop.orders (topic eu.orders) is also made by ")
    assert said.endswith("(topic us.orders)")


def test_a_topic_whose_table_is_another_one_s_in_dagster_is_not_told_as_new(where):
    """Given a topic that is left out for a reason that does not name it, when the sensor looks, then it gives that reason, and asks for nothing that would change nothing."""
    (where.contracts_dir / "own.yaml").write_text("topic: x\ntable: shop.lake__a_b\n")
    pattern = "topics: '^shop[.](?P<name>.*)$'\ntable: shop__lake.{name}\n"
    (where.contracts_dir / "shops.yaml").write_text(pattern)
    listed = {"main": {"shop.a_b": 1}}
    discovery.update(where.home, lambda seen: with_listed(seen, listed))
    said = remark_on(configuration_of(where), listed)
    assert said.startswith("left out: ")
    assert "are both shop__lake__a_b in Dagster" in said


def test_a_contract_beside_the_pattern_is_told_too(where, lake, defs, resource, instance):
    (where.contracts_dir / "payments.yaml").write_text("topic: payments\n")
    with dg.build_sensor_context(
        instance=instance, definitions=defs, resources={"lake": resource}
    ) as context:
        said = defs.resolve_sensor_def("new_topics").evaluate_tick(context).skip_message
    assert said == "lake.payments: a new contract on disk, reload the definitions"


def test_a_contract_that_is_broken_before_the_first_look_is_told(where, defs, instance):
    """Given a stack that is started, and a contract that is broken, once the definitions are loaded, then the first tick says so."""
    where.home.mkdir(exist_ok=True)
    (where.home / STACK_FILE).write_text("{}")
    (where.contracts_dir / "payments.yaml").write_text("tabel: x\n")
    with dg.build_sensor_context(
        instance=instance, definitions=defs, resources={"lake": LakeResource.at(where)}
    ) as context:
        said = defs.resolve_sensor_def("new_topics").evaluate_tick(context).skip_message
    assert "did you mean table" in said


def test_clusters_are_asked_at_once(where, lake, monkeypatch):
    """Given patterns of two clusters, when topics are listed, then neither waits until the other has answered, or not."""
    other = "cluster: other\ntopics: '^pay[.](?P<name>.*)$'\ntable: pay.{name}\n"
    (where.contracts_dir / "other.yaml").write_text(other)
    lake.configuration, together = Followed(where).now(), Barrier(2, timeout=10)

    def topics(cluster):
        together.wait()
        if cluster == "other":
            raise Outage("kafka_down", "-", "no broker answers", cluster=cluster)
        return {"shop.orders": 2}

    monkeypatch.setattr(lake, "_topics", topics)
    listed, faults = list_topics(lake)
    assert (listed, list(faults)) == ({"main": {"shop.orders": 2}}, ["other"])
    assert list_topics(lake, ["main", "other"]) == ({}, {})


def test_commands_of_an_installation_without_any_table_say_that_the_cluster_is_down(where, lake):
    lake.down = {"main": True}
    with pytest.raises(Outage, match="kafka_down"):
        refresh_topics(lake, where.home)
    assert not (where.home / "discovery.json").exists()


def test_once_there_are_tables_the_lag_sensor_lists_the_topics(where, resource):
    discovery.update(where.home, lambda seen: seen.with_topics("main", {"shop.orders": {"partitions": 2}}))
    names = {each.name for each in build_defs({"lake": resource}, where).sensors}
    assert "kafka_lag" in names
    assert "new_topics" not in names


@pytest.fixture
def gone(where, lake):
    """A pattern's table that was loaded, and whose topic is listed no more."""
    lake.ends = {"shop.new": {0: 5}}
    lake.tables["shop.orders"] = {"next": {0: 5}}
    columns = Struct((Field("id", LONG),))
    discovery.update(
        where.home, lambda seen: seen.with_columns("shop.orders", columns, topic=("main", "shop.orders"))
    )
    lake.configuration = Followed(where).now()


def tables_of(where):
    return [each.table for each in Followed(where).now().contracts]


def test_a_table_whose_topic_is_gone_is_told_of_until_it_is_dropped(where, lake, gone):
    """Given a table of a pattern whose topic is gone, when topics are listed, then its contract stays, also while the catalog does not answer; not once the table is dropped too."""
    assert refresh_topics(lake, where.home)
    assert tables_of(where) == ["shop.new", "shop.orders"]
    lake.configuration = Followed(where).now()
    assert not refresh_topics(lake, where.home)
    there, lake.catalog.table_exists = lake.catalog.table_exists, _down
    del lake.tables["shop.orders"]
    assert not refresh_topics(lake, where.home)
    lake.catalog.table_exists = there
    assert refresh_topics(lake, where.home)
    assert tables_of(where) == ["shop.new"]


def _down(table):
    raise Outage("catalog_down", table, "database is locked")


def test_a_run_is_asked_for_that_stops_for_a_topic_that_is_gone(where, lake, gone, resource, instance):
    """Given definitions with a table of a pattern, when its topic is no longer listed, then the sensor asks for the run that says so; when the table is dropped too, it lists it no more."""
    lake.tables["shop.new"] = {"next": {0: 5}}
    refresh_topics(lake, where.home)
    configuration_module._configuration.cache_clear()
    defs = build_defs({"lake": resource}, where)
    lake.configuration = Followed(where).now()

    def tick():
        with dg.build_sensor_context(
            instance=instance, definitions=defs, resources={"lake": resource}
        ) as context:
            return defs.resolve_sensor_def("kafka_lag").evaluate_tick(context)

    (request,) = tick().run_requests
    assert [key.to_user_string() for key in request.asset_selection] == ["shop/orders"]
    del lake.tables["shop.orders"]
    tick()
    assert tables_of(where) == ["shop.new"]
