"""The JSON decoder in `tidemark/jvm` beside the Python one: the same cause, the same row, whatever comes."""

import json
from random import Random
from typing import Any

import pytest
from both_decoders import compared, in_python, on_server
from pyspark.sql import SparkSession
from random_json import Maker, numbers, times
from seeds import first

from tidemark.domain.formats import json_schema
from tidemark.domain.formats.json_columns import DOCUMENT, JsonDocuments, columns, declared
from tidemark.domain.formats.json_nodes import Entries, Items, Leaf, Object, Property
from tidemark.engine.decode.on_server import NAME, name_of

LEAVES = {
    "flag": Leaf("boolean"),
    "small": Leaf("int"),
    "big": Leaf("long"),
    "real": Leaf("double"),
    "short": Leaf("decimal", 5, 2),
    "cents": Leaf("decimal", 18, 2),
    "wide": Leaf("decimal", 38, 10),
    "whole": Leaf("decimal", 38, 0),
    "part": Leaf("decimal", 3, 3),
    "words": Leaf("string"),
    "day": Leaf("date"),
    "wall": Leaf("timestamp"),
    "at": Leaf("timestamptz"),
    "any": Leaf("text"),
}


def differences(spark: SparkSession, root: Any, values: list[bytes | None]) -> Any:
    documents = JsonDocuments(root)
    return compared(spark, {0: documents}, columns(documents), [(0, value) for value in values])[0]


