"""How the records of a workload are written, per format: Avro behind Confluent's header, JSON, bare Protobuf.

The first two columns differ with every record and are put before the rest, which is encoded once for many: making
records must not be what is measured.
"""

import io
import json
import struct
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol

import fastavro

from bench.sidebyside.peers.proto_arrow import message_class
from tidemark.engine.schema.protoc import compile_proto

Fields = dict[str, Any]
"""Avro types by column; the first two are `order_id` and `ordered_at`."""


class Encoding(Protocol):
    """How one format is written."""

    def rest(self, fields: Fields, body: dict[str, Any]) -> bytes:
        """Everything but the first two columns."""

    def value(self, schema_id: int, key: int, at: int, rest: bytes) -> bytes:
        """A whole record, its time in milliseconds since 1970."""


PROTO = {"long": "int64", "int": "int32", "double": "double", "boolean": "bool", "string": "string"}
TIMESTAMP = "google.protobuf.Timestamp"


def avro_schema(fields: Fields) -> str:
    """As JSON."""
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Order", "fields": listed})


def proto_schema(fields: Fields) -> str:
    """A message of proto3, its fields numbered in order."""
    listed = "".join(
        f" {PROTO[kind] if isinstance(kind, str) else TIMESTAMP} {name} = {number};\n"
        for number, (name, kind) in enumerate(fields.items(), 1)
    )
    head = 'syntax = "proto3";\nimport "google/protobuf/timestamp.proto";\n'
    return f'{head}option java_package = "bench";\noption java_multiple_files = true;\nmessage Order {{\n{listed}}}\n'


class Avro:
    """Confluent's header, then the record."""

    def rest(self, fields: Fields, body: dict[str, Any]) -> bytes:
        """As fastavro writes it."""
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, _parsed(avro_schema(dict([*fields.items()][2:]))), body)
        return buffer.getvalue()

    def value(self, schema_id: int, key: int, at: int, rest: bytes) -> bytes:
        """Two longs, zigzagged, before the rest."""
        return struct.pack(">bI", 0, schema_id) + varint(key << 1) + varint(at << 1) + rest


class Json:
    """One document, its time in ISO 8601."""

    def rest(self, fields: Fields, body: dict[str, Any]) -> bytes:
        """Without the opening brace."""
        return json.dumps(body)[1:].encode()

    def value(self, schema_id: int, key: int, at: int, rest: bytes) -> bytes:
        """No schema."""
        time = (
            datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        )
        return f'{{"order_id": {key}, "ordered_at": "{time}", '.encode() + rest


class Protobuf:
    """The message alone, as every reader understands it."""

    def rest(self, fields: Fields, body: dict[str, Any]) -> bytes:
        """A message without its first fields."""
        return bytes(_order(proto_schema(fields))(**body).SerializeToString())

    def value(self, schema_id: int, key: int, at: int, rest: bytes) -> bytes:
        """Field 1, and field 2, a Timestamp of seconds and nanoseconds."""
        seconds, millis = divmod(at, 1000)
        time = b"\x08" + varint(seconds) + b"\x10" + varint(millis * 1_000_000)
        return b"\x08" + varint(key) + b"\x12" + varint(len(time)) + time + rest


ENCODINGS: dict[str, Encoding] = {"avro": Avro(), "json": Json(), "protobuf": Protobuf()}


@cache
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@cache
def _order(schema: str) -> Any:
    return message_class(compile_proto(schema))


def varint(number: int) -> bytes:
    """A number that is not negative, seven bits a byte; Avro's longs are zigzagged before."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
