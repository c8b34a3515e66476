"""What is put on a topic: records that every peer must turn into the same rows, and what those rows add up to.

Every workload has the columns `order_id` (unique) and `amount_cents`, whose sums prove that a peer did all the work,
and `ordered_at`, which runs over three days and by whose day the tables are partitioned.
"""

import io
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import fastavro

START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
DAYS_MS = 3 * 86_400_000
DISTINCT = 50_021
"""Different bodies; a prime, so that columns do not repeat in step with partitions or batches."""
TIMESTAMP = {"type": "long", "logicalType": "timestamp-millis"}
ORDERS = {
    "order_id": "long",
    "ordered_at": TIMESTAMP,
    "customer_id": "long",
    "amount_cents": "long",
    "quantity": "int",
    "discount": "double",
    "paid": "boolean",
    "status": "string",
    "currency": "string",
    "country": "string",
    "channel": "string",
    "sku": "string",
    "email": "string",
    "address": "string",
}
ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [
        {"name": n, "type": t} for n, t in (("sku", "string"), ("price", "double"), ("note", "string"))
    ],
}
NESTED = {
    **ORDERS,
    "first": ITEM,
    "second": "Item",
    "third": "Item",
    "labels": {"type": "array", "items": "string"},
}


@dataclass(frozen=True, slots=True)
class Sums:
    """What a table must hold: rows, distinct ids and two column sums."""

    rows: int
    distinct: int
    ids: int
    cents: int


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """`value_format` is avro (Confluent framing) or json; `fields` are Avro types by column."""

    name: str
    value_format: str
    fields: dict[str, Any]
    body: Callable[[int], dict[str, Any]]

    @property
    def avro(self) -> str:
        """The Avro schema as JSON."""
        listed = [{"name": name, "type": kind} for name, kind in self.fields.items()]
        return json.dumps({"type": "record", "name": "Order", "fields": listed})

    def values(self, count: int, schema_id: int) -> Iterator[bytes]:
        """The payloads of orders 0 to count - 1."""
        encode = _avro_values if self.value_format == "avro" else _json_values
        return encode(self, count, schema_id)

    def sums(self, count: int) -> Sums:
        """What the rows of `count` records add up to."""
        cents = [_order(n)["amount_cents"] for n in range(min(count, DISTINCT))]
        whole, rest = divmod(count, DISTINCT)
        return Sums(count, count, count * (count - 1) // 2, whole * sum(cents) + sum(cents[:rest]))


def ordered_at(number: int, count: int) -> int:
    """Milliseconds since 1970 of an order: three days, in order, however many records."""
    return START_MS + number * DAYS_MS // count


def _order(number: int) -> dict[str, Any]:
    return {
        "customer_id": number * 7919 % 100_003,
        "amount_cents": number * 31 % 1_000_000,
        "quantity": number % 9 + 1,
        "discount": number % 400 / 1000,
        "paid": number % 3 == 0,
        "status": ("NEW", "PAID", "SENT", "RETURNED")[number % 4],
        "currency": ("EUR", "USD", "GBP")[number % 3],
        "country": ("DE", "FR", "US", "GB", "NL", "ES")[number % 6],
        "channel": ("web", "app", "store")[number % 3],
        "sku": f"SKU-{number * 613 % 20_011:06}",
        "email": f"customer.{number * 7919 % 100_003}@example.org",
        "address": _address(number),
    }


def _address(number: int) -> str:
    street = f"{number % 997} Long Street {number * 17 % 9_973}, Town {number % 331}"
    return f"{street}, Entrance {number % 7}, Floor {number % 11}, Door {number % 13}"


def _nested(number: int) -> dict[str, Any]:
    notes = [f"{number * k % 99_991} " + "packed by hand, leave at the door " * 6 for k in (3, 5, 7)]
    items = [
        {"sku": f"S-{number * k % 9_973}", "price": number * k % 1000 / 10, "note": n}
        for k, n in enumerate(notes)
    ]
    named = dict(zip(("first", "second", "third"), items, strict=True))
    return {**_order(number), **named, "labels": [f"label-{(number + k) % 1009}" for k in range(8)]}


def _avro_values(workload: Workload, count: int, schema_id: int) -> Iterator[bytes]:
    head, bodies = struct.pack(">bI", 0, schema_id), _avro_bodies(workload)
    for number in range(count):
        yield head + _varint(number) + _varint(ordered_at(number, count)) + bodies[number % DISTINCT]


@cache
def _avro_bodies(workload: Workload) -> list[bytes]:
    """Everything behind the first two fields, encoded once: making records must not be what is measured."""
    rest = json.loads(workload.avro)
    rest["fields"] = rest["fields"][2:]
    schema, bodies = fastavro.parse_schema(rest), []
    for number in range(DISTINCT):
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, workload.body(number))
        bodies.append(buffer.getvalue())
    return bodies


def _json_values(workload: Workload, count: int, _: int) -> Iterator[bytes]:
    bodies = [json.dumps(workload.body(number))[1:].encode() for number in range(min(count, DISTINCT))]
    for number in range(count):
        at = datetime.fromtimestamp(ordered_at(number, count) / 1000, UTC).isoformat(timespec="milliseconds")
        head = f'{{"order_id": {number}, "ordered_at": "{at.replace("+00:00", "Z")}", '
        yield head.encode() + bodies[number % DISTINCT]


def _varint(number: int) -> bytes:
    """A non-negative long as Avro writes it: zigzag, seven bits a byte."""
    number <<= 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


WORKLOADS = {
    each.name: each
    for each in (
        Workload("orders", "avro", ORDERS, _order),
        Workload("nested", "avro", NESTED, _nested),
        Workload("json", "json", ORDERS, _order),
    )
}
