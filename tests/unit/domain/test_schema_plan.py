"""A plan says what a table lacks; applied once, nothing is left to plan, whatever the order of the writers."""

from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.contract import SchemaChanges
from tidemark.domain.coverage import covers
from tidemark.domain.schema_plan import WriterColumns, applied, plan_schema
from tidemark.domain.types import (
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    ColumnType,
    Field,
    ListType,
    MapType,
    Struct,
    decimal,
)

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

    def test_a_removed_column_is_told_only_to_contracts_that_want_to_know(self) -> None:
        table, writer = (
            Struct((Field("a", INT), Field("b", INT))),
            WriterColumns(2, 2, Struct((Field("a", INT),))),
        )
        assert plan_schema("t", table, [writer], APPLY).verdict == "nothing"
        review = SchemaChanges(remove_column="review")
        plan = plan_schema("t", table, [writer], review)
        assert [(c.kind, c.path) for c in plan.changes] == [("remove_column", ("b",))]
        assert plan_schema("t", table, [writer], review, removed=frozenset({"b"})).verdict == "nothing"
