"""What goes to Spark's executors runs where Tidemark cannot be imported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from tidemark.domain.formats import json_schema, protobuf_columns
from tidemark.domain.formats.json_columns import columns, declared
from tidemark.engine.decode.on_executors import arrow_type, explain, rows_of
from tidemark.engine.decode.shipped.batch import decoder
from tidemark.engine.decode.shipped.protobuf_arrow import _varint
from tidemark.engine.decode.shipping import shippable
from tidemark.engine.schema.protobuf import read
from tidemark.engine.schema.protoc import compile_proto

FOREIGN = """
import json, pickle, sys
for name in ("tidemark", "pydantic", "tests"):
    sys.modules[name] = None
import pyarrow as pa
with open(sys.argv[1], "rb") as file:
    decode, values, ids = pickle.load(file)
print(json.dumps(decode(pa.array(values), pa.array(ids)).to_pylist(), default=str))
"""


def abroad(folder: Path, schemas, table, values, ids, header=0) -> list[dict]:
    """What the function gives in a Python without Tidemark."""
    shippable()
    function = decoder({each: rows_of(schema, arrow_type(table)) for each, schema in schemas.items()}, header)
    parcel = folder / "function.pickle"
    parcel.write_bytes(cloudpickle.dumps((function, values, ids)))
    done = subprocess.run(
        [sys.executable, "-I", "-c", FOREIGN, str(parcel)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def documents():
    return declared({"id": "bigint", "parts": "array<struct<n: decimal(5,2)>>", "at": "timestamp"})


def test_declared_json(tmp_path, documents):
    values = [b'{"id": 1, "parts": [{"n": 1.5}], "x": 1}', b'{"id": "1"}', None]
    found = abroad(tmp_path, {0: documents}, columns(documents), values, [0, 0, None])
    assert [row["cause"] for row in found] == [None, "type_mismatch", None]
    assert [row["row"] and (row["row"]["id"], row["row"]["_extra"]) for row in found] == [
        (1, '{"x":1}'),
        None,
        None,
    ]


def test_json_schema(tmp_path):
    schema = json_schema.parse(
        '{"properties": {"id": {"type": "integer", "minimum": 1}}, "required": ["id"]}'
    )
    explain(b"{}", schema)  # a validator that was used here does not go along
    values = [b"01234" + text for text in (b'{"id": 1}', b'{"id": 0}')]
    found = abroad(tmp_path, {7: schema}, columns(schema), values, [7, 7], header=5)
    assert [row["cause"] for row in found] == [None, "invalid_against_schema"]


def test_protobuf(tmp_path):
    text = 'syntax = "proto3"; import "google/protobuf/struct.proto"; enum E { A = 0; } message M { int64 id = 1; repeated E e = 2; google.protobuf.Struct s = 3; }'
    schema = read(compile_proto(text))
    explain(b"\0\x08\x01", schema)  # classes that were made here do not go along
    values = [b"01234\0\x08\x01\x10\x07\x1a\x00", b"01234\0\x08", None]
    found = abroad(tmp_path, {7: schema}, protobuf_columns.columns(schema), values, [7, 7, None], header=5)
    assert [row["cause"] for row in found] == [None, "undecodable", None]
    assert found[0]["row"] == {"id": 1, "e": ["7"], "s": "{}"}


def test_a_struct_that_is_nested_too_deep_for_protobuf_is_told_so():
    text = (
        'syntax = "proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Value v = 1; }'
    )
    data = b"\x20\x01"
    for tag in b"\x0a\x32" * 60 + b"\x0a":
        data = bytes([tag]) + _varint(len(data)) + data
    found = explain(b"\0" + data, read(compile_proto(text)))
    assert found.cause == "undecodable"
    assert "more than 100 messages in one another" in found.detail


def test_writers_of_one_batch_are_put_back_in_order(tmp_path, documents):
    other = declared({"id": "bigint", "more": "string"})
    table = columns(
        declared(
            {"id": "bigint", "more": "string", "parts": "array<struct<n: decimal(5,2)>>", "at": "timestamp"}
        )
    )
    values = [b"12345" + (b'{"id": %d, "more": "m"}' % n) if n % 5 else None for n in range(20)]
    ids = [(3, 4, 3)[n % 3] if n % 5 else None for n in range(20)]
    found = abroad(tmp_path, {3: documents, 4: other}, table, values, ids, header=5)
    assert [row["row"] and row["row"]["id"] for row in found] == [n if n % 5 else None for n in range(20)]
    assert [row["row"] and row["row"]["more"] for row in found] == [
        None if n % 3 != 1 or not n % 5 else "m" for n in range(20)
    ]
