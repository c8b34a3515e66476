"""A plan tells of names in the contract that no column has, before a run stumbles over them or passes them over."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY, Ledger
from tidemark.domain.ledger.merge_ledger import MergeLedger
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.access.table_state import OWNED, UPSERT_OF, read_state
from tidemark.engine.merge.pair import read_pair
from tidemark.engine.merge.table import DELETES, KEYS, ORDER, plan_follow, prepare
from tidemark.engine.preview.foresee import Foresight, foresee
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.schema.evolve import apply_changes
from tidemark.engine.table.folder import give_up

FIELDS = {"id": "bigint", "email": "string", "at": "timestamp", "who": "struct<name: string>"}


class Lake:
    """An empty catalog."""

    def __init__(self, folder: Path) -> None:
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self.platform = SimpleNamespace(catalog=SimpleNamespace(type="sql", name="lake"), schema_registry={})
        self.configuration = SimpleNamespace(contracts=(), origins={})
        self.loaded = lambda _: False

    def state(self, table: str, *, ledger: bool = True) -> Any:
        return read_state(self.catalog, table, ledger=ledger)


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    return Lake(tmp_path)


def contract(**said: Any) -> Contract:
    value = {"format": "json", "fields": FIELDS}
    return Contract.model_validate({"topic": "orders", "table": "shop.orders", "value": value, **said})


class TestNotesOnColumns:
    def test_about_no_column_are_told_with_the_nearest_and_stop_nothing(self, lake: Any) -> None:
        found = foresee(lake, contract(columns={"emial": {"tags": ["pii"]}}))
        assert found.verdict == "apply"
        [said] = found.findings
        assert said.startswith(
            "columns: there is no column emial (did you mean email?); its tags protect nothing"
        )

    @pytest.mark.parametrize(
        "name",
        ["email", "EMail", "who.name", "`who`.Name", "user.mail", "`user.mail`", "_kafka", "_kafka.key"],
    )
    def test_about_a_column_at_any_depth_are_not(self, lake: Any, name: str) -> None:
        value = {"format": "json", "fields": {**FIELDS, "user.mail": "string"}}
        assert foresee(lake, contract(columns={name: {"tags": ["pii"]}}, value=value)).findings == ()


@pytest.mark.parametrize(
    ("keys", "key", "envelope", "untold"),
    [
        (["id"], {}, "none", "id"),
        (["id"], {}, "debezium_flat", "id"),
        (["id", "who.name"], {"format": "string", "fields": ["id"]}, "none", "who.name"),
        (["id"], {"format": "json"}, "none", ""),
        (["_kafka.key"], {}, "none", ""),
    ],
)
def test_a_key_that_names_no_row_for_a_tombstone_is_told(
    lake: Any, keys: list[str], key: dict[str, Any], envelope: str, untold: str
) -> None:
    value = {"format": "json", "fields": FIELDS, "envelope": envelope}
    upsert = {"table": "shop.orders_current", "keys": keys}
    found = foresee(lake, contract(upsert=upsert, key=key, value=value))
    assert found.verdict == "apply"
    assert [f"`key` does not tell {untold}:" in each for each in found.findings] == [True] * bool(untold)


@pytest.mark.parametrize(("fields", "told"), [([], True), (["id"], False)])
def test_of_debeziums_tombstones_those_that_compaction_leaves_alone_are_told(
    lake: Any, fields: list[str], *, told: bool
) -> None:
    """Given keys that are not decoded, then of a compacted topic's deletes some may be tombstones alone, which name no row."""
    key = {"format": "string", "fields": fields} if fields else {}
    value = {"format": "json", "fields": FIELDS, "envelope": "debezium"}
    found = foresee(
        lake, contract(upsert={"table": "shop.orders_current", "keys": ["id"]}, key=key, value=value)
    )
    assert found.verdict == "apply"
    assert ["`key` does not tell id: deletes of which" in each for each in found.findings] == [True] * told


def test_a_name_that_another_tables_files_lie_under_is_told_before_a_run_stops_for_it(lake: Any) -> None:
    lake.catalog.create_namespace("shop")
    lake.catalog.create_table("shop.orders", Schema())
    give_up(lake.catalog, "shop.orders", "shop.sales")
    lake.catalog.rename_table("shop.orders", "shop.sales")
    found = foresee(lake, contract())
    assert found.verdict == "impossible"
    assert found.changes[-1]["reason"].startswith("shop.sales had this name before")


