"""Status with a service down: it names the service for each table instead of failing."""

import pytest
from command_line import cli


@pytest.fixture
def behind(lakehouse):
    """A loaded table whose topic has grown since, and the lakehouse whole again afterwards."""
    topic = lakehouse.cluster.topic("cli_down")
    topic.send(range(10))
    table = lakehouse.table(topic)
    code, told = cli(lakehouse, "run", table.name)
    assert code == 0, told
    topic.send(range(10, 15))
    yield table
    lakehouse.heal()


@pytest.mark.long
def test_with_spark_down_everything_is_still_known(lakehouse, behind, tmp_path):
    lakehouse.kill("spark")
    code, (found,) = cli(lakehouse, "status", behind.name)
    assert (code, found["state"], found["lag_records"], found["rows"]) == (1, "spark_down", 5, 10)
    assert cli(lakehouse, "reconcile", behind.name)[0] == 0
    knows_where(lakehouse, behind, tmp_path)
    code, (outcome,) = cli(lakehouse, "run", behind.name)
    assert (code, outcome["state"]) == (1, "spark_down")


@pytest.mark.long
def test_with_kafka_down_the_table_is_still_known(lakehouse, behind):
    lakehouse.kill("kafka")
    code, (found,) = cli(lakehouse, "status", behind.name)
    assert (code, found["state"], found["lag_records"], found["rows"]) == (1, "kafka_down", None, 10)
    assert found["remedy"]
    code, error = cli(lakehouse, "reconcile", behind.name)
    assert (code, error["error"]["state"]) == (1, "kafka_down")


@pytest.mark.long
def test_with_the_registry_down_only_tables_that_wait_for_it_say_so(lakehouse, behind):
    lakehouse.kill("registry")
    assert cli(lakehouse, "status", behind.name)[1][0]["state"] == "registry_down"
    code, (planned,) = cli(lakehouse, "plan", behind.name)
    assert (code, planned["table"], planned["verdict"]) == (1, behind.name, None)
    assert planned["error"]["state"] == "registry_down"


def test_with_dagster_never_used_status_is_the_same(lakehouse, behind, tmp_path):
    _, (found,) = cli(lakehouse, "status", behind.name, DAGSTER_HOME=str(tmp_path / "none"))
    assert (found["lag_records"], found["rows"]) == (5, 10)
    knows_where(lakehouse, behind, tmp_path)


def knows_where(lakehouse, table, tmp_path):
    """The fate of records without anything of Dagster's."""
    for offset, fate in {3: "published", 12: "not_yet"}.items():
        words = ("where", table.topic.name, f"0:{offset}")
        code, (found,) = cli(lakehouse, *words, DAGSTER_HOME=str(tmp_path / "none"))
        assert (code, found["fate"]) == (0, fate)
        assert bool(found.get("snapshot_id")) is (fate == "published")
    code, (found,) = cli(
        lakehouse, "where", table.topic.name, "--key", "3", DAGSTER_HOME=str(tmp_path / "none")
    )
    assert (code, found["fate"], found["offset"], found["record"]["key"]) == (0, "published", 3, "3")
