"""A plan says what a table lacks; applied once, nothing is left to plan, whatever the order of the writers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.evolution import first_columns
from tidemark.domain.columns.shape import Shape
from tidemark.domain.columns.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMPTZ,
    VARIANT,
    ColumnType,
    Field,
    ListType,
    MapType,
    Struct,
    decimal,
)
from tidemark.domain.config.contract import SchemaChanges
from tidemark.domain.formats.json_columns import EXTRA_DOC
from tidemark.domain.formats.json_nodes import EXTRA
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.schema_plan import Verdict, WriterColumns, plan_schema, removals

APPLY = SchemaChanges()
WIDENING: tuple[tuple[ColumnType, ...], ...] = (
    (INT, LONG),
    (FLOAT, DOUBLE),
    (decimal(5, 2), decimal(9, 2), decimal(38, 2)),
    (STRING,),
)


@st.composite
def families(draw: st.DrawFn, depth: int = 2) -> list[ColumnType]:
    """Versions of one column, each wider or richer than the one before in its own way."""
    if depth == 0 or draw(st.booleans()):
        return list(draw(st.sampled_from(WIDENING)))
    inner = draw(families(depth=depth - 1))
    shape = draw(st.sampled_from(["list", "map", "struct"]))
    if shape == "list":
        return [ListType(each) for each in inner]
    if shape == "map":
        return [MapType(STRING, each) for each in inner]
    return [
        Struct((Field("x", each), *([Field(f"y{n}", STRING)] if n else []))) for n, each in enumerate(inner)
    ]


@st.composite
def compatible_writers(draw: st.DrawFn) -> list[WriterColumns]:
    columns = {f"c{n}": draw(families()) for n in range(draw(st.integers(1, 4)))}
    writers = []
    for number in range(1, draw(st.integers(2, 5))):
        chosen = draw(st.lists(st.sampled_from(sorted(columns)), min_size=1, unique=True))
        fields = tuple(Field(name, draw(st.sampled_from(columns[name]))) for name in chosen)
        writers.append(WriterColumns(number, number, Struct(fields)))
    return writers


class TestAPlan:
    @given(compatible_writers())
    def test_applied_once_leaves_nothing_to_plan(self, writers: list[WriterColumns]) -> None:
        first = writers[0].columns
        plan = plan_schema("t", first, writers, APPLY)
        table = applied(first, plan.changes)
        assert plan_schema("t", table, writers, APPLY).verdict == "nothing"
        assert all(not covers(table, writer.columns) for writer in writers)

    @given(compatible_writers(), st.randoms())
    def test_any_order_of_the_writers_gives_the_same_table(
        self, writers: list[WriterColumns], random
    ) -> None:
        shuffled = [*writers]
        random.shuffle(shuffled)
        renumbered = [WriterColumns(w.id, n, w.columns) for n, w in enumerate(shuffled)]
        one = applied(Struct(()), plan_schema("t", Struct(()), writers, APPLY).changes)
        other = applied(Struct(()), plan_schema("t", Struct(()), renumbered, APPLY).changes)
        assert not covers(one, other)
        assert not covers(other, one)

    def test_an_incompatible_type_is_parked_and_its_id_names_exactly_this_change(self) -> None:
        table = Struct((Field("a", LONG),))
        plan = plan_schema("t", table, [WriterColumns(7, 2, Struct((Field("a", STRING),)))], APPLY)
        assert plan.verdict == "review"
        assert [(c.kind, c.path, c.schema_id) for c in plan.changes] == [("incompatible", ("a",), 7)]
        other = plan_schema("u", table, [WriterColumns(7, 2, Struct((Field("a", STRING),)))], APPLY)
        assert plan.id != other.id

    def test_a_writer_that_does_not_fit_brings_no_columns_and_the_next_one_misses_none_of_them(self) -> None:
        """Its records stay out, so its mistakes must not be in the way of the version that mends them."""
        table = Struct((Field("a", LONG),))
        mistaken = WriterColumns(7, 2, Struct((Field("a", STRING), Field("b", STRING), Field("c", LONG))))
        mended = WriterColumns(8, 3, Struct((Field("a", LONG), Field("b", DOUBLE))))
        policy = SchemaChanges(incompatible="quarantine", remove_column="review")
        plan = plan_schema("t", table, [mistaken, mended], policy)
        assert [(c.kind, c.path, c.verdict) for c in plan.changes] == [
            ("add_column", ("b",), "apply"),
            ("incompatible", ("a",), "quarantine"),
        ]
        assert applied(table, plan.changes) == mended.columns

    def test_a_type_that_the_contract_declares_anew_is_no_matter_of_approval(self) -> None:
        """Approved, it would be the contract's own columns that are set aside, with all that are declared later."""
        declared = WriterColumns(0, 1, Struct((Field("a", STRING), Field("b", LONG))))
        for policy in (APPLY, SchemaChanges(incompatible="quarantine")):
            plan = plan_schema("t", Struct((Field("a", LONG),)), [declared], policy)
            verdicts = {c.path: c.verdict for c in plan.changes}
            assert verdicts == {("a",): "impossible", ("b",): "apply"}
            assert "no approval helps" in next(c.reason for c in plan.of("impossible"))

    def test_columns_of_the_table_that_is_followed_are_declared_nowhere(self) -> None:
        table = Struct((Field("a", INT), Field("b", STRING)))
        wanted = Struct((Field("a", LONG), Field("b", LONG), Field("c", LONG)))
        plan = plan_schema("t_current", table, [WriterColumns(0, 1, wanted, table="t")], APPLY)
        reasons = {c.kind: c.reason for c in plan.changes}
        clash = reasons.pop("incompatible")
        assert reasons == {"widen_type": "follows t", "add_column": "follows t"}
        assert clash.startswith("follows t; a column keeps its type")
        assert "name another `upsert.table`" in clash

    def test_a_variant_that_is_there_never_becomes_text_and_one_that_is_to_come_does(self) -> None:
        """Iceberg has no such promotion; text, which a table of format 2 has, holds both."""
        variant, text = (
            Struct((Field("a", kind), Field("l", ListType(Struct((Field("x", kind),))))))
            for kind in (VARIANT, STRING)
        )
        for number, verdict in ((7, "review"), (0, "impossible")):
            plan = plan_schema("t", variant, [WriterColumns(number, 1, text)], APPLY)
            assert [(c.kind, c.path, str(c.old), str(c.new), c.verdict) for c in plan.changes] == [
                ("incompatible", ("a",), "variant", "string", verdict),
                ("incompatible", ("l", "element", "x"), "variant", "string", verdict),
            ]
            assert applied(variant, plan.changes) == variant
        for versions in ((variant, text), (text, variant)):
            assert first_columns(versions) == text
            writers = [WriterColumns(n, n, columns) for n, columns in enumerate(versions, 1)]
            assert applied(Struct(()), plan_schema("t", Struct(()), writers, APPLY).changes) == text
        assert plan_schema("t", text, [WriterColumns(7, 1, variant)], APPLY).verdict == "nothing"

    def test_a_change_names_the_writer_that_needs_it_and_no_other_that_differs_there(self) -> None:
        kinds = {4: STRING, 5: INT, 6: LONG}
        writers = [WriterColumns(n, n, Struct((Field("a", kind),))) for n, kind in kinds.items()]
        plan = plan_schema("t", Struct((Field("a", INT),)), writers, APPLY)
        assert {c.kind: c.schema_id for c in plan.changes} == {"incompatible": 4, "widen_type": 6}

    def test_what_would_mean_something_else_is_incompatible_in_words(self) -> None:
        """The type stays or widens, the unit does not: one column would hold both, and nothing would tell them apart."""
        micros, nanos = (f"{unit}seconds since midnight" for unit in ("micro", "nano"))
        for kinds, meanings, says in (
            ((LONG, LONG), (micros, nanos), (f"long ({micros})", f"long ({nanos})")),
            ((INT, LONG), ("", micros), ("int (plain)", f"long ({micros})")),
            ((LONG, INT), (micros, ""), (f"long ({micros})", "int (plain)")),
        ):
            table, wanted = (
                Struct((Field("l", ListType(Struct((Field("t", kind, meaning=meaning),)))),))
                for kind, meaning in zip(kinds, meanings, strict=True)
            )
            plan = plan_schema("t", table, [WriterColumns(1, 1, table), WriterColumns(7, 2, wanted)], APPLY)
            [change] = plan.changes
            assert (change.kind, change.path, change.verdict, change.schema_id) == (
                "incompatible",
                ("l", "element", "t"),
                "review",
                7,
            )
            assert (change.old, change.new) == says
            assert "mean something else" in change.reason
            assert applied(table, plan.changes) == table
            assert (
                plan_schema("t", table, [WriterColumns(7, 2, wanted)], APPLY, settled=frozenset({7})).changes
                == ()
            )

    def test_what_a_column_means_is_its_meaning_not_its_comment(self) -> None:
        unit = "nanoseconds since midnight"
        table = Struct((Field("t", LONG, "from the till", meaning=unit),))
        assert not covers(table, Struct((Field("t", LONG, unit, meaning=unit),)))
        assert not covers(Struct((Field("t", LONG, meaning=None),)), table)
        assert not covers(Struct((Field("t", LONG, unit),)), Struct((Field("t", LONG, "anything"),)))

    def test_a_settled_schema_is_not_planned_again(self) -> None:
        table = Struct((Field("a", LONG),))
        writers = [WriterColumns(7, 2, Struct((Field("a", STRING),)))]
        assert plan_schema("t", table, writers, APPLY, settled=frozenset({7})).verdict == "nothing"

    def test_the_contract_decides_what_is_reviewed(self) -> None:
        policy = SchemaChanges(add_column="review", widen_type="apply")
        writer = WriterColumns(3, 1, Struct((Field("a", LONG), Field("b", STRING))))
        plan = plan_schema("t", Struct((Field("a", INT),)), [writer], policy)
        assert {c.kind: c.verdict for c in plan.changes} == {"widen_type": "apply", "add_column": "review"}
        assert plan.verdict == "review"

    def test_a_schema_without_columns_is_impossible_and_says_why(self) -> None:
        plan = plan_schema("t", Struct(()), [WriterColumns(9, 1, Struct(()), "it is recursive")], APPLY)
        assert plan.verdict == "impossible"
        assert "recursive" in plan.changes[0].reason

    def test_a_contract_that_sends_the_incompatible_aside_sends_what_has_no_columns_too(self) -> None:
        aside = SchemaChanges(incompatible="quarantine")
        plan = plan_schema("t", Struct(()), [WriterColumns(9, 1, Struct(()), "it is recursive")], aside)
        assert [c.verdict for c in plan.changes] == ["quarantine"]
        assert plan.verdict == "apply"

    def test_a_removed_column_is_told_only_to_contracts_that_want_to_know(self) -> None:
        table = Struct((Field("a", INT), Field("b", INT)))
        writers = [WriterColumns(1, 1, table), WriterColumns(2, 2, Struct((Field("a", INT),)))]
        assert plan_schema("t", table, writers, APPLY).verdict == "nothing"
        review = SchemaChanges(remove_column="review")
        plan = plan_schema("t", table, writers, review)
        assert [(c.kind, c.path, c.schema_id) for c in plan.changes] == [("remove_column", ("b",), 2)]
        assert plan_schema("t", table, writers, review, removed={"b": 2}).verdict == "nothing"

    def test_a_removal_is_known_for_as_long_as_the_column_is_away(self) -> None:
        """Given a column that came back and goes again, then only what was approved before is settled."""
        both, one = Struct((Field("a", INT), Field("b", INT))), Struct((Field("a", INT),))
        versions = [WriterColumns(n, n, columns) for n, columns in enumerate((both, one, one, both, one), 1)]
        review = SchemaChanges(remove_column="review")
        cases: list[tuple[dict[str, int], list[int]]] = [({}, [2]), ({"b": 2}, [5]), ({"b": 5}, [])]
        for approved, waits in cases:
            changes = plan_schema("t", both, versions, review, removed=approved).changes
            assert [c.schema_id for c in changes] == waits
            assert {c.upto for c in changes} <= {5}
        assert plan_schema("t", both, versions[:4], review, removed={"b": 2}).changes == ()

    def test_an_object_that_was_closed_has_lost_no_column(self) -> None:
        """Given `additionalProperties: false` in the second version, then no field of the source is gone; a field
        that only has the name of Tidemark's own is."""
        review = SchemaChanges(remove_column="review")
        for doc, kinds in ((EXTRA_DOC, []), ("the source's", ["remove_column"])):
            open_one = Struct((Field("a", INT), Field(EXTRA, STRING, doc)))
            table = Struct((*open_one.fields, Field("address", open_one)))
            closed = Struct((Field("a", INT), Field("address", Struct((Field("a", INT),)))))
            writers = [WriterColumns(1, 1, table), WriterColumns(2, 2, closed)]
            assert [c.kind for c in plan_schema("t", table, writers, review).changes] == kinds * 2

    @pytest.mark.parametrize("says", ["review", "quarantine"])
    def test_a_column_that_the_contract_no_longer_declares_waits_and_its_policy_is_told_as_it_is(
        self, says: Verdict
    ) -> None:
        table, declared = Struct((Field("a", INT), Field("b", INT))), Struct((Field("a", INT),))
        policy = SchemaChanges(remove_column=says)
        [change] = plan_schema("t", table, [WriterColumns(0, 1, declared)], policy).changes
        assert change.verdict == "review"
        assert f"the contract says remove_column: {says}" in change.reason
        assert ("no schema tells records that go there" in change.reason) == (says == "quarantine")

    def test_a_writer_lacks_what_any_version_before_it_had(self) -> None:
        """Given a column that the second version left out, then the third lacks it too, and its records are
        as incomplete."""
        versions = [Struct(tuple(Field(name, INT) for name in names)) for names in ("ab", "ac", "a")]
        writers = tuple(WriterColumns(n, n, columns) for n, columns in enumerate(versions, 1))
        found = removals(Struct(tuple(Field(name, INT) for name in "abc")), writers, APPLY, frozenset())
        assert [(each.writer.id, *each.path) for each in found] == [(2, "b"), (3, "b"), (3, "c")]

    def test_an_old_writer_that_never_knew_a_column_removes_nothing(self) -> None:
        old, new = Struct((Field("a", INT),)), Struct((Field("a", INT), Field("b", INT)))
        review = SchemaChanges(remove_column="review")
        assert (
            plan_schema("t", new, [WriterColumns(1, 1, old), WriterColumns(2, 2, new)], review).verdict
            == "nothing"
        )

    def test_a_deleted_version_drops_what_versions_before_it_had(self) -> None:
        """Its records may still come; a later one drops nothing that only a later one still had."""
        table, without = Struct((Field("a", INT), Field("b", INT))), Struct((Field("a", INT),))
        writers = [WriterColumns(1, 1, without, deleted=True), WriterColumns(2, 2, table)]
        writers.append(WriterColumns(3, 3, without, deleted=True))
        found = removals(table, tuple(writers), APPLY, frozenset())
        assert [(each.writer.id, *each.path) for each in found] == [(3, "b")]

    def test_a_column_removed_and_added_again_is_the_same_column(self) -> None:
        with_b, without = Struct((Field("a", INT), Field("b", INT))), Struct((Field("a", INT),))
        back = Struct((Field("a", INT), Field("b", LONG)))
        writers = [WriterColumns(n, n, columns) for n, columns in enumerate((with_b, without, back), 1)]
        plan = plan_schema("t", with_b, writers, APPLY)
        assert [(c.kind, c.path) for c in plan.changes] == [("widen_type", ("b",))]
        assert applied(with_b, plan.changes) == back

    def test_a_column_that_the_partition_spec_needs_is_not_let_go(self) -> None:
        table = Struct((Field("a", INT), Field("s", Struct((Field("day", INT),)))))
        writers = [WriterColumns(1, 1, table), WriterColumns(2, 2, Struct((Field("a", INT),)))]
        plan = plan_schema("t", table, writers, APPLY, shape=Shape(partition_sources=(("s", "day"),)))
        assert plan.verdict == "impossible"
        assert "partition_by needs it" in plan.changes[0].reason

    def test_a_column_of_the_name_that_a_partition_field_has_cannot_be(self) -> None:
        """Iceberg tells them apart by name alone, in every spec that the table has had."""
        table = Struct((Field("at", TIMESTAMPTZ), Field("s", Struct((Field("at", TIMESTAMPTZ),)))))
        shape = Shape(partition_names=frozenset({"at_day", "s.at_day", "at"}))
        more = (
            Struct((*table.fields, Field("at_day", DATE), Field("x", LONG))),
            Struct((table.fields[0], Field("s", Struct((Field("at_day", DATE),))))),
        )
        for columns, name in zip(more, ("at_day", "s.at_day"), strict=True):
            writers = [WriterColumns(1, 1, table), WriterColumns(2, 2, columns), WriterColumns(3, 3, table)]
            plan = plan_schema("t", table, writers, APPLY, shape=shape)
            assert [(c.kind, c.verdict, c.schema_id) for c in plan.changes] == [
                ("incompatible", "impossible", 2)
            ]
            assert plan.changes[0].reason.startswith(f"{name}: a partition field of the table has the name")
            aside = plan_schema("t", table, writers, SchemaChanges(incompatible="quarantine"), shape=shape)
            assert [c.verdict for c in aside.changes] == ["quarantine"]
            declared = plan_schema("t", table, [WriterColumns(0, 1, columns)], APPLY, shape=shape)
            assert [(c.kind, c.verdict) for c in declared.changes] == [("incompatible", "impossible")]

    def test_a_column_that_iceberg_would_call_as_a_field_of_a_list_or_map_cannot_be(self) -> None:
        """It leaves out `element` and `value` where they are structs, and then lets nothing be added of that name."""
        price = Struct((Field("value", Struct((Field("unit", STRING), Field("amount", LONG)))),))
        table = Struct(
            (Field("items", ListType(Struct((Field("sku", STRING),)))), Field("m", MapType(STRING, price)))
        )
        items, prices = table.fields
        dotted = Struct((*table.fields, Field("items.sku", STRING), Field("x", LONG)))
        beside = Struct((items, Field("m", MapType(STRING, Struct((*price.fields, Field("unit", STRING)))))))
        for columns, name in ((dotted, "items.sku"), (beside, "m.value.unit")):
            other = Struct((prices, Field("y", LONG)))
            writers = [WriterColumns(1, 1, table), WriterColumns(2, 2, columns), WriterColumns(3, 3, other)]
            plan = plan_schema("t", table, writers, APPLY)
            assert [(c.kind, c.path, c.verdict, c.schema_id) for c in plan.changes] == [
                ("add_column", ("y",), "apply", 3),
                ("incompatible", ("*",), "impossible", 2),
            ]
            assert plan.changes[1].reason.startswith(f"{name}: a field inside a list or map")
            assert plan_schema("t", columns, writers, APPLY).of("impossible") == ()

    def test_what_is_applied_meanwhile_does_not_change_the_id_of_what_waits(self) -> None:
        policy = SchemaChanges(add_column="review")
        table = Struct((Field("a", INT),))
        writer = WriterColumns(1, 1, Struct((Field("a", LONG), Field("b", INT))))
        before = plan_schema("t", table, [writer], policy)
        after = plan_schema("t", applied(table, before.of("apply")), [writer], policy)
        assert {c.kind for c in after.changes} == {"add_column"}
        assert before.id == after.id

    def test_a_field_of_a_struct_inside_a_list_inside_a_map_is_found(self) -> None:
        def nested(*fields: Field) -> Struct:
            return Struct((Field("m", MapType(STRING, ListType(Struct(fields)))),))

        plan = plan_schema(
            "t",
            nested(Field("n", INT)),
            [WriterColumns(1, 1, nested(Field("n", LONG), Field("x", STRING)))],
            APPLY,
        )
        assert {(c.kind, c.path) for c in plan.changes} == {
            ("widen_type", ("m", "value", "element", "n")),
            ("add_column", ("m", "value", "element", "x")),
        }