class TestAnUpsertTableBeforeItsFirstLoad:
    def foreseen(self, lake: Any, **upsert: Any) -> Foresight:
        current = upsert_table_of(contract(upsert={"table": "shop.orders_current", "keys": ["id"], **upsert}))
        assert current is not None
        return foresee_upsert(lake, current)

    @pytest.mark.parametrize(
        ("upsert", "reason"),
        [
            ({"partition_by": ["day(att)"]}, "partition_by: day(att): there is no column att"),
            ({"sort_by": ["emial"]}, "sort_by: there is no column emial (did you mean email?)"),
            ({"keys": ["idd"]}, "upsert.keys: there is no column idd (did you mean id?)"),
            ({"partition_by": ["day(email)"]}, "partition_by: day(email): day does not apply to string"),
        ],
    )
    def test_that_no_run_could_make_is_told(self, lake: Any, upsert: dict[str, Any], reason: str) -> None:
        found = self.foreseen(lake, **upsert)
        assert found.verdict == "impossible"
        assert reason in found.changes[-1]["reason"]

    def test_that_fits_has_nothing_to_do(self, lake: Any) -> None:
        found = self.foreseen(lake, partition_by=["day(at)"], sort_by=["email"], deletes="soft")
        assert (found.verdict, found.changes) == ("nothing", ())

    @pytest.mark.parametrize(
        ("made", "topic", "reason"),
        [
            ({OWNED: "orders"}, "orders", "It is an append table, which holds topic orders"),
            ({}, "", "It was made with"),
            ({UPSERT_OF: "shop.orders", KEYS: '["email"]'}, "", '["email"]'),
            ({UPSERT_OF: "shop.orders", KEYS: '["id"]', ORDER: '["_kafka.offset"]', DELETES: "hard"}, "", ""),
            ({UPSERT_OF: "shop.sales"}, "", ""),
        ],
        ids=["an append table", "of others", "of other keys", "its own", "of a table to be renamed"],
    )
    def test_in_whose_place_is_another_is_told(
        self, lake: Any, made: dict[str, str], topic: str, reason: str
    ) -> None:
        """Given a table of the upsert table's name that no merge would go into, when planned, then that is told before rows are loaded for it."""
        lake.catalog.create_namespace("shop")
        table = lake.catalog.create_table(
            "shop.orders_current", pa.schema([("id", pa.int64())]), properties=made
        )
        if topic:
            ledger = Ledger(cluster_id="c", topic_id="t", topic=topic, next={0: 1})
            table.append(pa.table({"id": [1]}), snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
        found = self.foreseen(lake)
        assert found.verdict == ("impossible" if reason else "nothing")
        assert [reason in each["reason"] for each in found.changes] == [True] * bool(reason)


class TestAnUpsertTableWhoseAppendTableIsToChange:
    @pytest.fixture
    def lake(self, lake: Any) -> Any:
        """An append table with `id: int` and a receipt, and its upsert table with that key."""
        row = pa.struct(
            {"id": pa.int32(), "_extra": pa.string(), "_kafka": pa.struct({"offset": pa.int64()})}
        )
        rows = pa.Table.from_struct_array(pa.array([{"id": 1, "_kafka": {"offset": 0}}], row))
        ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: 1})
        made = {UPSERT_OF: "shop.orders", KEYS: '["id"]', ORDER: '["_kafka.offset"]', DELETES: "hard"}
        lake.catalog.create_namespace("shop")
        lake.catalog.create_table("shop.orders_current", rows.schema, properties=made)
        lake.catalog.create_table("shop.orders", rows.schema).append(
            rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()}
        )
        return lake

    @pytest.mark.parametrize(
        ("fields", "foreseen"),
        [
            ({"id": "int"}, []),
            ({"id": "bigint"}, [("widen_type", "id", "review")]),
            ({"id": "int", "note": "string"}, [("add_column", "note", "apply")]),
        ],
    )
    def test_is_judged_by_the_columns_to_come(
        self, lake: Any, fields: dict[str, str], foreseen: list[tuple[str, ...]]
    ) -> None:
        """Given columns that the next run widens or adds, then what stops or grows the upsert table is told before; a wider key waits."""
        upsert = {"table": "shop.orders_current", "keys": ["id"]}
        current = upsert_table_of(contract(value={"format": "json", "fields": fields}, upsert=upsert))
        assert current is not None
        found = foresee_upsert(lake, current)
        columns = [c for c in found.changes if c["kind"] in {"widen_type", "add_column", "incompatible"}]
        assert [(c["kind"], c["path"], c["verdict"]) for c in columns] == foreseen
        assert not any("contract" in c["reason"] for c in columns), "that says nothing of its columns"
        assert any(
            "rows of shop.orders are to have other columns" in each for each in found.findings
        ) == bool(foreseen)
        assert found.plan == "", "nobody can approve it yet"

    @pytest.mark.parametrize(
        ("merges", "order", "epoch", "told"),
        [
            ([{0: 1}], "_kafka.offset", 0, True),
            ([{0: 1}, {0: 1, 1: 1}], "_kafka.offset", 0, True),
            ([{0: 1, 1: 0}], "_kafka.offset", 0, False),
            ([{0: 1}], "_kafka.offset", 1, False),
            ([{0: 1}], "id", 0, False),
        ],
        ids=[
            "not merged yet",
            "merged since",
            "empty from the start",
            "of another epoch",
            "ordered by the source",
        ],
    )
    def test_tells_of_partitions_that_came_after_a_merge_where_the_offset_alone_is_the_order(
        self, lake: Any, merges: list[dict[int, int]], order: str, epoch: int, *, told: bool
    ) -> None:
        append, made = (lake.catalog.load_table(f"shop.{name}") for name in ("orders", "orders_current"))
        uuid, head = str(append.metadata.table_uuid), append.metadata.current_snapshot_id
        rows = append.scan().to_arrow()
        for following in merges:
            merged = MergeLedger(
                append_table="shop.orders", append_uuid=uuid, append_snapshot=head, next=following
            )
            made.append(rows, snapshot_properties={LEDGER_PROPERTY: merged.to_json()})
        ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", epoch=epoch, next={0: 1, 1: 1})
        append.append(rows, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
        upsert = {"table": "shop.orders_current", "keys": ["id"], "order_by": [order]}
        current = upsert_table_of(contract(value={"format": "json", "fields": {"id": "int"}}, upsert=upsert))
        assert current is not None
        notes = foresee_upsert(lake, current).findings
        assert ["got partitions after rows had been merged (1):" in each for each in notes] == [True] * told

    def test_whose_keys_were_never_required_stays_without_identifier_fields(self, lake: Any) -> None:
        upsert = {"table": "shop.orders_current", "keys": ["id"]}
        current = upsert_table_of(contract(value={"format": "json", "fields": {"id": "int"}}, upsert=upsert))
        assert current is not None
        pair = read_pair(lake, current, ledger=False)
        prepare(lake, current, pair.state, pair.columns, "r")
        assert lake.catalog.load_table("shop.orders_current").schema().identifier_field_ids == []

    def test_is_described_as_its_append_table_is(self, lake: Any) -> None:
        """Given a description that the append table's columns have got, then the next merge gives it to the upsert table, once."""
        append = lake.catalog.load_table("shop.orders")
        with append.update_schema() as change:
            change.update_column("id", doc="number of the order")
        append.append(append.scan().to_arrow())
        fields, upsert = {"id": "int"}, {"table": "shop.orders_current", "keys": ["id"]}
        current = upsert_table_of(contract(value={"format": "json", "fields": fields}, upsert=upsert))
        assert current is not None
        pair = read_pair(lake, current, ledger=False)
        plan = plan_follow(current, pair.state, pair.columns)
        assert [(c.kind, c.path, c.new) for c in plan.changes] == [
            ("comment", ("id",), "number of the order")
        ]
        apply_changes(lake, current.contract, pair.state, plan, run_id="r")
        assert foresee_upsert(lake, current).changes == ()

    def test_stops_by_its_own_name_for_schemas_that_say_nothing_of_these_columns(self, lake: Any) -> None:
        """Given a subject of another format than the contract's, when the upsert table is planned, then that is told of it, with the step that helps its append table."""
        versions = (RegisteredSchema(1, 1, "JSON", "{}"),)
        lake.platform.schema_registry = {"main": None}
        lake.registry = lambda _: SimpleNamespace(versions=lambda _: versions)
        said = contract(
            value={"format": "avro", "subject": "o"}, upsert={"table": "shop.orders_current", "keys": ["id"]}
        )
        with pytest.raises(Stopped, match="subject o holds JSON") as stopped:
            foresee_upsert(lake, upsert_table_of(said))
        assert (stopped.value.state, stopped.value.table) == ("misconfigured", "shop.orders_current")
        assert stopped.value.next_step.endswith("tidemark run shop.orders")


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (None, ["topic orders does not exist on cluster main, and no schema tells its columns"]),
        (4, []),
        (
            9,
            [
                "topic orders holds records, but the schema registry does not know subject o. If the values are "
            ],
        ),
    ],
)
def test_a_topic_that_no_schema_tells_of_is_told_where_it_is_not_there_or_has_records(
    lake: Any, ends: int | None, told: list[str]
) -> None:
    """Given a subject that the registry does not know, when the topic is planned, then the finding is what a run would stop with."""
    there = {} if ends is None else {"orders": Topic("orders", "c", "t", {0: 4}, {0: ends}, {0: ends})}
    lake.platform.schema_registry = {}
    lake.registry = lambda _: SimpleNamespace(
        versions=lambda _: (), numbers=lambda _: (), compatibility=lambda _: None
    )
    lake.kafka = lambda _: SimpleNamespace(describe=lambda _, **__: there)
    found = foresee(
        lake, Contract.model_validate({"topic": "orders", "table": "shop.orders", "value": {"subject": "o"}})
    )
    assert (found.verdict, found.changes) == ("nothing", ())
    findings = [each for each in found.findings if each.startswith("topic orders")]
    assert [text[: len(start)] for text, start in zip(findings, told, strict=True)] == told


