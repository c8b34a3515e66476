"""The sample records: two Avro topics, a text topic and a binary one."""

import io
import random
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "An order as the shop takes it",
    "fields": [
        {"name": "order_id", "type": "long", "doc": "Grows by one with every order"},
        {"name": "customer_id", "type": "long"},
        {"name": "email", "type": ["null", "string"], "default": None, "doc": "Where the receipt goes"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID", "SHIPPED"]}},
        {"name": "ordered_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
CHANNEL = {"name": "channel", "type": ["null", "string"], "default": None, "doc": "Where the order came from"}
ORDER_WITH_CHANNEL = {**ORDER, "fields": [*ORDER["fields"], CHANNEL]}
CLICK: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "namespace": "web",
    "fields": [
        {"name": "visitor", "type": "string"},
        {"name": "page", "type": "string"},
        {"name": "clicked_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "referrer", "type": ["null", "string"], "default": None},
    ],
}
SCHEMAS: Mapping[str, Mapping[str, Any]] = {"orders": ORDER, "clicks": CLICK}
_CHANCE = random.Random(7)  # noqa: S311 - sample data


class Avro:
    """Confluent's wire format: magic byte, schema id, Avro."""

    def __init__(self, schema_id: int, schema: Mapping[str, Any]) -> None:
        self._head = struct.pack(">bI", 0, schema_id)
        self._schema = fastavro.parse_schema(dict(schema), _write_hint=False)

    def __call__(self, value: Mapping[str, Any]) -> bytes:
        """The bytes of one record."""
        out = io.BytesIO()
        out.write(self._head)
        fastavro.schemaless_writer(out, self._schema, dict(value))
        return out.getvalue()


def order_of_another_type(told: str) -> dict[str, Any]:
    """A schema of orders whose amount is text, which no decimal column can hold; `told` makes it a new version."""
    fields = [
        {"name": "amount", "type": "string"} if each["name"] == "amount" else each for each in ORDER["fields"]
    ]
    return {**ORDER, "doc": told, "fields": fields}


Record = tuple[bytes | None, bytes]
"""Key and value."""
Make = Callable[[int], Record]
"""From the number of a record to the record."""


def orders(schema_id: int, schema: Mapping[str, Any]) -> Make:
    """How orders are made; text where the schema wants it for the amount."""
    write = Avro(schema_id, schema)
    as_text = any(each == {"name": "amount", "type": "string"} for each in schema["fields"])

    def make(number: int) -> Record:
        order = _order(number)
        return str(number).encode(), write({**order, "amount": str(order["amount"])} if as_text else order)

    return make


def makers(schema_ids: Mapping[str, int]) -> dict[str, Make]:
    """How each topic's records are made."""
    click = Avro(schema_ids["clicks"], CLICK)
    return {
        "orders": orders(schema_ids["orders"], ORDER),
        "clicks": lambda number: (f"v{number % 500}".encode(), click(_click(number))),
        "audit_log": lambda number: (None, _audit(number).encode()),
        "sensors": lambda number: (f"s{number % 12}".encode(), _frame(number)),
    }


def rates(seconds: float) -> dict[str, int]:
    """Records of each topic in a tenth of a second; clicks come in bursts."""
    burst = seconds % 40 < 8  # noqa: PLR2004 - eight seconds of every forty
    return {
        "orders": 3,
        "clicks": 60 if burst else 0,
        "audit_log": int(_CHANCE.random() < 0.1),  # noqa: PLR2004 - one a second
        "sensors": 5,
    }


def _order(number: int) -> dict[str, Any]:
    return {
        "order_id": number,
        "customer_id": number % 97,
        "email": f"customer{number % 97}@example.org",
        "amount": Decimal(_CHANCE.randrange(100, 99_999)) / 100,
        "status": _CHANCE.choice(("NEW", "PAID", "SHIPPED")),
        "ordered_at": datetime.now(UTC),
        "channel": _CHANCE.choice(("web", "app", "shop")),
    }


def _click(number: int) -> dict[str, Any]:
    return {
        "visitor": f"v{number % 500}",
        "page": f"/p/{number % 40}",
        "clicked_at": datetime.now(UTC),
        "referrer": None,
    }


def _audit(number: int) -> str:
    return f"{datetime.now(UTC).isoformat()} admin{number % 3} changed setting {number}"


def _frame(number: int) -> bytes:
    return struct.pack(">qdd", number, _CHANCE.random(), _CHANCE.random())
