"""Plans become commits on a real table: SQLite catalog, PyIceberg, no JVM."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.types import INT, LONG, STRING, TYPE_RULES_PROPERTY, VARIANT, Field, Struct
from tidemark.domain.columns.types import MapType as Mapped
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Overtaken, Stopped
from tidemark.domain.formats.avro import parse
from tidemark.domain.formats.avro_columns import UNION
from tidemark.domain.formats.avro_columns import columns as avro_columns
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.plan.contract_record import RECORD, record_text
from tidemark.domain.plan.meanings import MEANINGS
from tidemark.domain.plan.table_properties import governance
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.access.table_state import TableState, read_state
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.ready import evolve_if_needed, require_bare_values_covered
from tidemark.engine.schema.evolve import REMOVED as APPROVED_REMOVALS
from tidemark.engine.schema.evolve import (
    Approval,
    evolve,
    plan_evolution,
    refused_ids,
    removing_ids,
    settled_ids,
    unsupported_ids,
    value_columns,
)
from tidemark.engine.schema.history import history
from tidemark.engine.schema.writer import Reading, Writer, writer_of
from tidemark.engine.schema.writers import TopicSchemas, read_schemas

TABLE = "shop.orders"


def schema(*fields: Any, name: str = "Order") -> Any:
    return parse(json.dumps({"type": "record", "name": name, "fields": list(fields)}))


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ITEM = {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "int"}]}
FIRST = (
    field("id", "int"),
    field("at", {"type": "long", "logicalType": "timestamp-micros"}),
    field("who", "string"),
    field("items", {"type": "array", "items": ITEM}),
)


def topic(*versions: Any, **unsupported: str) -> TopicSchemas:
    made = tuple(
        Writer(n, n, each, avro_columns(each).struct)
        for n, each in enumerate((schema(*v) for v in versions), 1)
    )
    return TopicSchemas(writers=made, unsupported={int(k[1:]): v for k, v in unsupported.items()})


def flattened(*versions: Any) -> TopicSchemas:
    """As ExtractNewRecordState leaves Debezium's changes."""
    texts = (json.dumps({"type": "record", "name": "Order", "fields": list(v)}) for v in versions)
    listed = (RegisteredSchema(n, n, "AVRO", text) for n, text in enumerate(texts, 1))
    return TopicSchemas(writers=tuple(writer_of(each, Reading("debezium_flat")) for each in listed))


def contract(**said: Any) -> Contract:
    return Contract.model_validate({"topic": "orders", "table": TABLE, **said})


class Lake:
    """A lake without Spark: what PyIceberg can write needs none."""

    def __init__(self, folder: Path) -> None:
        self.platform = SimpleNamespace(catalog=SimpleNamespace(type="sql"))
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("shop")

    def create(self, said: Contract) -> None:
        item = StructType(NestedField(6, "n", IntegerType(), required=False))
        self.catalog.create_table(
            TABLE,
            Schema(
                NestedField(1, "id", IntegerType(), required=False),
                NestedField(2, "at", TimestamptzType(), required=False),
                NestedField(3, "who", StringType(), required=False, doc="old"),
                NestedField(4, "items", ListType(5, item, element_required=False), required=False),
                NestedField(7, "strict", LongType(), required=True),
            ),
            properties={
                RECORD: record_text(said),
                **{k: v for k, v in governance(said).items() if v},
                "format-version": "2",
            },
        )

    def state(self) -> TableState:
        return read_state(self.catalog, TABLE)

    def append(self, *ids: int) -> None:
        table = self.catalog.load_table(TABLE)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        kinds = table.schema().as_arrow()
        known = {"id": list(ids), "at": [at] * len(ids), "who": [f"w{i}" for i in ids], "strict": list(ids)}
        table.append(
            pa.table({f.name: pa.array(known.get(f.name, [None] * len(ids)), f.type) for f in kinds}, kinds)
        )

    def evolve(self, said: Contract, schemas: TopicSchemas, **how: Any) -> Any:
        return evolve(self, said, self.state(), schemas, **{"run_id": "r", **how})  # type: ignore[arg-type]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path)
    made.create(contract())
    return made


NESTED = {
    **ITEM,
    "fields": [{"name": "n", "type": "long"}, {"name": "note", "type": ["null", "string"], "doc": "x"}],
}
SECOND = (
    field("id", "long"),
    FIRST[1],
    field("who", "string", doc="the customer"),
    field("items", {"type": "array", "items": NESTED}),
    field(
        "ship",
        ["null", {"type": "record", "name": "Ship", "fields": [{"name": "to", "type": "string"}]}],
        doc="s",
    ),
)


