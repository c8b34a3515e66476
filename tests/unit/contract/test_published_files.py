"""What is published beside the code: the JSON Schemas are current, and the examples are sound."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema_rs import Draft202012Validator

from tidemark.cli.schemas import schemas, write
from tidemark.domain.config.upsert import upsert_tables
from tidemark.engine.config.configuration import load

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["contract.schema.json", "platform.schema.json"])
def test_the_published_schemas_are_current(name):
    stale = "run: python -m tidemark.cli.schemas"
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == schemas()[name], stale


def test_schemas_are_written_where_one_says(tmp_path):
    write(tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(schemas())


def test_every_key_that_the_public_interface_names_is_in_the_schema():
    contract = json.loads(schemas()["contract.schema.json"])["properties"]
    assert {*contract} == {
        *(
            "topic",
            "topics",
            "cluster",
            "table",
            "description",
            "owners",
            "approvers",
            "runbook",
            "tags",
            "lane",
        ),
        *("target_lag", "event_time", "value", "key", "events", "columns", "partition_by", "sort_by"),
        *(
            "format_version",
            "table_properties",
            "schema_changes",
            "upsert",
            "quality",
            "quarantine",
            "freshness",
        ),
        *("ingest", "retention", "maintenance"),
    }
    platform = json.loads(schemas()["platform.schema.json"])["properties"]
    assert {*platform} == {
        *("default_namespace", "kafka", "schema_registry", "catalog", "spark", "lanes", "openlineage"),
        *("maintenance", "defaults", "report_every"),
    }


def test_the_examples_load_and_become_the_tables_of_the_demo(tmp_path):
    contracts = load(None, ROOT / "contracts", environ={}, home=tmp_path).contracts
    assert {contract.topic: (contract.table, contract.value.format) for contract in contracts} == {
        "orders": ("shop.orders", "avro"),
        "clicks": ("web.clicks", "avro"),
        "audit_log": ("ops.audit_log", "string"),
        "sensors": ("plant.sensors", "raw"),
    }
    [orders] = [contract for contract in contracts if contract.topic == "orders"]
    assert orders.target_lag.total_seconds() == 5
    assert [field.spark_sql() for field in orders.partition_by] == ["days(ordered_at)"]


def test_no_example_warns_while_it_keeps_its_target_lag(tmp_path):
    contracts = load(None, ROOT / "contracts", environ={}, home=tmp_path).contracts
    for each in (*contracts, *(current.contract for current in upsert_tables(contracts).values())):
        assert each.freshness.warn >= 2 * each.target_lag, each.table


@pytest.mark.parametrize("path", sorted((ROOT / "contracts").rglob("*.yaml")), ids=lambda path: path.name)
def test_every_example_names_its_schema_for_editors(path):
    first = path.read_text(encoding="utf-8").splitlines()[0]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert (path.parent / schema).resolve() == ROOT / "docs" / "contract.schema.json"


@pytest.mark.parametrize("path", sorted((ROOT / "contracts").rglob("*.yaml")), ids=lambda path: path.name)
def test_every_example_holds_by_its_published_schema(path):
    known = json.loads((ROOT / "docs" / "contract.schema.json").read_text(encoding="utf-8"))["properties"]
    assert yaml.safe_load(path.read_text(encoding="utf-8")).keys() <= known.keys()


@pytest.mark.parametrize(
    ("said", "fine"),
    [
        ({"ingest": {"start": "earliest"}}, True),
        ({"ingest": {"start": "2026-01-01T00:00:00Z"}}, True),
        ({"ingest": {"start": {"offsets": {"0": 1}}}}, True),
        ({"ingest": {"start": "nonsense"}}, False),
        ({"ingest": {"start": {"offsets": {"a": 1}}}}, False),
        ({"target_lag": "5s"}, True),
        ({"target_lag": ""}, False),
        ({"partition_by": []}, True),
    ],
)
def test_an_editor_judges_a_contract_as_check_does(installation, said, fine):
    tree = {"topic": "a", **said}
    schema = Draft202012Validator(json.loads(schemas()["contract.schema.json"]))
    assert schema.is_valid(tree) == fine
    installation.contract(yaml.safe_dump(tree))
    assert fine or installation.problems()
    assert not fine or installation.only()


def test_an_editor_knows_mistyped_words_of_the_catalog():
    schema = json.loads(schemas()["platform.schema.json"])
    catalog = Draft202012Validator({**schema["$defs"]["Catalog"], "$defs": schema["$defs"]})
    assert catalog.is_valid({"type": "rest", "uri": "u", "s3.region": "r", "py-io-impl": "x", "token": "t"})
    assert not catalog.is_valid({"type": "rest", "warehose": "w"})
