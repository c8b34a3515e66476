"""Widening, coverage and names of column types."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema, index_by_name

from tidemark.domain.columns.coverage import covers
from tidemark.domain.columns.evolution import first_columns
from tidemark.domain.columns.names import METADATA_COLUMNS, all_names, check_names, check_reserved
from tidemark.domain.columns.spark_types import (
    columns_ddl,
    is_read,
    quoted_name,
    quoted_text,
    spark_ddl,
    spark_json,
)
from tidemark.domain.columns.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    KAFKA_COLUMN,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    decimal,
    widens,
)
from tidemark.domain.errors import SchemaUnsupported
from tidemark.engine.access.iceberg_types import iceberg_fields

PRIMITIVES = (BOOLEAN, INT, LONG, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMPTZ)
NAMES = st.sampled_from(["a", "b", "c", "d"])


def structs(inner: st.SearchStrategy[ColumnType]) -> st.SearchStrategy[Struct]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=4)
    return fields.map(lambda found: Struct(tuple(Field(name, kind) for name, kind in found.items())))


DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal(p, s)))
LEAVES: st.SearchStrategy[ColumnType] = st.sampled_from(PRIMITIVES) | DECIMALS
TYPES = st.recursive(
    LEAVES,
    lambda inner: inner.map(ListType) | st.builds(MapType, LEAVES, inner) | structs(inner),
    max_leaves=8,
)


def test_only_the_three_widenings_of_primitives_exist() -> None:
    pairs = {(a.name, b.name) for a in PRIMITIVES for b in PRIMITIVES if a != b and widens(a, b)}
    assert pairs == {("int", "long"), ("float", "double")}
    assert widens(decimal(4, 2), decimal(9, 2))
    assert not widens(decimal(9, 2), decimal(4, 2))
    assert not widens(decimal(4, 2), decimal(9, 3))
    assert not widens(INT, decimal(38, 0))


def test_widening_is_nested_everywhere_but_in_map_keys() -> None:
    assert widens(
        ListType(MapType(STRING, Struct((Field("x", INT),)))),
        ListType(MapType(STRING, Struct((Field("x", LONG),)))),
    )
    assert not widens(MapType(INT, STRING), MapType(LONG, STRING))
    assert widens(Struct((Field("x", INT),)), Struct((Field("y", INT), Field("x", INT))))
    assert not widens(Struct((Field("x", INT), Field("y", INT))), Struct((Field("x", INT),)))


@given(structs(TYPES))
def test_a_table_covers_itself_in_any_order(columns: Struct) -> None:
    assert covers(columns, Struct(columns.fields[::-1])) == ()


@given(structs(TYPES), structs(TYPES))
def test_what_is_covered_widens_unless_a_key_is_narrower(table: Struct, wanted: Struct) -> None:
    if widens(wanted, table):
        assert covers(table, wanted) == ()


@given(structs(TYPES), structs(TYPES))
def test_differences_name_what_is_missing(table: Struct, wanted: Struct) -> None:
    for difference in covers(table, wanted):
        assert (difference.found is None) == (difference.kind == "missing")
        assert difference.found != difference.wanted


def test_each_difference_has_its_path_and_kind() -> None:
    table = Struct(
        (
            Field("n", INT),
            Field("l", ListType(Struct((Field("x", FLOAT),)))),
            Field("m", MapType(INT, LONG)),
            Field("t", TIMESTAMP),
        )
    )
    wanted = Struct(
        (
            Field("n", LONG),
            Field("l", ListType(Struct((Field("x", DOUBLE), Field("y", DATE, "new"))))),
            Field("m", MapType(LONG, INT)),
            Field("t", TIMESTAMPTZ),
            Field("z", STRING),
        )
    )
    found = [(d.dotted, d.kind, str(d.found), str(d.wanted)) for d in covers(table, wanted)]
    assert found == [
        ("n", "narrower", "int", "long"),
        ("l.element.x", "narrower", "float", "double"),
        ("l.element.y", "missing", "None", "date"),
        ("m.key", "incompatible", "int", "long"),
        ("t", "incompatible", "timestamp", "timestamptz"),
        ("z", "missing", "None", "string"),
    ]


@pytest.mark.parametrize(
    ("names", "path"),
    [(("Id", "id"), "id"), (("a", "a"), "a"), (("",), ""), (("ÄÖ", "äö"), "äö")],
)
def test_names_that_cannot_be_told_apart_are_refused(names: tuple[str, ...], path: str) -> None:
    with pytest.raises(SchemaUnsupported) as refused:
        check_names(Struct(tuple(Field(name, INT) for name in names)))
    assert refused.value.path == path


def test_a_name_with_a_dot_may_not_stand_beside_the_struct() -> None:
    struct = Struct((Field("b", INT),))
    check_names(Struct((Field("a.b", INT), Field("a", INT))))
    with pytest.raises(SchemaUnsupported, match="dot"):
        check_names(Struct((Field("a.b", INT), Field("a", struct))))
    with pytest.raises(SchemaUnsupported, match="dot"):
        check_names(Struct((Field("a.element.b", INT), Field("a", ListType(struct)))))


def test_columns_have_the_names_that_iceberg_looks_them_up_by() -> None:
    inner = Struct((Field("x", ListType(Struct((Field("y", ListType(INT)),)))), Field("value", INT)))
    columns = Struct(
        (
            Field("s", inner),
            Field("x.y", INT),
            Field("l", ListType(inner)),
            Field("m", MapType(inner, MapType(STRING, inner))),
            Field("n", MapType(STRING, Struct((Field("value", inner),)))),
        )
    )
    assert all_names(columns) == index_by_name(Schema(*iceberg_fields(columns.fields, count(1)))).keys()


SAME_IN_FILES = [
    ("1", "_1"),
    ("a.b", "a_x2Eb"),
    ("😀", "_xD83D_xDE00"),
    ("é-", "é_x2D"),
    ("²", "_xB2"),
    ("٣", "_٣"),
]


@pytest.mark.parametrize(("name", "other"), SAME_IN_FILES)
def test_names_that_data_files_spell_the_same_are_refused_with_both(name: str, other: str) -> None:
    """Parquet's names are letters, digits and underscores: Spark could write no file with both."""
    pair = Struct((Field(name, INT), Field(other, INT)))
    for columns, path in ((pair, ()), (Struct((Field("s", MapType(STRING, pair)),)), ("s", "value"))):
        with pytest.raises(SchemaUnsupported) as refused:
            check_names(columns)
        assert refused.value.path == ".".join((*path, other))
        assert refused.value.reason == (
            f"the name and {'.'.join((*path, name))} are both spelled {other} in data files"
        )
    check_names(Struct((Field(name, INT), Field("s", Struct((Field(other, INT),))))))
    with pytest.raises(SchemaUnsupported, match="data files"):
        covers(Struct((Field(name, INT),)), Struct((Field(other, INT),)))


