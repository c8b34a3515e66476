"""Rule: a batch that is held back names a way out that there is."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.backfill import BACKFILL
from tidemark.domain.ledger.evidence import Group, is_flood, undecided
from tidemark.domain.ledger.ledger import Counts, Ledger
from tidemark.engine.ingest.microbatch import _require_no_flood


@pytest.mark.parametrize(("properties", "named"), [({}, True), ({BACKFILL: "{}"}, False)])
def test_no_acceptance_is_named_for_a_table_that_no_contract_names(
    properties: dict[str, str], named: bool
) -> None:
    """Given a first batch of which nothing decodes, then the verb that lets it through is told, but for a backfill's shadow, whose table it does not know."""
    contract = Contract.model_validate({"topic": "t", "table": "s.t", "table_properties": properties})
    ledger = Ledger(cluster_id="c", topic_id="t", topic="t")
    plan: Any = SimpleNamespace(contract=contract, ledger=ledger, accepted=False, refused=frozenset())
    groups, lake = [Group(0, "quarantined", "no_magic_byte", None, 1, 0, 0)], SimpleNamespace()
    with pytest.raises(Stopped, match="None of 1 records can be read") as told:
        _require_no_flood(lake, plan, {0: Counts(1, 0, 1)}, groups)  # type: ignore[arg-type]
    assert ("accept s.t --quarantine-batch" in told.value.message) == named


@pytest.mark.parametrize(
    ("garbage", "written", "flood"), [(0, 15, False), (10, 190, False), (9, 1, False), (10, 90, True)]
)
def test_records_that_a_decision_sends_to_the_quarantine_are_no_flood_and_hide_none(
    garbage: int, written: int, flood: bool
) -> None:
    """Given fifteen records of a refused schema in two partitions, then bad ones are judged as if these were not there."""
    refused = [Group(p, "quarantined", "unknown_schema_id", 7, n, 0, 14) for p, n in ((0, 9), (1, 6))]
    groups = [*refused, Group(0, "quarantined", "unknown_schema_id", 8, garbage, 0, 9)]
    counts = [Counts(9 + garbage + written, written, 9 + garbage), Counts(8, 2, 6)]
    whole = undecided(counts, groups, frozenset({7}))
    assert whole == Counts(garbage + written + 2, written + 2, garbage)
    assert is_flood(whole, 0.05) == flood


def test_a_refused_schema_sets_aside_only_what_went_to_the_quarantine() -> None:
    """Given records of it that were skipped, then they count as read, and a batch is no smaller for them."""
    groups = [Group(0, "quarantined", "unknown_schema_id", 7, 4, 0, 9), Group(0, "skipped", None, 7, 3, 1, 5)]
    whole = undecided([Counts(9, 2, 4, 0, 3)], groups, frozenset({7}))
    assert whole == Counts(5, 2, 0, 0, 3)
