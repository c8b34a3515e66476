"""A look at a topic that has no contract yet: its schemas, its size, and the newest records. Needs no Spark."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from tidemark.domain.columns.types import BINARY, STRING, Field, Struct
from tidemark.domain.config.contract import REGISTRY_FORMATS, Contract, Value
from tidemark.domain.config.naming import default_table
from tidemark.domain.errors import Refused, SchemaUnsupported, Stopped
from tidemark.domain.formats.json_columns import declared
from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.domain.ledger.guard import Topic
from tidemark.domain.plan.proposal import (
    DEBEZIUM_FLAT,
    Keys,
    Reason,
    Seen,
    Sizes,
    declared_fields,
    json_text_columns,
)
from tidemark.domain.suggest import nearest
from tidemark.domain.times import DAY_MS
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.newest_records import PATIENCE, Record, newest, sampled
from tidemark.engine.decode.shipped.connect_json import opened
from tidemark.engine.decode.shipped.debezium_json import META
from tidemark.engine.decode.shipped.json_values import JsonFault, parse
from tidemark.engine.look.headroom import compacted
from tidemark.engine.preview.json_inference import infer
from tidemark.engine.schema.record_types import Typed, events_for, framed, told, typed
from tidemark.engine.schema.writers import TopicSchemas, read_schemas

_FOREIGN = 0.05
_UNREAD = (
    "none of the {:,} offsets of the topic gave a committed record within {:.0f} s, and the registry has no schema for "
    "it: nothing tells what it holds"
)
_WRAPPED = (
    "the documents carry Kafka Connect's schema, and their fields are in `payload`: `envelope: debezium_flat` reads "
    "these as columns, declared in `value.fields`, with a `_cdc` that says u, or d where the payload is null"
)


_WITHOUT_IDS = frozenset({"schema", "version", "message"})
"""Keys of `value` that say the schema of values which name none."""

_Value = tuple[Mapping[str, Any], Struct | None, tuple[Reason, ...], list[Mapping[str, Any]]]
"""(value block, columns, reasons, decoded rows)"""


def survey(
    lake: Lake, topic_name: str, cluster: str, records: int, inherited: Mapping[str, Any] | None = None
) -> Seen:
    """What registry and sample tell of the topic; `inherited` says in `value` how registered schemas are used.

    Raises:
        Refused: there is no such topic or cluster; the nearest name is in the message.
        Outage: Kafka or the registry does not answer.
        Stopped: `permission_denied`.
    """
    topic = _described(lake, topic_name, cluster)
    found = sampled(lake, topic, cluster, newest(topic, records))
    sizes = _sizes(lake, topic, cluster, found)
    values = [record.value for record in found if record.value is not None]
    registered = _registered(lake, topic_name, cluster, values, _of_registry(inherited or {}))
    if registered is not None:
        found_value = registered
    elif sizes.records and not found:
        found_value = {}, None, (Reason("no_fit", _UNREAD.format(sizes.records, PATIENCE)),), []
    else:
        found_value = _guessed(lake, cluster, values)
    value, columns, reasons, rows = found_value
    return Seen(
        topic=topic_name,
        table=default_table(lake.platform.default_namespace, topic_name),
        cluster=cluster,
        value=value,
        columns=columns,
        sizes=sizes,
        keys=_keys(found, rows),
        key_format=_key_format(lake, topic_name, cluster, found, columns or Struct(())),
        compacted=compacted(lake.platform.kafka[cluster], topic_name) or False,
        json_text=json_text_columns(rows, columns or Struct(())),
        largest=max((len(v) for v in values), default=0),
        reasons=reasons,
    )


def _described(lake: Lake, topic: str, cluster: str) -> Topic:
    admin = lake.kafka(cluster)
    found = admin.describe([topic]).get(topic)
    if found is None:
        known = sorted(admin.topics())
        near = (
            [meant] if (meant := nearest(topic, known)) else [n for n in known if topic.lower() in n.lower()]
        )
        raise Refused(
            f"cluster {cluster} has no topic {topic}",
            next_step=f"did you mean {', '.join(near[:3])}?" if near else f"it has {len(known)} topics",
            topic=topic,
        )
    return found


def _sizes(lake: Lake, topic: Topic, cluster: str, found: Sequence[Record]) -> Sizes:
    there = sum(topic.end[p] - topic.log_start[p] for p in topic.end)
    day = lake.kafka(cluster).offsets_at(topic.name, topic.end, int(time.time() * 1000) - DAY_MS)
    recent = sum(max(0, topic.end[p] - offset) for p, offset in day.items())
    octets = sum(len(record.key or b"") + len(record.value or b"") for record in found)
    return Sizes(there, recent, round(octets / len(found)) if found else 0)


def _of_registry(inherited: Mapping[str, Any]) -> dict[str, Any]:
    """How inherited settings use registered schemas, whatever the topic; empty where they say another format."""
    value = Value.model_validate(inherited.get("value") or {})
    if value.format not in REGISTRY_FORMATS:
        return {}
    return value.model_dump(by_alias=True, include={"format", "schema_mode", "version", "message", "types"})


def _registered(
    lake: Lake, topic: str, cluster: str, values: Sequence[bytes], said: Mapping[str, Any]
) -> _Value | None:
    """By the subject of the topic, read as `said`, or by the ids that the values carry; None without a subject."""
    if cluster not in lake.platform.schema_registry or not lake.registry(cluster).versions(f"{topic}-value"):
        return None
    known = typed(lake, cluster, values)
    if values and len(known) >= (1 - _FOREIGN) * len(values):
        said = {key: each for key, each in said.items() if key not in _WITHOUT_IDS}
    contract = Contract.model_validate(
        {"topic": topic, "table": "x.x", "cluster": cluster, "value": {**said, "subject": f"{topic}-value"}}
    )
    try:
        schemas = read_schemas(lake, contract, None)
    except Stopped as stopped:
        return said, None, (Reason("no_fit", str(stopped.fields.get("detail") or stopped.message)),), []
    if schemas.undecided:
        return said, None, (Reason("note", schemas.undecided),), []
    unfit = [why for schema_id, why in schemas.unsupported.items() if schema_id not in schemas.deleted]
    faults = [Reason("no_fit", why) for why in unfit[-1:]]
    if contract.value.schema_mode != "by_schema_id":
        return said, schemas.wanted(), tuple(faults), []
    others = [each for each in known if not _own(schemas, each)]
    if len(others) > _FOREIGN * len(values):
        says = (
            f"{len(others)} of {len(values)} sampled values are of other record types than the table would be of: "
            f"{told(others)}. "
        )
        faults.append(Reason("no_fit", f"{says}{_by_type(lake, known)}"))
    return said, schemas.wanted(), (*faults, *_framing(values)), []


def _own(schemas: TopicSchemas, found: Typed) -> bool:
    """Whether a table of the topic's own subject takes the record."""
    messages = {w.schema.root.name for w in schemas.writers if isinstance(w.schema, ProtobufMessage)}
    return found.schema_id in schemas.ids and (not messages or found.name in messages)