class TestAPlanBecomesOneCommit:
    def test_of_every_kind_at_once_and_nothing_is_left_to_plan(self, lake: Lake) -> None:
        said = contract(
            partition_by=["bucket(4, id)", "day(at)", "ship.to"],
            sort_by=["who"],
            description="Orders",
            table_properties={"a": "1"},
            runbook="https://wiki",
        )
        before = len(lake.catalog.load_table(TABLE).metadata.metadata_log)
        found = lake.evolve(said, topic(FIRST, SECOND))
        kinds = {c.kind for c in found.done}
        assert kinds == {
            *(
                "add_column",
                "widen_type",
                "make_optional",
                "comment",
                "property",
                "partition_spec",
                "sort_order",
            )
        }
        assert len(lake.catalog.load_table(TABLE).metadata.metadata_log) == before + 1
        state = lake.state()
        assert plan_evolution(said, state, topic(FIRST, SECOND)).changes == ()
        assert state.shape.partition_by == ("bucket(4, id)", "day(at)", "ship.to")
        assert (state.shape.sort_by, state.shape.required) == (("who",), ())
        assert state.properties["comment"] == "Orders"
        assert "items: list<struct<n: long, note: string>>" in str(state.columns)
        [entry] = history(state)
        assert (entry["by"], entry["run_id"], entry["schema_ids"]) == ("contract", "r", [2])

    def test_a_look_without_a_run_commits_nothing(self, lake: Lake) -> None:
        at = lake.catalog.load_table(TABLE).metadata_location
        found = lake.evolve(contract(), topic(FIRST, SECOND), run_id=None)
        assert (found.done, bool(found.plan.of("apply"))) == ((), True)
        assert lake.catalog.load_table(TABLE).metadata_location == at

    def test_a_second_look_commits_nothing(self, lake: Lake) -> None:
        lake.evolve(contract(), topic(FIRST, SECOND))
        at = lake.catalog.load_table(TABLE).metadata_location
        assert lake.evolve(contract(), topic(FIRST, SECOND)).done == ()
        assert lake.catalog.load_table(TABLE).metadata_location == at

    def test_files_keep_the_spec_they_were_written_with_and_rows_stay(self, lake: Lake) -> None:
        lake.append(1, 2, 3)
        for by in (["who"], ["id"], [], ["id", "who"], ["strict"]):
            lake.evolve(contract(partition_by=by), topic(FIRST))
            assert lake.state().shape.partition_by == tuple(by)
            lake.append(4)
        table = lake.catalog.load_table(TABLE)
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 4, 4, 4, 4]
        files = table.inspect.files()
        assert len(set(files["spec_id"].to_pylist())) == 5
        assert table.scan(row_filter="id == 4").to_arrow().num_rows == 5

    def test_sort_order_goes_and_comes_back(self, lake: Lake) -> None:
        for by in (["who"], [], ["id", "who"], ["who"]):
            lake.evolve(contract(sort_by=by), topic(FIRST))
            assert lake.state().shape.sort_by == tuple(by)
            assert plan_evolution(contract(sort_by=by), lake.state(), topic(FIRST)).changes == ()

    def test_a_property_that_the_contract_drops_is_gone(self, lake: Lake) -> None:
        lake.evolve(contract(table_properties={"mine": "1"}), topic(FIRST))
        assert lake.state().properties["mine"] == "1"
        lake.evolve(contract(), topic(FIRST))
        assert "mine" not in lake.state().properties

    def test_an_edit_is_remembered_when_nothing_else_changes(self, lake: Lake) -> None:
        lake.evolve(contract(), topic(FIRST))
        edited = contract(retention={"append": "7d"})
        [change] = lake.evolve(edited, topic(FIRST)).done
        assert (change.kind, change.path) == ("contract", ("retention.append",))
        assert lake.evolve(edited, topic(FIRST)).plan.changes == ()


def test_what_has_no_type_is_text_until_the_upgrade_is_approved(lake: Lake) -> None:
    """A table of format 2 knows no VARIANT, although the contract already says format 3; its text holds them after."""
    lake.evolve(contract(), topic(FIRST))
    loose = Writer(
        7, 2, schema(*FIRST), Struct((*topic(FIRST).writers[0].columns.fields, Field("any", VARIANT)))
    )
    found = lake.evolve(contract(), TopicSchemas(writers=(topic(FIRST).writers[0], loose)))
    assert [(c.kind, c.path, c.new) for c in found.done] == [("add_column", ("any",), STRING)]
    held = TopicSchemas(writers=(loose,)).covered(value_columns(lake.state()))
    assert set(held) == {7}


