"""Rules: a column takes part in a key by its name, whatever that begins with, Tidemark's own columns apart; and no record type's key deletes a row of another's."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, TIMESTAMPTZ, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Stopped
from tidemark.domain.formats.debezium import CDC
from tidemark.domain.formats.json_nodes import EXTRA
from tidemark.domain.formats.protobuf_columns import MEANINGS
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.schema.keys import ids_in_keys, key_decoding, key_fault, untold_keys

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


def key_of(name: str, *fields: str, space: str = "shop") -> str:
    parts = [{"name": each, "type": "long"} for each in fields]
    return json.dumps({"type": "record", "namespace": space, "name": name, "fields": parts})


def messages(*names: str) -> str:
    return 'syntax = "proto3"; ' + " ".join(f"message {each} {{ int64 _id = 1; }}" for each in names)


ONE = {"topic": "shop", "table": "shop.orders", "key": {"format": "registry", "fields": ["_id"]}}
SEVERAL = Contract.model_validate({**ONE, "event": "shop.Order", "upsert": {"keys": ["_id"]}})


def listing(*versions: RegisteredSchema) -> Any:
    return SimpleNamespace(registry=lambda _: SimpleNamespace(versions=lambda _: versions))


@pytest.mark.parametrize(
    ("kind", "texts", "told"),
    [
        (
            "AVRO",
            [key_of("CustomerKey", "_id"), key_of("OrderKey", "_id")],
            "shop.CustomerKey, shop.OrderKey",
        ),
        ("AVRO", [key_of("OrderKey", "_id"), key_of("OrderKey", "_id", "shop")], ""),
        (
            "AVRO",
            [key_of("Key", "_id", space="inv.customers"), key_of("Key", "_id", space="inv.orders")],
            "inv.customers.Key, inv.orders.Key",
        ),
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
    lake = listing(*versions)
    assert key_decoding(lake, Contract.model_validate({**ONE, "upsert": {"keys": ["_id"]}}), TABLE)
    assert key_decoding(lake, Contract.model_validate({**ONE, "event": "shop.Order"}), TABLE) is None
    if not told:
        assert key_decoding(lake, SEVERAL, TABLE)
        return
    with pytest.raises(Stopped, match=f"several record types, {told}:") as stopped:
        key_decoding(lake, SEVERAL, TABLE)
    assert stopped.value.state == "misconfigured"


def test_no_key_is_decoded_before_a_topic_has_had_a_row() -> None:
    """Given a table that a topic of Debezium's own records has made, then its key fills nothing, and nothing is missed."""
    said = {**ONE, "value": {"envelope": "debezium"}, "upsert": {"keys": ["_id"]}}
    contract, lake = (
        Contract.model_validate(said),
        listing(RegisteredSchema(1, 1, "AVRO", key_of("Key", "id"))),
    )
    own = Struct((CDC, KAFKA_COLUMN))
    assert (key_decoding(lake, contract, own), untold_keys(lake, contract, own)) == (None, [])
    with pytest.raises(Stopped, match="there is no column _id"):
        key_decoding(lake, contract, Struct((Field("note", STRING), CDC, KAFKA_COLUMN)))


def test_a_deleted_type_stops_nothing_and_its_keys_delete_nothing() -> None:
    """Given types that were deleted, a wrong one and one from before a namespace moved, then keys of the living one are read, theirs are quarantined."""
    wrong = RegisteredSchema(1, 1, "AVRO", key_of("CustomerKey", "_id"), deleted=True)
    moved = RegisteredSchema(2, 2, "AVRO", key_of("OrderKey", "_id", space="old"), deleted=True)
    older = RegisteredSchema(3, 3, "AVRO", key_of("OrderKey", "_id"), deleted=True)
    found = key_decoding(
        listing(wrong, moved, older, RegisteredSchema(4, 4, "AVRO", key_of("OrderKey", "_id", "shop"))),
        SEVERAL,
        TABLE,
    )
    assert found is not None
    assert (set(found.decoding.writers), found.decoding.unfit) == ({3, 4}, {1, 2})


def test_a_key_schema_that_no_validator_takes_is_refused_and_quarantines_no_delete() -> None:
    """Given a JSON Schema of keys whose pattern is no regular expression, then it is told which, before a delete comes."""
    key = {"type": "object", "properties": {"_id": {"type": "integer"}, "by": {"pattern": "("}}}
    lake = listing(RegisteredSchema(1, 1, "JSON", json.dumps(key)))
    contract = Contract.model_validate({**ONE, "upsert": {"keys": ["_id"]}})
    reason = r'key: no valid JSON Schema: properties\.by\.pattern: "\(" is not a "regex"'
    with pytest.raises(Stopped, match=reason) as stopped:
        key_decoding(lake, contract, TABLE)
    assert stopped.value.state == "misconfigured"
    assert str(key_fault(lake, contract, TABLE)) in str(stopped.value)


def file_of(*texts: str) -> str:
    return 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; ' + " ".join(texts)