@pytest.mark.parametrize(
    "name", ["_kafka", "_cdc", "_tidemark_x", "_KAFKA", *sorted(METADATA_COLUMNS), "_File"]
)
def test_reserved_names_are_refused_at_the_top_alone(name: str) -> None:
    with pytest.raises(SchemaUnsupported, match="reserved") as refused:
        check_reserved(Struct((Field("id", INT), Field(name, INT))))
    assert refused.value.path == name
    check_reserved(Struct((Field("s", Struct((Field(name, INT),))), Field("_change_type", INT))))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("\u00b5s", "\u03bcs"),
        ("s", "\u017f"),
        ("i", "\u0131"),
        ("I", "\u0130"),
        ("\u03c3", "\u03c2"),
        ("K", "\u212a"),
        ("\u00e9", "\u00c9"),
    ],
)
def test_names_that_java_takes_for_one_are_refused(name: str, other: str) -> None:
    """Spark compares names by `String.equalsIgnoreCase`: the micro sign is the Greek letter, the long s an s."""
    with pytest.raises(SchemaUnsupported, match="but for case"):
        covers(Struct((Field(name, INT),)), Struct((Field(other, INT),)))
    check_names(Struct((Field("\u00df", INT), Field("ss", INT))))


def test_names_of_table_and_schema_are_compared_together() -> None:
    with pytest.raises(SchemaUnsupported, match="but for case"):
        covers(Struct((Field("Id", INT),)), Struct((Field("id", INT),)))
    with pytest.raises(SchemaUnsupported, match="dot"):
        covers(Struct((Field("a", Struct((Field("x", INT),))),)), Struct((Field("a.x", INT),)))
    with pytest.raises(SchemaUnsupported, match="but for case"):
        covers(
            Struct((Field("l", ListType(Struct((Field("X", INT),)))),)),
            Struct((Field("l", ListType(Struct((Field("x", INT),)))),)),
        )