class TestTimestampsOfProtobuf:
    """A column keeps the precision that it was made with: an edit of `value.types` is no fault of the writers."""

    PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
    message Order { int32 id = 1; string who = 2; %s }"""
    TIMED = "google.protobuf.Timestamp at = 3;"

    def read(self, lake: Any, said: Contract, field: str) -> TopicSchemas:
        versions = (RegisteredSchema(1, 1, "PROTOBUF", self.PROTO % field),)
        lake.platform.schema_registry = {"main": None}
        lake.registry = lambda _: SimpleNamespace(versions=lambda _: versions)
        return read_schemas(lake, said, lake.state())

    def said(self, **more: Any) -> Contract:
        value = {"format": "protobuf", "subject": "o", **more}
        return contract(value=value, schema_changes={"incompatible": "quarantine"})

    def test_that_are_there_stay_and_no_writer_goes_to_quarantine_for_an_edit(self, lake: Lake) -> None:
        lake.evolve(self.said(), self.read(lake, self.said(), self.TIMED))
        said = self.said(types={"timestamp_nanos": "long"})
        for _ in range(2):
            schemas = self.read(lake, said, self.TIMED)
            [change] = lake.evolve(said, schemas).plan.changes
            assert (change.path, change.verdict) == (("value.types",), "impossible")
            assert refused_ids(said, lake.state(), schemas) == frozenset()
            assert set(schemas.covered(value_columns(lake.state()))) == {1}
        assert (
            plan_evolution(self.said(), lake.state(), self.read(lake, self.said(), self.TIMED)).changes == ()
        )

    def test_that_are_to_come_are_made_as_the_contract_says(self, lake: Lake) -> None:
        lake.evolve(self.said(), self.read(lake, self.said(), ""))
        said, later = self.said(types={"timestamp_nanos": "long"}), self.TIMED.replace("at", "seen")
        done = lake.evolve(said, self.read(lake, said, later)).done
        assert [(c.path, c.new) for c in done if c.kind == "add_column"] == [(("seen",), LONG)]
        assert [(c.path, c.verdict) for c in done if c.kind == "contract"] == [(("value.types",), "apply")]


TIME, NANOS = ({"type": "long", "logicalType": kind} for kind in ("time-micros", "timestamp-nanos"))
MICROS = "microseconds since midnight"


def box(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Box", "fields": [field("t", kind)]}


TIMED = (*FIRST, field("at_till", TIME), field("box", box(TIME)))


class TestWhatValuesMean:
    """A unit is kept in the table, for comments are anyone's to change."""

    @pytest.fixture
    def till(self, lake: Lake) -> Lake:
        """A table as Tidemark makes it, to which the second version has added two times."""
        set_meanings(lake, {})
        lake.evolve(contract(columns={"at_till": {"description": "of the till"}}), topic(FIRST, TIMED))
        return lake

    def test_is_kept_with_the_columns_that_are_added(self, till: Lake) -> None:
        state = till.state()
        assert json.loads(state.properties[MEANINGS]) == {"at_till": MICROS, "box.t": MICROS}
        columns = value_columns(state)
        assert columns.field("at_till") == Field("at_till", LONG, "of the till", meaning=MICROS)
        assert columns.field("id") == Field("id", INT)

    @pytest.mark.parametrize(
        ("kind", "becomes"),
        [(NANOS, "nanoseconds since"), ("long", "plain"), ("int", "plain")],
    )
    def test_never_changes_whatever_the_comment_says(self, till: Lake, kind: Any, becomes: str) -> None:
        with till.catalog.load_table(TABLE).update_schema() as update:
            update.update_column("at_till", doc="nanoseconds since 1970-01-01T00:00:00Z")
        now = topic(FIRST, TIMED, (*FIRST, field("at_till", kind), field("box", box(TIME))))
        [change] = till.evolve(contract(), now).parked
        assert (change.kind, change.path, change.old) == ("incompatible", ("at_till",), f"long ({MICROS})")
        assert becomes in str(change.new)
        columns = value_columns(till.state())
        assert set(now.covered(columns)) == {1, 2}
        assert becomes in now.why_uncovered(columns, 3)
        assert refused_ids(contract(schema_changes={"incompatible": "quarantine"}), till.state(), now) == {3}
        plan = plan_evolution(contract(), till.state(), now)
        till.evolve(contract(), now, approval=Approval(plan.id, "ann", "another clock"))
        assert settled_ids(till.state()) == {3}
        assert till.evolve(contract(), now).plan.changes == ()

    def test_a_plain_number_does_not_get_one(self, till: Lake) -> None:
        timed = (field("id", {"type": "int", "logicalType": "time-millis"}), *TIMED[1:])
        [change] = till.evolve(contract(), topic(FIRST, TIMED, timed)).parked
        assert (change.kind, change.path, change.new) == ("incompatible", ("id",), f"long ({MICROS})")
        assert value_columns(till.state()).field("id") == Field("id", INT)

    @pytest.mark.parametrize("around", [lambda kind: kind, lambda kind: {"type": "map", "values": kind}])
    def test_of_a_record_is_another_than_of_a_union(self, lake: Lake, around: Any) -> None:
        """Not even where they share a name: rows of one record would be told in two ways."""
        rec = {"type": "record", "name": "G", "fields": [field("string", "string")]}
        other = {"type": "record", "name": "H", "fields": [field("y", "int")]}
        kinds = (["null", rec], ["null", rec, "string"], ["null", rec, "string", other])
        versions = [(*FIRST, field("u", around(kind))) for kind in kinds]
        set_meanings(lake, {})
        lake.evolve(contract(), topic(versions[0]))
        [change] = lake.evolve(contract(), topic(versions[0], versions[1])).parked
        assert (change.kind, change.path, change.verdict) == ("incompatible", ("u",), "review")
        assert (str(change.old)[-7:], str(change.new)[-len(UNION) - 1 :]) == ("(plain)", f"{UNION})")

    def test_of_a_union_stays_so_with_more_branches(self, lake: Lake) -> None:
        set_meanings(lake, {})
        versions = [(*FIRST, field("u", kinds)) for kinds in (["string", "int"], ["string", "int", "bytes"])]
        lake.evolve(contract(), topic(versions[0]))
        assert json.loads(lake.state().properties[MEANINGS]) == {"u": UNION}
        [done] = lake.evolve(contract(), topic(*versions)).done
        assert (done.kind, done.path) == ("add_column", ("u", "bytes"))

    def test_of_structs_made_by_older_rules_is_not_known(self, lake: Lake) -> None:
        """They go on as they did, those of unions among them."""
        set_meanings(lake, {})
        set_rules(lake, "1")
        lake.evolve(contract(), topic((*FIRST, field("u", ["string", "int"]))))
        set_meanings(lake, {})
        found = value_columns(lake.state())
        assert [f.meaning for f in found.fields if f.name in {"id", "u"}] == ["", None]
        grown = (*FIRST, field("u", ["string", "int", "bytes"]), field("v", ["string", "int"]))
        assert [c.kind for c in lake.evolve(contract(), topic(grown)).done] == ["add_column"] * 2
        assert value_columns(lake.state()).field("v").meaning is None, "an older Tidemark reads it too"

    @pytest.mark.parametrize("rules", ["1", "2"])
    @pytest.mark.parametrize(
        "around",
        [lambda kind: {"type": "map", "values": kind}, lambda kind: {"type": "array", "items": kind}],
    )
    def test_of_numbers_in_lists_and_maps_is_known_by_any_rules(
        self, lake: Lake, rules: str, around: Any
    ) -> None:
        set_meanings(lake, {})
        set_rules(lake, rules)
        versions = [(*FIRST, field("n", around(kind))) for kind in ("int", TIME)]
        lake.evolve(contract(), topic(versions[0]))
        [change] = lake.evolve(contract(), topic(*versions)).parked
        assert (change.kind, change.path, change.verdict) == ("incompatible", ("n",), "review")
        assert MICROS in str(change.new)

    def test_is_one_of_keys_of_maps_too(self) -> None:
        def keyed(meaning: str) -> Struct:
            key = Struct((Field("v", Struct((Field("string", STRING),)), meaning=meaning),))
            return Struct((Field("m", Mapped(key, INT)),))

        [difference] = covers(keyed(""), keyed(UNION))
        assert (difference.kind, difference.dotted) == ("incompatible", "m.key.v")
        assert covers(keyed(UNION), keyed(UNION)) == ()

    def test_of_a_struct_that_grows_leaves_the_plan_its_id(self, lake: Lake) -> None:
        """What a run applies to the same column meanwhile does not change what someone was asked to approve."""
        rec = {"type": "record", "name": "G", "fields": [field("x", "int")]}
        more = {**rec, "fields": [*rec["fields"], field("y", ["null", "int"])]}
        first, grown, union = ((*FIRST, field("u", kind)) for kind in (rec, more, ["null", rec, "string"]))
        set_meanings(lake, {})
        lake.evolve(contract(), topic(first))
        shown = plan_evolution(contract(), lake.state(), topic(first, grown, union))
        assert {(c.kind, c.verdict) for c in shown.changes} >= {
            ("add_column", "apply"),
            ("incompatible", "review"),
        }
        assert lake.evolve(contract(), topic(first, grown, union)).done
        assert plan_evolution(contract(), lake.state(), topic(first, grown, union)).id == shown.id

    def test_is_not_judged_where_the_table_does_not_know_it(self, lake: Lake) -> None:
        """A table from before meanings were kept goes on as it did."""
        timed = (field("id", {"type": "int", "logicalType": "time-millis"}), *FIRST[1:])
        done = lake.evolve(contract(), topic(timed)).done
        assert ("widen_type", ("id",)) in {(c.kind, c.path) for c in done}
        assert MEANINGS not in lake.state().properties


