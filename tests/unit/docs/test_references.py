"""Rule: what code and documentation point to is there: every page, every decision, every module that a docstring names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = re.compile(r"[\w./-]*\w\.md\b(?!\w)")
MODULE = re.compile(r"(?<![\w/.<-])[a-z_]+(?:/[a-z_]+)+\.py\b")
DECISION = re.compile(r"docs/adr/?(\d{4})?")
FOLDERS = ("tidemark", "orchestration", "sensors", "jobs", "assets", "resources")
FOLDERS += ("contracts", "dbt_project", "docs", "bench", "tests")
MADE = {"__pycache__", "target", "logs", "dbt_packages", "results"}
ELSEWHERE = frozenset({"CONFIGURATION.md", "dg.MetadataValue.md"})
"""librdkafka's page, and a function of Dagster."""


def files(*endings: str) -> list[str]:
    """Of the repository, but for the changelog, which tells of what was."""
    found = [each for each in ROOT.iterdir() if each.is_file()] + [
        each for folder in FOLDERS for each in (ROOT / folder).rglob("*") if each.is_file()
    ]
    named = (str(each.relative_to(ROOT)) for each in found if not MADE & set(each.relative_to(ROOT).parts))
    return sorted(each for each in named if each.endswith(endings) and each != "CHANGELOG.md")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", files(".py", ".md", ".yaml", ".yml", ".toml", "Makefile"))
def test_every_page_that_is_named_is_there(name):
    places = (ROOT, ROOT / "docs", (ROOT / name).parent)
    named = set(PAGE.findall(text(name))) - ELSEWHERE
    assert [each for each in named if not any((place / each).is_file() for place in places)] == []


def test_a_decision_is_named_by_a_number_that_it_has():
    numbers = {each.name[:4] for each in (ROOT / "docs" / "adr").glob("0*.md")}
    for name in files(".py"):
        for found in DECISION.finditer(text(name)):
            assert found[1] in numbers or name.startswith("tests/unit/docs/"), f"{name}: {found[0]}"


@pytest.mark.parametrize("name", files(".py", ".md"))
def test_every_module_that_is_named_by_its_path_is_there(name):
    places = (ROOT, ROOT / "tidemark", ROOT / "tests", (ROOT / name).parent)
    named = set(MODULE.findall(text(name)))
    assert [each for each in named if not any((place / each).is_file() for place in places)] == []
