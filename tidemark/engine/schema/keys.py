"""How the Kafka keys of a topic become columns: `key` of the contract, planned against the table and the registry.

A key is decoded only where a row needs it: for a tombstone that lands as a row, and for a delete of Debezium's.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from tidemark.domain.columns.layout import resolve
from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.columns.types import BINARY, KAFKA_COLUMN, STRING, ColumnType, Field, Struct
from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import SchemaUnsupported, Stopped
from tidemark.domain.formats import json_schema, protobuf_columns
from tidemark.domain.formats.avro import AvroSchema, parse
from tidemark.domain.formats.avro_columns import WHOLE_VALUE, columns
from tidemark.domain.formats.avro_nodes import LEAF_KINDS, Record
from tidemark.domain.formats.debezium import has_rows
from tidemark.domain.formats.json_columns import JsonDocuments, node_of
from tidemark.domain.formats.json_columns import columns as json_columns
from tidemark.domain.formats.json_nodes import Object, Property
from tidemark.domain.formats.key_columns import OURS, check_types, key_targets, named_parts
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import asked
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.decode.decoding import NO_ID, Decoding, Format, KeyDecoding, WriterSchema
from tidemark.engine.decode.key import KEY_PAYLOAD
from tidemark.engine.decode.on_executors import check_validator
from tidemark.engine.decode.text import is_readable
from tidemark.engine.schema import protobuf
from tidemark.engine.schema.event_routes import type_names
from tidemark.engine.schema.protoc import compile_proto
from tidemark.engine.schema.subjects import in_order, subjects_of
from tidemark.engine.schema.writer import messages
from tidemark.engine.schema.writers import FORMATS


def required_columns(contract: Contract, table: Struct) -> tuple[tuple[str, ...], ...]:
    """The columns of the upsert key by path: a row without one of them has no place in the upsert table.

    Names that the table does not have are the upsert table's to refuse.
    """
    if contract.upsert is None:
        return ()
    known = Struct((*table.fields, KAFKA_COLUMN))
    return tuple(column_parts(key) for key in contract.upsert.keys if resolve(known, key) is not None)


def key_decoding(lake: Lake, contract: Contract, table: Struct) -> KeyDecoding | None:
    """How keys fill columns of the table, or None when no row needs one or no column is meant.

    Raises:
        Stopped: `misconfigured` when `key` does not fit the table or the key's schemas.
        Outage: `registry_down`.
    """
    try:
        found = _decoding(lake, contract, table)
    except SchemaUnsupported as error:
        raise Stopped("misconfigured", contract.table, f"key: {error}", topic=contract.topic) from error
    needed = contract.upsert is not None or contract.value.envelope != "none"
    return found if needed else None


def key_fault(lake: Lake, contract: Contract, table: Struct) -> str | None:
    """Why `key` does not fit the table or the key's schemas; None when it does.

    Raises:
        Outage: `registry_down`.
    """
    try:
        _decoding(lake, contract, table)
    except SchemaUnsupported as error:
        return str(error)
    return None


def untold_keys(lake: Lake, contract: Contract, table: Struct) -> list[str]:
    """Columns of the upsert key that no tombstone's key fills.

    Raises:
        Stopped: `misconfigured`, as `key_decoding`.
        Outage: `registry_down`.
    """
    if contract.upsert is None or not has_rows(table):
        return []
    key = key_decoding(lake, contract, table)
    told = {KAFKA_COLUMN.name, *(key.columns if key else ())}
    return [each for each in contract.upsert.keys if column_parts(each)[0] not in told]


def ids_in_keys(lake: Lake, contract: Contract) -> list[int]:
    """Several schema ids of keys of one record type, where the upsert table goes by the bytes of keys; else none.

    Silent when the registry does not answer.
    """
    current = upsert_table_of(contract)
    by_bytes = current is not None and (KAFKA_COLUMN.name, "key") in current.keys
    if not by_bytes or contract.cluster not in lake.platform.schema_registry:
        return []
    listed, _ = asked(lambda: lake.registry(contract.cluster).versions(f"{contract.topic}-key"))
    ids: dict[str | None, list[int]] = {}
    for version in in_order([listed or ()]):
        for name in {None if each in LEAF_KINDS else each for each in type_names(version)}:
            ids.setdefault(name, []).append(version.id)
    return next((sorted(each) for each in ids.values() if len(each) > 1), [])


def _decoding(lake: Lake, contract: Contract, table: Struct) -> KeyDecoding | None:
    if not has_rows(table):
        return None
    fields, kind = _names(contract), contract.key.format
    targets = key_targets(table, fields)
    if kind in REGISTRY_FORMATS:
        return _registered(lake, contract, table)
    if kind == "json":
        return _json(targets, table)
    if not fields:
        return None
    if len(fields) > 1:
        raise SchemaUnsupported(
            "key.fields", f"a key of format {kind} stands for one column, not {len(fields)}"
        )
    (name,), (target,) = targets, targets.values()
    if kind == "raw" and target not in {STRING, BINARY}:
        why = (
            f"raw bytes do not say how they hold a {target}: format string reads its digits, avro its schema"
        )
        raise SchemaUnsupported("key.format", why)
    if kind == "string" and not is_readable(target):
        raise SchemaUnsupported("key.format", f"text has no one spelling of a {target} (column {name})")
    whole = Struct((Field(WHOLE_VALUE, target),))
    return _decoding_of(Decoding("string" if kind == "string" else "raw", whole, 0), {name: WHOLE_VALUE})


def _json(targets: dict[str, ColumnType], table: Struct) -> KeyDecoding | None:
    """Declared columns; without them whatever of a key has the name and the type of a column."""
    names = targets or {f.name: f.type for f in table.fields if f.name not in OURS}
    properties = []
    for name, kind in names.items():
        try:
            properties.append(Property(name, node_of(kind, name, with_bytes=True)))
        except SchemaUnsupported:
            if targets:
                raise
    if not properties:
        return None
    struct = Struct(tuple(Field(prop.name, names[prop.name]) for prop in properties))
    documents = JsonDocuments(
        Object(tuple(properties), is_open=False), shape="key" if targets else "part_of_key"
    )
    decoding = Decoding("json", struct, 0, {NO_ID: documents}, framing="bare")
    return _decoding_of(decoding, {f.name: f.name for f in struct.fields}, certain=bool(targets))


def _registered(lake: Lake, contract: Contract, table: Struct) -> KeyDecoding | None:
    """Writers of the subject `<topic>-key`; those that do not fit have their keys quarantined where one is needed."""
    subject = f"{contract.topic}-key"
    versions = in_order([lake.registry(contract.cluster).versions(subject)])
    kinds = {version.type for version in versions}
    wanted = contract.key.format
    if len(kinds) > 1 or (kinds and wanted not in {"registry", *(FORMATS.get(kind, "") for kind in kinds)}):
        raise SchemaUnsupported(
            "key.format", f"subject {subject} holds {', '.join(sorted(kinds))}, not {wanted}"
        )
    chosen = _messages(lake, contract, table, versions)
    of_one = _of_one_type(subject, versions, chosen) if contract.event and contract.upsert else versions
    fitting: dict[int, _Writer] = {}
    why: SchemaUnsupported | None = None
    for version in of_one:
        try:
            fitting[version.id] = _fitted(version, chosen.get(version.id), contract, table)
        except SchemaUnsupported as error:
            why = error
    if not fitting and why is not None:
        raise why
    return _of(fitting, frozenset(v.id for v in versions), contract, table)


def _messages(
    lake: Lake, contract: Contract, table: Struct, versions: Sequence[RegisteredSchema]
) -> dict[int, str]:
    """By schema id, which message of a Protobuf file is the key: that of the version before, where it is there."""
    chosen: dict[int, str] = {}
    before, values = "", None
    for version in versions:
        names = messages(version) if version.type == "PROTOBUF" else {}
        outermost = [name for name, index in names.items() if len(index) == 1]
        if not outermost:
            continue
        if before not in names:
            if len(outermost) > 1 and values is None:
                values = _value_message(lake, contract)
            before = _key_message(version, outermost, values, contract, table)
        chosen[version.id] = before
    return chosen


def _key_message(
    version: RegisteredSchema, names: Sequence[str], values: str | None, contract: Contract, table: Struct
) -> str:
    """The first, but where another has all `key.fields` by name; where none are declared, rather not that of values."""
    first, *_ = others = sorted(names, key=lambda name: name == values)
    if not contract.key.fields:
        return first if names[0] == values and _by_name(version, first, contract, table) else names[0]
    return next((name for name in others if _by_name(version, name, contract, table)), names[0])


def _by_name(version: RegisteredSchema, message: str, contract: Contract, table: Struct) -> bool:
    """Whether fields of a message stand for columns of their own names, for all that are declared."""
    try:
        found = _fitted(version, message, contract, table).names
    except SchemaUnsupported:
        return False
    return bool(found) and all(part == name for name, part in found.items())


def _value_message(lake: Lake, contract: Contract) -> str:
    if told := contract.event or contract.value.message:
        return told
    if contract.value.format not in REGISTRY_FORMATS:
        return ""
    listed = [lake.registry(contract.cluster).versions(subject) for subject in subjects_of(contract)]
    return next((name for each in in_order(listed) for name in messages(each)), "")


def _of_one_type(
    subject: str, versions: Sequence[RegisteredSchema], chosen: Mapping[int, str]
) -> list[RegisteredSchema]:
    """The versions without deleted ones of another type, whose keys are nobody's here.

    Raises SchemaUnsupported where those that live tell several by name: a tombstone does not say whose it is.
    """
    types = {each.id: _key_names(each, chosen) for each in versions}
    names = {name for each in versions if not each.deleted for name in types[each.id]}
    if len(names) > 1:
        reason = (
            f"subject {subject} holds several record types, {', '.join(sorted(names))}: a tombstone of one would "
            "delete rows of another. With `upsert: [_kafka.key]` and format raw each deletes its own; a type that is "
            "no longer written, or has moved to another namespace, does not count once its versions are deleted "
            "(softly) in the registry"
        )
        raise SchemaUnsupported("key.format", reason)
    return [each for each in versions if types[each.id] <= names]


def _key_names(version: RegisteredSchema, chosen: Mapping[int, str]) -> set[str]:
    """The record types of a key's schema; of a Protobuf file the one message that is read as a key."""
    names = (chosen.get(version.id),) if version.type == "PROTOBUF" else type_names(version)
    return {name for name in names if name} - LEAF_KINDS


