"""Avro schemas as trees and columns, their defaults, and the walk that explains faults."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.columns.coverage import covers
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro import AvroSchema, parse
from tidemark.domain.formats.avro_columns import columns
from tidemark.domain.formats.avro_decoder import decoder_schema
from tidemark.domain.formats.avro_default import encode_default
from tidemark.domain.formats.avro_explain import explain
from tidemark.domain.formats.avro_nodes import Record, max_decimal_precision


def schema_of(schema: Any) -> AvroSchema:
    return parse(json.dumps(schema))


def record(*fields: tuple[str, Any], name: str = "R", **attributes: Any) -> dict[str, Any]:
    parts = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": parts, **attributes}


def column_types(schema: Any) -> dict[str, str]:
    return {field.name: str(field.type) for field in columns(schema_of(schema)).struct.fields}


def test_names_resolve_by_namespace() -> None:
    """A reference takes the namespace around it, a full name its own, a type without namespace is found too."""
    inner = record(("x", "int"), name="Point")
    schema = record(
        ("a", inner),
        ("b", "Point"),
        ("c", "shop.Point"),
        (
            "d",
            record(
                ("e", "Place"), ("f", {"type": "enum", "name": "Place2", "symbols": ["A"]}), name="geo.Outer"
            ),
        ),
        namespace="shop",
    )
    schema["fields"][3]["type"]["fields"][0]["type"] = {"type": "fixed", "name": "Place", "size": 2}
    schema["fields"] += [{"name": "g", "type": "geo.Place"}, {"name": "h", "type": ["null", "geo.Place2"]}]
    found = column_types(schema)
    assert found["a"] == found["b"] == found["c"] == "struct<x: int>"
    assert (found["g"], found["h"]) == ("binary", "string")
    assert schema_of(schema).name == "shop.R"


def test_types_of_other_subjects_are_found() -> None:
    other = json.dumps(record(("x", "int"), name="common.Point"))
    schema = json.dumps(record(("p", ["null", "common.Point"]), name="shop.Order"))
    assert str(columns(parse(schema, [other])).struct.fields[0].type) == "struct<x: int>"
    with pytest.raises(SchemaUnsupported, match=r"p: the type common\.Point is not defined"):
        parse(schema)


def test_a_record_that_contains_itself_is_refused_with_its_path() -> None:
    node = record(("value", "int"), ("next", ["null", "Node"]), name="Node")
    with pytest.raises(SchemaUnsupported) as refused:
        schema_of(record(("list", {"type": "array", "items": node})))
    assert refused.value.path == "list.element.next"
    assert "contains itself" in refused.value.reason


@pytest.mark.parametrize("levels", [22, 900])
def test_a_deep_schema_is_refused_at_once(levels: int) -> None:
    """Records in records were read twice at each level: twenty levels took an hour."""
    text = json.dumps("string")
    for level in range(levels):
        text = (
            f'["null", {{"type": "record", "name": "L{level}", "fields": [{{"name": "v", "type": {text}}}]}}]'
        )
    with pytest.raises(SchemaUnsupported, match="nested too deeply"):
        columns(parse(text[len('["null", ') : -1]))


def test_nesting_beyond_what_a_plan_can_say_is_refused_with_its_path() -> None:
    schema: Any = "int"
    for level in range(11):
        schema = record(("x", schema), name=f"L{level}")
    assert columns(schema_of(schema))
    with pytest.raises(SchemaUnsupported, match="too deeply") as refused:
        columns(schema_of(record(("top", schema), name="Outer")))
    assert refused.value.path == ".".join(["top"] + ["x"] * 11)


WIDE_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 4}


def deep_key(levels: int) -> dict[str, Any]:
    key: Any = {"type": "int", "logicalType": "time-millis"}
    for level in range(levels):
        key = record(("k", key), name=f"K{level}")
    pair = record(("key", key), ("value", "int"), name="Pair")
    return {"type": "array", "items": pair, "logicalType": "map"}


@pytest.mark.parametrize(
    ("possible", "too_deep", "path"),
    [
        (
            {"type": "map", "values": {"type": "map", "values": WIDE_DECIMAL}},
            {"type": "map", "values": {"type": "map", "values": {"type": "map", "values": WIDE_DECIMAL}}},
            "v.value.value.value",
        ),
        (deep_key(9), deep_key(10), "v.key" + ".k" * 10),
    ],
    ids=["more than 38 digits", "in the key of a map"],
)
def test_what_takes_long_expressions_nests_less(possible: Any, too_deep: Any, path: str) -> None:
    assert columns(schema_of(record(("v", possible))))
    with pytest.raises(SchemaUnsupported, match="too deeply") as refused:
        columns(schema_of(record(("v", too_deep))))
    assert refused.value.path == path


@pytest.mark.parametrize("levels", [40, 150, 400])
def test_a_schema_is_refused_at_once_however_deep_it_is(levels: int) -> None:
    """The time to plan a record of records once grew with the power of the levels."""
    text = '"int"'
    for level in range(levels):
        text = (
            f'{{"type": "record", "name": "L{level}", "fields": [{{"name": "x", "type": ["null", {text}]}}]}}'
        )
    with pytest.raises(SchemaUnsupported, match="too deeply"):
        columns(parse(text))


@pytest.mark.parametrize(
    "key",
    [
        {"type": "map", "values": "int"},
        {"type": "array", "items": {"type": "map", "values": "int"}},
        ["null", record(("x", "int"), ("y", {"type": "map", "values": "int"}), name="Inner")],
        ["int", {"type": "map", "values": "int"}],
    ],
    ids=["map", "list of maps", "record with a map", "branch"],
)
def test_a_map_in_the_key_of_a_map_is_refused_with_its_path(key: Any) -> None:
    pair = record(("key", key), ("value", "int"), name="Pair")
    schema = record(("m", {"type": "array", "items": pair, "logicalType": "map"}), ("id", "int"))
    with pytest.raises(SchemaUnsupported, match="the key of a map is a map") as refused:
        columns(schema_of(record(("l", {"type": "array", "items": schema}), name="Outer")))
    assert refused.value.path == "l.element.m.key"


def test_references_that_multiply_are_refused() -> None:
    schema: Any = record(("x", "int"), name="L0")
    for level in range(1, 30):
        schema = record(("a", schema), ("b", f"L{level - 1}"), name=f"L{level}")
    with pytest.raises(SchemaUnsupported, match="nodes"):
        schema_of(schema)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("nonsense", "not defined"),
        ({"type": "record", "fields": []}, "needs a name"),
        ({"type": "record", "name": "R"}, "list of fields"),
        ({"type": "array"}, "no Avro type"),
        ([], "needs a branch"),
        (["int", "int"], "no union"),
        (["int", ["null", "string"]], "no union"),
        ({"type": "fixed", "name": "F", "size": "3"}, "no size"),
        (record(("a", "int"), ("A", "int")), "but for case"),
        (record(("_kafka", "int")), "reserved"),
        (record(("_Tidemark_x", "int")), "reserved"),
        (record(("_partition", "int")), "reserved"),
        (record(("a", "null")), "no field"),
        ("null", "no field"),
    ],
)
def test_what_has_no_columns_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaUnsupported, match=reason):
        columns(schema_of(schema))


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(SchemaUnsupported, match="no JSON"):
        parse("{")
    assert columns(parse("string")).struct.fields[0].name == "value"


def test_docs_and_units_become_comments() -> None:
    color = {"type": "enum", "name": "Color", "symbols": ["A"], "doc": "of the car"}
    schema = record(
        ("color", color),
        ("at", {"type": "array", "items": {"type": "long", "logicalType": "timestamp-nanos"}}),
    )
    schema["fields"].append(
        {"name": "t", "type": ["null", {"type": "int", "logicalType": "time-millis"}], "doc": " start "}
    )
    schema["fields"].append({"name": "half", "type": "int", "doc": "a \ud83d, \U0001f600"})
    docs = {field.name: field.doc for field in columns(schema_of(schema)).struct.fields}
    assert docs == {
        "color": "of the car",
        "at": "nanoseconds since 1970-01-01T00:00:00Z",
        "t": "start; microseconds since midnight",
        "half": "a ?, \U0001f600",
    }


@pytest.mark.parametrize(
    "field", [("half \ud83d", "int"), ("r", record(("x", "int"), name="Half\udc00"))], ids=["field", "type"]
)
def test_a_name_with_half_a_character_is_refused(field: tuple[str, Any]) -> None:
    """No catalog takes it; the refusal itself can be shown."""
    with pytest.raises(SchemaUnsupported) as refused:
        schema_of(record(field))
    assert str(refused.value).encode()


def test_the_unit_of_a_map_s_keys_is_told_and_compared() -> None:
    """Two units in one column would be read wrongly, be they of its keys or of its values."""

    def in_unit(key: Any) -> Any:
        pair = record(("key", key), ("value", "int"), name="Pair")
        pairs = {"type": "array", "logicalType": "map", "items": pair}
        return columns(schema_of(record(("m", pairs)))).struct

    nanos, plain = in_unit({"type": "long", "logicalType": "timestamp-nanos"}), in_unit("long")
    assert nanos.fields[0].doc == "keys: nanoseconds since 1970-01-01T00:00:00Z"
    [difference] = covers(nanos, plain)
    assert (difference.kind, covers(nanos, nanos), covers(plain, plain)) == ("incompatible", (), ())


def test_the_plan_is_told_what_is_not_obvious() -> None:
    schema = record(
        ("gone", "null"),
        ("big", {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}),
        ("odd", {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 9}),
        ("m", {"type": "map", "values": {"type": "long", "logicalType": "timestamp-nanos"}}),
        ("u", ["int", record(name="Empty")]),
    )
    schema["fields"].append({"name": "d", "type": "int", "default": "x"})
    notes = {(note.path, note.text.split(":")[0]) for note in columns(schema_of(schema)).notes}
    assert notes == {
        ("gone", "only null"),
        ("big", "decimal(50,2) as text"),
        ("odd", "logicalType decimal ignored"),
        ("m.value", "nanoseconds since 1970-01-01T00"),
        ("u.Empty", "true where a Empty is present; it has no fields to store"),
        ("d", "default ignored"),
    }


def test_branches_are_named_by_type_and_by_full_name_where_short_names_clash() -> None:
    union = [
        "null",
        "string",
        record(("x", "int"), name="a.Long"),
        "long",
        record(("x", "int"), name="b.Other"),
    ]
    assert column_types(record(("u", union)))["u"] == (
        "struct<string: string, a_Long: struct<x: int>, long: long, Other: struct<x: int>>"
    )


def test_an_invalid_logical_type_is_the_type_below() -> None:
    found = column_types(
        record(
            ("a", {"type": "string", "logicalType": "date"}),
            ("b", {"type": "fixed", "name": "F", "size": 4, "logicalType": "duration"}),
            ("c", {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 4}),
            ("d", {"type": "long", "logicalType": "made-up"}),
            (
                "e",
                {
                    "type": "array",
                    "items": record(("key", "int"), ("x", "int"), name="E"),
                    "logicalType": "map",
                },
            ),
        )
    )
    assert list(found.values()) == ["string", "binary", "binary", "long", "list<struct<key: int, x: int>>"]


def test_precision_of_fixed_decimals_is_the_specifications() -> None:
    assert [max_decimal_precision(size) for size in (0, 1, 4, 8, 9, 16)] == [0, 2, 9, 18, 21, 38]


def test_the_decoders_schema_has_every_name_once() -> None:
    schema = schema_of(
        record(
            ("a", record(("x", "int"), name="P")), ("b", ["null", "P"]), ("c", {"type": "map", "values": "P"})
        )
    )
    fastavro.parse_schema(json.loads(decoder_schema(schema.root, 5)))
    assert "java" not in decoder_schema(schema_of({"type": "string", "avro.java.string": "String"}).root, 0)


JSON_DEFAULTS = [
    ("null", None),
    ("boolean", True),
    ("int", -5),
    ("long", 2**63 - 1),
    ("float", 1.5),
    ("double", 2),
    ("bytes", "\u00ff\u0000"),
    ("string", "é"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0001"),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "array", "items": "int"}, []),
    ({"type": "map", "values": "string"}, {"a": "b"}),
    (record(("x", "int"), ("y", ["null", "int"])), {"x": 1, "y": None}),
    (["null", "string"], None),
    (["string", "null"], "a"),
    (["null", "string"], "a"),
]


ENTRIES = {
    "type": "array",
    "logicalType": "map",
    "items": record(("key", "int"), ("value", "int"), name="Pair"),
}


@pytest.mark.parametrize(("schema", "value"), JSON_DEFAULTS)
def test_a_default_is_encoded_as_any_value(schema: Any, value: Any) -> None:
    read = fastavro.schemaless_reader(io.BytesIO(encode_default(schema_of(schema).root, value)), schema, None)
    wanted = value.encode("latin-1") if "bytes" in str(schema) or "fixed" in str(schema) else value
    assert read == wanted


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 2**31), ("int", True), ("int", "1"), ("boolean", 0), ("string", 1), ("bytes", "€"), ("null", 0),
        ("double", "1"), ("float", 1e40), ({"type": "fixed", "name": "F", "size": 2}, "a"), (["null", "int"], "x"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"), (record(("x", "int")), {}), ({"type": "map", "values": "int"}, 5),
        ({"type": "map", "values": "int"}, [1]), (ENTRIES, [1]), (ENTRIES, [{"key": 1}]), (ENTRIES, {"1": 1}),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10}, ""), (WIDE_DECIMAL, ""),
    ],
)  # fmt: skip
def test_a_default_that_does_not_fit_is_no_default(schema: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        encode_default(schema_of(schema).root, value)


@pytest.mark.parametrize("logical", [["duration"], {"x": 1}, 5, None])
def test_a_logical_type_that_is_no_text_is_ignored(logical: Any) -> None:
    schema = record(
        ("l", {"type": "long", "logicalType": logical}),
        ("f", {"type": "fixed", "name": "F", "size": 12, "logicalType": logical}),
    )
    assert column_types(schema) == {"l": "long", "f": "binary"}
    said = {
        "type": "bytes",
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": [1],
    }
    read = parse(json.dumps(record(("d", said))), connect=True)
    assert str(columns(read).struct.fields[0].type) == "binary"


def test_a_field_knows_its_default() -> None:
    schema = record(("a", "int"), ("b", ["null", "int"]))
    schema["fields"][0]["default"] = 1
    schema["fields"][1]["default"] = None
    root = schema_of(schema).root
    assert isinstance(root, Record)
    assert [field.default for field in root.fields] == [b"\x02", b"\x00"]


VALUES = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "text": st.none() | st.text(),
    "tags": st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False), max_size=3),
    "lines": st.lists(
        st.fixed_dictionaries({"n": st.integers(-(2**31), 2**31 - 1), "b": st.binary(max_size=4)}), max_size=3
    ),
    "kind": st.sampled_from(["A", "B"]),
    "flag": st.booleans(),
}
SCHEMA = record(
    ("id", "long"),
    ("text", ["null", "string"]),
    ("tags", {"type": "map", "values": "double"}),
    ("lines", {"type": "array", "items": record(("n", "int"), ("b", "bytes"), name="Line")}),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
    ("flag", "boolean"),
)
PARSED = fastavro.parse_schema(json.loads(json.dumps(SCHEMA)))
ROOT = schema_of(SCHEMA).root


def encoded(value: Any) -> bytes:
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, PARSED, value)
    return sink.getvalue()


@given(st.fixed_dictionaries(VALUES))
def test_a_sound_record_has_no_fault(value: Any) -> None:
    assert explain(encoded(value), ROOT) is None


@given(st.fixed_dictionaries(VALUES), st.data())
def test_every_cut_and_every_surplus_is_a_fault(value: Any, data: st.DataObject) -> None:
    payload = encoded(value)
    cut = data.draw(st.integers(0, len(payload) - 1))
    assert explain(payload[:cut], ROOT) is not None
    assert explain(payload + data.draw(st.binary(min_size=1, max_size=9)), ROOT) is not None


def test_a_map_key_that_is_null_is_a_fault() -> None:
    pair = record(("key", ["null", "string"]), ("value", "int"), name="Pair")
    schema = record(("m", {"type": "array", "logicalType": "map", "items": pair}))
    found = [explain(payload, schema_of(schema).root) for payload in (b"\2\2\2a\2\0", b"\2\0\2\0")]
    assert [each and (each.cause, each.detail) for each in found] == [
        None,
        ("undecodable", "m.key: a map key that is NULL (byte 2)"),
    ]


@given(st.binary(max_size=60))
def test_garbage_is_explained_in_bounded_time(payload: bytes) -> None:
    found = explain(payload, ROOT)
    assert found is None or found.detail
