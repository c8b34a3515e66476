"""Rule: of a value that could not enter, whatever can be read is shown, and where it stops."""

import io
import json
from types import SimpleNamespace

import fastavro
import pytest

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.verify.glimpse import glimpse

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


@pytest.fixture
def lake():
    schema = RegisteredSchema(7, 1, "AVRO", json.dumps(SCHEMA))
    return SimpleNamespace(registry=lambda _: SimpleNamespace(by_id={7: schema}.get))


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


def test_documents_are_read_with_and_without_a_schema_id(lake):
    assert glimpse(lake, CONTRACT, b'{"a": [1]}', None) == {"decoded": {"a": [1]}}
    assert glimpse(lake, CONTRACT, framed(b'{"a": 1}'), 9) == {"decoded": {"a": 1}}


def test_what_cannot_be_read_is_no_fault(lake):
    assert glimpse(lake, CONTRACT, None, 7) is None
    assert glimpse(lake, CONTRACT, framed(b""), 7) is None
    assert glimpse(lake, CONTRACT, framed(b"\x02"), 8) is None
    assert glimpse(lake, CONTRACT, b"poison", None) is None

    def down(_):
        raise Outage("registry_down", "-", "refused")

    assert glimpse(SimpleNamespace(registry=down), CONTRACT, framed(encoded()), 7) is None
