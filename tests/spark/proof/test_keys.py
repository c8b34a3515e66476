"""Kafka keys fill the rows of tombstones; without an upsert table they are counted.

Text, raw bytes and Avro records as keys are in `test_decode_debezium` and `test_debezium_topics`.
"""

import io
import json
import struct

import fastavro
import pytest

AVRO_KEY = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}
JSON_KEY = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
PROTO_KEY = 'syntax = "proto3"; package shop; message Key { int64 id = 1; }'
WIDE_JSON_KEY = {"type": "object", "properties": {"id": {"type": "integer"}, "tenant": {"type": "string"}}}
WIDE_PROTO_KEY = PROTO_KEY.replace("}", "string tenant = 2; }")
EMBEDDED = {"type": "struct", "fields": [{"type": "int64", "field": "id"}], "optional": False}


def avro(schema):
    def encode(number):
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, fastavro.parse_schema(schema), number)
        return sink.getvalue()

    return encode


FORMATS = {
    "json embedded": (
        None,
        None,
        lambda n: json.dumps({"schema": EMBEDDED, "payload": {"id": n}}).encode(),
    ),
    "registry": ("AVRO", '"long"', avro("long")),
    "protobuf": ("PROTOBUF", PROTO_KEY, lambda n: b"\0\x08" + bytes([n])),
    "protobuf with more": ("PROTOBUF", WIDE_PROTO_KEY, lambda n: b"\0\x08" + bytes([n]) + b"\x12\1t"),
    "json_schema": ("JSON", JSON_KEY, lambda n: json.dumps({"id": n}).encode()),
    "json_schema with more": ("JSON", WIDE_JSON_KEY, lambda n: json.dumps({"id": n, "tenant": "t"}).encode()),
}


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(each, marks=[pytest.mark.long] if f"{each} with more" in FORMATS else [])
        for each in FORMATS
    ],
)
def test_a_tombstone_is_a_row_with_the_columns_of_its_key(lakehouse, form):
    """Given rows, tombstones and a key that does not decode, then each is in its place, read by PyIceberg and Spark."""
    kind, schema, encode = FORMATS[form]
    topic = lakehouse.cluster.bare_topic("keyed")
    head = b""
    if schema is not None:
        head = struct.pack(">bI", 0, topic.cluster.register(f"{topic.name}-key", schema, kind))
    keys = {n: head + encode(n) for n in (1, 2)}
    topic.send_raw(
        [
            (keys[1], b'{"id": 1, "note": "a"}', 0),
            (b"\xff", b'{"id": 3, "note": "its key is not looked at"}', 0),
            (keys[1], None, 0),
            (keys[2], None, 0),
            (b"\xff\xff", None, 0),
            (None, None, 0),
        ]
    )
    value = {"format": "json", "fields": {"id": "bigint", "note": "string"}}
    key = {"format": form.partition(" ")[0], "fields": ["id"]}
    table = lakehouse.table(topic, value=value, key=key, upsert=["id"], quarantine={"fail": 1})
    outcome = table.run()
    assert (outcome.state, outcome.error) == ("fresh", None)
    assert outcome.rows._asdict() == {
        "read": 6,
        "written": 4,
        "quarantined": 2,
        "tombstones": 0,
        "skipped": 0,
    }
    expected = [(1, "a", False), (1, None, True), (2, None, True), (3, "its key is not looked at", False)]
    rows = table.iceberg().scan(selected_fields=("id", "note", "_kafka")).to_arrow().to_pylist()
    assert sorted((r["id"], r["note"] or "", r["_kafka"]["tombstone"]) for r in rows) == sorted(
        (i, note or "", gone) for i, note, gone in expected
    )
    assert {r["_kafka"]["key"] for r in rows} == {b"\xff", *keys.values()}
    by_spark = lakehouse.spark().sql(f"SELECT id, _kafka.tombstone FROM lake.{table.name}").collect()
    assert sorted((r["id"], r["tombstone"]) for r in by_spark) == sorted((i, gone) for i, _, gone in expected)
    assert table.causes().pop("null_key") == 1


def test_without_an_upsert_table_tombstones_are_counted_and_keys_left_alone(lakehouse):
    topic = lakehouse.cluster.bare_topic("keyed")
    topic.send_raw([(b"1", b'{"id": 1}', 0), (b"\xff", None, 0)])
    value = {"format": "json", "fields": {"id": "bigint"}}
    table = lakehouse.table(topic, value=value, key={"format": "string", "fields": ["id"]})
    outcome = table.run()
    assert outcome.error is None
    assert outcome.rows._asdict() == {
        "read": 2,
        "written": 1,
        "quarantined": 0,
        "tombstones": 1,
        "skipped": 0,
    }


def test_a_key_that_cannot_stand_for_its_column_is_refused_before_anything_is_made(lakehouse):
    topic = lakehouse.cluster.bare_topic("keyed")
    topic.send_raw([(b"1", b'{"id": 1}', 0)])
    topic.cluster.register(
        f"{topic.name}-key",
        {**AVRO_KEY, "fields": [{"name": "ident", "type": "string"}, AVRO_KEY["fields"][0]]},
    )
    value = {"format": "json", "fields": {"id": "bigint", "idents": "string", "x": "int"}}
    for fields, reason in (
        (["idents"], "the key has no field idents (did you mean ident?); it has ident, id"),
        (["x", "id"], "the key has no field x"),
    ):
        table = lakehouse.table(topic, value=value, key={"format": "avro", "fields": fields})
        outcome = table.run()
        assert outcome.state == "misconfigured"
        assert reason in str(outcome.error)
    table = lakehouse.table(
        topic, value={**value, "fields": {"id": "string"}}, key={"format": "avro", "fields": ["id"]}
    )
    assert "column id is string, and the key holds int" in str(table.run().error)
    assert not lakehouse.catalog.table_exists(table.name)
