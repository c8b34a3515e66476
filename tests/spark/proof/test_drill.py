"""Rule: a drill finds a platform sound, touches nothing but its scratch, and leaves nothing of that."""

from waiting import until

from tidemark.engine.drill.drill import drill
from tidemark.engine.drill.scenarios import SCENARIOS
from tidemark.engine.table.operations import Signature


def test_every_scenario_is_noticed_and_mended(lakehouse):
    """Given a platform with a table, when every failure is rehearsed, then each is named and recovered from, nothing is left, and the table was not touched."""
    topic = lakehouse.cluster.topic("beside")
    topic.send(range(10))
    beside = lakehouse.table(topic)
    beside.run()
    stood = beside.iceberg().metadata_location
    before = (
        set(lakehouse.catalog.list_tables("lake")) if lakehouse.catalog.namespace_exists("lake") else set()
    )
    told = []
    card = drill(lakehouse.lake, [], "main", Signature("ada", "a test", "drill-1"), told.append).arguments
    assert [(s["scenario"], s["passed"], s["detail"]) for s in card["scenarios"]] == [
        (name, True, "") for name in SCENARIOS
    ]
    assert card["passed"]
    assert told == [f"{name}: passed" for name in SCENARIOS]
    assert {s["scenario"]: s["noticed_as"] for s in card["scenarios"]} == {
        "kill": "lagging",
        "catalog": "catalog_down",
        "registry": "registry_down",
        "poison": "quarantined",
        "schema": "schema_not_allowed",
        "replay": "gaps",
        "rollback": "paused",
    }
    assert all(0 <= s["detected_seconds"] <= s["recovered_seconds"] for s in card["scenarios"])
    after = set(lakehouse.catalog.list_tables("lake")) - before
    assert after <= {("lake", "tidemark_operations")}
    assert beside.iceberg().metadata_location == stood
    until(
        lambda: card["topic"] not in lakehouse.cluster.admin.list_topics(timeout=10).topics, "the topic to go"
    )
