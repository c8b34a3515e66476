"""Records as Debezium's connectors send them: envelopes, flattened rows and keys, in Avro and in JSON.

The schemas are those of Confluent's Avro converter, `connect.name` and all; nothing of the product is used here.
"""

import base64
import json
import struct
from typing import Any

import httpx
from decoding import encoded

PREFIX = "shop.public.orders"
TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {
            "name": "snapshot",
            "type": [
                {
                    "type": "string",
                    "connect.version": 1,
                    "connect.parameters": {"allowed": "true,last,false"},
                    "connect.default": "false",
                    "connect.name": f"{DATA}Enum",
                },
                "null",
            ],
            "default": "false",
        },
        {"name": "db", "type": "string"},
        {"name": "sequence", "type": ["null", "string"], "default": None},
        {"name": "schema", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "txId", "type": ["null", "long"], "default": None},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
    "connect.name": "io.debezium.connector.postgresql.Source",
}
TRANSACTION = {
    "type": "record",
    "name": "block",
    "namespace": "event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "total_order", "type": "long"},
        {"name": "data_collection_order", "type": "long"},
    ],
    "connect.version": 1,
    "connect.name": "event.block",
}
HEARTBEAT = {
    "type": "record",
    "name": "Heartbeat",
    "namespace": "io.debezium.connector.common",
    "fields": [{"name": "ts_ms", "type": "long"}],
    "connect.name": "io.debezium.connector.common.Heartbeat",
}


def semantic(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    """A type as Confluent's converter writes Connect's: its name and parameters are attributes."""
    schema: dict[str, Any] = {"type": kind, "connect.version": 1, "connect.name": name}
    return {**schema, "connect.parameters": parameters} if parameters else schema


def decimal(scale: int, precision: int | None = None) -> dict[str, Any]:
    """Connect's Decimal; the converter writes 64 digits where the connector does not say how many.

    Of a negative scale without the logical type, for fastavro refuses it.
    """
    parameters = {"scale": str(scale)}
    if precision:
        parameters["connect.decimal.precision"] = str(precision)
    if scale < 0:
        return semantic("bytes", f"{CONNECT}Decimal", **parameters)
    return {
        **semantic("bytes", f"{CONNECT}Decimal", **parameters),
        "scale": scale,
        "precision": precision or 64,
        "logicalType": "decimal",
    }


VARIABLE = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.doc": "Variable scaled decimal",
    "connect.version": 1,
    "connect.name": f"{DATA}VariableScaleDecimal",
}
GEOMETRY = {
    "type": "record",
    "name": "Geometry",
    "namespace": "io.debezium.data.geometry",
    "fields": [
        {"name": "wkb", "type": "bytes"},
        {"name": "srid", "type": ["null", "int"], "default": None},
    ],
    "connect.name": f"{DATA}geometry.Geometry",
}


def row_schema(columns: dict[str, Any]) -> dict[str, Any]:
    """The record of a row: `id`, then optional columns."""
    optional = [{"name": n, "type": ["null", t], "default": None} for n, t in columns.items()]
    return {
        "type": "record",
        "name": "Value",
        "namespace": PREFIX,
        "fields": [{"name": "id", "type": "long"}, *optional],
        "connect.name": f"{PREFIX}.Value",
    }


def envelope_schema(columns: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": PREFIX,
        "fields": [
            {"name": "before", "type": ["null", row_schema(columns)], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": SOURCE},
            {"name": "transaction", "type": ["null", TRANSACTION], "default": None},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.version": 2,
        "connect.name": f"{PREFIX}.Envelope",
    }


def source_block(lsn: int | None = 24023128, **more: Any) -> dict[str, Any]:
    return {
        "version": "3.0.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1_700_000_000_123,
        "snapshot": "false",
        "db": "shop",
        "sequence": '["24023119","24023128"]',
        "schema": "public",
        "table": "orders",
        "txId": 555,
        "lsn": lsn,
        **more,
    }


def change(op: str, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    """One change event."""
    found = {"before": before, "after": after, "source": source_block(), "transaction": None, "op": op}
    return {**found, "ts_ms": 1_700_000_000_456, **more}


def framed(schema_id: int, schema: Any, value: Any) -> bytes:
    """Confluent's wire format."""
    return struct.pack(">bI", 0, schema_id) + encoded(schema, value)


def register(topic: Any, side: str, schema: Any) -> int:
    """The id of a schema under `<topic>-<side>`, whose versions need not be compatible."""
    url, subject = topic.cluster.registry_url, f"{topic.name}-{side}"
    schema_id: int = topic.cluster.register(subject, schema)
    rules = (
        f"{url.removesuffix('/apis/ccompat/v7')}/apis/registry/v2/groups/default/artifacts/{subject}/rules"
    )
    rule = {"type": "COMPATIBILITY", "config": "NONE"}  # ccompat's NONE falls back on the global rule
    httpx.post(rules, json=rule, trust_env=False, timeout=30)
    return schema_id


def unscaled(number: int) -> bytes:
    """Two's complement, as Java's BigInteger writes it."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def base64_of(number: int) -> str:
    """Connect's JSON form of a decimal's digits."""
    return base64.b64encode(unscaled(number)).decode()


def connect_field(field: str, kind: str, name: str | None = None, **parameters: str) -> dict[str, Any]:
    """One field of a schema as JsonConverter embeds it."""
    schema: dict[str, Any] = {"type": kind, "optional": True, "field": field}
    if name:
        schema |= {"name": name, "version": 1}
    return {**schema, "parameters": parameters} if parameters else schema


def with_schema(fields: list[dict[str, Any]], payload: Any) -> bytes:
    """An envelope in JSON that carries its schema."""
    row = {"type": "struct", "fields": fields, "optional": True, "name": f"{PREFIX}.Value"}
    schema = {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        "optional": False,
        "name": f"{PREFIX}.Envelope",
        "version": 2,
    }
    return json.dumps({"schema": schema, "payload": payload}).encode()