ORDER = "message Order { int64 _id = 1; string note = 2; }"
ORDER_KEY = "message OrderKey { int64 _id = 1; }"
HELPER = "message Helper { string text = 1; string more = 2; }"


@pytest.mark.parametrize(
    ("texts", "fields", "index"),
    [
        ([file_of(ORDER, ORDER_KEY)], ["_id"], (1,)),
        ([file_of(ORDER, ORDER_KEY)], [], (1,)),
        ([file_of(ORDER)], ["_id"], (0,)),
        ([file_of(HELPER, ORDER_KEY)], ["_id"], (1,)),
        ([file_of("message Tag { int64 n = 1; }", ORDER_KEY)], ["_id"], (1,)),
        (
            [file_of("message Key { message Inner { int64 _id = 1; } Inner inner = 1; }", HELPER)],
            ["_id"],
            None,
        ),
        (
            [file_of(ORDER_KEY), file_of(HELPER, "message NewKey { int64 _id = 1; }", ORDER_KEY)],
            ["_id"],
            (2,),
        ),
    ],
)
def test_a_key_is_the_message_that_has_its_fields(
    texts: list[str], fields: list[str], index: tuple[int, ...] | None
) -> None:
    """Given a Protobuf file of values and keys, or with helpers before the key, then keys are read as the message that stands for the columns."""
    said = {**ONE, "key": {"format": "registry", "fields": fields}, "upsert": {"keys": ["_id"]}}
    by_subject = {
        "shop-key": tuple(RegisteredSchema(n, n, "PROTOBUF", text) for n, text in enumerate(texts, 1)),
        "shop-value": (RegisteredSchema(9, 1, "PROTOBUF", file_of(ORDER)),),
    }
    lake: Any = SimpleNamespace(registry=lambda _: SimpleNamespace(versions=by_subject.get))
    if index is None:
        with pytest.raises(Stopped, match="the key holds struct"):
            key_decoding(lake, Contract.model_validate(said), TABLE)
        return
    found = key_decoding(lake, Contract.model_validate(said), TABLE)
    assert found is not None
    *_, newest = found.decoding.writers.values()
    assert newest.index == index
    assert found.columns["_id"] == "_id"


def test_a_keys_timestamp_has_the_digits_of_its_column() -> None:
    """Given a table made with `timestamp_nanos: long` or without, then a Timestamp of the key is what the column holds."""
    key = file_of("message Key { int64 _id = 1; google.protobuf.Timestamp at = 2; }")
    lake = listing(RegisteredSchema(1, 1, "PROTOBUF", key))
    said = {**ONE, "key": {"format": "registry"}, "upsert": {"keys": ["_id", "at"]}}
    table = Struct(
        (Field("_id", LONG), Field("at", LONG, meaning=MEANINGS["timestamp_nanos"]), CDC, KAFKA_COLUMN)
    )
    micros = Struct((Field("_id", LONG), Field("at", TIMESTAMPTZ), CDC, KAFKA_COLUMN))
    for each in (table, micros):
        found = key_decoding(lake, Contract.model_validate(said), each)
        assert found is not None
        assert found.columns == {"_id": "_id", "at": "at"}
    plain = Struct((Field("_id", LONG), Field("at", LONG), CDC, KAFKA_COLUMN))
    with pytest.raises(Stopped, match="column at is long"):
        key_decoding(lake, Contract.model_validate(said), plain)


@pytest.mark.parametrize(
    ("keys", "kind", "texts", "ids"),
    [
        (["_kafka.key"], "AVRO", [key_of("Key", "_id"), key_of("Key", "_id", "shop")], [1, 2]),
        (["_kafka.key"], "AVRO", [key_of("CustomerKey", "_id"), key_of("OrderKey", "_id")], []),
        (["_kafka.key"], "AVRO", ['"int"', '"long"'], [1, 2]),
        (["_kafka.key"], "JSON", ['{"type": "integer"}', '{"type": "string"}'], [1, 2]),
        (["_kafka.key"], "PROTOBUF", [messages("Key"), messages("Key", "Part")], [1, 2]),
        (["_kafka.key"], "PROTOBUF", [messages("OrderKey"), messages("UserKey")], []),
        (["_id"], "AVRO", [key_of("Key", "_id"), key_of("Key", "_id", "shop")], []),
    ],
)
def test_ids_that_make_another_key_of_the_same_one_are_known(
    keys: list[str], kind: str, texts: list[str], ids: list[int]
) -> None:
    """Rule: where the bytes of keys tell rows apart, the registry's header does too; keys of several types are to differ."""
    lake = listing(*(RegisteredSchema(n, n, kind, text) for n, text in enumerate(texts, 1)))
    lake.platform = SimpleNamespace(schema_registry={"main": None})
    said = Contract.model_validate({"topic": "shop", "table": "shop.orders", "upsert": {"keys": keys}})
    assert ids_in_keys(lake, said) == ids
    lake.platform.schema_registry = {}
    assert ids_in_keys(lake, said) == []
