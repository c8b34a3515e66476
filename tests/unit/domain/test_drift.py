"""What is apart between a table and its topic is told by name, and only what someone can do something about fails."""

from tidemark.domain.columns.types import INT, LONG, STRING, Field, ListType, Struct
from tidemark.domain.config.contract import SchemaChanges
from tidemark.domain.plan.drift import Drift, drift
from tidemark.domain.plan.schema_plan import WriterColumns, plan_schema


def columns(**kinds: object) -> Struct:
    return Struct(tuple(Field(name, kind) for name, kind in kinds.items()))  # type: ignore[arg-type]


def apart(table: Struct, *versions: Struct, whole: bool = True, **policy: str) -> Drift:
    writers = [WriterColumns(n + 7, n, each) for n, each in enumerate(versions, 1)]
    plan = plan_schema("a.b", table, writers, SchemaChanges.model_validate(policy))
    return drift(table, writers, plan, whole=whole)


def test_a_table_that_holds_its_writers_has_not_drifted() -> None:
    found = apart(columns(a=LONG, b=STRING), columns(a=INT), columns(a=LONG, b=STRING))
    assert (found.grade, list(found.sentences()), found.as_metadata()) == (
        "none",
        [],
        {"newest_schema": "schema id 9 (version 2)"},
    )


def test_what_the_next_run_applies_and_what_waits_name_their_command() -> None:
    table, newest = columns(a=INT), columns(a=LONG, b=STRING)
    pending = apart(table, newest)
    assert (pending.grade, pending.as_metadata()["next"]) == ("warn", "tidemark run a.b")
    waiting = apart(table, newest, add_column="review")
    assert waiting.as_metadata()["next"] == f"tidemark approve a.b {waiting.plan.id} --reason …"
    assert list(waiting.sentences()) == [
        "the next run applies: widen_type a",
        f"plan {waiting.plan.id} waits for an approval of: add_column b",
    ]


def test_what_the_contract_sends_aside_or_lets_go_is_told_and_does_not_fail() -> None:
    gone = apart(columns(a=INT, b=STRING), columns(a=INT, b=STRING), columns(a=INT))
    assert (gone.grade, gone.unsent, gone.foreign) == ("none", ("b",), ())
    assert list(gone.sentences()) == ["schema id 9 (version 2) no longer sends b"]
    aside = apart(columns(a=INT), columns(a=INT, b=STRING), add_column="quarantine")
    assert aside.grade == "none"
    assert "quarantine" in next(aside.sentences())


def test_a_column_that_no_writer_ever_had_is_foreign_nested_too() -> None:
    inner = ListType(columns(x=INT, mine=STRING))
    table, writer = columns(a=INT, l=inner, theirs=STRING), columns(a=INT, l=ListType(columns(x=INT)))
    found = apart(table, writer)
    assert (found.grade, found.foreign) == ("warn", ("l.element.mine", "theirs"))
    assert "no registered schema has l.element.mine, theirs" in found.sentences()
    assert apart(table, writer, whole=False).unsent == ("l.element.mine", "theirs")


def test_what_the_registry_has_deleted_is_not_the_newest() -> None:
    table, mistake = columns(a=INT, b=STRING), WriterColumns(9, 2, columns(a=INT), deleted=True)
    writers = [WriterColumns(8, 1, table), mistake]
    found = drift(table, writers, plan_schema("a.b", table, writers, SchemaChanges()))
    assert (found.newest, found.unsent) == ("schema id 8 (version 1)", ())


def test_a_table_that_no_approval_can_help_is_an_error() -> None:
    bad = WriterColumns(9, 2, Struct(()), "it is recursive")
    plan = plan_schema("a.b", columns(a=INT), [bad], SchemaChanges())
    assert drift(columns(a=INT), [bad], plan).grade == "error"
