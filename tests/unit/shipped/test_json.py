"""JSON documents land exactly or are refused by pointer; whole batches come out as single documents do."""

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemark.domain.columns.types import Struct
from tidemark.domain.formats.json_columns import DOCUMENT, JsonDocuments, columns, declared
from tidemark.domain.formats.json_nodes import Leaf
from tidemark.engine.decode.on_executors import arrow_type
from tidemark.engine.decode.shipped.json_arrow import fault_of, rows
from tidemark.engine.decode.shipped.json_values import text_of


def landed(ddl: str, text: str) -> Any:
    """The column `v` of a document, or its fault as (cause, detail)."""
    documents = declared({"v": ddl})
    value = f'{{"v": {text}}}'.encode()
    causes, found = rows([value], documents.root, arrow_type(columns(documents)))
    fault = fault_of(value, documents.root)
    assert causes == [fault.cause if fault else None], "a batch and a single look differ"
    if fault:
        assert found.to_pylist() == [None]
        return fault.cause, fault.detail
    assert found.to_pylist()[0]["_extra"] is None
    return found.to_pylist()[0]["v"]


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


EXACT: list[tuple[str, str, Any]] = [
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("int", "2147483647", 2**31 - 1),
    ("int", "-2147483648", -(2**31)),
    ("bigint", "9223372036854775807", 2**63 - 1),
    ("bigint", "-9223372036854775808", -(2**63)),
    ("bigint", "0", 0),
    ("bigint", "-0", 0),
    ("bigint", "1.0", 1),
    ("bigint", "-12.50e1", -125),
    ("bigint", "1E18", 10**18),
    ("bigint", "0.000e999999", 0),
    ("double", "0.1", 0.1),
    ("double", "12", 12.0),
    ("double", "1e308", 1e308),
    ("double", "5e-324", 5e-324),
    ("double", "0", 0.0),
    ("double", "0.0", 0.0),
    ("double", "9007199254740993.0", 9007199254740992.0),
    ("double", "9007199254740992", 2.0**53),
    ("double", "1180591620717411303424", 2.0**70),
    ("decimal(5,2)", "1.23", Decimal("1.23")),
    ("decimal(5,2)", "1.2300", Decimal("1.23")),
    ("decimal(5,2)", "-999.99", Decimal("-999.99")),
    ("decimal(5,2)", "1e2", Decimal("100.00")),
    ("decimal(5,2)", "0e50", Decimal("0.00")),
    ("decimal(5,2)", "0.00000", Decimal("0.00")),
    ("decimal(5,2)", "7", Decimal("7.00")),
    ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(38,38)", "0." + "9" * 38, Decimal("0." + "9" * 38)),
    ("decimal(38,10)", "1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789")),
    ("string", '""', ""),
    ("string", '"é\\u0000\\ud83d\\ude00\\n"', "é\0😀\n"),
    ("date", '"2024-02-29"', date(2024, 2, 29)),
    ("date", '"0001-01-01"', date(1, 1, 1)),
    ("timestamp", '"2026-01-02T03:04:05Z"', at(2026, 1, 2, 3, 4, 5)),
    ("timestamp", '"2026-01-02t03:04:05z"', at(2026, 1, 2, 3, 4, 5)),
    ("timestamp", '"2026-01-02 03:04:05.1+02:30"', at(2026, 1, 2, 0, 34, 5, 100000)),
    ("timestamp", '"2026-01-02T03:04:05.123456000-00:00"', at(2026, 1, 2, 3, 4, 5, 123456)),
    ("timestamp", '"1582-10-10T00:00:00Z"', at(1582, 10, 10)),
    ("timestamp", '"0001-01-01T00:00:00Z"', at(1, 1, 1)),
    ("timestamp", '"9999-12-31T23:59:59.999999Z"', at(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamp", '"9999-12-31T23:59:59+01:00"', at(9999, 12, 31, 22, 59, 59)),
    ("timestamp_ntz", '"2026-01-02T03:04:05.000001"', at(2026, 1, 2, 3, 4, 5, 1).replace(tzinfo=None)),
    ("array<bigint>", "[]", []),
    ("array<bigint>", "[1, null, 3]", [1, None, 3]),
    ("array<array<string>>", '[["a"], [], null]', [["a"], [], None]),
    ("map<string,bigint>", '{"": 1, "é.x": null}', [("", 1), ("é.x", None)]),
    ("map<string,bigint>", "{}", []),
    ("struct<a: int, b: array<date>>", '{"a": 1}', {"a": 1, "b": None, "_extra": None}),
    ("struct<a: int>", '{"A": 1, "b": [1.10]}', {"a": None, "_extra": '{"A":1,"b":[1.10]}'}),
    ("array<struct<a: int>>", '[{"a": 1}, {"x": null}, null]', [{"a": 1, "_extra": None}, {"a": None, "_extra": '{"x":null}'}, None]),
    *((ddl, "null", None) for ddl in ("boolean", "bigint", "double", "decimal(5,2)", "string", "date", "timestamp", "array<int>", "map<string,int>", "struct<a: int>")),
]  # fmt: skip


@pytest.mark.parametrize(("ddl", "text", "value"), EXACT)
def test_a_value_lands_exactly(ddl, text, value):
    found = landed(ddl, text)
    assert found == value
    assert type(found) is type(value)


def test_a_negative_zero_stays_one():
    assert math.copysign(1, landed("double", "-0.0")) == -1


REFUSED: list[tuple[str, str, str, str]] = [
    ("bigint", "1.5", "type_mismatch", "1.5 where an integer belongs"),
    ("bigint", '"12"', "type_mismatch", "a string where an integer belongs"),
    ("bigint", "true", "type_mismatch", "a boolean where an integer belongs"),
    ("bigint", "1180591620717411303424", "value_out_of_range", "is no 64 bit integer"),
    ("bigint", "9223372036854775808", "value_out_of_range", "is no 64 bit integer"),
    ("bigint", "1e400000", "value_out_of_range", "is no 64 bit integer"),
    ("int", "2147483648", "value_out_of_range", "is no 32 bit integer"),
    ("int", "{}", "type_mismatch", "an object where an integer belongs"),
    ("string", "12", "type_mismatch", "a number where a string belongs"),
    ("string", "[]", "type_mismatch", "an array where a string belongs"),
    ("boolean", "1", "type_mismatch", "a number where a boolean belongs"),
    ("boolean", '"true"', "type_mismatch", "a string where a boolean belongs"),
    ("double", '"1.5"', "type_mismatch", "a string where a number belongs"),
    ("double", "1e400", "value_out_of_range", "1E+400 is beyond a double"),
    ("double", "-1e400", "value_out_of_range", "is beyond a double"),
    ("double", "1e-400", "value_out_of_range", "is beyond a double"),
    ("double", "9007199254740993", "value_out_of_range", "has more digits than a double"),
    ("double", "1" + "0" * 400, "value_out_of_range", "is beyond a double"),
    ("decimal(5,2)", "1.239", "value_out_of_range", "has 3 digits after the point, not 2"),
    ("decimal(5,2)", "1000", "value_out_of_range", "has more digits than decimal(5,2)"),
    ("decimal(5,2)", "1e400", "value_out_of_range", "has more digits"),
    ("decimal(38,0)", "1" + "0" * 38, "value_out_of_range", "has more digits"),
    ("decimal(5,2)", '"1.23"', "type_mismatch", "a string where a number belongs"),
    ("decimal(5,2)", "true", "type_mismatch", "a boolean where a number belongs"),
    ("date", '"2026-02-30"', "type_mismatch", "is no date"),
    ("date", '"2026-1-1"', "type_mismatch", "is no date"),
    ("date", '"20260101"', "type_mismatch", "is no date"),
    ("date", "20454", "type_mismatch", "a number where a string belongs"),
    ("timestamp", '"2026-01-02T03:04:05"', "type_mismatch", "is no time with a zone"),
    ("timestamp", '"2026-01-02"', "type_mismatch", "is no time with a zone"),
    ("timestamp", "1767323045", "type_mismatch", "a number where a string belongs"),
    ("timestamp", '"2026-01-02T03:04:05.1234567Z"', "value_out_of_range", "is finer than microseconds"),
    (
        "timestamp",
        '"2026-01-02T03:04:60Z"',
        "value_out_of_range",
        "is no time of day, or none of the years 1 to 9999",
    ),
    ("timestamp", '"2026-02-30T03:04:05Z"', "value_out_of_range", "is no time"),
    ("timestamp", '"0001-01-01T00:00:00+01:00"', "value_out_of_range", "is no time"),
    (
        "timestamp",
        '"9999-12-31T23:59:59-01:00"',
        "value_out_of_range",
        "is no time of day, or none of the years 1 to 9999",
    ),
    ("timestamp", '"2026-01-01T00:00:00+24:00"', "value_out_of_range", "is no time"),
    ("timestamp_ntz", '"2026-01-02T03:04:05Z"', "type_mismatch", "is no time without a zone"),
    ("array<bigint>", "{}", "type_mismatch", "an object where an array belongs"),
    ("map<string,int>", "[]", "type_mismatch", "an array where an object belongs"),
    ("struct<a: int>", '"a"', "type_mismatch", "a string where an object belongs"),
]


@pytest.mark.parametrize(("ddl", "text", "cause", "reason"), REFUSED)
def test_what_does_not_land_exactly_is_refused_with_its_place(ddl, text, cause, reason):
    found, detail = landed(ddl, text)
    assert found == cause
    assert detail.startswith("/v: ")
    assert reason in detail


@pytest.mark.parametrize(
    ("ddl", "text", "pointer"),
    [
        ("array<struct<a: int>>", '[{"a": 1}, {"a": "1"}]', "/v/1/a"),
        ("map<string,int>", '{"x/y~z": true}', "/v/x~1y~0z"),
        ("struct<a: map<string, array<int>>>", '{"a": {"k": [1, 1.5]}}', "/v/a/k/1"),
    ],
)
def test_the_place_is_a_json_pointer(ddl, text, pointer):
    assert landed(ddl, text)[1].startswith(f"{pointer}: ")


BROKEN = [
    b"", b"{", b'{"a":1', b"{} x", b'{"a":1}{"a":1}', b'{"a":1,"a":1}', b'{"b":{"c":1,"c":2}}', b"nul", b"{'a':1}",
    b'{"a":1,}', b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":1.}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":"\xff"}',
    b'{"a":"\\ud800"}', b'{"a":"\x01"}', b"\xef\xbb\xbf{}", b'{"a":' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"a":' + b"1" * 5000 + b"}", b'{"a": 1 // no comment\n}', b"\x00\x00\x00\x00\x07{}",
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("documents", [declared({"a": "bigint"}), DOCUMENT], ids=["declared", "document"])
def test_what_is_no_json_is_undecodable(text, documents):
    target = arrow_type(columns(documents))
    causes, found = rows([text, b'{"a": 2}'], documents.root, target)
    assert causes == ["undecodable", None]
    assert found.to_pylist()[0] is None
    fault = fault_of(text, documents.root)
    assert fault is not None
    assert fault.detail.startswith("the document: ")


@pytest.mark.parametrize("text", [b"null", b"[]", b"1", b'"a"', b"true"])
def test_declared_columns_need_an_object(text):
    documents = declared({"a": "bigint"})
    causes, _ = rows([text, None], documents.root, arrow_type(columns(documents)))
    assert causes == ["type_mismatch", None]


@pytest.mark.parametrize(
    "text", [b' {"b" : 1.0,\n "a":[] } ', b"null", b"12", b'"\\u00e9"', '{"é":1e5}'.encode()]
)
def test_a_document_without_declared_columns_keeps_its_text(text):
    causes, found = rows([text, None], DOCUMENT.root, arrow_type(columns(DOCUMENT)))
    assert causes == [None, None]
    assert found.to_pylist() == [{"value": text.decode()}, None]


@pytest.mark.parametrize("kind", ["text", "string", "long"])
def test_a_whole_document_lands_in_its_own_column_wherever_that_stands(kind):
    root = Leaf(kind)
    whole = columns(JsonDocuments(root)).fields
    table = arrow_type(Struct((*columns(declared({"id": "bigint"})).fields, *whole)))
    value = b"12" if kind == "long" else b'"a"'
    causes, found = rows([value, b"{", None], root, table)
    assert causes == [None, "undecodable", None]
    [row, *others] = found.to_pylist()
    assert row == {"id": None, "_extra": None, "value": {"text": '"a"', "string": "a", "long": 12}[kind]}
    assert others == [None, None]


def test_undeclared_fields_are_kept_digit_by_digit():
    documents = declared({"id": "bigint"})
    rest = '{"n":0.1000000000000000055511151231257827,"big":123456789012345678901234567890,"z":1.10,"t":"é\\"\\\\","l":[null,true,{}]}'
    value = f'{{"id": 7, {rest[1:]}'.encode()
    _, found = rows([value], documents.root, arrow_type(columns(documents)))
    assert found.to_pylist() == [{"id": 7, "_extra": rest}]


def test_one_bad_document_costs_one_row():
    documents = declared({"id": "bigint"})
    values = [b'{"id": %d}' % n for n in range(50)]
    values[17] = b'{"id": "17"}'
    causes, found = rows([*values, None], documents.root, arrow_type(columns(documents)))
    assert [n for n, cause in enumerate(causes) if cause] == [17]
    assert [row and row["id"] for row in found.to_pylist()] == [*range(17), None, *range(18, 50), None]


def test_what_arrow_refuses_stays_out_whatever_the_look_says(monkeypatch):
    monkeypatch.setattr("tidemark.engine.decode.shipped.json_arrow.check", lambda _node, _value: None)
    documents = declared({"id": "bigint"})
    causes, _ = rows([b'{"id": "17"}', b'{"id": 1}'], documents.root, arrow_type(columns(documents)))
    assert causes == ["undecodable", None]


NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=None).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1.0", "1e2", "0e9", "-0", "-0.0", "1E-7", "9007199254740993", "1e19"]),
)
OTHER = st.sampled_from(
    [
        '"x"',
        "true",
        "null",
        "[]",
        "{}",
        '"2026-01-02T03:04:05Z"',
        '"2026-01-02"',
        '"2026-01-02 03:04:05.1234567Z"',
    ]
)
DDL = [
    "boolean",
    "int",
    "bigint",
    "double",
    "decimal(5,2)",
    "decimal(38,10)",
    "string",
    "date",
    "timestamp",
    "timestamp_ntz",
]


