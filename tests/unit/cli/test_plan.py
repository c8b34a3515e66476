"""plan, status --quarantine and where answer per table: what one table waits for hides no other's answer."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import UnauthorizedError
from quarantine_rows import SCHEMA
from typer.testing import CliRunner

from assets.names import OUTCOME
from tidemark.cli.main import app
from tidemark.domain.columns.types import Struct
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.engine.access import kafka
from tidemark.engine.access.kafka import KafkaAdmin
from tidemark.engine.access.table_state import OWNED, UPSERT_OF
from tidemark.engine.config import discovery
from tidemark.engine.merge.table import DELETES, KEYS, ORDER

PLATFORM = """
kafka: {main: {bootstrap.servers: "127.0.0.1:1"}}
schema_registry: {main: {url: "http://127.0.0.1:1"}}
catalog: {name: lake, type: sql, uri: "sqlite:///%s/catalog.db", warehouse: "file://%s"}
spark: {remote: "sc://127.0.0.1:1"}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    (contracts / "known.yaml").write_text(
        "topic: known\ntable: shop.known\nvalue: {format: json, fields: {id: bigint}}\n"
    )
    (contracts / "asks.yaml").write_text("topic: asks\ntable: shop.asks\n")
    (tmp_path / "platform.yaml").write_text(PLATFORM % (tmp_path, tmp_path))
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDEMARK_CONTRACTS", str(contracts))
    monkeypatch.setenv("TIDEMARK_CONFIG", str(tmp_path / "platform.yaml"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _lose(home: Path, catalog: SqlCatalog, table: str) -> None:
    """Make a table whose metadata file is gone."""
    catalog.create_table(table, pa.schema([pa.field("id", pa.int64())]))
    place = (f"file://{home}/gone.metadata.json", *table.split("."))
    with closing(sqlite3.connect(home / "catalog.db")) as database, database:
        database.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?",
            place,
        )


def test_the_plan_of_a_table_is_shown_though_another_s_registry_is_down() -> None:
    """Given two tables of which one needs a registry that does not answer, when all are planned, then the other's plan is there, the one has its state, and it is a finding."""
    told = CliRunner().invoke(app, ["plan", "--json"])
    assert told.exit_code == 1
    found = {each["table"]: each for each in json.loads(told.stdout)}
    assert (found["shop.known"]["verdict"], found["shop.known"].get("error")) == ("apply", None)
    asks = found["shop.asks"]
    assert (asks["verdict"], asks["changes"], asks["error"]["state"]) == (None, [], "registry_down")
    shown = CliRunner().invoke(app, ["plan"])
    assert "shop.known: apply" in shown.stdout
    assert "registry_down" in shown.stderr


def test_where_no_plan_can_be_made_each_table_says_why() -> None:
    told = CliRunner().invoke(app, ["plan", "shop.asks", "--json"])
    (asks,) = json.loads(told.stdout)
    assert (told.exit_code, asks["table"], asks["verdict"]) == (1, "shop.asks", None)
    assert asks["error"]["state"] == "registry_down"


def test_the_plan_says_which_file_set_each_value(home: Path) -> None:
    """Given an owner from the folder's defaults, when the table is planned, then that file is named with its line, and what is built in is not."""
    (home / "contracts" / "_defaults.yaml").write_text("owners: {data: team:sales}\n")
    (found,) = json.loads(CliRunner().invoke(app, ["plan", "shop.known", "--json"]).stdout)
    assert found["origins"]["owners.data"].endswith("contracts/_defaults.yaml:1")
    assert found["origins"]["value.format"].endswith("contracts/known.yaml:3")
    assert "target_lag" not in found["origins"]
    shown = CliRunner().invoke(app, ["plan", "shop.known"], env={"COLUMNS": "400"})
    assert "_defaults.yaml" in shown.stdout


def _two_tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> SqlCatalog:
    """`shop.known` and `shop.again` of one topic, by contract; their catalog, in which neither is. No broker is there."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)
    (home / "contracts" / "asks.yaml").unlink()
    (home / "contracts" / "again.yaml").write_text("topic: known\ntable: shop.again\nvalue: {format: json}\n")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("shop")
    return catalog


@pytest.mark.parametrize("words", [["status", "--quarantine"], ["where", "known", "--key", "k"]])
def test_a_table_that_cannot_be_seen_hides_no_other(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Given two tables of a topic, one with a metadata file that is gone, when quarantines or a record are asked for, then the other answers, the one has its state, and it is a finding; where none answers, that is all there is to say."""
    catalog = _two_tables(home, monkeypatch)
    _lose(home, catalog, "shop.again")
    told = CliRunner().invoke(app, [*words, "--json"])
    (again,) = json.loads(told.stdout)
    assert (told.exit_code, again["table"], again["error"]["state"]) == (1, "shop.again", "table_missing")
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 1
    assert "Nothing in quarantine" in shown.stdout or "No row" in shown.stdout
    assert "table_missing" in shown.stderr
    _lose(home, catalog, "shop.known")
    told = CliRunner().invoke(app, [*words, "--json"])
    assert (told.exit_code, json.loads(told.stdout)["error"]["state"]) == (1, "table_missing")


@pytest.mark.parametrize("words", [["status", "--quarantine"], ["where", "known", "--key", "k"]])
def test_a_table_whose_quarantine_cannot_be_seen_is_told_by_its_own_name(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Given two tables of a topic, one of whose quarantine the metadata file is gone, when both are asked, then a script finds the table that it knows; the error names the quarantine."""
    catalog = _two_tables(home, monkeypatch)
    _lose(home, catalog, "shop.again_quarantine")
    told = CliRunner().invoke(app, [*words, "--json"])
    (again,) = json.loads(told.stdout)
    assert (told.exit_code, again["table"]) == (1, "shop.again")
    assert again["error"]["table"] == "shop.again_quarantine"


def test_a_table_whose_ledger_is_lost_is_not_told_as_unread_or_without_a_quarantine(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a loaded table without a receipt whose quarantine has a row, when a record, the quarantine or the state is asked for, then it says that its ledger is lost, and no number; another table of the topic answers."""
    catalog = _two_tables(home, monkeypatch)
    rows = pa.table({"id": pa.array([1], pa.int64())})
    catalog.create_table("shop.known", rows.schema, properties={OWNED: "known"}).append(rows)
    place = {"epoch": 0, "partition": 0, "offset": 1, "batch_id": "b"}
    held = catalog.create_table("shop.known_quarantine", SCHEMA)
    held.append(pa.Table.from_pylist([place], schema=SCHEMA))
    for words in (["status", "--quarantine"], ["where", "known", "0:17"]):
        told = CliRunner().invoke(app, [*words, "--json"])
        found = {each["table"]: each for each in json.loads(told.stdout)}
        assert (told.exit_code, found["shop.known"]["error"]["state"]) == (1, "ledger_missing")
        assert "error" not in found.get("shop.again", {})
    (known,) = json.loads(CliRunner().invoke(app, ["status", "shop.known", "--json"]).stdout)
    assert (known["state"], known["quarantined"]) == ("ledger_missing", None)


def test_a_table_that_was_loaded_and_is_not_there_is_told_as_a_run_tells_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a table that no run has loaded yet, when a plan, the quarantine or a record is asked for, then nothing is wrong with it; once Dagster knows of a load, it is missing."""
    monkeypatch.setattr(kafka, "TIMEOUT", 0.5)  # no broker is there
    (home / "contracts" / "asks.yaml").unlink()
    folder = home / "home" / "dagster"
    folder.mkdir(parents=True)
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    asked = (["plan"], ["status", "--quarantine"], ["where", "known", "0:5"])
    assert [CliRunner().invoke(app, words).exit_code for words in asked] == [0, 0, 0]
    with DagsterInstance.get() as instance:
        result = AssetMaterialization(AssetKey(["shop", "known"]), metadata={OUTCOME: {}})
        instance.report_runless_asset_event(result)
    for words in asked:
        told = CliRunner().invoke(app, [*words, "--json"])
        assert (told.exit_code, "table_missing" in told.stdout) == (1, True), words


def test_a_table_whose_name_before_runs_have_loaded_is_not_planned_anew_while_that_cannot_be_read(
    home: Path,
) -> None:
    """Given a table in a namespace that no contract has any more, whose metadata file is gone, when plans are made, then it is another's; where a run has seen it loaded from this topic, it may be the one that was renamed."""
    (home / "contracts" / "asks.yaml").unlink()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("old")
    _lose(home, catalog, "old.known")
    (known,) = json.loads(CliRunner().invoke(app, ["plan", "--json"]).stdout)
    assert known["verdict"] == "apply"
    discovery.update(
        home / "home", lambda seen: seen.with_columns("old.known", Struct(()), "", ("main", "known"))
    )
    told = CliRunner().invoke(app, ["plan", "--json"])
    (known, *_) = json.loads(told.stdout)
    assert (told.exit_code, known["verdict"], known["error"]["state"]) == (1, None, "table_missing")
    assert (known["table"], known["error"]["table"]) == ("shop.known", "old.known")


def test_an_upsert_table_that_was_merged_and_is_not_there_is_planned_as_a_run_tells_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an append table that is there and its upsert table that is not, when it is planned, then it will be made; once Dagster knows that runs have merged it, it is missing."""
    contract = home / "contracts" / "known.yaml"
    text = contract.read_text().replace("id: bigint", "id: bigint, at: bigint")
    contract.write_text(text + "upsert: {keys: [id], order_by: [at]}\n")
    folder = home / "home" / "dagster"
    folder.mkdir(parents=True)
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(folder))
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("shop")
    table = catalog.create_table(
        "shop.known", pa.schema([pa.field(name, pa.int64()) for name in ("id", "at")])
    )
    read = {"start": {0: 0}, "from_": {0: 0}, "next": {0: 1}}
    by = {
        "cluster_id": "c",
        "topic_id": "t",
        "topic": "known",
        "run_id": "r",
        "contract": "x",
        "tidemark": "0",
    }
    ledger = Ledger(kind="append", batch_id="b", attempt="a", **by, **read)
    table.append(pa.table({"id": [1], "at": [1]}), snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})

    def planned() -> tuple[int, str]:
        told = CliRunner().invoke(app, ["plan", "shop.known_current", "--json"])
        (found,) = json.loads(told.stdout)
        return told.exit_code, found["error"]["state"] if "error" in found else found["verdict"]

    assert planned() == (0, "apply")
    with DagsterInstance.get() as instance:
        result = AssetMaterialization(AssetKey(["shop", "known_current"]), metadata={OUTCOME: {}})
        instance.report_runless_asset_event(result)
    assert planned() == (1, "table_missing")


def test_an_upsert_table_has_no_quarantine(home: Path) -> None:
    """Given an upsert table, when its quarantine is asked for, alone or beside its append table's, then it has none, and the other is told."""
    contract = home / "contracts" / "known.yaml"
    contract.write_text(contract.read_text() + "upsert: {keys: [id]}\n")
    alone = CliRunner().invoke(app, ["status", "--quarantine", "shop.known_current", "--json"])
    assert (alone.exit_code, json.loads(alone.stdout)) == (0, [])
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("shop")
    _lose(home, catalog, "shop.known")
    told = CliRunner().invoke(app, ["status", "--quarantine", "shop.known_current", "shop.known", "--json"])
    assert (told.exit_code, json.loads(told.stdout)["error"]["table"]) == (1, "shop.known")


def test_what_waits_for_rows_to_come_is_no_plan_to_approve_yet(home: Path) -> None:
    """Given a key that the next run widens, when its upsert table is planned, then the step is that run, for there is nothing to approve before it."""
    contract = home / "contracts" / "known.yaml"
    contract.write_text(contract.read_text() + "upsert: {keys: [id]}\n")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("shop")
    row = pa.struct({"id": pa.int32(), "_extra": pa.string(), "_kafka": pa.struct({"offset": pa.int64()})})
    rows = pa.Table.from_struct_array(pa.array([{"id": 1, "_kafka": {"offset": 0}}], row))
    made = {UPSERT_OF: "shop.known", KEYS: '["id"]', ORDER: '["_kafka.offset"]', DELETES: "hard"}
    catalog.create_table("shop.known_current", rows.schema, properties=made)
    ledger = Ledger(cluster_id="c", topic_id="t", topic="known", next={0: 1})
    catalog.create_table("shop.known", rows.schema).append(
        rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()}
    )
    told = CliRunner().invoke(app, ["plan", "shop.known_current"])
    assert told.exit_code == 1
    assert "shop.known_current: review" in told.stdout
    assert told.stdout.rstrip().endswith("Next: tidemark run shop.known")


def test_plans_are_shown_though_nobody_could_look_for_tables_without_a_contract(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a catalog that fails when it lists tables, when all are planned, then their plans are there beside that, and it is a finding."""
    (home / "contracts" / "asks.yaml").unlink()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("shop")
    catalog.create_table("shop.known", pa.schema([pa.field("id", pa.int64())]))

    def denied(*_: object) -> None:
        raise UnauthorizedError("who is that")

    monkeypatch.setattr(SqlCatalog, "list_tables", denied)
    told = CliRunner().invoke(app, ["plan", "--json"])
    known, others = json.loads(told.stdout)
    assert (told.exit_code, known["table"], "error" in known) == (1, "shop.known", False)
    assert (others["table"], others["verdict"], others["error"]["state"]) == (None, None, "permission_denied")


def test_tables_that_the_last_contract_has_left_are_planned(home: Path) -> None:
    """Given no contract, when all is planned, then that is bad use; not where a table of ours is left: it is released."""
    for each in (home / "contracts").iterdir():
        each.unlink()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}")
    catalog.create_namespace("shop")
    told = CliRunner().invoke(app, ["plan", "--json"])
    assert (told.exit_code, json.loads(told.stdout)["error"]["message"]) == (2, "there is no contract yet")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    ledger = Ledger(cluster_id="c", topic_id="t", topic="known", next={0: 1})
    catalog.create_table("shop.known", rows.schema, properties={OWNED: "known"}).append(
        rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()}
    )
    told = CliRunner().invoke(app, ["plan", "--json"])
    (known,) = json.loads(told.stdout)
    assert (told.exit_code, known["table"], known["changes"][0]["kind"]) == (0, "shop.known", "release")


@pytest.mark.parametrize("words", [["plan", "--sample", "5"], ["where", "known", "0:5"]])
def test_a_cluster_that_does_not_answer_is_waited_for_by_two_tables_of_many(
    home: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Given five tables of a dead cluster, when all are planned with a sample, or a record is looked for, then it is asked twice, and each table answers or says why not."""
    monkeypatch.setattr(kafka, "TIMEOUT", 2)
    (home / "contracts" / "asks.yaml").unlink()
    for n in range(4):
        said = f"topic: known\ntable: shop.t{n}\nvalue: {{format: json, fields: {{id: bigint}}}}\n"
        (home / "contracts" / f"t{n}.yaml").write_text(said)
    asked: list[KafkaAdmin] = []
    ask = KafkaAdmin.cluster_id
    monkeypatch.setattr(KafkaAdmin, "cluster_id", lambda admin: asked.append(admin) or ask(admin))
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (len(told), len(asked)) == (5, 2)
