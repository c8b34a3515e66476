"""Rules: a column takes part in a key by its name, whatever that begins with, Tidemark's own columns apart; and no record type's key deletes a row of another's."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.formats.debezium import CDC
from tidemark.domain.formats.json_nodes import EXTRA
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.schema.keys import key_decoding

TABLE = Struct((Field("_id", LONG), Field("note", STRING), Field(EXTRA, STRING), CDC, KAFKA_COLUMN))


def test_a_json_key_fills_a_column_whose_name_begins_with_an_underscore() -> None:
    """Given a table by `_id`, when a tombstone's key is JSON, then `_id` comes out of it."""
    contract = Contract.model_validate(
        {"topic": "orders", "table": "shop.orders", "key": {"format": "json"}, "upsert": {"keys": ["_id"]}}
    )
    no_registry: Any = None
    found = key_decoding(no_registry, contract, TABLE)
    assert found is not None
    assert found.columns == {"_id": "_id", "note": "note"}


def key_of(name: str, *fields: str) -> str:
    parts = [{"name": each, "type": "long"} for each in fields]
    return json.dumps({"type": "record", "namespace": "shop", "name": name, "fields": parts})


def messages(*names: str) -> str:
    return 'syntax = "proto3"; ' + " ".join(f"message {each} {{ int64 _id = 1; }}" for each in names)


@pytest.mark.parametrize(
    ("kind", "texts", "told"),
    [
        (
            "AVRO",
            [key_of("CustomerKey", "_id"), key_of("OrderKey", "_id")],
            "shop.CustomerKey, shop.OrderKey",
        ),
        ("AVRO", [key_of("OrderKey", "_id"), key_of("OrderKey", "_id", "shop")], ""),
        ("AVRO", ['"int"', '"long"'], ""),
        (
            "JSON",
            ['{"title": "Order", "type": "integer"}', '{"title": "User", "type": "integer"}'],
            "Order, User",
        ),
        ("JSON", ['{"title": "Order", "type": "integer"}', '{"type": "integer"}'], ""),
        ("PROTOBUF", [messages("OrderKey"), messages("UserKey")], "OrderKey, UserKey"),
        ("PROTOBUF", [messages("Key"), messages("Key", "Part")], ""),
    ],
)
def test_a_tombstone_deletes_no_row_of_another_record_type(kind: str, texts: list[str], told: str) -> None:
    """Given a topic of events whose keys are of several record types, then its current state is refused with their names; a topic of one event goes on, and so does one whose events share a key."""
    versions = tuple(RegisteredSchema(n, n, kind, text) for n, text in enumerate(texts, 1))
    lake: Any = SimpleNamespace(registry=lambda _: SimpleNamespace(versions=lambda _: versions))
    one = {"topic": "shop", "table": "shop.orders", "key": {"format": "registry", "fields": ["_id"]}}
    assert key_decoding(lake, Contract.model_validate({**one, "upsert": {"keys": ["_id"]}}), TABLE)
    assert key_decoding(lake, Contract.model_validate({**one, "event": "shop.Order"}), TABLE) is None
    several = Contract.model_validate({**one, "event": "shop.Order", "upsert": {"keys": ["_id"]}})
    if not told:
        assert key_decoding(lake, several, TABLE)
        return
    with pytest.raises(Stopped, match=f"several record types, {told}:") as stopped:
        key_decoding(lake, several, TABLE)
    assert stopped.value.state == "misconfigured"
