"""What a Spark server with Tidemark's own classes decodes itself (docs/adr/0036), told in the name of the function.

Belongs here: the name of the Python function that decodes a column, from which `tidemark/jvm/tidemark/decode` reads
how the values are written. A server without the classes sees a long name, and runs the function.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidemark.domain.columns.types import Struct
from tidemark.domain.formats.json_columns import JsonDocuments
from tidemark.domain.formats.json_nodes import Object
from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.domain.formats.protobuf_nodes import Message
from tidemark.engine.decode.json_checks import Unknown, checked, said_of
from tidemark.engine.decode.protobuf_fields import fields_of

NAME = "tidemark_decode_1"
"""With the number of the form in which it goes on: a jar of another number knows no such function."""


def name_of(writers: Mapping[int, JsonDocuments | ProtobufMessage], columns: Struct, header: int) -> str:
    """The function's name; NAME alone where one of the writers is left to Python.

    So is one with parts that fill no column, as keys have: the server reads every part into its column.
    """
    names = {field.name for field in columns.fields}
    said = {i: _writer(schema) if _parts(schema) <= names else None for i, schema in sorted(writers.items())}
    if None in said.values():
        return NAME
    return NAME + json.dumps({"header": header, "writers": said}, separators=(",", ":"))


def _parts(schema: JsonDocuments | ProtobufMessage) -> set[str]:
    match schema.root:
        case Message(parts=parts) | Object(properties=parts):
            return {part.name for part in parts}
    return set()


def _writer(schema: JsonDocuments | ProtobufMessage) -> dict[str, Any] | None:
    if isinstance(schema, ProtobufMessage):
        fields = fields_of(schema)
        return None if fields is None else {"protobuf": fields}
    try:
        if schema.schema is None:
            return {"json": said_of(schema.root) | _shape(schema)}
        if schema.shape != "plain":
            return None
        return {"json": checked(schema.root, json.loads(schema.schema)), "schema": True}
    except Unknown:
        return None


def _shape(schema: JsonDocuments) -> dict[str, Any]:
    if schema.shape == "plain" or not isinstance(schema.root, Object):
        return {}
    return {"shape": schema.shape, "truncates": schema.truncates}