def test_a_table_that_no_record_tells_the_message_of_is_told_to_wait(lake: Any) -> None:
    """Given a Protobuf file with several messages, when its topic is planned before the first record, then the finding says why there is no table yet, and a message that the contract names makes one."""
    text = 'syntax = "proto3"; message Address { string id = 1; } message Order { int64 id = 1; }'
    lake.platform.schema_registry = {"main": None}
    lake.registry = lambda _: SimpleNamespace(
        versions=lambda _: (RegisteredSchema(1, 1, "PROTOBUF", text),), compatibility=lambda _: None
    )
    empty = Topic("orders", "c", "t", {0: 0}, {0: 0}, {0: 0})
    lake.kafka = lambda _: SimpleNamespace(describe=lambda _, **__: {"orders": empty})
    found = foresee(lake, contract(value={}))
    assert (found.verdict, found.changes) == ("nothing", ())
    assert any("its schema has 2 messages, Address, Order" in each for each in found.findings)
    named = foresee(lake, contract(value={"message": "Order"}))
    assert (named.verdict, named.changes[0]["to"]) == ("apply", "struct<id: long>")


def test_a_table_that_no_schema_can_make_is_impossible_before_the_first_run_too(lake: Any) -> None:
    """As the run says, which stops with the reason of the newest one."""
    own = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    versions = tuple(RegisteredSchema(n, n, "AVRO", json.dumps({**own, "doc": str(n)})) for n in (1, 2))
    lake.platform.schema_registry = {"main": None}
    lake.registry = lambda _: SimpleNamespace(versions=lambda _: versions, compatibility=lambda _: None)
    lake.kafka = lambda _: SimpleNamespace(describe=lambda _, **__: {"orders": object()})
    found = foresee(lake, Contract.model_validate({"topic": "orders", "table": "shop.orders"}))
    assert found.verdict == "impossible"
    [change] = found.changes
    assert (change["kind"], change["verdict"]) == ("incompatible", "impossible")
    assert "version 2: next: " in change["reason"]


