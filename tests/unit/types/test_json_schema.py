"""JSON Schemas become columns by docs/types.md's table; what has no single type is JSON text and says so."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats import json_schema
from tidemark.domain.formats.json_columns import DOCUMENT, columns, with_variants
from tidemark.engine.decode.on_executors import arrow_type, check_validator, explain, rows_of

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def parsed(schema, **more):
    return json_schema.parse(
        json.dumps({"$schema": DRAFT_7, **schema, **more} if isinstance(schema, dict) else schema)
    )


def of(part, **more):
    """The type of a property `v`, and the notes about it."""
    found = parsed({"type": "object", "properties": {"v": part}, **more})
    return str(columns(found).fields[0].type), [
        note.text for note in found.notes if note.path.startswith("v")
    ]


POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": False}
TYPES = [
    ({"type": "string"}, "string"),
    ({"type": "integer"}, "long"),
    ({"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, "long"),
    ({"type": "integer", "maximum": 2**64 - 1}, "decimal(38,0)"),
    ({"type": "integer", "maximum": 2**63}, "decimal(38,0)"),
    ({"type": "integer", "exclusiveMaximum": 2**63, "minimum": -(2**63)}, "long"),
    ({"type": "integer", "minimum": -(10**20)}, "decimal(38,0)"),
    ({"type": "number"}, "double"),
    ({"type": "boolean"}, "boolean"),
    ({"type": "string", "format": "date-time"}, "timestamptz"),
    ({"type": "string", "format": "date"}, "date"),
    ({"type": "string", "format": "uuid"}, "string"),
    ({"type": "string", "format": "email"}, "string"),
    ({"type": "string", "enum": ["a", "b"]}, "string"),
    ({"enum": ["a", None]}, "string"),
    ({"const": 7}, "long"),
    ({"type": ["null", "integer"]}, "long"),
    ({"type": ["integer", "number"]}, "double"),
    ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "long"),
    ({"anyOf": [{"type": "string", "format": "date"}, {"const": None}]}, "date"),
    ({"allOf": [{"type": "integer"}], "description": "d"}, "long"),
    ({"type": "array", "items": {"type": "integer"}}, "list<long>"),
    ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "list<list<string>>"),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, "struct<a: long, _extra: string>"),
    ({"properties": {"a": {"type": "integer"}}, "additionalProperties": False}, "struct<a: long>"),
    ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string, double>"),
    ({"$ref": "#/definitions/point"}, "struct<x: double>"),
    ({"type": "string", "anyOf": [{"minLength": 1}, {"const": ""}]}, "string"),
    ({"enum": ["a", "b"], "oneOf": [{"const": "a"}, {"const": "b"}]}, "string"),
    ({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 9}]}, "long"),
    ({"type": "array", "items": {"type": "integer"}, "anyOf": [{"minItems": 1}]}, "list<long>"),
    ({"type": "object", "additionalProperties": {"type": "number"}, "not": {}, "oneOf": [{}]}, "map<string, double>"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "kind"), TYPES)
def test_a_part_with_one_type_is_a_column_of_it(part, kind):
    assert of(part, definitions={"point": POINT}) == (kind, [])


TEXTS = [
    (True, "anything may stand here"),
    ({}, "no single type"),
    ({"type": "null"}, "no single type"),
    ({"type": ["string", "integer"]}, "no single type"),
    ({"enum": ["a", 1]}, "no single type"),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "oneOf has no single type"),
    ({"allOf": [{"type": "object"}, {"properties": {}}]}, "allOf has no single type"),
    (
        {"type": "object", "oneOf": [POINT, {"properties": {"y": {}}}]},
        "an object without declared properties",
    ),
    (
        {"properties": {"a": {}}, "anyOf": [{"type": "string"}, {"type": "object"}]},
        "anyOf has no single type",
    ),
    ({"properties": {"a": {}}, "if": {}, "then": {"type": "string"}}, "no single type"),
    ({"type": "object"}, "an object without declared properties"),
    ({"type": "object", "patternProperties": {"^x": {}}}, "an object without declared properties"),
    ({"type": "array"}, "an array whose elements"),
    ({"type": "array", "items": [{"type": "string"}]}, "an array whose elements"),
    ({"type": "array", "prefixItems": [{}], "items": {"type": "string"}}, "an array whose elements"),
]


@pytest.mark.parametrize(("part", "note"), TEXTS)
def test_a_part_without_a_single_type_is_json_text_and_named(part, note):
    kind, notes = of(part)
    assert kind == "string"
    assert notes == [f"{notes[0].partition(':')[0]}: JSON text"]
    assert note in notes[0]


CONTACT = {"id": {"type": "integer"}, "email": {"type": "string"}, "phone": {"type": "string"}}


@pytest.mark.parametrize(
    "constraint",
    [
        {"anyOf": [{"required": ["email"]}, {"required": ["phone"]}]},
        {"oneOf": [{"required": ["email"]}, {"required": ["phone"]}]},
        {"allOf": [{"if": {"required": ["id"]}, "then": {"anyOf": [{"required": ["email"]}]}}]},
        {"allOf": [{"$ref": "#/definitions/reached"}]},
        {"if": {"required": ["id"]}, "then": {"required": ["email"]}},
        {"$schema": DRAFT_2020, "$ref": "#/definitions/reached"},
    ],
)
@pytest.mark.parametrize("kind", [{}, {"type": "object"}])
def test_a_constraint_beside_properties_is_validated_and_changes_no_column(constraint, kind):
    found = parsed(
        {**kind, "properties": CONTACT},
        definitions={"reached": {"required": ["email"], "properties": {"fax": {"type": "string"}}}},
        **constraint,
    )
    assert str(columns(found)) == "struct<id: long, email: string, phone: string, _extra: string>"
    causes, rows = rows_of(found, arrow_type(columns(found)))(
        [b'{"id": 1, "email": "a", "fax": "b"}', b'{"id": 1}']
    )
    assert causes == [None, "invalid_against_schema"]
    assert rows.to_pylist()[0] == {"id": 1, "email": "a", "phone": None, "_extra": '{"fax":"b"}'}


def test_a_schema_that_contains_itself_is_text_from_there_on():
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}},
    }
    found = parsed(tree)
    inner = "struct<children: list<string>, n: long, _extra: string>"
    assert str(columns(found)) == f"struct<children: list<{inner}>, n: long, _extra: string>"
    assert [(note.path, note.text) for note in found.notes] == [
        ("children.element.children.element", "# contains itself: JSON text")
    ]


@pytest.mark.parametrize(
    ("draft", "part", "ref"),
    [
        (DRAFT_2020, {"$anchor": "p"}, "#p"),
        (DRAFT_7, {"$id": "#p"}, "#p"),
        (DRAFT_7, {}, "https://shop.example/order.json#/definitions/a%20p"),
        (DRAFT_2020, {}, "#/definitions/a%20p"),
        (DRAFT_7, {"$id": "https://shop.example/point.json"}, "#/definitions/a%20p"),
    ],
)
def test_references_into_the_document_are_followed_however_they_are_spelled(draft, part, ref):
    """By the reader as by the validator, which has the last word on every document."""
    more = {
        "$schema": draft,
        "$id": "https://shop.example/order.json",
        "definitions": {"a p": {**POINT, **part}},
    }
    assert of({"$ref": ref}, **more) == ("struct<x: double>", [])
    found = parsed({"type": "object", "properties": {"v": {"$ref": ref}}}, **more)
    causes, rows = rows_of(found, arrow_type(columns(found)))([b'{"v": {"x": 1.5}}', b'{"v": {"y": 1}}'])
    assert causes == [None, "invalid_against_schema"]
    assert rows.to_pylist()[0]["v"] == {"x": 1.5}


def test_a_property_may_be_called_as_what_names_a_schema():
    part = {"properties": {"$id": {"type": "string"}, "at": {"$ref": "#/definitions/point"}}}
    assert (
        of(part, definitions={"point": POINT})[0]
        == "struct<$id: string, at: struct<x: double>, _extra: string>"
    )


def test_beside_a_reference_drafts_differ():
    part = {"$ref": "#/definitions/point", "type": "object", "properties": {"y": {}}}
    assert of(part, definitions={"point": POINT})[0] == "struct<x: double>"
    more = {"definitions": {"point": POINT}, "$schema": DRAFT_2020}
    assert of(part, **more)[0] == "struct<y: string, _extra: string>"
    assert of({"$ref": "#/definitions/point", "minimum": 1}, **more)[0] == "string"


def test_a_top_level_that_is_no_object_is_one_column():
    assert (
        str(columns(parsed({"type": "array", "items": {"type": "integer"}}))) == "struct<value: list<long>>"
    )
    assert (
        str(columns(parsed({"type": "object", "additionalProperties": {"type": "string"}})))
        == "struct<value: map<string, string>>"
    )


def test_descriptions_become_comments():
    found = columns(
        parsed(
            {
                "properties": {
                    "a": {"type": "string", "description": "of it"},
                    "b": {"type": "string", "title": "B"},
                }
            }
        )
    )
    assert [field.doc for field in found.fields[:2]] == ["of it", "B"]


def test_what_a_property_refers_to_or_has_beside_null_describes_it():
    """Given a definition, Connect's form of optional, a definition of itself and two that could be meant, then the one that is meant says it, unless the property does."""
    point, described = {"$ref": "#/definitions/point"}, {"type": "string", "description": "d"}
    parts = {
        "a": point,
        "b": {"oneOf": [{"type": "null"}, described]},
        "c": {"anyOf": [point, {"type": "null"}], "description": "own"},
        "e": {"oneOf": [described, point]},
        "f": {"$ref": "#/definitions/loop"},
        "g": {"allOf": [point]},
    }
    named = {"point": {**POINT, "description": "where"}, "loop": {"$ref": "#/definitions/loop"}}
    found = columns(parsed({"properties": parts, "definitions": named, "additionalProperties": False}))
    assert [field.doc for field in found.fields] == ["where", "d", "own", "", "", "where"]


