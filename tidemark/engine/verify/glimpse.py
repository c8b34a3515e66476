"""A value that could not enter, decoded as far as it goes: for people who look for the cause, never for a table."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import fastavro

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import TidemarkError
from tidemark.domain.formats.avro_decoder import HEADER_SIZE
from tidemark.domain.formats.debezium import META
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.verify.exact_json import read_exactly
from tidemark.engine.verify.glimpse_protobuf import read_message

MOST = 1_000_000
"""Bytes of a value that are looked at."""


def glimpse(
    lake: Lake, contract: Contract, value: bytes | None, schema_id: int | None
) -> dict[str, Any] | None:
    """{"decoded": …} and, where it does not go to the end, "stops_at"; None when nothing can be read."""
    if not value or len(value) > MOST:
        return None
    bare = contract.value.schema_mode != "by_schema_id"
    framed = not bare and schema_id is not None and value[:1] == b"\0"
    payload = value[HEADER_SIZE:] if framed else value
    text = _document(payload)
    if text is not None or not (framed or bare) or schema_id is None:
        return text
    try:
        registered = lake.registry(contract.cluster).by_id(schema_id)
    except TidemarkError:
        return None
    return _by_schema(payload, registered, contract.value.message if bare else None) if registered else None


def is_skipped(lake: Lake, contract: Contract, value: bytes | None) -> bool | None:
    """Whether a change event of Debezium is of a kind that makes no row; None when the value does not tell."""
    envelope = contract.value.envelope
    if envelope == "none" or not value:
        return None
    framed = contract.value.schema_mode == "by_schema_id" and value[:1] == b"\0" and len(value) > HEADER_SIZE
    found = glimpse(lake, contract, value, int.from_bytes(value[1:HEADER_SIZE]) if framed else None)
    change = found["decoded"] if found else None
    if isinstance(change, Mapping) and change.keys() == {"schema", "payload"}:
        change = change["payload"]
    if found and change is None and envelope == "debezium_flat":
        return False
    op = change.get("op" if envelope == "debezium" else f"{META}op") if isinstance(change, Mapping) else None
    if op == "t":
        return contract.upsert is None
    return op == "m" if op in ("c", "r", "u", "d", "m") else None  # no set: it may be anything


def _by_schema(payload: bytes, registered: RegisteredSchema, message: str | None) -> dict[str, Any] | None:
    if registered.type == "AVRO":
        return _avro(payload, registered)
    if registered.type == "PROTOBUF":
        # garbage, or a schema that does not compile: there is no glimpse, and no harm
        with suppress(Exception):
            return read_message(payload, registered, message)
    return None


def _document(text: bytes) -> dict[str, Any] | None:
    try:
        return {"decoded": read_exactly(text)}
    except (ValueError, RecursionError):
        return None


def _avro(payload: bytes, registered: RegisteredSchema) -> dict[str, Any] | None:
    """The longest run of leading fields that can be read."""
    names: dict[str, Any] = {}
    failed = ""
    try:
        for _, text in registered.imports:
            fastavro.parse_schema(json.loads(text), named_schemas=names)
        for part, following in _prefixes(json.loads(registered.text)):
            source = io.BytesIO(payload)
            try:
                parsed = fastavro.parse_schema(part, named_schemas=dict(names), _write_hint=False)
                found = fastavro.schemaless_reader(source, parsed)
            except Exception as error:  # noqa: BLE001 - garbage makes the reader raise whatever it likes
                failed = f"{type(error).__name__}: {error}"[:200]
                continue
            left = len(payload) - source.tell()
            stops = (
                f"{following}: {failed}" if following else f"{left} bytes follow the value" if left else ""
            )
            shown = read_exactly(json.dumps(found, default=_plain))
            return {"decoded": shown, **({"stops_at": stops} if stops else {})}
    except Exception:  # noqa: BLE001 - a schema that cannot be read: there is no glimpse, and no harm
        return None
    return None


def _prefixes(schema: Any) -> Iterator[tuple[Any, str]]:
    """The schema, then with ever fewer of its last fields; each with the name of the first that is missing."""
    yield schema, ""
    if isinstance(schema, Mapping) and schema.get("type") == "record":
        fields = schema["fields"]
        for count in range(len(fields) - 1, 0, -1):
            yield {**schema, "fields": fields[:count]}, fields[count]["name"]


def _plain(value: Any) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)
