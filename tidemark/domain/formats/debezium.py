"""Debezium's records: which of them are changes of a row, and the columns that a change becomes (docs/types.md).

Belongs here: the shape of the envelope, of its flattened form, and of `_cdc`. How the types inside are read is in
`connect`.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Literal

from tidemark.domain.columns import names
from tidemark.domain.columns.types import (
    KAFKA_COLUMN,
    STRING,
    TIMESTAMPTZ,
    ColumnType,
    Field,
    Primitive,
    Struct,
)
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro import AvroSchema
from tidemark.domain.formats.avro_columns import WHOLE_VALUE, AvroColumns, columns
from tidemark.domain.formats.avro_nodes import NULL, Leaf, Node, Record, RecordField, Union, skeleton
from tidemark.domain.formats.json_columns import JsonDocuments, Shape, declared
from tidemark.domain.formats.json_columns import columns as json_columns
from tidemark.domain.formats.json_nodes import Leaf as JsonLeaf
from tidemark.domain.formats.json_nodes import LeafKind, Object, Property

Envelope = Literal["none", "debezium", "debezium_flat"]
CDC = Field(
    names.CDC,
    Struct(
        (
            Field(
                "op", STRING, "c create, r read by a snapshot, u update, d delete, t truncate of the table"
            ),
            Field("source", STRING, "JSON: where the change comes from, as the connector says"),
            Field("ts", TIMESTAMPTZ, "when the connector processed the change"),
            Field(
                "pos", STRING, "place in the database's log; numbers are padded, so that it orders as text"
            ),
            Field("snapshot", STRING, "whether a snapshot read the row, as the connector says"),
            Field("transaction", STRING, "JSON: the transaction, where the connector provides it"),
        )
    ),
    "The change that the row was sent as",
)
"""The struct that tables of Debezium topics carry before `_kafka`."""
TRUNCATE = "truncate"
"""The cause of a record that says that the source was emptied, where no upsert table is to follow it: it is skipped."""
META = "__"
"""Names of the fields that ExtractNewRecordState adds to a row begin with it."""
_FLATTEN = (
    "as of MongoDB's connector: flatten it with ExtractNewDocumentState, and say envelope: debezium_flat"
)
_PLACES = ({"lsn"}, {"change_lsn"}, {"file", "pos"}, {"scn"})
"""What makes a `pos`, any of them, as decoding does."""
_BOOKKEEPING = frozenset({"Heartbeat", "TransactionMetadataValue", "SchemaChangeValue", "MessageValue"})


def is_bookkeeping(name: str | None) -> bool:
    """True for the records of heartbeat, transaction, schema-change and message topics, by their schema's name."""
    return (
        bool(name) and str(name).startswith("io.debezium.") and str(name).rpartition(".")[2] in _BOOKKEEPING
    )


def has_rows(table: Struct) -> bool:
    """False for the columns of a topic that has none but Debezium's own records so far, which are no rows."""
    return table.field(CDC.name) is None or any(
        f.name not in {CDC.name, KAFKA_COLUMN.name} for f in table.fields
    )


def _change_record(schema: AvroSchema, envelope: Envelope) -> Record:
    """The writer's top-level record.

    Raises SchemaUnsupported for a schema that is not of the shape `envelope`.
    """
    root = present(schema.root)
    if not isinstance(root, Record):
        raise SchemaUnsupported(
            "", f"no Debezium record: the schema is no record, and envelope is {envelope}"
        )
    if envelope == "debezium":
        row_record(root)
    return root


def row_record(root: Record) -> Record:
    """The record of a row inside an envelope.

    Raises SchemaUnsupported where there is none.
    """
    after, before = (part(root, name) for name in ("after", "before"))
    if part(root, "op") is None or after is None:
        raise SchemaUnsupported("", f"{root.name} is no Debezium envelope: it lacks op and after")
    if not isinstance(after, Record):
        is_text = isinstance(after, Leaf) and after.kind == "string"
        raise SchemaUnsupported("after", f"the row is no record{f' but text, {_FLATTEN}' if is_text else ''}")
    if before is not None and skeleton(before) != skeleton(after):
        raise SchemaUnsupported("before", "the row before the change has another type than the row after it")
    return after


def part(record: Record, name: str) -> Node | None:
    """The type of a field when it is present; None without the field."""
    found = next((field.type for field in record.fields if field.name == name), None)
    return None if found is None or found == NULL else present(found)


def present(node: Node) -> Node:
    """The type of an optional value when it is there."""
    return node.values[0] if isinstance(node, Union) and len(node.values) == 1 else node


def flat_row(root: Record) -> Record:
    """The columns of a flattened record."""
    return Record(root.name, tuple(f for f in root.fields if not f.name.startswith(META)), root.doc)


