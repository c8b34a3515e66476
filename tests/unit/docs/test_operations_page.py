"""The operations page names every state and the remedy that the product prints."""

from pathlib import Path

import pytest

from tidemark.domain.states import REMEDIES, STATES, State

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_an_anchor_with_its_meaning_and_remedy(state: State) -> None:
    names = {"{table}": "TABLE", "{topic}": "TOPIC", "{cluster}": "CLUSTER"}
    meaning, remedy = REMEDIES[state].meaning, REMEDIES[state].remedy
    for name, shown in names.items():
        meaning, remedy = meaning.replace(name, shown), remedy.replace(name, shown)
    section = PAGE.partition(f"### {state}\n")[2].partition("\n### ")[0]
    assert meaning in section
    assert remedy in section