@example(ddl="decimal(38,10)", texts=["1e-244"], nested=False)
@settings(max_examples=150)
@given(
    ddl=st.sampled_from(DDL),
    texts=st.lists(st.one_of(NUMBERS, OTHER), min_size=1, max_size=8),
    nested=st.booleans(),
)
def test_a_batch_says_what_each_document_says(ddl, texts, nested):
    documents = declared({"v": f"array<struct<x: {ddl}>>" if nested else ddl})
    target = arrow_type(columns(documents))
    values = [(f'{{"v": [{{"x": {text}}}]}}' if nested else f'{{"v": {text}}}').encode() for text in texts]
    causes, found = rows(values, documents.root, target)
    alone = [rows([value], documents.root, target) for value in values]
    assert causes == [cause for each, _ in alone for cause in each]
    assert causes == [(fault := fault_of(value, documents.root)) and fault.cause for value in values]
    assert found.equals(pa.concat_arrays([each for _, each in alone]))


@pytest.mark.parametrize("shape", ["{}", "array<{}>", "map<string,{}>", "struct<x: {}>"])
@pytest.mark.parametrize(
    ("own", "wider", "inside", "beyond"),
    [
        ("int", "bigint", -(2**31), 2**31),
        ("decimal(5,2)", "decimal(38,2)", Decimal("999.99"), Decimal("1000.00")),
        ("decimal(5,2)", "decimal(5,2)", Decimal("1.00"), Decimal("1.001")),
    ],
)
def test_a_wider_column_takes_what_the_declared_type_takes(shape, own, wider, inside, beyond):
    """Whatever else is in the batch: a declaration that was made narrower again, or an older schema."""
    written = {"{}": "{}", "array<{}>": "[{}]"}.get(shape, '{{"x": {}}}')
    documents = declared({"v": shape.format(own)})
    target = arrow_type(columns(declared({"v": shape.format(wider)})))
    values = [f'{{"v": {written.format(number)}}}'.encode() for number in (inside, beyond)]
    assert rows(values[1:], documents.root, target)[0] == ["value_out_of_range"]
    causes, found = rows([*values, b"no JSON"], documents.root, target)
    assert causes == [None, "value_out_of_range", "undecodable"]
    assert rows(values[:1], documents.root, target)[1].equals(found[:1])
    assert str(inside) in str(found.to_pylist()[0])


@settings(max_examples=100)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_the_text_of_a_value_is_json_again(value):
    assert json.loads(text_of(value)) == value
