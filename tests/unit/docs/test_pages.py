"""The documentation: pages made from the code are current, every key has words, and the site builds without a warning."""

import json
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tidemark.cli.main import app
from tidemark.cli.pages import pages
from tidemark.cli.schemas import schemas

ROOT = Path(__file__).parents[3]
MADE = pages(ROOT / "docs")


@pytest.mark.parametrize("name", sorted(MADE))
def test_a_page_made_from_the_code_is_current(name):
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == MADE[name], "run: python -m tidemark.cli.pages"


def test_every_schedule_and_sensor_stands_in_the_table_of_what_is_switched_off():
    there = json.loads((ROOT / "tests" / "dagster" / "definitions.snapshot.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("### Sensors and schedules\n")[2].partition("\n#")[0]
    named = {*there["schedules"], *(name for name in there["sensors"] if "_lag_" not in name)}  # of the default lane
    assert len(named) > 8
    assert [name for name in sorted(named) if f"`{name}`" not in table] == []


def test_every_command_and_every_key_stands_on_its_page():
    commands = {each.callback.__name__ for each in app.registered_commands}
    assert commands <= {line.split()[2] for line in MADE["reference/cli.md"].splitlines() if line.startswith("## ")}
    keys = json.loads(schemas()["contract.schema.json"])["properties"]
    assert all(f"| `{key}` |" in MADE["reference/contract.md"] for key in keys)


def test_the_site_builds_without_a_broken_link_or_a_warning(tmp_path):
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    assert (tmp_path / "reference" / "contract.html").is_file()
    pages_with_scripts = [page for page in tmp_path.rglob("*.html") if 'src="http' in page.read_text(encoding="utf-8")]
    assert pages_with_scripts == []