def _by_type(lake: Lake, found: Sequence[Typed]) -> str:
    return f"Give each a table: `{events_for(found, lake.platform.default_namespace)}`"


def _framing(values: Sequence[bytes]) -> Iterator[Reason]:
    foreign = sum(1 for value in values if not framed(value))
    if foreign > _FOREIGN * len(values):
        yield Reason(
            "no_fit",
            f"{foreign} of {len(values)} sampled values begin with no schema id, though the registry has a schema",
        )


def _guessed(lake: Lake, cluster: str, values: Sequence[bytes]) -> _Value:
    """(value block, columns, reasons, rows) of a topic without a subject of its own."""
    if not values:
        reason = Reason(
            "no_fit", "the topic is empty and the registry has no schema for it: nothing tells what it holds"
        )
        return {}, None, (reason,), []
    found = typed(lake, cluster, values) if any(map(framed, values)) else []
    if found and len(found) >= (1 - _FOREIGN) * len(values):
        text = f"values carry schema ids of other subjects: {told(found)}. {_by_type(lake, found)}, or name "
        text += "the `value.subject` of one"
        return {}, None, (Reason("no_fit", text),), []
    documents = [_json(value) for value in values]
    if all(document is not _NOT_JSON for document in documents):
        envelope, rows = _unwrapped(documents)
        value, columns, reasons, sampled = _json_columns(rows)
        if not envelope and all(map(_is_wrapped, documents)):
            reasons = (Reason("note", _WRAPPED), *reasons)
        return {**value, **envelope}, columns, reasons, sampled
    if all(_is_text(value) for value in values):
        return {"format": "string"}, Struct((Field("value", STRING),)), (), []
    return {"format": "raw"}, Struct((Field("value", BINARY),)), (), []


