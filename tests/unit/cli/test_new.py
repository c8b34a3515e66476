"""A contract that `new` writes is read, and stands beside those that are there."""

import errno
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidemark.cli import new
from tidemark.cli.main import app
from tidemark.cli.new import beside, file_name, schema_line
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Refused
from tidemark.domain.plan.proposal import Seen, Sizes, propose
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.config.configuration import load


def proposal(topic, table):
    return propose(Seen(topic, table, "main", {}, None, Sizes(1, 1, 1)))


@pytest.mark.parametrize("topic", ["orders", "_under", "__two", ".hidden", "_defaults", "_", "a.b"])
def test_the_file_of_any_topic_is_read_as_a_contract(tmp_path, topic):
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / file_name(topic)).write_text(f"topic: {topic}\ntable: lake.x\n")
    found = load(None, tmp_path / "contracts", environ={}, home=tmp_path / "home")
    assert [contract.topic for contract in found.contracts] == [topic]


def test_a_contract_is_written_whole_or_not_at_all_and_takes_no_others_place(tmp_path, monkeypatch):
    """Given a disk that is full, when a contract is written, then no file is there that would stop every lane; the longest name of a topic has one; what is there stays."""
    file, whole = tmp_path / "contracts" / file_name("t" * 249), Path.write_text

    def full(path, text, **how):
        whole(path, "", **how)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        new._write(file, "topic: orders\n")
    monkeypatch.undo()
    assert list(file.parent.iterdir()) == []
    new._write(file, "topic: orders\n")
    with pytest.raises(Refused, match="is there already"):
        new._write(file, "topic: others\n")
    assert [(each, each.read_text()) for each in file.parent.iterdir()] == [(file, "topic: orders\n")]


def test_an_editor_finds_the_schema_wherever_the_contracts_are(tmp_path, monkeypatch):
    """Given contracts in the clone, or in a folder of one's own, then the first line leads to the schema that is there; without one there is no line."""
    for folder in (new.SCHEMA.parents[1] / "contracts", tmp_path / "mine" / "contracts"):
        folder.mkdir(parents=True, exist_ok=True)
        path = schema_line(folder).removeprefix("# yaml-language-server: $schema=").rstrip()
        assert (folder / path).resolve() == new.SCHEMA.resolve()
    assert schema_line(new.SCHEMA.parents[1] / "contracts").endswith("=../docs/contract.schema.json\n")
    monkeypatch.chdir(tmp_path / "mine")
    assert schema_line(new.Path("contracts")) == schema_line(tmp_path / "mine" / "contracts")
    monkeypatch.setattr(new, "SCHEMA", tmp_path / "none.json")
    assert schema_line(tmp_path) == ""


def folder_beside(tmp_path, monkeypatch, platform):
    """An empty folder of contracts beside a platform file that says this of Kafka and registry."""
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(contracts))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    text = f"{platform}catalog: {{type: rest, uri: 'http://c'}}\nspark: {{remote: 'sc://s:1'}}\n"
    (tmp_path / "platform.yaml").write_text(text)
    return contracts


def test_what_is_written_is_read_as_it_was_surveyed_beneath_the_defaults(tmp_path, monkeypatch):
    """Given defaults of another cluster and format, when a topic of the registry is surveyed, then that is its cluster, and not its format."""
    contracts = folder_beside(
        tmp_path,
        monkeypatch,
        'kafka: {main: {bootstrap.servers: "a:9092"}, eu: {bootstrap.servers: "b:9092"}}\n'
        "defaults: {cluster: eu}\nschema_registry: {eu: {url: 'http://r'}}\n",
    )
    (contracts / "_defaults.yaml").write_text("value: {format: json}\n")
    asked = []

    def surveyed(_lake, topic, cluster, _sample, inherited):
        asked.append((cluster, inherited))
        return Seen(topic, "lake.orders", cluster, {}, None, Sizes(1, 1, 1))

    monkeypatch.setattr(new, "survey", surveyed)
    told = CliRunner().invoke(app, ["new", "orders"])
    assert told.exit_code == 0, told.output
    assert asked == [("eu", {"cluster": "eu", "value": {"format": "json"}})]
    [contract] = load(tmp_path / "platform.yaml", contracts, environ={}, home=tmp_path / "home").contracts
    assert (contract.cluster, contract.value.format) == ("eu", "registry")
    assert "cluster" not in (contracts / "orders.yaml").read_text()


def test_a_topic_that_a_pattern_takes_has_a_contract_already(tmp_path, monkeypatch):
    """Given a pattern and a home that knows no topics yet, when a contract for a topic is asked for, then Kafka is asked first: what the pattern takes gets no second one, any other topic does."""
    contracts = folder_beside(
        tmp_path,
        monkeypatch,
        "kafka: {main: {bootstrap.servers: \"127.0.0.1:1\"}}\nschema_registry: {main: {url: 'http://r'}}\n",
    )
    (contracts / "shop.yaml").write_text("topics: '^shop[.](?P<name>.*)$'\ntable: shop.{name}\n")
    monkeypatch.setattr(KafkaAdmin, "topics", lambda _: {"shop.orders": 1, "clicks": 1})
    monkeypatch.setattr(
        new, "survey", lambda *_: Seen("clicks", "lake.clicks", "main", {}, None, Sizes(1, 1, 1))
    )
    told = CliRunner().invoke(app, ["new", "shop.orders", "--json"])
    assert told.exit_code == 2, told.output
    assert "topic shop.orders has a contract already: it makes shop.orders" in told.output
    assert [each.name for each in contracts.iterdir()] == ["shop.yaml"]
    told = CliRunner().invoke(app, ["new", "clicks"])
    assert told.exit_code == 0, told.output
    assert {each.name for each in contracts.iterdir()} == {"shop.yaml", "clicks.yaml"}


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("shop-orders", "lake.shop_orders"),
        ("shop.Orders", "lake.shop_Orders"),
        ("q", "lake.shop_orders_quarantine"),
        ("c", "lake.shop_orders_current"),
    ],
)
def test_a_table_that_another_contract_makes_is_no_fit(topic, table):
    other = Contract.model_validate(
        {
            "topic": "shop_orders",
            "table": "lake.shop_orders",
            "upsert": {"keys": ["id"], "table": "lake.shop_orders_current"},
        }
    )
    made = beside(proposal(topic, table), [other])
    assert not made.fits
    assert "also made by the contract of topic shop_orders (lake.shop_orders)" in made.reasons[-1].text


def test_a_table_of_its_own_fits():
    other = Contract.model_validate({"topic": "shop_orders", "table": "lake.shop_orders"})
    made = proposal("orders", "lake.orders")
    assert beside(made, [other]) is made