def test_what_an_approval_lets_in_is_told_from_what_none_does(lake: Lake) -> None:
    """A version that has no columns does not make the review of another one hopeless."""
    said, clashing = contract(), (field("id", "string"), *FIRST[1:])
    schemas = topic(FIRST, clashing, _3="version 3: it is recursive")
    lake.evolve(said, topic(FIRST))
    assert plan_evolution(said, lake.state(), schemas).verdict == "impossible"
    assert unsupported_ids(said, lake.state(), schemas) == {3}
    aside = contract(schema_changes={"incompatible": "quarantine"})
    assert unsupported_ids(aside, lake.state(), schemas) == frozenset()


def test_a_version_that_the_registry_has_deleted_decides_nothing_about_a_new_table() -> None:
    clashing, first = (schema(*each) for each in ((field("id", "string"), *FIRST[1:]), FIRST))
    writers = [Writer(n, n, each, avro_columns(each).struct) for n, each in ((2, clashing), (1, first))]
    wanted = TopicSchemas(tuple(writers), deleted=frozenset({2})).wanted()
    assert wanted == avro_columns(first).struct


def test_a_version_that_the_registry_has_deleted_clashes_rather_than_the_one_that_mends_it(
    lake: Lake,
) -> None:
    """Given a mistake that was deleted, and the version after it, then the new column is as the latter has it."""
    mistake, mended = field("x", "string", doc="wrong"), field("x", "int", doc="right")
    versions = topic(FIRST, (*FIRST, mistake), (*FIRST, mended), (*FIRST, field("x", "int", doc="wrong")))
    found = lake.evolve(contract(), replace(versions, deleted=frozenset({2, 4})))
    assert [(c.kind, c.path, c.schema_id) for c in found.parked] == [("incompatible", ("x",), 2)]
    made = value_columns(lake.state()).field("x")
    assert made is not None
    assert (made.type, made.doc) == (INT, "right")


