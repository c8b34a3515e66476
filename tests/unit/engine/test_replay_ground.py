"""Rule: what is replayed is decoded with the schemas that its own cluster and topic had, or not at all."""

import pytest

from tidemark.domain.errors import Stopped
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.access.lake import Lake
from tidemark.engine.operate.replay_plan import Ground, ground


def looked_at(lake: Lake, topic: str = "orders") -> Ground:
    """What a replay stands on when the contract names that topic."""
    contract = lake.configuration.contract("shop.orders").model_copy(update={"topic": topic})
    return ground(lake, contract, "run-1", dry_run=True)


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
        looked_at(lake, "events")
    assert stopped.value.state == "topic_recreated"