REFUSED = [
    ({"$schema": "http://json-schema.org/draft-04/schema#"}, "$schema", "drafts 7 and 2020-12 are"),
    ({"properties": {"a": {"$ref": "other.json"}}}, "a", "does not point into the document"),
    ({"properties": {"a": {"$ref": "http://example.com/x"}}}, "a", "does not point into the document"),
    ({"oneOf": [{"$ref": "a.json"}, {"$ref": "b.json"}]}, "oneOf.0", "does not point into the document"),
    ({"properties": {"a": {"not": {"$ref": "b.json#/x"}}}}, "properties.a.not", "does not point into the"),
    ({"properties": {"a": {"$ref": "#/definitions/x"}}}, "a", "points at nothing"),
    (
        {
            "$id": "https://shop.example/order.json",
            "definitions": {"x": {"type": "string"}},
            "properties": {
                "a": {
                    "$id": "https://shop.example/a.json",
                    "definitions": {"x": {"type": "integer"}},
                    "properties": {"b": {"$ref": "#/definitions/x"}},
                }
            },
        },
        "a.b",
        "inside of a schema with an $id of its own",
    ),
    ({"properties": {"a": {"type": "string"}, "A": {"type": "string"}}}, "A", "but for case"),
    ({"properties": {"_extra": {"type": "string"}}}, "_extra", "reserved"),
    ({"properties": {"_kafka": {"type": "string"}}}, "_kafka", "reserved"),
    ({"properties": {"_file": {"type": "string"}}}, "_file", "reserved"),
    (
        {"properties": {"1": {"type": "string"}, "_1": {"type": "string"}}},
        "_1",
        "the name and 1 are both spelled _1",
    ),
    ({"properties": {"a": 7}}, "a", "no schema: 7"),
    (
        {"properties": {"a": {"type": "string", "pattern": "("}}},
        "",
        'no valid JSON Schema: properties.a.pattern: "(" is not a "regex"',
    ),
    (
        {"properties": {"a": {"properties": {"b\ud83d": {}}}}},
        "properties.a.properties.b?",
        "half a surrogate",
    ),
    ({"properties": {"a": {"enum": ["x", "\ud83d"]}}}, "properties.a.enum", "half a surrogate"),
    ({"properties": {"a": {"pattern": "\ude00"}}}, "properties.a.pattern", "half a surrogate"),
    ({"type": "strin"}, "", "no valid JSON Schema"),
]


