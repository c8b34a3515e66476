"""Rule: every value of the published matrix goes the whole way, one topic per format, and both engines read it as it was sent."""

import json
import struct
from functools import reduce
from typing import Any

import debezium
import pytest
from confluent_kafka import Producer
from decoding import defined_once, encoded, exact, framed
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from matrix import (
    AVRO,
    DEBEZIUM,
    JSON_FIELDS,
    JSON_SCHEMA,
    NO_COLUMN,
    PROTOBUF,
    WHOLES,
    TypeRow,
    debezium_type,
    json_schema_of,
    proto_of,
)

from tidemark.engine.schema.protoc import compile_proto

HEADERS = [("trace", b"1"), ("trace", None), ("a", b""), ("trace", b"\xff")]


@pytest.fixture
def topic(lakehouse):
    return lakehouse.cluster.bare_topic("matrix")


def names(rows: list[TypeRow]) -> dict[str, TypeRow]:
    return {f"v{n}": row for n, row in enumerate(rows)}


def record(fields: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "Whole", "fields": listed}


def avro(topic):
    """A writer that lacks the last field, which a later version has."""
    *known, (late, _) = names(AVRO).items()
    first = record({name: row.schema for name, row in known})
    schema = defined_once(first, set())
    number = topic.register(schema)
    later = {"name": late, "type": ["null", "long"], "default": None}
    topic.register({**schema, "fields": [*schema["fields"], later]})
    return {}, framed(number, encoded(first, {name: row.value for name, row in known}))


def envelopes(topic):
    schema = debezium.envelope_schema({name: debezium_type(row) for name, row in names(DEBEZIUM).items()})
    row = {"id": 1, **{name: row.value for name, row in names(DEBEZIUM).items()}}
    value = debezium.framed(topic.register(schema), schema, debezium.change("c", after=row))
    return {"value": {"envelope": "debezium"}}, value


def documents(topic):
    fields = {name: row.schema for name, row in names(JSON_FIELDS).items()}
    return {"value": {"format": "json", "fields": fields}}, document(JSON_FIELDS)


def document(rows):
    return ("{" + ", ".join(f'"{name}": {row.value}' for name, row in names(rows).items()) + "}").encode()


def schema_documents(topic):
    properties = {name: row.schema for name, row in names(JSON_SCHEMA).items()}
    number = topic.register(json_schema_of(properties), "JSON")
    return {}, struct.pack(">bI", 0, number) + document(JSON_SCHEMA)


def messages(topic):
    """Each row is a message of its own in one file, and a field of the message that is sent."""
    head = proto_of("").partition("message M")[0]
    bodies = " ".join(f"message M{n} {{ {row.schema} }}" for n, row in enumerate(PROTOBUF))
    fields = " ".join(f"M{n} v{n} = {n + 1};" for n in range(len(PROTOBUF)))
    text = f"{head} message Whole {{ {fields} }} {bodies}"
    number = topic.register(text, "PROTOBUF")
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_proto(text)).file:
        pool.AddSerializedFile(file.SerializeToString())
    whole = message_factory.GetMessageClass(pool.FindMessageTypeByName("Whole"))()
    for name, row in names(PROTOBUF).items():
        part = getattr(whole, name)
        part.SetInParent()
        if row.value is not None:
            part.MergeFrom(type(part)(v=row.value))
    return {}, struct.pack(">bI", 0, number) + b"\0" + whole.SerializeToString()


FORMATS = {
    "avro": (avro, AVRO),
    "debezium": (envelopes, DEBEZIUM),
    "json": (documents, JSON_FIELDS),
    "json_schema": (schema_documents, JSON_SCHEMA),
    "protobuf": (messages, PROTOBUF),
}


@pytest.mark.parametrize("kind", FORMATS)
def test_every_row_of_the_matrix_is_read_as_it_says(lakehouse, topic, kind):
    """Given one record with every row's value and headers, when run in another time zone, then PyIceberg and Spark read each."""
    make, rows = FORMATS[kind]
    contract, value = make(topic)
    producer = Producer({"bootstrap.servers": lakehouse.cluster.bootstrap})
    producer.produce(topic.name, value, key=b"\0key", headers=HEADERS)
    assert producer.flush(30) == 0
    lakehouse.spark().conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    table = lakehouse.table(topic, **contract)
    outcome = table.run()
    assert (outcome.error, outcome.rows.written) == (None, 1), table.causes()
    by_engine = {
        "PyIceberg": table.iceberg().scan().to_arrow(),
        "Spark": lakehouse.spark().table(f"lake.{table.name}").toArrow(),
    }
    for engine, found in by_engine.items():
        [row] = found.to_pylist()
        path = ("v",) if kind == "protobuf" else ()
        assert not {name for name, each in names(rows).items() if each.column == NO_COLUMN} & set(row)
        got = {name: reduce(lambda part, step: part[step], path, row.get(name)) for name in names(rows)}
        assert {n: exact(v) for n, v in got.items()} == {n: exact(r.lands) for n, r in names(rows).items()}, (
            engine
        )
        assert [(h["key"], h["value"]) for h in row["_kafka"]["headers"]] == HEADERS
        assert row["_kafka"]["key"] == b"\0key"


@pytest.mark.long
def test_every_value_as_a_whole_lands_or_stops_its_own_table_by_name(lakehouse):
    """Given a topic for each kind of whole value, when all are run, then each is there exactly, and what has no columns stops with its path."""
    for row in WHOLES:
        topic = lakehouse.cluster.bare_topic("whole")
        text = row.schema if row.kind == "PROTOBUF" else json.dumps(row.schema)
        head = struct.pack(">bI", 0, topic.register(text, row.kind)) if row.kind else b""
        topic.send_raw([(b"k", head + (b"\0" if row.kind == "PROTOBUF" else b"") + row.sent, 0)])
        table = lakehouse.table(topic, **({} if row.kind else {"value": row.schema}))
        outcome = table.run()
        if row.refused:
            assert outcome.state == "schema_unsupported", row.written
            assert row.refused in outcome.error["message"]
            continue
        assert outcome.error is None, row.written
        for found in (
            table.iceberg().scan().to_arrow(),
            lakehouse.spark().table(f"lake.{table.name}").toArrow(),
        ):
            [got] = found.to_pylist()
            assert {name: got[name] for name in got if name != "_kafka"} == row.lands, row.written