def set_rules(lake: Lake, rules: str) -> None:
    with lake.catalog.load_table(TABLE).transaction() as change:
        change.set_properties({TYPE_RULES_PROPERTY: rules})


def set_meanings(lake: Lake, meanings: dict[str, str]) -> None:
    with lake.catalog.load_table(TABLE).transaction() as change:
        change.set_properties({MEANINGS: json.dumps(meanings)})


class TestTwoAtOnce:
    @pytest.mark.parametrize(
        ("said", "versions"),
        [
            (contract(), (FIRST, SECOND)),
            (contract(partition_by=["day(at)"]), (FIRST,)),
            (contract(sort_by=["who"]), (FIRST,)),
        ],
    )
    def test_of_two_runs_that_plan_the_same_change_one_makes_it(
        self, lake: Lake, said: Contract, versions: Any
    ) -> None:
        lake.evolve(contract(), topic(FIRST))
        state, schemas = lake.state(), topic(*versions)
        barrier, results = threading.Barrier(2), []

        def run() -> None:
            barrier.wait()
            try:
                results.append(evolve(lake, said, state, schemas, run_id="r"))  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - what lost is looked at below
                results.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        now = lake.state()
        assert plan_evolution(said, now, schemas).changes == ()
        names = [f.name for f in now.columns.fields]  # type: ignore[union-attr]
        assert len(names) == len(set(names))
        assert sorted(type(r).__name__ for r in results) == ["Evolution", "Overtaken"], results
        assert len(history(now)) == 2

    def test_the_one_that_comes_second_does_it_again_from_what_is_there(self, lake: Lake) -> None:
        stale, schemas = lake.state(), topic(FIRST, SECOND)
        lake.evolve(contract(), schemas)
        with pytest.raises(Overtaken):
            evolve(lake, contract(), stale, schemas, run_id="late")  # type: ignore[arg-type]
        assert lake.evolve(contract(), schemas).done == ()

    @pytest.mark.parametrize("moment", ["before the change", "while it is committed"])
    def test_an_entry_of_the_history_is_never_overwritten(
        self, lake: Lake, moment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An edit of properties alone has no schema to compare; what was approved meanwhile stays approved."""
        broken = (field("id", ["string", "boolean"]), *FIRST[1:])
        schemas, stale = topic(FIRST, broken), lake.state()
        waits = plan_evolution(contract(), stale, schemas).id
        other, committed = contract(retention={"append": "7d"}), lake.catalog.commit_table

        def approved() -> None:
            monkeypatch.setattr(lake.catalog, "commit_table", committed)
            lake.evolve(contract(), schemas, approval=Approval(waits, "ann", "known"))

        def late(*commit: Any) -> Any:
            approved()
            return committed(*commit)

        if moment == "before the change":
            approved()
        else:
            monkeypatch.setattr(lake.catalog, "commit_table", late)
        with pytest.raises(Overtaken):
            evolve(lake, other, stale, schemas, run_id="late")  # type: ignore[arg-type]
        evolve(lake, other, lake.state(), schemas, run_id="again")  # type: ignore[arg-type]
        assert [(e["by"], e["run_id"]) for e in history(lake.state())] == [
            ("ann", "r"),
            ("contract", "again"),
        ]
        assert settled_ids(lake.state()) == {2}


class TestAColumnThatSomebodyTookAwayByHand:
    @pytest.mark.parametrize(
        ("path", "name", "says"),
        [
            (("who",), None, "dropped it by hand. Approve"),
            (("who",), "customer", "renamed it to customer by hand. Rename it back by hand, or approve"),
            (("items", "element", "n"), "amount", "renamed it to items.element.amount by hand"),
        ],
    )
    def test_is_not_made_anew_without_a_word(
        self, lake: Lake, path: Any, name: str | None, says: str
    ) -> None:
        """Rows that are there would be NULL under a name that readers know."""
        lake.evolve(contract(), topic(FIRST))
        with lake.catalog.load_table(TABLE).update_schema() as update:
            update.rename_column(path, name) if name else update.delete_column(path)
        found = lake.evolve(contract(), topic(FIRST))
        assert [(c.kind, c.path) for c in found.parked] == [("add_column", path)]
        assert says in found.parked[0].reason
        assert found.done == ()
        lake.evolve(contract(), topic(FIRST), approval=Approval(found.plan.id, "ann", "known"))
        assert plan_evolution(contract(), lake.state(), topic(FIRST)).changes == ()
        assert says in history(lake.state())[-1]["changes"][0]["reason"]

    def test_fits_again_once_it_is_renamed_back(self, lake: Lake) -> None:
        lake.evolve(contract(), topic(FIRST))
        for old, new in (("who", "customer"), ("customer", "who")):
            with lake.catalog.load_table(TABLE).update_schema() as update:
                update.rename_column(old, new)
        assert plan_evolution(contract(), lake.state(), topic(FIRST)).changes == ()

    def test_of_other_columns_nothing_waits(self, lake: Lake) -> None:
        lake.evolve(contract(), topic(FIRST))
        with lake.catalog.load_table(TABLE).update_schema() as update:
            update.delete_column("who")
        found = lake.evolve(contract(), topic(FIRST, SECOND))
        assert [c.path for c in found.parked] == [("who",)]
        assert ("ship",) in [c.path for c in found.done]


REMOVED = (FIRST[0], FIRST[1], FIRST[3])


class TestBeforeABatch:
    @pytest.mark.parametrize("why", ["settled", "refused", "unsupported"])
    def test_a_schema_that_stays_out_brings_no_look_at_the_contract(self, lake: Lake, why: str) -> None:
        """Given a run that lingers with yesterday's contract, when such a schema is there, then it lets the table be."""
        policy = {"incompatible": "quarantine"} if why == "refused" else {}
        yesterdays = contract(description="old", schema_changes=policy)
        clashing = (field("id", "string"), *FIRST[1:])
        schemas = topic(FIRST, _2="recursive") if why == "unsupported" else topic(FIRST, clashing)
        lake.evolve(yesterdays, topic(FIRST))
        if why == "settled":
            plan = plan_evolution(yesterdays, lake.state(), schemas)
            lake.evolve(yesterdays, schemas, approval=Approval(plan.id, "ann", "known"))
        lake.evolve(contract(description="new", schema_changes=policy), topic(FIRST))
        ledger = Ledger(cluster_id=None, topic_id=None, topic="orders", contract=yesterdays.digest)
        loaded = replace(lake.state(), ledger=ledger)
        assert evolve_if_needed(lake, yesterdays, loaded, schemas, "r") is loaded  # type: ignore[arg-type]
        assert lake.state().properties["comment"] == "new"

    def test_another_type_of_records_waits_whichever_contract_wrote_last(self, lake: Lake) -> None:
        """Given a route that was edited, and a receipt by the new contract, such as that of an accepted gap, then records of the old type are passed over by no run before the approval."""
        one, other = (contract().model_copy(update={"event": each}) for each in ("Paid", "Placed"))
        schemas = topic(FIRST)
        lake.evolve(one, schemas)
        with lake.catalog.load_table(TABLE).transaction() as change:
            change.set_properties({RECORD: record_text(one)})
        ledger = Ledger(cluster_id=None, topic_id=None, topic="orders", contract=other.digest)
        loaded = replace(lake.state(), ledger=ledger)
        with pytest.raises(
            Stopped, match="records of Paid that were not read yet will be passed over"
        ) as told:
            evolve_if_needed(lake, other, loaded, schemas, "r")  # type: ignore[arg-type]
        assert told.value.state == "schema_review"
        lake.evolve(other, schemas, approval=Approval(told.value.fields["plan"], "ann", "known"))
        loaded = replace(lake.state(), ledger=ledger)
        assert evolve_if_needed(lake, other, loaded, schemas, "r") is loaded  # type: ignore[arg-type]


class TestTheKeyOfAMap:
    @pytest.mark.parametrize("required", [True, False])
    def test_stays_as_it_is_for_iceberg_alters_none(self, lake: Lake, required: bool) -> None:
        """Given a table keyed by a record, when that is described otherwise beside a new field, then the field comes."""
        code = StructType(NestedField(5, "code", StringType(), required=required, doc="old"))
        count = StructType(NestedField(6, "n", IntegerType(), required=required, doc="old"))
        kind = MapType(3, code, 4, count, value_required=False)
        lake.catalog.drop_table(TABLE)
        lake.catalog.create_table(
            TABLE, Schema(NestedField(1, "id", IntegerType()), NestedField(2, "m", kind, required=False))
        )
        inner = {
            "key": {"type": "record", "name": "Key", "fields": [field("code", "string", doc="new")]},
            "value": {"type": "record", "name": "Value", "fields": [field("n", "int", doc="new")]},
        }
        pair = {"type": "record", "name": "Pair", "fields": [field(n, kind) for n, kind in inner.items()]}
        pairs = field("m", {"type": "array", "logicalType": "map", "items": pair})
        schemas = topic((field("id", "int"), pairs), (field("id", "int"), pairs, field("x", "int")))
        said = contract(columns={"m.key.code": {"description": "ours"}})
        found = lake.evolve(said, schemas)
        optional = {("make_optional", ("m", "value", "n"))} if required else set()
        assert {(c.kind, c.path) for c in found.done if c.path and c.kind != "property"} == {
            ("add_column", ("x",)),
            ("comment", ("m", "value", "n")),
            *optional,
        }
        assert lake.evolve(said, schemas).plan.changes == ()


class TestAColumnThatAWriterDrops:
    def test_is_kept_and_nothing_waits_when_the_contract_lets_it_go(self, lake: Lake) -> None:
        lake.evolve(contract(), topic(FIRST))
        schemas = topic(FIRST, REMOVED)
        assert lake.evolve(contract(), schemas).plan.changes == ()
        assert (
            removing_ids(contract(), lake.state(), schemas, "review", "impossible", "quarantine")
            == frozenset()
        )

    def test_waits_for_review_with_its_records_until_approved(self, lake: Lake) -> None:
        said, schemas = contract(schema_changes={"remove_column": "review"}), topic(FIRST, REMOVED, FIRST)
        lake.evolve(said, topic(FIRST))
        found = lake.evolve(said, schemas)
        assert [(c.kind, c.path, c.schema_id) for c in found.parked] == [("remove_column", ("who",), 2)]
        assert removing_ids(said, lake.state(), schemas, "review") == {2}
        lake.evolve(said, schemas, approval=Approval(found.plan.id, "ann", "known"))
        assert removing_ids(said, lake.state(), schemas, "review") == frozenset()
        assert lake.evolve(said, schemas).plan.changes == ()

    @pytest.mark.parametrize("noted", ["by this version", "by an earlier one"])
    def test_waits_again_once_it_has_come_back(self, lake: Lake, noted: str) -> None:
        """Given an approved removal, when the column comes back and goes again, then that waits for a review of its own; an earlier Tidemark noted no version, so its approvals hold for all."""
        said = contract(schema_changes={"remove_column": "review"})
        wider = [(*each, field("note", "string")) for each in (REMOVED, FIRST)]
        widest = (*wider[0], field("more", "string"))
        lake.evolve(said, topic(FIRST))
        gone = topic(FIRST, REMOVED)
        plan = plan_evolution(said, lake.state(), gone)
        lake.evolve(said, gone, approval=Approval(plan.id, "ann", "known"))
        if noted == "by an earlier one":
            with lake.catalog.load_table(TABLE).transaction() as change:
                change.set_properties({APPROVED_REMOVALS: '["who"]'})
        assert lake.evolve(said, topic(FIRST, REMOVED, wider[0])).parked == ()
        again = topic(FIRST, REMOVED, wider[1], widest)
        waits = [4] if noted == "by this version" else []
        found = lake.evolve(said, again)
        assert [(c.path, c.schema_id) for c in found.parked] == [(("who",), each) for each in waits]
        assert removing_ids(said, lake.state(), again, "review") == set(waits)
        if waits:
            lake.evolve(said, again, approval=Approval(found.plan.id, "ann", "known"))
        assert lake.evolve(said, again).plan.changes == ()
        assert removing_ids(said, lake.state(), again, "review") == frozenset()

    def test_sends_its_records_to_the_quarantine_when_the_contract_says_so(self, lake: Lake) -> None:
        said, schemas = contract(schema_changes={"remove_column": "quarantine"}), topic(FIRST, REMOVED)
        lake.evolve(said, topic(FIRST))
        assert refused_ids(said, lake.state(), schemas) == {2}
        assert lake.evolve(said, schemas).parked == ()

    @pytest.mark.parametrize(
        ("upsert", "needs"),
        [
            (["id", "who"], "upsert.keys"),
            ({"keys": ["id"], "order_by": ["who", "_kafka.offset"]}, "upsert.order_by"),
        ],
    )
    def test_waits_for_review_when_the_upsert_table_is_keyed_or_ordered_by_it(
        self, lake: Lake, upsert: Any, needs: str
    ) -> None:
        said, schemas = contract(upsert=upsert), topic(FIRST, REMOVED)
        lake.evolve(said, topic(FIRST))
        found = lake.evolve(said, schemas)
        assert [(c.kind, c.path, c.verdict) for c in found.parked] == [("remove_column", ("who",), "review")]
        assert f"{needs} needs it" in found.parked[0].reason
        assert removing_ids(said, lake.state(), schemas, "review") == {2}
        lake.evolve(said, schemas, approval=Approval(found.plan.id, "ann", "known"))
        assert removing_ids(said, lake.state(), schemas, "review") == frozenset()
        assert refused_ids(said, lake.state(), schemas) == frozenset()

    @pytest.mark.parametrize(
        ("part", "adds"),
        [("pos", "__lsn"), ("pos", "__source_lsn"), ("ts", "__ts_ms"), ("ts", "__source_ts_ms")],
    )
    def test_waits_when_the_connector_no_longer_adds_what_orders_the_upsert_table(
        self, lake: Lake, part: str, adds: str
    ) -> None:
        """Given flattened changes and an order by `_cdc`, when a version leaves out what fills it, then its records wait: they would lose to all before. One that never had it drops nothing, nor does one whose order is another."""
        value = {"envelope": "debezium_flat"}
        said = contract(value=value, upsert={"keys": ["id"], "order_by": [f"_cdc.{part}"]})
        told, silent = (*FIRST, field(adds, ["null", "long"])), (*FIRST, field("__op", "string"))
        lake.evolve(said, flattened(told))
        both = flattened(told, silent)
        for other, schemas in (
            (said, flattened(silent)),
            (said, flattened(silent, told)),
            (contract(value=value, upsert=["id"]), both),
        ):
            plan = plan_evolution(other, lake.state(), schemas)
            assert "remove_column" not in {c.kind for c in plan.changes}
            assert removing_ids(other, lake.state(), schemas, "review") == frozenset()
        found = lake.evolve(said, both)
        assert [(c.path, c.verdict, c.schema_id) for c in found.parked] == [(("_cdc", part), "review", 2)]
        assert "upsert.order_by needs it" in found.parked[0].reason
        assert removing_ids(said, lake.state(), both, "review") == {2}
        held = SimpleNamespace(schemas=both, parked={2}, columns=value_columns(lake.state()))
        assert "upsert.order_by needs it" in Plan.why_held(held, found.plan, 2)
        lake.evolve(said, both, approval=Approval(found.plan.id, "ann", "known"))
        assert removing_ids(said, lake.state(), both, "review") == frozenset()

    def test_is_refused_when_the_partition_spec_needs_it(self, lake: Lake) -> None:
        said, schemas = contract(partition_by=["who"]), topic(FIRST, REMOVED)
        lake.evolve(said, topic(FIRST))
        plan = lake.evolve(said, schemas).plan
        assert plan.verdict == "impossible"
        assert unsupported_ids(said, lake.state(), schemas) == {2}
        assert removing_ids(said, lake.state(), schemas, "review", "impossible") == {2}
        elsewhere = contract(partition_by=["day(at)"])
        lake.evolve(elsewhere, schemas)
        assert plan_evolution(elsewhere, lake.state(), schemas).changes == ()
        assert removing_ids(elsewhere, lake.state(), schemas, "review", "impossible") == frozenset()

    @pytest.mark.parametrize(
        ("wants", "stop"),
        [
            ({}, None),
            ({"schema_changes": {"remove_column": "review"}}, "schema_review"),
            ({"schema_changes": {"remove_column": "quarantine"}}, "schema_review"),
            ({"upsert": {"keys": ["id"], "order_by": ["who", "_kafka.offset"]}}, "schema_review"),
            ({"partition_by": ["who"]}, "schema_unsupported"),
        ],
    )
    def test_is_gone_from_what_one_schema_alone_reads(self, lake: Lake, wants: Any, stop: str | None) -> None:
        """Given values without a schema id, when the newest version drops a column, then none is read while that waits."""
        said = contract(value={"schema": "by_latest_schema"}, **wants)
        first, removed = ((*each, field("strict", "long")) for each in (FIRST, REMOVED))
        lake.evolve(said, topic(first))
        both = topic(first, removed)
        before, after = (replace(both, writers=(each,), framing="bare") for each in both.writers)
        require_bare_values_covered(said, lake.state(), before)
        if stop is None:
            return require_bare_values_covered(said, lake.state(), after)
        with pytest.raises(Stopped, match=r"who: schema id 2 \(version 2\): no longer there") as stopped:
            require_bare_values_covered(said, lake.state(), after)
        assert stopped.value.state == stop
        plan = lake.evolve(said, after).plan
        if stop == "schema_review":
            lake.evolve(said, after, approval=Approval(plan.id, "ann", "known"))
            require_bare_values_covered(said, lake.state(), after)
        return None

    @pytest.mark.parametrize("policy", ["review", "quarantine"])
    def test_is_one_that_the_table_has_or_gets(self, lake: Lake, policy: str) -> None:
        """Given a mistake that never came in, when the version before it is registered anew, then nothing is gone."""
        clashing = (field("id", "string"), *FIRST[1:], field("note", "string"))
        for changes, mistake in (
            ({"incompatible": "quarantine"}, clashing),
            ({"incompatible": "review"}, clashing),
            ({"add_column": "quarantine"}, (*FIRST, field("note", "string"))),
        ):
            said = contract(schema_changes={"remove_column": policy, **changes})
            lake.evolve(said, topic(FIRST))
            schemas = topic(FIRST, mistake, FIRST)
            plan = lake.evolve(said, schemas).plan
            assert [c.schema_id for c in plan.changes if c.kind in {"incompatible", "add_column"}] == [2]
            assert plan.of("impossible") == ()
            assert 3 not in removing_ids(said, lake.state(), schemas, "review", "impossible", "quarantine")
            assert "remove_column" not in {c.kind for c in plan.changes}

    def test_is_gone_for_the_plan_and_for_ingest_alike(self, lake: Lake) -> None:
        """Given a version of clashing names, when a later one lacks what partition_by needs, then both say so."""
        said = contract(partition_by=["who"], schema_changes={"incompatible": "quarantine"})
        schemas = topic(FIRST, (*FIRST[:3], field("Items", "int")), REMOVED)
        lake.evolve(said, topic(FIRST))
        plan = lake.evolve(said, schemas).plan
        assert [(c.kind, c.schema_id) for c in plan.of("impossible")] == [("remove_column", 3)]
        assert removing_ids(said, lake.state(), schemas, "review", "impossible") == {3}