@pytest.mark.parametrize(("schema", "path", "reason"), REFUSED)
def test_what_cannot_be_columns_is_refused_with_its_path(schema, path, reason):
    def look():
        check_validator(found := parsed(schema))
        columns(found)

    with pytest.raises(SchemaUnsupported) as refused:
        look()
    assert refused.value.path == path
    assert reason in refused.value.reason


def test_half_a_surrogate_pair_in_an_annotation_is_a_question_mark():
    part = {"type": "string", "title": "\ud83d", "default": {"\ud83d": ["\ud83d"]}, "x-by": "\ud83d"}
    found = parsed({"description": "cut \ud83d", "properties": {"a": {**part, "description": "cut \ud83d"}}})
    check_validator(found)
    assert columns(found).fields[0].doc == "cut ?"


@pytest.mark.parametrize(
    ("pattern", "valid", "invalid"),
    [
        (r"^[\w-.]+$", "a-b.c", "a b"),
        (r"^[.-\d]+$", ".-7", "/"),
        (r"^[\w-~-]+$", "a-~", "}"),
        (r"^[\d-x-z]+$", "7-xz", "y"),
        (r"^[^\s-@]+$", "a.b", "a-b"),
        (r"^\[\w[\]\s-.a-c]+$", "[w]-b", "[wd"),
        (r"^[a-c]-[\w-]$", "b--", "b-."),
        (r"^[^-a-\d]+$", "bc", "b-c"),
    ],
)
def test_a_hyphen_beside_a_class_in_a_class_stands_for_itself(pattern, valid, invalid):
    """As annex B of ECMA-262 has it: `a-b` in `[\\d-a-b]` is three characters, and no range."""
    for named in (False, True):
        part = {"patternProperties": {pattern: {}}, "additionalProperties": False}
        schema = parsed({"properties": {"v": part if named else {"pattern": pattern}}})
        for text, cause in ((valid, None), (invalid, "invalid_against_schema")):
            fault = explain(json.dumps({"v": {text: 1} if named else text}).encode(), schema)
            assert (fault and fault.cause) == cause
    kept = {"const": {"pattern": pattern}}
    assert explain(json.dumps({"v": kept["const"]}).encode(), parsed({"properties": {"v": kept}})) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"oneOf": null}',
        '{"enum": 5}',
        '{"properties": ["a"]}',
        '{"properties": 5}',
        '{"type": [["a"]]}',
        '{"$ref": "#/x", "x": {"properties": 7}}',
        '{"allOf": [' * 490 + "{}" + "]}" * 490,
        '{"items": ' * 100_000 + "{}" + "}" * 100_000,
    ],
    ids=lambda text: text[:30],
)
def test_a_malformed_schema_is_refused(text):
    """Not every registry looks at what it takes."""
    with pytest.raises(SchemaUnsupported, match=r"no valid JSON Schema|no JSON"):
        json_schema.parse(text)


