"""Rule: the server's own decoder reads every part of a value into a column; what has more is left to Python."""

import json

import pytest

from tidemark.domain.columns.types import LONG, STRING, Field, Struct
from tidemark.domain.formats import json_schema
from tidemark.domain.formats.json_columns import JsonDocuments
from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.engine.decode.on_server import NAME, name_of
from tidemark.engine.schema.protobuf import read
from tidemark.engine.schema.protoc import compile_proto

PROTOBUF = read(compile_proto('syntax = "proto3"; message Key { int64 id = 1; string tenant = 2; }'))
JSON = json_schema.parse(
    json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "tenant": {"type": "string"}}})
)


@pytest.mark.parametrize("key", [PROTOBUF, JSON], ids=["protobuf", "json"])
def test_a_key_of_more_parts_than_columns_is_left_to_python(key: ProtobufMessage | JsonDocuments) -> None:
    both, one = Struct((Field("tenant", STRING), Field("id", LONG))), Struct((Field("id", LONG),))
    assert name_of({7: key}, both, 5).startswith(NAME + "{")
    assert name_of({7: key}, one, 5) == NAME