@pytest.mark.parametrize(
    ("rows", "kinds", "told"),
    [(0, ["long"], True), (1, ["long"], False), (0, ["string"], False), (0, ["long", "string"], False)],
    ids=["empty", "with rows", "that fits", "that would be made so again"],
)
def test_a_table_without_rows_that_fits_no_schema_is_to_be_dropped(
    lake: Any, rows: int, kinds: list[str], *, told: bool
) -> None:
    """Given a table that a wrong subject has made, when the contract is mended, then the way out is no approval, which would send every record to the quarantine; where the table would be made so again it is told nothing."""
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", next={0: rows})
    row = pa.struct({"id": pa.string(), "_kafka": pa.struct({"offset": pa.int64()})})
    content = pa.Table.from_struct_array(pa.array([{"id": "1", "_kafka": {"offset": 0}}][:rows], row))
    lake.catalog.create_namespace("shop")
    made = lake.catalog.create_table("shop.orders", content.schema, properties={OWNED: "orders"})
    made.append(content, snapshot_properties={LEDGER_PROPERTY: ledger.to_json()})
    texts = [{"type": "record", "name": "R", "fields": [{"name": "id", "type": kind}]} for kind in kinds]
    versions = tuple(RegisteredSchema(n, n, "AVRO", json.dumps(text)) for n, text in enumerate(texts, 1))
    lake.platform.schema_registry = {"main": None}
    lake.registry = lambda _: SimpleNamespace(versions=lambda _: versions, compatibility=lambda _: None)
    found = foresee(lake, contract(value={}))
    assert any(change["kind"] == "incompatible" for change in found.changes) == ("long" in kinds)
    assert any("It has no rows: drop it" in each for each in found.findings) == told


