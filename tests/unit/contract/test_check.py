"""`tidemark check` tells an editor, a person and a pipeline the same."""

import json
import shutil
import time

import pytest
import typer
from typer.testing import CliRunner

import tidemark.engine.marts
from tests.unit.contract.conftest import PLATFORM
from tidemark.cli.check import check
from tidemark.engine.marts import project_folder

app = typer.Typer()
app.command()(check)


@pytest.fixture
def run(installation, monkeypatch):
    monkeypatch.chdir(installation.root)
    for name in ("TIDEMARK_CONFIG", "TIDEMARK_CONTRACTS", "TIDEMARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_a_sound_configuration_exits_0(installation, run):
    installation.platform(PLATFORM).contract("topic: orders")
    found = run("--json")
    assert found.exit_code == 0
    assert json.loads(found.stdout) == {"ok": True, "contracts": 1, "problems": []}
    shown = run().output
    assert "1 contract, platform file" in shown
    assert "lake.orders" in shown


def test_names_in_a_log_are_whole(installation, run, monkeypatch):
    """Given no terminal, when long names are listed, then each stands on one line."""
    monkeypatch.delenv("COLUMNS", raising=False)
    topic, table = "very." * 10 + "long", "shop." + "very_" * 10 + "long"
    installation.contract(f"topic: {topic}\ntable: {table}")
    shown = run().output
    assert topic in shown
    assert table in shown


def test_problems_exit_2_and_can_be_read_by_programs(installation, run):
    installation.contract("topic: orders\nlane: defalt")
    found = run("--json")
    assert found.exit_code == 2
    assert json.loads(found.stdout) == {
        "ok": False,
        "contracts": 0,
        "problems": [
            {
                "file": "contracts/orders.yaml",
                "line": 2,
                "key": "lane",
                "message": "the platform file has no lane 'defalt'",
                "suggestion": "default",
            }
        ],
    }


def test_marts_that_are_not_described_as_they_are_are_a_problem(installation, run, monkeypatch, tmp_path):
    """Given a project whose files are others than its description was made from, then that stands beside the problems of contracts."""
    installation.platform(PLATFORM).contract("topic: orders\nlane: defalt")
    shutil.copytree(project_folder(), tmp_path / "dbt_project")
    monkeypatch.setattr(tidemark.engine.marts, "project_folder", lambda: tmp_path / "dbt_project")
    (tmp_path / "dbt_project" / "models" / "more.sql").write_text("select 1 as one")
    found = run("--json")
    assert found.exit_code == 2
    contract, marts = json.loads(found.stdout)["problems"]
    assert contract["key"] == "lane"
    assert marts["file"] == str(tmp_path / "dbt_project" / "assets.json")
    assert "python -m tidemark.cli.marts" in marts["message"]


def test_people_see_a_place_to_jump_to_and_what_was_meant(installation, run):
    installation.contract("topic: orders\nlane: defalt\ntabel: '[red]x'")
    found = run()
    assert found.exit_code == 2
    assert found.output.splitlines() == [
        "contracts/orders.yaml:2  lane",
        "    the platform file has no lane 'defalt'. Did you mean default?",
        "contracts/orders.yaml:3  tabel",
        "    unknown key. Did you mean table?",
        "2 problems in 1 file",
    ]


def test_a_topic_that_a_pattern_cannot_place_is_a_problem_for_check_alone(installation, run):
    topics = {"a.b": {}, "a-b": {}}
    installation.root.joinpath(".tidemark").mkdir()
    discovery = {"version": 1, "clusters": {"main": {"topics": topics}}}
    installation.root.joinpath(".tidemark", "discovery.json").write_text(json.dumps(discovery))
    installation.contract("topics: a.b")
    found = run("--json")
    assert found.exit_code == 2
    assert json.loads(found.stdout)["contracts"] == 1


def test_300_contracts_load_in_well_under_2_seconds(installation):
    installation.contract("owners: {data: 'team:x'}\ntarget_lag: 5s", "_defaults.yaml")
    for number in range(300):
        installation.contract(
            f"""
            topic: topic-{number}
            table: shop.t{number}
            description: One of many
            tags: {{domain: sales}}
            partition_by: [day(at), "bucket(16, id)"]
            columns: {{email: {{tags: [pii], description: x}}, name: {{tags: [pii]}}}}
            maintenance: {{compaction: {{target_file_size: 256MB}}}}
            """,
            f"{number}.yaml",
        )
    began = time.process_time()
    assert len(installation.load().contracts) == 300
    assert time.process_time() - began < 2