def test_text_that_is_no_json_is_refused():
    with pytest.raises(SchemaUnsupported, match="no JSON"):
        json_schema.parse("{")


ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "big": {"type": "integer", "maximum": 2**80},
        "price": {"type": "number", "multipleOf": 0.01},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": ["string", "null"], "format": "date"},
        "any": {},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
    },
    "required": ["id"],
    "definitions": {
        "line": {
            "type": "object",
            "properties": {"sku": {"type": "string", "pattern": "^[A-Z]+$"}},
            "additionalProperties": False,
        }
    },
}
GOOD = [
    (b'{"id": 1.0}', {"id": 1}),
    (b'{"id": 9223372036854775807, "big": 1208925819614629174706176}', {"id": 2**63 - 1, "big": Decimal(2**80)}),
    (b'{"id": 1, "price": 1.10, "at": "2026-01-02T03:04:05.5Z", "day": null}', {"id": 1, "price": 1.1, "at": datetime(2026, 1, 2, 3, 4, 5, 500000, UTC)}),
    (b'{"id": 1, "day": "2026-01-02", "any": {"x": [1.10, null]}}', {"id": 1, "day": date(2026, 1, 2), "any": '{"x":[1.10,null]}'}),
    (b'{"id": 1, "lines": [{"sku": "AB"}, {}], "more": true}', {"id": 1, "lines": [{"sku": "AB"}, {"sku": None}], "_extra": '{"more":true}'}),
]  # fmt: skip
BAD = [
    (b"{}", "invalid_against_schema", 'the document: "id" is a required property'),
    (b'{"id": "1"}', "invalid_against_schema", '/id: "1" is not of type "integer"'),
    (b'{"id": 1.5}', "invalid_against_schema", "/id: 1.5 is not of type"),
    (b'{"id": null}', "invalid_against_schema", "/id: null is not of type"),
    (b'{"id": -1}', "invalid_against_schema", "/id: -1 is less than the minimum of 0"),
    (b'{"id": 1, "price": 1.105}', "invalid_against_schema", "/price: 1.105 is not a multiple of 0.01"),
    (b'{"id": 1, "lines": [{}, {"sku": "a/b"}]}', "invalid_against_schema", "/lines/1/sku: "),
    (b'{"id": 1, "lines": [{"x": 1}]}', "invalid_against_schema", "/lines/0: Additional properties"),
    (b'{"id": 1, "at": "yesterday"}', "invalid_against_schema", "/at: 'yesterday' is no time with a zone"),
    (b'{"id": 1, "day": "2026-02-30"}', "invalid_against_schema", "/day: '2026-02-30' is no date"),
    (b"[]", "invalid_against_schema", 'the document: [] is not of type "object"'),
    (b"null", "invalid_against_schema", 'the document: null is not of type "object"'),
    (b'{"id": 1180591620717411303424}', "value_out_of_range", "/id: 1180591620717411303424 is no 64 bit"),
    (b'{"id": 1, "price": 1e400}', "value_out_of_range", "/price: 1E+400 is beyond a double"),
    (b'{"id": 1, "at": "2026-01-02T03:04:05.1234567Z"}', "value_out_of_range", "/at: "),
    (b'{"id": 1, "big": -' + b"9" * 39 + b"}", "value_out_of_range", "/big: "),
    (b'{"id": 1, "id": 2}', "undecodable", "the document: "),
]  # fmt: skip