def test_what_column_types_do_not_tell_of_a_new_table_is_told_beside_them(lake: Any) -> None:
    """Given a decimal that becomes text, defaults that their columns do not hold and a field that is only null, when planned, then each is named once."""
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 45, "scale": 3}
    narrow = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
    late = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [
        {"name": "wide", "type": wide},
        {"name": "narrow", "type": narrow, "default": "\u0001\u0000"},
        {"name": "late", "type": late, "default": 2**63 - 1},
        {"name": "nothing", "type": "null"},
        {"name": "plain", "type": late, "default": (2**63 - 1) // 1000},
    ]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    versions = tuple(RegisteredSchema(number, number, "AVRO", text) for number in (1, 2))
    lake.platform.schema_registry = {"main": None}
    lake.registry = lambda _: SimpleNamespace(
        versions=lambda _: versions, numbers=lambda _: (1, 2), compatibility=lambda _: None
    )
    found = foresee(lake, Contract.model_validate({"topic": "orders", "table": "shop.orders"}))
    assert found.verdict == "apply"
    assert sorted(each for each in found.findings if not each.startswith("the registry")) == [
        "late: default ignored: 9223372036854775807 is no whole number from -9223372036854775 to 9223372036854775",
        "narrow: default ignored: a decimal(2,0) has not 3 digits",
        "nothing: only null: no column",
        "wide: decimal(45,3) as text",
    ]


@pytest.mark.parametrize(("adds", "told"), [("__op", True), ("__lsn", False)])
def test_an_order_that_no_schema_fills_is_told(lake: Any, adds: str, *, told: bool) -> None:
    """Given flattened changes without a place, when the upsert table is to go by it, then that Kafka's order decides is no surprise."""
    fields = [{"name": "id", "type": "long"}, {"name": adds, "type": ["null", "string"]}]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    lake.platform.schema_registry = {"main": None}
    lake.registry = lambda _: SimpleNamespace(
        versions=lambda _: (RegisteredSchema(1, 1, "AVRO", text),), compatibility=lambda _: None
    )
    upsert = {"table": "shop.orders_current", "keys": ["id"], "order_by": ["_cdc.pos"]}
    found = foresee(lake, contract(upsert=upsert, value={"envelope": "debezium_flat"}))
    assert found.verdict == "apply"
    findings = [each for each in found.findings if each.startswith("upsert.order_by")]
    assert ["no schema fills _cdc.pos" in each for each in findings] == [True] * told


def test_keys_of_several_schema_ids_are_told_where_their_bytes_tell_rows_apart(lake: Any) -> None:
    """Given an upsert table by `_kafka.key`, when the key's schema got a second version, then the rows that come twice are no surprise."""
    lake.platform.schema_registry = {"main": None}
    texts = (
        '{"type": "record", "name": "K", "fields": []}',
        '{"type": "record", "name": "K", "fields": [], "doc": "2"}',
    )
    versions = tuple(RegisteredSchema(n + 6, n, "AVRO", text) for n, text in enumerate(texts, 1))
    for known, told in ((versions, ["orders-key has schema ids 7, 8:"]), (versions[:1], [])):
        lake.registry = lambda _, known=known: SimpleNamespace(versions=lambda _: known)
        found = foresee(lake, contract(upsert={"table": "shop.orders_current", "keys": ["_kafka.key"]}))
        assert found.verdict == "apply"
        assert [text in each for text, each in zip(told, found.findings, strict=True)] == [True] * len(told)
