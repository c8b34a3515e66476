"""Rule: what is replayed is decoded with the schemas that its own cluster and topic had, or not at all.

A dry run decodes it into the table as the replay would make it.
"""

from typing import Any

import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.access.lake import Lake
from tidemark.engine.operate.replay_plan import ReplayBase, replay_base


def looked_at(lake: Lake, **edits: Any) -> ReplayBase:
    """What a replay stands on when the contract is edited so."""
    contract = lake.configuration.contract("shop.orders").model_dump(by_alias=True, exclude_unset=True)
    return replay_base(lake, Contract.model_validate({**contract, **edits}), "run-1", dry_run=True)


def test_the_quarantine_is_replayed_while_kafka_is_down(lake: Lake) -> None:
    assert looked_at(lake).ledger.next == {0: 2}


def test_another_cluster_stops_a_replay_before_its_schemas_change_the_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given bootstrap servers that lead to another cluster now, when its registry would be asked, then the replay stops."""
    monkeypatch.setattr(KafkaAdmin, "cluster_id", lambda _: "d")
    with pytest.raises(Stopped, match="The ledger names cluster c, the broker says d") as stopped:
        looked_at(lake)
    assert stopped.value.state == "cluster_changed"


def test_another_topic_in_the_contract_stops_a_replay_also_as_a_dry_run(lake: Lake) -> None:
    with pytest.raises(Stopped, match="counts offsets of orders, the contract names events") as stopped:
        looked_at(lake, topic="events")
    assert stopped.value.state == "topic_recreated"


def test_a_dry_run_foresees_the_columns_that_the_replay_would_add(lake: Lake) -> None:
    """Given a contract that declares more than the table has, when that is replayed dry, then it counts with it and alters nothing."""
    columns = lake.state("shop.orders").columns
    plan = looked_at(lake, value=declared(id="bigint", note="string")).plan({})
    assert {field.name for field in plan.columns.fields} == {"id", "note", "_extra"}
    assert plan.decoding().columns == plan.columns
    assert lake.state("shop.orders").columns == columns


@pytest.mark.parametrize(
    ("fields", "policy", "state"),
    [
        ({"id": "string"}, {}, "table_incompatible"),
        ({"id": "bigint", "note": "string"}, {"add_column": "review"}, "schema_review"),
    ],
)
def test_a_dry_run_stops_where_the_replay_would(
    lake: Lake, fields: dict[str, str], policy: dict[str, str], state: str
) -> None:
    with pytest.raises(Stopped, match="The contract declares what the table does not hold") as stopped:
        looked_at(lake, value=declared(**fields), schema_changes=policy)
    assert stopped.value.state == state


def declared(**fields: str) -> dict[str, Any]:
    return {"format": "json", "fields": fields}