def test_what_clashes_only_with_what_goes_to_quarantine_goes_there_too() -> None:
    """Given that new columns go to quarantine, and two versions that want one of the same name and other types, then no person is asked about the second; where the first column is added, one is."""
    table = Struct((Field("a", INT),))
    first = WriterColumns(7, 2, Struct((Field("a", INT), Field("b", INT))))
    second = WriterColumns(8, 3, Struct((Field("a", INT), Field("b", STRING))))
    aside = plan_schema("a.b", table, [first, second], SchemaChanges(add_column="quarantine"))
    assert {(c.kind, c.path, c.new, c.verdict, c.schema_id) for c in aside.changes} == {
        ("add_column", ("b",), INT, "quarantine", 7),
        ("add_column", ("b",), STRING, "quarantine", 8),
    }
    alone = plan_schema("a.b", table, [second], SchemaChanges(add_column="quarantine"))
    assert set(alone.changes) < set(aside.changes)
    asked = plan_schema("a.b", table, [first, second], SchemaChanges())
    assert [(c.kind, c.verdict, c.schema_id) for c in asked.of("review")] == [("incompatible", "review", 8)]


def test_a_struct_that_goes_to_quarantine_is_told_once_however_much_of_it_clashes() -> None:
    """Given that new columns go to quarantine, and a second version in which two fields of a new struct have other types, then the struct is told of once."""
    table = Struct((Field("a", INT),))

    def version(number: int, kind: ColumnType) -> WriterColumns:
        inner = Struct((Field("x", kind), Field("y", kind)))
        return WriterColumns(number, number, Struct((Field("a", INT), Field("b", inner))))

    found = plan_schema(
        "a.b", table, [version(1, INT), version(2, STRING)], SchemaChanges(add_column="quarantine")
    )
    assert [(c.kind, c.path, c.verdict, c.schema_id) for c in found.changes] == [
        ("add_column", ("b",), "quarantine", 1),
        ("add_column", ("b",), "quarantine", 2),
    ]