def test_the_server_reads_json_with_our_decoder(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the comparison would be of Python with itself."""
    documents = declared({"id": "bigint"})
    for made, replaced in ((on_server, True), (in_python, False)):
        raw = spark.range(1).selectExpr("cast(id as int) id", "cast('{}' as binary) value")
        raw.select(made({0: documents}, columns(documents))).explain(mode="extended")
        optimized = capsys.readouterr().out.partition("== Optimized Logical Plan ==")[2]
        assert ("invoke(tidemark_decode.decode(" in optimized) == replaced, optimized


def test_every_odd_value_of_every_type_is_read_alike(spark: SparkSession) -> None:
    odd = [*numbers(), *times(), "true", "false", "null", "[]", "{}", '"12"', '"\\u0031"', "[1.50, {}]"]
    lone = Object(tuple(Property(name, leaf) for name, leaf in LEAVES.items()))
    listed = Object(tuple(Property(name, Items(leaf)) for name, leaf in LEAVES.items()))
    for root, around in ((lone, "{}"), (listed, "[{}, null]")):
        values = [f'{{"{name}": {around.format(value)}}}' for name in LEAVES for value in odd]
        assert not differences(spark, root, [value.encode() for value in values])
    for name in ("big", "real", "cents", "words", "at"):
        assert not differences(spark, LEAVES[name], [value.encode() for value in odd]), name


def test_numbers_and_levels_without_end_are_read_alike(spark: SparkSession) -> None:
    long = [4299, 4300, 4301, 20_000]
    odd = [
        sign + "1" * count + end
        for count in long
        for sign in ("", "-")
        for end in ("", ".5", "e1", "e-4298", ".0e-4299")
    ]
    odd += ["0." + "1" * count for count in long] + ["1." + "0" * count for count in long]
    odd += ["1" + "0" * 5000 + "e-5000", "0." + "0" * 5000 + "1e5001"]
    for leaf in ("long", "double", "text", "decimal"):
        node = Leaf("decimal", 38, 9) if leaf == "decimal" else Leaf(leaf)
        assert not differences(spark, node, [value.encode() for value in odd]), leaf
    deep = [
        first * count + middle + last * count
        for count in (198, 199, 200, 201, 5000)
        for first, middle, last in (("[", "", "]"), ('{"a":', "1", "}"))
    ]
    for root in (
        Leaf("text"),
        Leaf("long"),
        Leaf("document"),
        Object((Property("a", Leaf("text")),)),
        Object((Property("b", Leaf("text")),)),
    ):
        assert not differences(spark, root, [value.encode() for value in deep]), root


def test_what_is_no_document_is_refused_alike(spark: SparkSession) -> None:
    values = [
        None,
        b"",
        b" ",
        b"{",
        b"}",
        b"[]",
        b"null",
        b" null ",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b"{}\0",
        b'{"id": 1}x',
        b"1",
        b'"x"',
    ]
    for root in (
        Object((Property("id", Leaf("long")),)),
        Items(Leaf("long")),
        Entries(Leaf("string")),
        Leaf("document"),
        Leaf("text"),
    ):
        assert not differences(
            spark, root, [*values, b' {"a": 1.0} ', b'{"a": "b"}', b'{"a": "b", "a": "b"}', b'{"": null}']
        )


def test_of_several_faults_the_same_one_counts(spark: SparkSession) -> None:
    inner = Object((Property("x", Leaf("int")), Property("y", Leaf("int"))))
    root = Object(
        (Property("a", inner), Property("b", Items(Leaf("int"))), Property("c", Entries(Leaf("int"))))
    )
    wrong, beyond = '"1"', "99999999999"
    parts = [(wrong, beyond), (beyond, wrong), ("1", wrong), ("1", beyond), (beyond, "1")]
    values: list[bytes | None] = []
    for one, two in parts:
        for three, four in parts:
            lists = f'"b": [{three}, {four}], "c": {{"k": {four}, "l": {three}}}'
            values += [
                f'{{"a": {{"y": {two}, "x": {one}}}, {lists}}}'.encode(),
                f'{{{lists}, "a": {{"x": {one}, "y": {two}}}}}'.encode(),
                f'{{"c": {wrong}, "a": {{"x": {one}, "y": {two}}}, "more": {{"q": 1, "q": 1}}}}'.encode(),
            ]
    assert not differences(spark, root, values)


def test_a_table_of_wider_columns_is_filled_alike(spark: SparkSession) -> None:
    narrow = declared(
        {"n": "int", "d": "decimal(5,2)", "in": "struct<a: int>", "l": "array<int>", "m": "map<string, int>"}
    )
    wide = declared(
        {
            "z": "string",
            "m": "map<string, bigint>",
            "l": "array<bigint>",
            "in": "struct<b: date, a: bigint>",
            "d": "decimal(30,2)",
            "n": "bigint",
        }
    )
    values = [
        b'{"n": 2147483647, "d": 123.45, "in": {"a": 7, "b": "2026-01-01"}, "l": [1, null], "m": {"k": 1}}',
        b'{"n": 2147483648}',
        b'{"d": 1234.5}',
        b'{"l": [2147483648]}',
        b'{"m": {"": -2147483649}}',
        b'{"in": {"a": 2147483648}}',
        b'{"z": 1, "in": {}, "d": -0.00}',
    ]
    both = {3: narrow, 4: wide}
    pairs = [(writer, b"12345" + value) for writer in both for value in values]
    assert not compared(spark, both, columns(wide), pairs, header=5)[0]


@pytest.mark.parametrize("seed", first(8, of=20))
def test_random_documents_are_read_alike(spark: SparkSession, seed: int) -> None:
    """Good ones, ones of wrong values, and damaged ones."""
    chance = Random(seed)
    maker = Maker(chance)
    root = maker.object(6, 3)
    good = [maker.text(root, 0).encode() for _ in range(100)]
    wild = [maker.text(root, chance.choice((0.02, 0.1))).encode() for _ in range(600)]
    damaged = [maker.damaged(chance.choice(good)) for _ in range(300)]
    assert not differences(spark, root, [*good, *wild, *damaged])


def test_a_document_of_nothing_declared_is_read_alike(spark: SparkSession) -> None:
    chance = Random(1)
    maker = Maker(chance)
    values = [maker.text(maker.object(3, 2), 0.05).encode() for _ in range(500)]
    assert not compared(spark, {0: DOCUMENT}, columns(DOCUMENT), [(0, value) for value in values])[0]


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://example.com/order",
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 1, "exclusiveMaximum": 100.5},
        "name": {"type": ["string", "null"], "minLength": 2, "maxLength": 3},
        "state": {"enum": ["NEW", "PAID", None]},
        "kind": {"const": "order"},
        "day": {"type": "string", "format": "date"},
        "at": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/time"}]},
        "nick": {"oneOf": [{"type": "null", "title": "Not included"}, {"type": "string"}]},
        "real": {"type": "number", "minimum": -0.1, "maximum": 1e22},
        "huge": {"type": "integer", "minimum": -5, "maximum": 2**70},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1, "maxItems": 2},
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "any": True,
    },
    "$defs": {
        "time": {"type": "string", "format": "date-time"},
        "line": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "additionalProperties": False,
            "required": ["n"],
        },
    },
}


def schema_differences(spark: SparkSession, schema: Any, values: list[bytes]) -> Any:
    documents = json_schema.parse(json.dumps(schema))
    assert name_of({7: documents}, columns(documents), 5) != NAME
    pairs = [(7, b"12345" + value) for value in values]
    return compared(spark, {7: documents}, columns(documents), pairs, header=5)[0]


def test_what_a_schema_says_is_checked_alike(spark: SparkSession) -> None:
    odd = [
        *numbers(),
        *times(),
        "true",
        "null",
        "[]",
        "{}",
        '"N"',
        '"NEW"',
        '"\\u004eEW"',
        '"order"',
        '"😀😀"',
        '"😀é漢x"',
    ]
    odd += [
        '[{"n": 1}]',
        '[{"n": 1}, {"n": 2}, {"n": 3}]',
        '[{"n": 1, "m": 2}]',
        "[{}]",
        "[null]",
        '[{"n": null}]',
    ]
    odd += ['{"x": true}', '{"x": null}', '{"x": 1}']
    values = [
        f'{{"id": 1, "{name}": {value}}}' for name in SCHEMA["properties"] if name != "id" for value in odd
    ]
    values += [f'{{"id": {value}}}' for value in odd] + [
        "null",
        "[]",
        "{}",
        '"x"',
        '{"id": 1, "new": [1, {}]}',
    ]
    values += [
        '{"day": "x", "at": "2026-01-31T23:59:59.1234567Z", "id": 1}',
        '{"at": 7, "id": 1180591620717411303424}',
    ]
    assert not schema_differences(spark, SCHEMA, [value.encode() for value in values])


@pytest.mark.parametrize("seed", first(8, of=16))
def test_documents_of_random_schemas_are_read_alike(spark: SparkSession, seed: int) -> None:
    chance = Random(seed)
    maker = Maker(chance)
    tree = maker.object(5, 3)
    schema = maker.typed(tree)
    good = [maker.text(tree, 0).encode() for _ in range(300)]
    wild = [maker.text(tree, chance.choice((0.02, 0.1))).encode() for _ in range(400)]
    damaged = [maker.damaged(chance.choice(good)) for _ in range(100)]
    assert not schema_differences(spark, schema, [*good, *wild, *damaged])


@pytest.mark.parametrize(
    "keyword",
    [
        {"pattern": "a"},
        {"type": "number", "minimum": float("inf")},
        {"$ref": "#"},
        {"not": {}},
        {"if": {"type": "string"}, "then": {"minLength": 2}},
        {"allOf": [{"minLength": 1}, {"maxLength": 2}]},
        {"$ref": "#/$defs/a", "minLength": 3},
        {"type": "object", "properties": {"b": {}}, "anyOf": [{"required": ["b"]}]},
        {"$ref": "#/$defs/a", "type": "object", "properties": {"b": {}}},
    ],
)
def test_what_a_schema_says_beyond_that_is_left_to_python(keyword: dict[str, Any]) -> None:
    said = {"type": "string", **keyword}
    schema = {"$schema": SCHEMA["$schema"], "properties": {"a": said}, "$defs": {"a": {"type": "string"}}}
    documents = json_schema.parse(json.dumps(schema))
    assert name_of({7: documents}, columns(documents), 5) == NAME


@pytest.mark.parametrize(
    "text",
    [
        "true",
        '{"$ref": "#"}',
        '{"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}',
        '{"properties": {"a": {"items": {"$ref": "#/properties/a"}}}}',
        '{"properties": {"a": {"oneOf": [{"type": "null", "not": {}}, {"type": "string"}]}}}',
        '{"properties": {"a": {"type": "object", "required": {"a": 1}, "properties": {"a": {}}}}}',
    ],
)
def test_schemas_that_are_odd_themselves_are_left_to_python(text: str) -> None:
    documents = json_schema.parse(text)
    assert name_of({7: documents}, columns(documents), 5) == NAME