@pytest.mark.parametrize("draft", [DRAFT_7, DRAFT_2020])
def test_documents_land_or_are_refused_with_their_pointer(draft):
    schema = parsed(ORDER, **{"$schema": draft})
    table = columns(schema)
    causes, found = rows_of(schema, arrow_type(table))(
        [*(value for value, _ in GOOD), *(value for value, _, _ in BAD), None]
    )
    assert causes == [None] * len(GOOD) + [cause for _, cause, _ in BAD] + [None]
    empty = dict.fromkeys(field.name for field in table.fields)
    assert found.to_pylist() == [{**empty, **row} for _, row in GOOD] + [None] * (len(BAD) + 1)
    for value, cause, detail in BAD:
        fault = explain(value, schema)
        assert fault is not None
        assert (fault.cause, fault.detail[: len(detail)]) == (cause, detail)
    assert not any(explain(value, schema) for value, _ in GOOD)


def test_one_column_for_a_top_level_array():
    schema = parsed({"type": ["array", "null"], "items": {"type": "integer"}})
    causes, found = rows_of(schema, arrow_type(columns(schema)))([b"[1, 2]", b"null", b"{}", None])
    assert causes == [None, None, "invalid_against_schema", None]
    assert found.to_pylist() == [{"value": [1, 2]}, {"value": None}, None, None]


def test_json_text_is_no_other_text():
    """What means another thing than the type says: a string would stand in it in quotes."""
    loose = {"type": ["string", "integer"]}
    schema = parsed(
        {
            "properties": {
                "plain": {"type": "string"},
                "loose": loose,
                "all": {"type": "array", "items": loose},
                "by": {"type": "object", "additionalProperties": loose},
            }
        }
    )
    wanted = {"plain": "", "loose": "JSON text", "all": "JSON text", "by": "JSON text", "_extra": ""}
    for documents in (schema, with_variants(schema)):
        assert {f.name: f.meaning for f in columns(documents).fields} == wanted
    whole = parsed({"type": ["string", "integer"]})
    assert [f.meaning for f in columns(whole).fields] == ["JSON text"]
    assert [f.meaning for f in columns(with_variants(DOCUMENT)).fields] == [""]


def doubling(levels: int, **around: Any) -> dict[str, Any]:
    """Definitions of which each is twice the one before."""
    twice = [{"anyOf": [{"$ref": f"#/definitions/D{level}"}] * 2, **around} for level in range(levels)]
    return {"definitions": {f"D{level}": each for level, each in enumerate([{"type": "string"}, *twice])}}


@pytest.mark.parametrize("levels", [18, 400])
@pytest.mark.parametrize("around", [{}, {"not": {"const": 1}}])
def test_a_schema_that_holds_one_value_against_endless_subschemas_is_not_read(levels, around):
    """Given definitions of which each refers twice to the one before, when the schema is read, then it is refused, for no value that breaks it would ever be told why."""
    found = doubling(levels, **around)
    found["properties"] = {"a": {"$ref": f"#/definitions/D{levels}"}}
    with pytest.raises(SchemaUnsupported, match="more than 20000 subschemas of one value"):
        parsed(found)


def test_what_combines_few_contains_itself_or_is_written_out_is_read():
    parsed({**doubling(10), "properties": {"a": {"$ref": "#/definitions/D10"}}})
    tree = {"oneOf": [{"type": "null"}, {"properties": {"left": {"$ref": "#/definitions/tree"}}}]}
    itself = {"anyOf": [{"$ref": "#/definitions/itself"}, {"type": "null"}]}
    parsed(
        {"definitions": {"tree": tree, "itself": itself}, "properties": {"a": {"$ref": "#/definitions/tree"}}}
    )
    parsed({"properties": {"a": {"anyOf": [{"const": number} for number in range(20_001)]}}})
    parsed(
        {"properties": {"anyOf": {"type": "string"}, "not": {"type": "object", "dependencies": {"a": ["b"]}}}}
    )
