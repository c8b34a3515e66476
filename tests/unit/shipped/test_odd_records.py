"""One odd record is quarantined alone, whatever it does to its reader; errors of the machine are not a record's."""

import base64
import json

import pytest

from tidemark.domain.columns.types import LONG, Field, Struct, as_text, decimal
from tidemark.domain.formats.avro import parse as parse_avro
from tidemark.domain.formats.debezium import document_columns, json_documents
from tidemark.domain.formats.json_columns import DOCUMENT, columns, declared, with_variants
from tidemark.domain.formats.json_schema import parse as parse_schema
from tidemark.engine.decode.decoding import NO_ID, Decoding
from tidemark.engine.decode.failures import explain_value
from tidemark.engine.decode.on_executors import arrow_type, rows_of
from tidemark.engine.decode.shipped.json_values import JsonFault

CONNECT = "org.apache.kafka.connect.data"
MANY_BYTES = base64.b64encode(b"\x7f" * 70_000).decode()


def looked_at(schema, value, good=b'{"v": null}'):
    """The cause of `value` between two good neighbours, and the explanation on the client."""
    struct = columns(schema) if schema.shape == "plain" else document_columns(schema)
    target = arrow_type(as_text(struct))
    causes, rows = rows_of(schema, target)([good, value, None, good])
    assert [row is None for row in rows.to_pylist()] == [False, causes[1] is not None, True, False]
    assert causes[::2] + causes[3:] == [None] * 3
    explained = explain_value(value, None, Decoding("json", struct, 0, {NO_ID: schema}, framing="bare"))
    assert causes[1] in {None, explained.cause}
    return causes[1], explained.detail


@pytest.mark.parametrize(
    "schema",
    [
        with_variants(DOCUMENT),
        with_variants(parse_schema('{"properties": {"v": {"type": ["integer", "string", "null"]}}}')),
    ],
)
@pytest.mark.parametrize("digits", [309, 350, 400, 401, 4300])
def test_an_integer_beyond_every_double_is_out_of_a_variants_range(schema, digits):
    cause, detail = looked_at(schema, b'{"v": %s}' % (b"9" * digits))
    assert (cause, detail[:5]) == ("value_out_of_range", "/v: 9")


