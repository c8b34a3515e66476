"""Rule: of a value that could not enter, whatever can be read is shown, and where it stops."""

import io
import json
from types import SimpleNamespace

import fastavro
import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.verify.glimpse import glimpse, is_skipped

CONTRACT = Contract.model_validate({"topic": "orders", "table": "shop.orders"})
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "token", "type": "bytes"},
        {"name": "text", "type": "string"},
    ],
}

PROTO = """syntax = "proto3"; package shop; message Other { string text = 1; }
message Order { int64 id = 1; repeated Item items = 2; string note = 3; message Item { bytes sku = 1; } }"""
ORDER = b"\x08\x2a" + b"\x12\x03\x0a\x01\xff" + b"\x1a\x02hi"
READ = {"id": "42", "items": [{"sku": "/w=="}]}


@pytest.fixture
def lake():
    schema = RegisteredSchema(7, 1, "AVRO", json.dumps(SCHEMA))
    message = RegisteredSchema(8, 1, "PROTOBUF", PROTO)
    return SimpleNamespace(registry=lambda _: SimpleNamespace(by_id={7: schema, 8: message}.get))


def framed(payload, schema_id=7):
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def encoded():
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"id": 42, "token": b"\xff\x00", "text": "hello"})
    return out.getvalue()


def test_fields_are_read_as_far_as_they_go(lake):
    whole = {"id": 42, "token": "0xff00", "text": "hello"}
    assert glimpse(lake, CONTRACT, framed(encoded()), 7) == {"decoded": whole}
    cut = glimpse(lake, CONTRACT, framed(encoded()[:-2]), 7)
    assert cut["decoded"] == {"id": 42, "token": "0xff00"}
    assert cut["stops_at"].startswith("text: ")
    more = glimpse(lake, CONTRACT, framed(encoded() + b"xx"), 7)
    assert (more["decoded"], more["stops_at"]) == (whole, "2 bytes follow the value")


def test_a_protobuf_message_is_found_by_its_index_or_by_its_name(lake):
    assert glimpse(lake, CONTRACT, framed(b"\x02\x02" + ORDER, 8), 8) == {"decoded": {**READ, "note": "hi"}}
    assert glimpse(lake, CONTRACT, framed(b"\x00\x0a\x01t", 8), 8) == {"decoded": {"text": "t"}}
    assert glimpse(lake, CONTRACT, framed(b"\x04\x02\x00\x0a\x01k", 8), 8) == {"decoded": {"sku": "aw=="}}
    named = {"schema": "by_latest_schema", "message": "shop.Order"}
    bare = Contract.model_validate({"topic": "orders", "table": "shop.orders", "value": named})
    assert glimpse(lake, bare, ORDER, 8) == {"decoded": {**READ, "note": "hi"}}


def test_a_damaged_message_is_shown_up_to_the_field_that_is_damaged(lake):
    def seen(body):
        return glimpse(lake, CONTRACT, framed(b"\x02\x02" + body, 8), 8)

    assert seen(ORDER[:-1]) == {"decoded": READ, "stops_at": "note: byte 7"}
    assert seen(ORDER[:-2] + b"\xff\xfe") == {"decoded": READ, "stops_at": "note: byte 7"}
    assert seen(ORDER[:5]) == {"decoded": {"id": "42"}, "stops_at": "items: byte 2"}
    assert glimpse(lake, CONTRACT, framed(b"\x02\x12" + ORDER, 8), 8) is None
    assert glimpse(lake, CONTRACT, framed(b"\x0a", 8), 8) is None


def test_documents_are_read_with_and_without_a_schema_id(lake):
    assert glimpse(lake, CONTRACT, b'{"a": [1]}', None) == {"decoded": {"a": [1]}}
    assert glimpse(lake, CONTRACT, framed(b'{"a": 1}'), 9) == {"decoded": {"a": 1}}


@pytest.mark.parametrize(
    "number", ["NaN", "-Infinity", "1e999", "0.10000000000000000000001", "1e-9999999999999999999"]
)
def test_a_number_that_json_or_a_float_does_not_have_is_shown_as_it_was_written(lake, number):
    found = glimpse(lake, CONTRACT, f'{{"a": {number}, "b": 1.5}}'.encode(), None)
    assert found == {"decoded": {"a": number, "b": 1.5}}
    json.dumps(found, allow_nan=False)


def test_an_avro_number_that_json_does_not_have_is_shown_by_its_name():
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "double"}]}
    registered = RegisteredSchema(9, 1, "AVRO", json.dumps(schema))
    lake = SimpleNamespace(registry=lambda _: SimpleNamespace(by_id={9: registered}.get))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"x": float("nan")})
    assert glimpse(lake, CONTRACT, framed(out.getvalue(), 9), 9) == {"decoded": {"x": "NaN"}}


def test_what_cannot_be_read_is_no_fault(lake):
    assert glimpse(lake, CONTRACT, b'{"a":' + b"[" * 100_000, None) is None
    assert glimpse(lake, CONTRACT, None, 7) is None
    assert glimpse(lake, CONTRACT, framed(b""), 7) is None
    assert glimpse(lake, CONTRACT, framed(b"\x02"), 8) is None
    assert glimpse(lake, CONTRACT, b"poison", None) is None

    def down(_):
        raise Outage("registry_down", "-", "refused")

    assert glimpse(SimpleNamespace(registry=down), CONTRACT, framed(encoded()), 7) is None


@pytest.mark.parametrize(
    ("envelope", "value", "upsert", "skipped"),
    [
        ("debezium", {"op": "m"}, [], True),
        ("debezium", {"op": "c", "after": {"id": 1}}, [], False),
        ("debezium", {"schema": {}, "payload": {"op": "m"}}, [], True),
        ("debezium", {"op": "t"}, [], True),
        ("debezium", {"op": "t"}, ["id"], False),
        ("debezium", {"ts_ms": 1}, [], None),
        ("debezium", {"op": ["m"]}, [], None),
        ("debezium_flat", {"__op": {"m": 1}}, [], None),
        ("debezium", None, [], None),
        ("debezium_flat", {"__op": "m"}, [], True),
        ("debezium_flat", None, [], False),
        ("debezium_flat", {"schema": {}, "payload": None}, [], False),
    ],
)
def test_a_change_event_tells_whether_it_makes_a_row(lake, envelope, value, upsert, skipped):
    fields = {"format": "json", "envelope": envelope, "fields": {"id": "bigint"}}
    said = {
        "topic": "orders",
        "table": "shop.orders",
        "value": fields,
        **({"upsert": upsert} if upsert else {}),
    }
    changes = Contract.model_validate(said)
    assert is_skipped(lake, changes, json.dumps(value).encode()) is skipped
    assert is_skipped(lake, CONTRACT, json.dumps(value).encode()) is None