def avro_columns(schema: AvroSchema, envelope: Envelope) -> AvroColumns:
    """The columns of a row, and `_cdc` as the last.

    Raises SchemaUnsupported, with the path, for a schema that is not of the shape `envelope`.
    """
    if envelope == "none":
        return columns(schema)
    root = _change_record(schema, envelope)
    row = row_record(root) if envelope == "debezium" else flat_row(root)
    found = columns(AvroSchema(row, schema.notes))
    return AvroColumns(_with_cdc(found.struct), found.notes)


def _with_cdc(columns: Struct) -> Struct:
    """The columns of a row with `_cdc` behind them.

    Raises SchemaUnsupported where a name clashes with those inside of it.
    """
    whole = Struct((*columns.fields, CDC))
    names.check_names(whole)
    return whole


def reader_row(root: Node, envelope: Envelope) -> Node | None:
    """The row inside the newest schema, whose defaults stand in for what older writers lack."""
    found = present(root)
    if envelope == "none" or not isinstance(found, Record):
        return root
    return part(found, "after") if envelope == "debezium" else found


def with_texts(schema: AvroSchema, columns: Struct, envelope: Envelope) -> AvroSchema:
    """The same schema for a table that had some Json as text before it became format 3: it stays as it came."""
    rows = Struct((Field("before", columns), Field("after", columns))) if envelope == "debezium" else columns
    return replace(schema, root=_with_texts(schema.root, rows))


def _with_texts(node: Node, kind: ColumnType) -> Node:
    match node, kind:
        case Leaf(logical="document"), Primitive("string"):
            return Leaf("string")
        case Record(), Struct():
            parts = ((each, kind.field(each.name)) for each in node.fields)
            return replace(
                node,
                fields=tuple(replace(p, type=_with_texts(p.type, f.type)) if f else p for p, f in parts),
            )
        case Union(), _ if len(node.values) == 1:
            return Union(tuple(_with_texts(branch, kind) for branch in node.branches))
    return node


def meta_fields(root: Record) -> tuple[RecordField, ...]:
    """What ExtractNewRecordState has added."""
    return tuple(field for field in root.fields if field.name.startswith(META))


def untold(schema: AvroSchema) -> frozenset[str]:
    """Of the time and the place in `_cdc`, what no flattened record of this schema fills."""
    root = present(schema.root)
    if not isinstance(root, Record):
        return frozenset()
    there = [field.name for field in meta_fields(root) if part(root, field.name) is not None]
    names = {name.removeprefix(META).removeprefix("source_") for name in there}
    filled = {"ts": "ts_ms" in names, "pos": any(names >= each for each in _PLACES)}
    return frozenset(name for name, is_filled in filled.items() if not is_filled)


def without(columns: Struct, parts: Collection[str]) -> Struct:
    """The columns of a row, `_cdc` without these parts of it."""
    assert isinstance(CDC.type, Struct)  # noqa: S101 - so it is
    rest = replace(CDC, type=Struct(tuple(f for f in CDC.type.fields if f.name not in parts)))
    return Struct(tuple(rest if field.name == CDC.name else field for field in columns.fields))


def json_documents(fields: Mapping[str, str] | None, envelope: Envelope, *, truncates: bool) -> JsonDocuments:
    """The documents of a JSON topic: rows of declared columns, else each row as JSON text in one column.

    Raises SchemaUnsupported, with the path, as `declared` does, and for what no flattened row has.
    """
    for name in fields or ():
        if envelope == "debezium_flat" and name.startswith(META):
            raise SchemaUnsupported(
                name, f"what begins with {META} is no column of the row: it is in {CDC.name}"
            )
    if fields:
        root = declared(fields, with_bytes=True).root
        properties, is_open = (root.properties, root.is_open) if isinstance(root, Object) else ((), True)
    else:
        properties, is_open = (Property(WHOLE_VALUE, JsonLeaf("text")),), False
    cdc = Property(CDC.name, Object(_cdc_properties(), is_open=False))
    shape: Shape = "debezium" if envelope == "debezium" else "debezium_flat"
    documents = JsonDocuments(Object((*properties, cdc), is_open), shape=shape, truncates=truncates)
    document_columns(documents)
    return documents


def document_columns(documents: JsonDocuments) -> Struct:
    """The columns of a row, and `_cdc` as the last.

    Raises SchemaUnsupported, with the path, for names that clash or are reserved.
    """
    root = documents.root
    if isinstance(root, Object):
        root = replace(root, properties=tuple(p for p in root.properties if p.name != CDC.name))
    return _with_cdc(json_columns(replace(documents, root=root)))


def _cdc_properties() -> tuple[Property, ...]:
    kinds: dict[ColumnType, LeafKind] = {STRING: "string", TIMESTAMPTZ: "timestamptz"}
    parts = CDC.type.fields if isinstance(CDC.type, Struct) else ()
    return tuple(Property(part.name, JsonLeaf(kinds[part.type])) for part in parts)