@dataclass(frozen=True, slots=True)
class _Writer:
    """A key's schema, and the part of it that fills each column."""

    schema: WriterSchema
    format: Format
    names: Mapping[str, str]


def _of(
    fitting: Mapping[int, _Writer], ids: frozenset[int], contract: Contract, table: Struct
) -> KeyDecoding | None:
    """All writers in one decoding: the newest says which part stands for which column."""
    if not fitting:
        names = {name: name for name in _names(contract)}
        return _decoding_of(Decoding("avro", _columns(table, names), 0), names) if names else None
    *_, newest = fitting.values()
    names = dict(newest.names)
    if not contract.key.fields:
        names = {name: part for writer in fitting.values() for name, part in writer.names.items()}
    alike = {i: w for i, w in fitting.items() if all(names[n] == p for n, p in w.names.items())}
    if not names:
        return None
    decoding = Decoding(
        newest.format,
        _columns(table, names),
        0,
        {i: writer.schema for i, writer in alike.items()},
        unfit=ids - frozenset(alike),
    )
    return _decoding_of(decoding, names, certain=bool(contract.key.fields))


def _decoding_of(decoding: Decoding, names: Mapping[str, str], *, certain: bool = True) -> KeyDecoding:
    return KeyDecoding(replace(decoding, payload=KEY_PAYLOAD), names, certain)


