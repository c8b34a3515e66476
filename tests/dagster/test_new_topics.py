"""Rule: an installation that has nothing but a pattern waits for its first topics, and says when they come."""

import dagster as dg
import pytest

from orchestration.definitions import build_defs
from resources.lake import configuration_of
from sensors.discover import remark_on
from tidemark.domain.columns.types import LONG, Field, Struct
from tidemark.domain.errors import Outage
from tidemark.engine.config import discovery
from tidemark.engine.look.topics import refresh_topics, with_listed


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