def test_ddl_quotes_names_and_comments() -> None:
    columns = Struct(
        (
            Field("a`b", Struct((Field("c.d", TIMESTAMP, "it's \\ ${x}"),)), "line\nbreak"),
            Field("id", LONG, required=True),
            Field("m", MapType(STRING, ListType(decimal(10, 2)))),
        )
    )
    assert columns_ddl(columns) == (
        "`a``b` struct<`c.d`: timestamp_ntz COMMENT 'it\\'s \\\\ \\u0024{x}'> COMMENT 'line\nbreak', "
        "`id` bigint NOT NULL, `m` map<string, array<decimal(10,2)>>"
    )
    assert quoted_name("a", "b`c") == "`a`.`b``c`"
    assert quoted_text("") == "''"


def test_the_two_timestamps_are_spelled_apart() -> None:
    assert (spark_ddl(TIMESTAMP), spark_ddl(TIMESTAMPTZ)) == ("timestamp_ntz", "timestamp")
    assert (spark_json(TIMESTAMP), spark_json(TIMESTAMPTZ), spark_json(LONG), spark_json(INT)) == (
        "timestamp_ntz",
        "timestamp",
        "long",
        "integer",
    )


def test_what_others_add_is_spelled_as_spark_reads_it() -> None:
    foreign = Struct(tuple(Field(n, Primitive(n)) for n in ("uuid", "fixed[16]", "unknown")))
    assert spark_ddl(foreign) == "struct<`uuid`: string, `fixed[16]`: binary, `unknown`: void>"
    assert [field["type"] for field in spark_json(foreign)["fields"]] == ["string", "binary", "void"]
    assert is_read(ListType(foreign))
    for kind in map(Primitive, ("time", "timestamp_ns", "timestamptz_ns")):
        assert not is_read(Struct((Field("m", MapType(STRING, ListType(kind))),)))
    spelled = Struct(tuple(Field(n, kind) for n, kind in (("uuid", STRING), ("fixed[16]", BINARY))))
    uuid_and_fixed = Struct(foreign.fields[:2])
    assert covers(spelled, uuid_and_fixed) == (), "an upsert table that Spark has made"
    assert [d.kind for d in covers(uuid_and_fixed, spelled)] == ["incompatible"] * 2


def test_the_kafka_column_is_what_the_contract_names() -> None:
    assert str(KAFKA_COLUMN.type) == (
        "struct<topic: string, partition: int, offset: long, timestamp: timestamptz, timestamp_type: int, key: binary, "
        "headers: list<struct<key: string, value: binary>>, schema_id: int, tombstone: boolean, epoch: int>"
    )


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (39, 0), (5, 6), (5, -1)])
def test_no_decimal_outside_38_digits(precision: int, scale: int) -> None:
    with pytest.raises(ValueError, match="no decimal"):
        decimal(precision, scale)


def test_a_version_whose_names_differ_in_case_is_left_out_of_a_new_table() -> None:
    small, large = (Struct((Field("id", LONG), Field(name, STRING))) for name in ("v", "V"))
    assert first_columns([small, large]) == large