def _columns(table: Struct, names: Mapping[str, str]) -> Struct:
    """The parts of the key in the types of their columns."""
    targets = key_targets(table, tuple(names))
    return Struct(tuple(Field(part, targets[name]) for name, part in names.items()))


def _fitted(version: RegisteredSchema, message: str | None, contract: Contract, table: Struct) -> _Writer:
    try:
        return _fitted_as(version, message, contract, table, nanos=False)
    except SchemaUnsupported:
        if version.type == "PROTOBUF":  # its timestamps have the digits that the column was made with
            with suppress(SchemaUnsupported):
                return _fitted_as(version, message, contract, table, nanos=True)
        raise


def _fitted_as(
    version: RegisteredSchema, message: str | None, contract: Contract, table: Struct, *, nanos: bool
) -> _Writer:
    schema, struct = _writer(version, message, connect=contract.value.envelope != "none", nanos=nanos)
    fields, kind = _names(contract), FORMATS[version.type]
    if not _is_whole(schema):
        return _Writer(schema, kind, named_parts(table, fields, struct))
    if len(fields) > 1:
        raise SchemaUnsupported("key.fields", f"the key is one value, and {len(fields)} columns are named")
    names = dict.fromkeys(fields, WHOLE_VALUE)
    check_types(table, dict.fromkeys(fields, struct.fields[0]))
    return _Writer(schema, kind, names)


def _is_whole(schema: WriterSchema) -> bool:
    """True for a key that is one value and has no fields."""
    root = schema.root
    return isinstance(schema, AvroSchema | JsonDocuments) and not isinstance(root, Record | Object)


def _names(contract: Contract) -> tuple[str, ...]:
    """`key.fields` as names of top-level columns."""
    paths = [column_parts(path) for path in contract.key.fields]
    for path in paths:
        if len(path) > 1:
            raise SchemaUnsupported(
                "key.fields", f"{'.'.join(path)} is a part of a column: keys fill whole columns"
            )
    return tuple(path[0] for path in paths)


@lru_cache(maxsize=1024)
def _writer(
    version: RegisteredSchema, message: str | None, *, connect: bool, nanos: bool
) -> tuple[WriterSchema, Struct]:
    """Registered schemas never change: each is read once."""
    if version.type == "PROTOBUF":
        read = protobuf.read(compile_proto(version.text, version.imports), message, nanos=nanos)
        return read, protobuf_columns.columns(read)
    if version.type == "JSON":
        documents = json_schema.parse(version.text)
        check_validator(documents)
        return documents, json_columns(documents)
    schema = parse(version.text, version.references, connect=connect)
    return schema, columns(schema).struct
