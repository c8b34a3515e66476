"""An edit of the contract becomes a change with a reason; applied once, nothing is left to plan."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.columns.partitioning import parse_partition_field
from tidemark.domain.columns.shape import Shape, spelled, spelled_columns
from tidemark.domain.columns.types import LONG, STRING, TIMESTAMPTZ, Field, ListType, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.contract_record import (
    RECORD,
    contract_edits,
    record_after,
    record_text,
    type_before,
)
from tidemark.domain.plan.schema_plan import Change, SchemaPlan, Verdict, WriterColumns, plan_schema
from tidemark.domain.plan.table_plan import properties_after, strayed, with_layout, with_table
from tidemark.domain.plan.table_properties import BASE, COMMENT, governance

COLUMNS = Struct(
    (
        Field("id", LONG, "number"),
        Field("at", TIMESTAMPTZ),
        Field("who", STRING),
        Field("items", ListType(Struct((Field("sku", STRING),)))),
    )
)


def contract(**said: Any) -> Contract:
    return Contract.model_validate({"topic": "orders", "table": "shop.orders", **said})


def made_by(said: Contract) -> Shape:
    """A table as it was created from this contract."""
    own = {k: v for k, v in governance(said).items() if v is not None}
    named = {k: str(v) for k, v in said.table_properties.items()}
    described = {COMMENT: said.description} if said.description else {}
    return Shape(
        partition_by=spelled(said.partitioning),
        sort_by=spelled_columns(said.sort_by),
        format_version=said.format_version,
        properties={**own, **named, **described, RECORD: record_text(said)},
    )


def planned(said: Contract, shape: Shape, columns: Struct = COLUMNS, writers: Any = ()) -> SchemaPlan:
    plan = plan_schema(said.table, columns, writers, said.schema_changes)
    return with_table(plan, said, columns, shape, writers)


def done(
    said: Contract, shape: Shape, columns: Struct, changes: tuple[Change, ...], left: tuple[Change, ...] = ()
) -> tuple[Shape, Struct]:
    """What the engine makes of table and columns, as a model."""
    properties: dict[str, str] = dict(shape.properties)
    for key, value in properties_after(said, changes, left, shape.properties).items():
        properties.pop(key, None)
        if value is not None:
            properties[key] = value
    comments = {c.path: str(c.new) for c in changes if c.kind == "comment"}
    if () in comments:
        properties[COMMENT] = comments[()]
    kinds = {c.kind for c in changes}
    optional = {c.path for c in changes if c.kind == "make_optional"}
    return replace(
        shape,
        partition_by=spelled(said.partitioning) if "partition_spec" in kinds else shape.partition_by,
        sort_by=spelled_columns(said.sort_by) if "sort_order" in kinds else shape.sort_by,
        format_version=said.format_version if "format_version" in kinds else shape.format_version,
        required=tuple(p for p in shape.required if p not in optional),
        properties=properties,
    ), _commented(applied(columns, changes), comments)


def _commented(columns: Struct, comments: dict[tuple[str, ...], str]) -> Struct:
    def field(f: Field, at: tuple[str, ...]) -> Field:
        here = (*at, f.name)
        return replace(f, type=kind(f.type, here), doc=comments.get(here, f.doc))

    def kind(t: Any, at: tuple[str, ...]) -> Any:
        if isinstance(t, Struct):
            return Struct(tuple(field(f, at) for f in t.fields))
        return ListType(kind(t.element, (*at, "element"))) if isinstance(t, ListType) else t

    found: Struct = kind(columns, ())
    return found


PARTITIONS = [
    "day(at)",
    "hour(at)",
    "bucket(4, id)",
    "bucket(8, id)",
    "who",
    "truncate(3, who)",
    "day(_kafka.timestamp)",
]
edits = st.fixed_dictionaries(
    {},
    optional={
        "partition_by": st.lists(st.sampled_from(PARTITIONS), max_size=2, unique=True),
        "sort_by": st.lists(st.sampled_from(["id", "who", "_kafka.offset"]), max_size=2, unique=True),
        "event_time": st.just("at"),
        "description": st.sampled_from(["Orders", "All orders"]),
        "runbook": st.sampled_from(["https://a", "https://b"]),
        "owners": st.just({"data": "team:x"}),
        "columns": st.sampled_from([{"who": {"description": "the customer"}}, {"who": {"description": "x"}}]),
        "table_properties": st.dictionaries(
            st.sampled_from(["a", "b", "write.parquet.compression-level"]), st.sampled_from(["1", "3"])
        ),
        "retention": st.sampled_from([{"append": "30d"}, {"append": "7d"}]),
        "key": st.sampled_from([{"format": "string"}, {"fields": ["id"]}]),
        "upsert": st.sampled_from([["id"], {"keys": ["id"], "deletes": "soft"}, ["who"]]),
        "format_version": st.sampled_from([2, 3]),
    },
)


class TestAPlanOfAContractEdit:
    @given(edits, edits, st.booleans())
    def test_applied_once_leaves_nothing_to_plan(self, before: Any, after: Any, approved: bool) -> None:
        old, new = contract(**before), contract(**after)
        shape, columns = made_by(old), COLUMNS
        writers = [
            WriterColumns(1, 1, COLUMNS),
            WriterColumns(2, 2, Struct((*COLUMNS.fields, Field("note", STRING, "by hand")))),
        ]
        plan = planned(new, shape, columns, writers)
        changes = plan.of("apply", "review") if approved else plan.of("apply")
        shape, columns = done(new, shape, columns, changes)
        left = planned(new, shape, columns, writers)
        waiting = {"impossible"} if approved else {"impossible", "review"}
        if changes:
            assert {c.verdict for c in left.changes} <= waiting - {"nothing"}
        assert left.of("apply") == ()
        if not approved:
            assert left.of("review") == plan.of("review"), "what waits still does, by the same id"

    @given(edits)
    def test_a_table_as_its_contract_made_it_needs_nothing(self, said: Any) -> None:
        made = contract(**said)
        left = planned(made, made_by(made))
        assert {c.kind for c in left.changes} <= {"comment"}

    @given(edits, edits)
    def test_only_a_layout_that_its_own_contract_gave_it_has_strayed(self, before: Any, after: Any) -> None:
        """That of another contract is an edit, whichever of the two is the newer one."""
        old, new = contract(**before), contract(**after)
        assert not strayed(old, COLUMNS, made_by(old))
        same = (old.partitioning, old.sort_by) == (new.partitioning, new.sort_by)
        assert same or not strayed(new, COLUMNS, made_by(old))
        by_hand = replace(made_by(old), partition_by=("truncate(3, who)",), sort_by=("at",))
        wanted = [c for c in planned(old, by_hand).changes if c.kind in {"partition_spec", "sort_order"}]
        assert strayed(old, COLUMNS, by_hand) == any(c.verdict == "apply" for c in wanted)

    @given(st.permutations(range(4)))
    def test_any_order_of_the_writers_describes_the_same_columns(self, order: list[int]) -> None:
        versions = [
            Struct(
                (
                    Field("id", LONG),
                    Field(f"c{n}", STRING, f"doc {n}"),
                    Field("s", Struct((Field(f"x{n}", LONG, "d"),))),
                )
            )
            for n in range(4)
        ]
        writers = [WriterColumns(n + 1, place, versions[n]) for place, n in enumerate(order)]
        empty = Struct((Field("id", LONG),))
        plan = planned(contract(), Shape(), empty, writers)
        found = applied(empty, plan.changes)
        docs = {f.name: f.doc for f in found.fields}
        assert docs == {"id": "", "s": "", **{f"c{n}": f"doc {n}" for n in range(4)}}


class TestAnUpsertTable:
    """Has a layout, a format and `table_properties` of its own contract; what else its properties say is not touched."""

    @given(edits, edits)
    def test_follows_its_contract_once_and_keeps_what_decides_about_its_rows(
        self, before: Any, after: Any
    ) -> None:
        old, new = contract(**before), contract(**after)
        named = {k: str(v) for k, v in old.table_properties.items()}
        identity = {"tidemark.deletes": "hard", "tidemark.keys": '["id"]'}
        shape = Shape(
            partition_by=spelled(old.partitioning),
            sort_by=spelled_columns(old.sort_by),
            format_version=old.format_version,
            properties={**BASE, **named, **identity, RECORD: record_text(old)},
        )
        plan = with_layout(SchemaPlan("t", ()), new, COLUMNS, shape, BASE)
        shape, _ = done(new, shape, COLUMNS, plan.of("apply", "review"))
        assert {k: shape.properties[k] for k in identity} == identity
        left = with_layout(SchemaPlan("t", ()), new, COLUMNS, shape, BASE)
        assert {c.verdict for c in left.changes} <= {"impossible"}
        asked = {k: str(v) for k, v in new.table_properties.items()}
        assert shape.properties.items() >= {**BASE, **asked}.items()

    @pytest.mark.parametrize("verdict", ["apply", "review"])
    def test_lays_out_by_a_column_that_is_to_come_when_that_does(self, verdict: Verdict) -> None:
        """Given a column that is to come, when the contract partitions and sorts by it, then both wait as it
        does."""
        said = contract(partition_by=["region"], sort_by=["region"])
        column = Change("add_column", ("region",), None, STRING, verdict, "")
        plan = with_layout(SchemaPlan("t", (column,)), said, COLUMNS, made_by(contract()), BASE)
        assert only(plan, "partition_spec").verdict == only(plan, "sort_order").verdict == verdict


def only(plan: SchemaPlan, kind: str) -> Change:
    [found] = [c for c in plan.changes if c.kind == kind]
    return found


class TestEachEditOfAContract:
    def test_partition_by_is_spec_evolution_and_old_files_stay(self) -> None:
        change = only(
            planned(contract(partition_by=["bucket(4, id)"]), made_by(contract(partition_by=["day(at)"]))),
            "partition_spec",
        )
        assert (change.old, change.new, change.verdict) == ("day(at)", "bucket(4, id)", "apply")
        assert "keep their own spec" in change.reason

    def test_partition_by_taken_out_unpartitions_what_tidemark_partitioned(self) -> None:
        assert (
            only(planned(contract(), made_by(contract(partition_by=["day(at)"]))), "partition_spec").new
            == "none"
        )

    def test_the_layout_of_an_adopted_table_stays_while_the_contract_says_nothing(self) -> None:
        foreign = Shape(
            partition_by=("day(at)",), sort_by=("id",), properties={RECORD: record_text(contract())}
        )
        assert not {"partition_spec", "sort_order"} & {c.kind for c in planned(contract(), foreign).changes}

    @pytest.mark.parametrize(
        "mistake", [{"event_time": "xx"}, {"partition_by": ["xx"], "sort_by": ["items"]}]
    )
    def test_a_layout_that_could_not_be_had_is_not_remembered_as_the_tables(self, mistake: Any) -> None:
        """Given an adopted table, when the contract names a layout by mistake and is taken back, then the
        maker's layout stays."""
        foreign = Shape(
            partition_by=("day(at)",), sort_by=("id",), properties=dict(made_by(contract()).properties)
        )
        wrong = contract(**mistake, runbook="https://x")
        plan = planned(wrong, foreign)
        assert plan.of("impossible")
        shape, _ = done(wrong, foreign, COLUMNS, plan.of("apply"), plan.of("impossible"))
        left = planned(contract(runbook="https://x"), shape)
        assert not {"partition_spec", "sort_order"} & {c.kind for c in left.changes}

    @pytest.mark.parametrize(
        ("said", "kind", "why"),
        [
            ({"partition_by": ["day(att)"]}, "partition_spec", "did you mean at"),
            ({"partition_by": ["hour(who)"]}, "partition_spec", "hour does not apply to string"),
            ({"sort_by": ["items"]}, "sort_order", "has no order"),
            ({"event_time": "who", "partition_by": ["id"]}, "layout", "no date or timestamp"),
        ],
    )
    def test_an_edit_that_cannot_be_done_says_why(self, said: Any, kind: str, why: str) -> None:
        change = only(planned(contract(**said), made_by(contract())), kind)
        assert change.verdict == "impossible"
        assert why in change.reason

    def test_an_event_time_that_cannot_be_had_is_no_edit_that_is_applied(self) -> None:
        """Given a mistyped event time, then nothing says that it counts, and taken back nothing is left."""
        said = contract(event_time="at", partition_by=[])
        wrong = contract(event_time="who", partition_by=[], runbook="https://x")
        plan = planned(wrong, made_by(said))
        assert {(c.kind, c.verdict) for c in plan.changes} == {
            ("layout", "impossible"),
            ("property", "apply"),
        }
        shape, _ = done(wrong, made_by(said), COLUMNS, plan.of("apply"), plan.of("impossible"))
        back = contract(event_time="at", partition_by=[], runbook="https://x")
        assert planned(back, shape).changes == ()

    def test_a_layout_on_a_column_that_waits_for_review_waits_with_it(self) -> None:
        said = contract(partition_by=["region"], schema_changes={"add_column": "review"})
        writer = WriterColumns(1, 1, Struct((*COLUMNS.fields, Field("region", STRING))))
        assert (
            only(planned(said, made_by(contract()), COLUMNS, [writer]), "partition_spec").verdict == "review"
        )

    def test_format_version_goes_up_by_review_and_never_back(self) -> None:
        assert (
            only(planned(contract(format_version=3), made_by(contract())), "format_version").verdict
            == "review"
        )
        back = only(planned(contract(), made_by(contract(format_version=3))), "format_version")
        assert (back.verdict, back.old, back.new) == ("impossible", "3", "2")

    def test_a_property_that_the_contract_drops_goes_back_to_its_default_or_goes(self) -> None:
        level = "write.parquet.compression-level"
        plan = planned(contract(), made_by(contract(table_properties={level: "9", "mine": "x"})))
        assert {c.path[0]: c.new for c in plan.changes} == {level: "1", "mine": None}

    def test_a_property_that_is_secret_is_set_and_told_by_its_name_alone(self) -> None:
        before = made_by(contract(table_properties={"encryption.password": "hunter1", "mine": "x"}))
        plans = [
            planned(contract(table_properties={"encryption.password": word, "mine": "y"}), before)
            for word in ("hunter2", "hunter3")
        ]
        assert plans[0].id != plans[1].id
        assert [c.new for c in plans[0].changes] == ["hunter2", "y"]
        told = [(c["path"], c["from"], c["to"]) for c in (each.as_json() for each in plans[0].changes)]
        assert told == [("encryption.password", "***", "***"), ("mine", "x", "y")]

    def test_a_property_that_someone_else_set_is_left_alone(self) -> None:
        shape = made_by(contract())
        foreign = replace(shape, properties={**shape.properties, "theirs": "1"})
        assert planned(contract(), foreign).verdict == "nothing"

    def test_a_description_of_the_contract_stands_above_the_registry(self) -> None:
        writer = WriterColumns(1, 1, Struct((Field("id", LONG, "from the registry"),)))
        said = contract(columns={"who": {"description": "buyer"}, "id": {"description": "ours"}})
        plan = planned(said, made_by(said), COLUMNS, [writer])
        assert {c.path: c.new for c in plan.changes} == {("who",): "buyer", ("id",): "ours"}

    @pytest.mark.parametrize("spelled", ["user.email", "`user.email`", "User.Email"])
    def test_a_description_finds_its_column_in_any_case_and_with_a_dot_in_its_name(
        self, spelled: str
    ) -> None:
        said = contract(columns={spelled: {"description": "ours"}, "items.element.SKU": {"description": "x"}})
        path = ("user.email",)
        columns = Struct((*COLUMNS.fields, Field(path[0], STRING)))
        plan = planned(said, made_by(said), columns)
        assert {c.path: c.new for c in plan.changes} == {path: "ours", ("items", "element", "sku"): "x"}
        writer = WriterColumns(1, 1, columns)
        assert only(planned(said, made_by(said), COLUMNS, [writer]), "add_column").doc == "ours"

    def test_a_required_column_becomes_optional_unless_it_identifies_the_row(self) -> None:
        shape = replace(made_by(contract()), required=(("id",), ("who",)), identifiers=(("id",),))
        assert strayed(contract(), COLUMNS, shape)
        assert not strayed(contract(), COLUMNS, replace(shape, required=(("id",),)))
        plan = planned(contract(), shape)
        assert {c.path: c.verdict for c in plan.changes} == {("id",): "impossible", ("who",): "apply"}

    @pytest.mark.parametrize(
        ("before", "after", "path", "verdict", "why"),
        [
            ({}, {"retention": {"append": "7d"}}, "retention.append", "apply", "deletes rows older than 7d"),
            (
                {"retention": {"append": "30d"}},
                {"retention": {"append": "7d"}},
                "retention.append",
                "apply",
                "older than 7d",
            ),
            (
                {"retention": {"append": "7d"}},
                {"retention": {"append": "30d"}},
                "retention.append",
                "apply",
                "stay longer",
            ),
            ({"retention": {"append": "7d"}}, {}, "retention.append", "apply", "no longer deleted"),
            ({}, {"key": {"fields": ["id"]}}, "key.fields", "apply", "rows that are there stay"),
            ({}, {"upsert": ["id"]}, "upsert", "apply", "is built"),
            ({"upsert": ["id"]}, {}, "upsert", "apply", "no longer merged"),
            ({"upsert": ["id"]}, {"upsert": ["who"]}, "upsert.keys", "apply", "built again"),
            (
                {"upsert": ["id"]},
                {"upsert": {"keys": ["id"], "deletes": "soft"}},
                "upsert.deletes",
                "apply",
                "built again",
            ),
            ({}, {"event_time": "at", "partition_by": []}, "event_time", "apply", "begins anew"),
            ({"event_time": "at"}, {"partition_by": ["day(at)"]}, "event_time", "apply", "no longer counted"),
        ],
    )
    def test_it_is_named_with_what_it_means(
        self, before: Any, after: Any, path: str, verdict: str, why: str
    ) -> None:
        change = only(planned(contract(**after), made_by(contract(**before))), "contract")
        assert (change.as_json()["path"], change.verdict) == (path, verdict)
        assert why in change.reason

    @pytest.mark.parametrize(
        ("before", "now", "verdict", "why"),
        [
            ("shop.Paid", "shop.Placed", "review", "those of shop.Placed that were passed over"),
            ("shop.Paid", None, "review", "all others that were passed over"),
            (None, "shop.Paid", "apply", "records of other types are skipped"),
        ],
    )
    def test_another_type_of_records_is_no_edit_without_a_word(
        self, before: str | None, now: str | None, verdict: str, why: str
    ) -> None:
        one, other = (contract().model_copy(update={"event": each}) for each in (before, now))
        there = made_by(one)
        change = only(planned(other, there), "contract")
        assert (change.path, change.old, change.new, change.verdict) == (("event",), before, now, verdict)
        assert why in change.reason
        assert type_before(other, there.properties) == before
        assert type_before(one, there.properties) is None
        assert json.loads(record_after(other, (change,), there.properties))["event"] == before
        assert json.loads(record_after(other, (), there.properties))["event"] == now

    def test_keys_that_an_upsert_table_was_not_made_with_hold_up_that_table_alone(self) -> None:
        """Given other keys, which the upsert table's own plan judges by how it was made, when the append table is
        told, then nothing of it waits, and nothing is left that a rebuild would not settle."""
        now = contract(upsert=["who"])
        there = made_by(contract(upsert=["id"]))
        there, _ = done(now, there, COLUMNS, planned(now, there).of("apply"))
        assert planned(now, there).changes == ()

    def test_keys_of_an_upsert_table_that_is_made_anew_are_told_so(self) -> None:
        now = contract(upsert={"table": "a.other", "keys": ["who"]})
        plan = planned(now, made_by(contract(upsert=["id"])))
        told = {".".join(each.path): (each.verdict, each.reason) for each in plan.changes}
        assert told["upsert.keys"] == ("apply", "the new upsert table is built so")
        assert told["upsert.table"][0] == "apply"

    def test_a_layout_of_which_a_part_can_be_put_right_has_strayed(self) -> None:
        """Given an order by a column that is gone, which nobody can have, then only the partitions, changed
        by hand, are no edit."""
        said = contract(partition_by=["day(at)"], sort_by=["gone"])
        unsorted = replace(made_by(said), sort_by=())
        assert not strayed(said, COLUMNS, unsorted)
        assert strayed(said, COLUMNS, replace(unsorted, partition_by=("truncate(3, who)",)))

    def test_an_edit_that_waits_for_a_person_is_remembered_as_it_was_until_it_is_done(self) -> None:
        """Given another type of records, which needs a person, and an event time that does not, when only the latter
        is applied, then the record tells the old type and the new event time."""
        now = contract(event_time="at").model_copy(update={"event": "shop.Placed"})
        there = made_by(contract().model_copy(update={"event": "shop.Paid"})).properties
        routed = next(each for each in contract_edits(now, there) if each.path == ("event",))
        for left, event in (((routed,), "shop.Paid"), ((), "shop.Placed")):
            record = json.loads(record_after(now, left, there))
            assert (record["event"], record["event_time"]) == (event, "at")

    def test_partition_fields_compare_by_meaning_not_by_spelling(self) -> None:
        assert spelled([parse_partition_field("bucket( 4 , `id` )")]) == spelled(
            [parse_partition_field("bucket(4, id)")]
        )
