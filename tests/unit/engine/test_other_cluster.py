"""Rule: whoever finds that a topic is not the one that was read says of which cluster of platform.yaml that is."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.engine.access.lake import Lake
from tidemark.engine.look.clocks import two_clocks
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile


def _back_to_head(lake: Lake, contract: Contract) -> None:
    head = lake.state(contract.table).head
    rollback(lake, contract, Target(head), Signature("ada", "a test", dry_run=True))


@pytest.mark.parametrize(
    "verb",
    [_back_to_head, reconcile, lambda lake, contract: two_clocks(lake, contract, [], datetime.now(UTC))],
    ids=["rollback", "reconcile", "clocks"],
)
def test_the_next_step_names_the_cluster_of_the_contract(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Lake, Contract], Any]
) -> None:
    """Given a ledger of cluster c, when the brokers of `kafka.other` say that they are of another one, then that line is to be mended."""
    (made,) = lake.configuration.contracts
    contract = made.model_copy(update={"cluster": "other"})
    found = Topic("orders", "another", "t", log_start={0: 0}, end={0: 2}, high_watermark={0: 2})
    monkeypatch.setattr(lake, "topic", lambda _: found)
    with pytest.raises(Stopped, match="The ledger names cluster c") as stopped:
        verb(lake, contract)
    assert stopped.value.state == "cluster_changed"
    assert "mend kafka.other in platform.yaml" in stopped.value.next_step
    assert (stopped.value.fields["ledger_cluster_id"], stopped.value.fields["cluster_id"]) == ("c", "another")