def change(part, **fields):
    """A record of Debezium's whose column `v` has a schema of its own."""
    schema = {"type": "struct", "fields": [{"field": "after", "fields": [{"field": "v", **part}]}]}
    return json.dumps({"schema": schema, "payload": {"op": "c", **fields}}).encode()


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        (b'{"status": ["BEGIN"], "id": 1}', "invalid_against_schema"),
        (b'{"status": {}, "v": 1}', "invalid_against_schema"),
        (b'{"op": []}', "invalid_against_schema"),
        (b'{"op": {}, "after": {"v": 1}}', "invalid_against_schema"),
        (b'{"op": "c", "ts_ms": %s, "after": {}}' % (b"9" * 4299), "value_out_of_range"),
        (change({"type": "bytes"}, after={"v": "é"}), "undecodable"),
        (change({"type": "bytes", "name": []}, after={"v": "AQ=="}), None),
        (change({"type": "int64", "name": {}}, after={"v": "AQ=="}), "type_mismatch"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_a_change_of_any_shape_lands_or_is_refused(record, cause):
    schema = json_documents({"v": "binary"}, "debezium", truncates=False)
    assert looked_at(schema, record, b'{"op": "c", "after": {}}')[0] == cause


@pytest.mark.parametrize(
    ("fields", "record", "cause"),
    [
        (None, b'{"id": 2, "status": ["active"], "__op": "u"}', None),
        (None, b'{"status": {"text": "BEGIN"}, "id": 1, "event_count": 2}', None),
        ({"v": "bigint"}, b'{"id": 2, "status": ["active"]}', None),
        ({"v": "bigint"}, b'{"v": 1, "__op": [1]}', "invalid_against_schema"),
    ],
)
def test_a_flat_row_with_any_status_is_a_row(fields, record, cause):
    schema = json_documents(fields, "debezium_flat", truncates=False)
    assert looked_at(schema, record)[0] == cause


@pytest.mark.parametrize(
    ("ddl", "part", "value", "cause"),
    [
        ("decimal(9,2)", {"name": f"{CONNECT}.Decimal", "parameters": {"scale": "2"}}, MANY_BYTES[:8000], "value_out_of_range"),
        ("string", {"name": f"{CONNECT}.Decimal", "parameters": {"scale": "2"}}, MANY_BYTES[:8000], None),
        ("string", {"name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 0, "value": MANY_BYTES}, "value_out_of_range"),
        ("string", {"name": f"{CONNECT}.Decimal", "parameters": {"scale": "9" * 5000}}, "AQ==", "undecodable"),
        ("decimal(9,2)", {"name": f"{CONNECT}.Decimal", "parameters": {"scale": []}}, "AQ==", "undecodable"),
        ("bigint", {"name": f"{CONNECT}.Time"}, 10**4299, "value_out_of_range"),
        ("timestamp", {"name": f"{CONNECT}.Timestamp"}, 10**4299, "value_out_of_range"),
    ],
    ids=lambda each: str(each)[:30],
)  # fmt: skip
def test_a_number_of_any_length_lands_or_is_out_of_range(ddl, part, value, cause):
    schema = json_documents({"v": ddl}, "debezium", truncates=False)
    assert looked_at(schema, change(part, after={"v": value}), b'{"op": "c", "after": {}}')[0] == cause


def test_a_decimal_of_any_length_has_all_its_digits():
    schema = json_documents({"v": "string"}, "debezium", truncates=False)
    digits = "-" + "8" * 9000
    coded = base64.b64encode(_twos_complement(digits)).decode()
    part = {"name": "io.debezium.data.VariableScaleDecimal"}
    _, rows = rows_of(schema, arrow_type(document_columns(schema)))(
        [change(part, after={"v": {"scale": 3, "value": coded}})]
    )
    assert rows.to_pylist()[0]["v"] == f"{digits[:-3]}.{digits[-3:]}"


def _twos_complement(digits):
    number = 0
    for start in range(1, len(digits), 1000):
        part = digits[start : start + 1000]
        number = number * 10 ** len(part) + int(part)
    return (-number).to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def test_an_avro_decimal_of_any_length_is_explained():
    """Python refuses to spell such a number; the look at it is on the client."""
    schema = parse_avro(
        '{"type": "record", "name": "r", "fields": [{"name": "v", "type":'
        ' {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}]}'
    )
    struct = Struct((Field("v", decimal(9, 2)),))
    content = b"\x7f" * 5000
    value = b"\0\0\0\0\7" + bytes([0x90, 0x4E]) + content
    explained = explain_value(value, 7, Decoding("avro", struct, 0, {7: schema}))
    assert explained.cause == "value_out_of_range"
    assert explained.detail.startswith("v: more digits than a decimal(9,2): 0x7f7f")


@pytest.mark.parametrize("raised", [KeyError("x"), RecursionError(), AttributeError(), AssertionError()])
def test_whatever_a_record_makes_its_reader_raise_keeps_it_alone_out(monkeypatch, raised):
    _raise_for(monkeypatch, "odd", raised)
    cause, detail = looked_at(declared({"v": "bigint"}), b'{"v": "odd"}')
    assert (cause, detail) == ("undecodable", f"the value: reading it raises {type(raised).__name__}")


@pytest.mark.parametrize("raised", [MemoryError(), OSError(28, "no space"), ImportError("jiter")])
def test_what_the_machine_lacks_is_no_records_fault(monkeypatch, raised):
    _raise_for(monkeypatch, "odd", raised)
    with pytest.raises(type(raised)):
        looked_at(declared({"v": "bigint"}), b'{"v": "odd"}')


def _raise_for(monkeypatch, text, raised):
    def check(_node, document):
        if document["v"] == text:
            raise raised
        if not isinstance(document["v"], int | None):
            raise JsonFault("type_mismatch", "no integer")

    monkeypatch.setattr("tidemark.engine.decode.shipped.json_arrow.check", check)


def test_what_fills_no_column_is_no_fault_in_any_company():
    """Given keys of more parts than columns, when a damaged one comes with them, then they are rows as they are alone."""
    schema = parse_schema(
        '{"properties": {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}}}'
    )
    read = rows_of(schema, arrow_type(Struct((Field("id", LONG),))))
    key = b'{"id": 1, "day": "2026-13-45"}'
    assert read([key])[0] == [None]
    assert read([key, b"{"])[0] == [None, "undecodable"]
