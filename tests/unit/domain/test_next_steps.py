"""Every refusal of an operator's verb ends in a next step (docs/operations)."""

import ast
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[3] / "tidemark" / "engine"


@pytest.mark.parametrize(
    "file",
    [*sorted((ENGINE / "operate").glob("*.py")), ENGINE / "verify" / "where.py"],
    ids=lambda path: path.name,
)
def test_a_refusal_says_what_a_person_does_now(file):
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    refusals = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Refused"]
    silent = [each.lineno for each in refusals if "next_step" not in {word.arg for word in each.keywords}]
    assert silent == []
