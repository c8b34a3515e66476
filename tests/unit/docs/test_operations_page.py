"""The operations page names every state and the remedy that the product prints."""

from pathlib import Path

import pytest

from assets.runs.report import failure
from tidemark.domain.alerts import stopped
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.outcome import Outcome
from tidemark.domain.states import FINE, OUTAGES, STATES, State, meaning, remedy, safe

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_an_anchor_with_what_happened_what_is_safe_and_what_to_do(state: State) -> None:
    names = {"table": "TABLE", "topic": "TOPIC", "cluster": "CLUSTER"}
    section = PAGE.partition(f"### {state}\n")[2].partition("\n### ")[0]
    for says in (meaning, safe, remedy):
        assert says(state, **names) in section


@pytest.mark.parametrize("state", sorted(set(STATES) - FINE))
def test_every_failure_says_what_happened_what_is_not_lost_and_what_to_do(state: State) -> None:
    """Given a table that stopped, then the run's failure and the alert have all three."""
    kind = Outage if state in OUTAGES else Stopped
    error = kind(state, "shop.orders", "", topic="orders").as_json()
    shown = failure([Outcome("shop.orders", state, error=error)])
    assert shown.allow_retries is False
    alert = stopped("shop.orders", error, "r").line()
    names = {"table": "shop.orders", "topic": "orders"}
    for says in (meaning, safe, remedy):
        assert says(state, **names)
        assert says(state, **names) in shown.description
        assert says(state, **names) in alert
    assert shown.metadata["shop.orders"].value["safe"] == safe(state, **names)