def in_payload(contract: Contract, values: Sequence[bytes]) -> list[str]:
    """Where all documents carry Connect's schema and no declared column is in them: each would be NULL in every row."""
    fields, envelope = contract.value.fields or {}, contract.value.envelope
    declares = contract.value.format == "json" and envelope == "none" and fields
    if not declares or not values or fields.keys() & _CONNECT:
        return []
    wrapped = all(_is_wrapped(_json(value)) for value in values)
    return [f"value.fields: every column would be NULL: {_WRAPPED}"] if wrapped else []


_NOT_JSON = object()
_CONNECT = {"schema", "payload"}


def _json(value: bytes) -> Any:
    try:
        return parse(value)
    except JsonFault:
        return _NOT_JSON


def _is_wrapped(document: Any) -> bool:
    _, payload = opened(document)
    return payload is not document and (payload is None or isinstance(payload, dict))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unwrapped(documents: list[Any]) -> tuple[dict[str, str], list[Any]]:
    """(`envelope`, a row for each document) of Debezium's changes; any other documents as they are."""
    found = [payload for _, payload in map(opened, documents)]
    payloads = [payload for payload in found if isinstance(payload, dict)]
    deletes = found.count(None)
    if not payloads or len(payloads) + deletes < len(documents):
        return {}, documents
    if not deletes and all(map(_is_change, payloads)):
        rows = [payload.get("before" if payload["op"] == "d" else "after") for payload in payloads]
        return {"envelope": "debezium"}, [{} if row is None else row for row in rows]
    if all(payload.keys() & DEBEZIUM_FLAT for payload in payloads):
        flat = [{k: v for k, v in (each or {}).items() if not k.startswith(META)} for each in found]
        return {"envelope": "debezium_flat"}, flat
    return {}, documents


def _is_change(payload: Mapping[str, Any]) -> bool:
    row = "before" if payload.get("op") == "d" else "after"
    op = payload.get("op")  # of any type: other documents than Debezium's have one too
    known = op in ("t", "m") or (op in ("c", "r", "u", "d") and row in payload)
    return known and isinstance(payload.get("source"), dict)


def _json_columns(
    documents: list[Any],
) -> _Value:
    whole = {"format": "json"}, Struct((Field("value", STRING),))
    if not all(isinstance(document, dict) for document in documents):
        return (
            *whole,
            (Reason("note", "not every document is an object: the document is one column `value`"),),
            [],
        )
    columns, left = infer(documents)
    kept: list[Field] = []
    for column in columns.fields:
        try:
            declared(declared_fields(Struct((*kept, column))))
        except SchemaUnsupported as error:
            left[column.name] = str(error)
        else:
            kept.append(column)
    if not kept:
        why = "; ".join(f"{name}: {why}" for name, why in left.items())
        says = f"no field can be declared, the document is one column `value`{f' ({why})' if why else ''}"
        return *whole, (Reason("note", says),), documents
    reasons = [
        Reason("note", f"{name} is not declared and lands in _extra: {why}") for name, why in left.items()
    ]
    found = Struct(tuple(kept))
    return {"format": "json", "fields": declared_fields(found)}, found, tuple(reasons), documents


def _keys(found: Sequence[Record], rows: Sequence[Mapping[str, Any]]) -> Keys:
    there = [record.key for record in found if record.key is not None]
    pairs = [record for record in found if record.value is not None]
    columns = []
    if rows and len(rows) == len(pairs) and all(record.key is not None for record in pairs):
        texts = [record.key.decode(errors="replace") for record in pairs if record.key is not None]
        columns = [
            name
            for name in rows[0]
            if all(str(row.get(name)) == text for row, text in zip(rows, texts, strict=True))
        ]
    return Keys(len(found), len(found) - len(there), len(set(there)), tuple(columns))


def _key_format(
    lake: Lake, topic: str, cluster: str, found: Sequence[Record], columns: Struct
) -> Literal["registry", "json"] | None:
    """What tells the columns of a key: its schema, or its own names; None where nothing does."""
    keys = [record.key for record in found if record.key is not None]
    if not keys:
        return None
    if all(map(framed, keys)):
        registered = cluster in lake.platform.schema_registry and lake.registry(cluster).numbers(
            f"{topic}-key"
        )
        return "registry" if registered else None
    payloads = [opened(key)[1] for key in map(_json, keys) if isinstance(key, dict)]
    names = {field.name for field in columns.fields}
    fits = len(payloads) == len(keys) and all(isinstance(p, dict) and p.keys() <= names for p in payloads)
    return "json" if fits else None
