"""Rule: whoever copies an example of the documentation has a file that loads, or Python whose names are there."""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidemark.domain.config.contract import Declaration
from tidemark.domain.config.platform import Platform
from tidemark.engine.config.configuration import load

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
DAGSTERS = ({"load_from"}, {"storage"})
"""Keys of workspace.yaml and dagster.yaml."""
PLATFORM: dict[str, Any] = {
    "kafka": {"main": {"bootstrap.servers": "broker:9092"}},
    "schema_registry": {"main": {"url": "http://registry:8081"}},
    "catalog": {"type": "rest", "uri": "http://catalog"},
    "spark": {"remote": "sc://spark:15002"},
}
FOUND = [
    pytest.param(block[1], id=f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, block.start()) + 1}")
    for page in PAGES
    for text in [page.read_text(encoding="utf-8")]
    for block in BLOCK.finditer(text)
]


def names(model: type[Declaration | Platform]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize("example", FOUND)
def test_an_example_loads(example: str, tmp_path: Path) -> None:
    """Given an example, when what it leaves out is added, then it is a contract or a platform file without a fault."""
    said = yaml.safe_load(example)
    keys = set(said)
    assert keys <= names(Declaration) or keys <= names(Platform) or keys in DAGSTERS
    if keys in DAGSTERS:
        return
    contract = said if keys <= names(Declaration) else {}
    platform = PLATFORM | (said if not contract else {})
    (tmp_path / "platform.yaml").write_text(yaml.safe_dump(platform))
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "orders.yaml").write_text(yaml.safe_dump({"topic": "orders", **contract}))
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", example), "user:word")
    found = load(tmp_path / "platform.yaml", tmp_path / "contracts", environ=environ, home=tmp_path / "home")
    assert found.contracts
    assert not found.left_out


def test_there_are_examples() -> None:
    assert len(FOUND) > 10


def test_python_on_a_page_imports_what_is_there() -> None:
    found = [
        each
        for page in PAGES
        for block in PYTHON.findall(page.read_text(encoding="utf-8"))
        for each in ast.walk(ast.parse(block))
        if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("tidemark.")
    ]
    assert found
    missing = [
        f"{each.module}.{alias.name}"
        for each in found
        for alias in each.names
        if not hasattr(import_module(str(each.module)), alias.name)
    ]
    assert missing == []
