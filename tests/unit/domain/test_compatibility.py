"""A registry that lets through what the contract holds up is a disagreement; a stricter one is not."""

import pytest

from tidemark.domain.config.contract import SchemaChanges
from tidemark.domain.plan.compatibility import disagreements

DEFAULT = SchemaChanges()
STRICT = SchemaChanges(add_column="review", widen_type="quarantine", remove_column="review")


@pytest.mark.parametrize("mode", ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FULL", "FULL_TRANSITIVE"])
def test_a_checking_registry_agrees_with_the_default(mode: str) -> None:
    assert disagreements(mode, DEFAULT) == []


@pytest.mark.parametrize("mode", ["NONE", None])
def test_a_registry_that_checks_nothing_lets_a_producer_stop_the_table(mode: str | None) -> None:
    [found] = disagreements(mode, DEFAULT)
    assert "incompatible schemas" in found
    assert "waits for an approval" in found


@pytest.mark.parametrize(
    ("mode", "kinds"), [("BACKWARD", 3), ("FORWARD", 2), ("FULL_TRANSITIVE", 2), ("NONE", 4)]
)
def test_each_change_that_the_mode_allows_and_the_contract_holds_up_is_named(mode: str, kinds: int) -> None:
    assert len(disagreements(mode, STRICT)) == kinds


def test_a_mode_that_is_not_known_is_said() -> None:
    assert "unknown" in disagreements("SIDEWAYS", DEFAULT)[0]
