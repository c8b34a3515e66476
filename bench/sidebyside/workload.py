"""What is put on a topic: records that every peer must turn into the same rows, and what those rows add up to.

Every workload has the columns `order_id` (unique) and `amount_cents`, whose sums prove that a peer did all the work,
and `ordered_at`, which runs over three days and by whose day the tables are partitioned.
"""

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from bench.sidebyside.encodings import ENCODINGS, avro_schema, proto_schema
from tidemark.engine.schema.protoc import compile_proto

START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
DAYS_MS = 3 * 86_400_000
DISTINCT = 50_021
"""Different bodies; a prime, so that columns do not repeat in step with partitions or batches."""
KEY = "order_id"
SPREAD = 2_654_435_761
"""Odd: changes of one id are far apart, and some ids come more often than others."""
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
    """What a table must hold: rows, distinct ids and three column sums, times in milliseconds since 1970.

    `state` says of an upsert table when each id was written last: no two records of a workload have the same time.
    """

    rows: int
    distinct: int
    ids: int
    cents: int
    state: dict[int, int] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """`value_format` is avro (Confluent framing), json or protobuf (bare); `fields` are Avro types by column.

    `changes` is how often an id comes on average: above 1 the table holds the last record of each id alone.
    """

    name: str
    value_format: str
    fields: dict[str, Any]
    body: Callable[[int], dict[str, Any]]
    changes: int = 1

    @property
    def kind(self) -> str:
        """What a peer must be able to do."""
        return "upsert" if self.changes > 1 else self.value_format

    @property
    def avro(self) -> str:
        """The Avro schema as JSON."""
        return avro_schema(self.fields)

    @property
    def descriptors(self) -> str:
        """The Protobuf schema as a FileDescriptorSet in base64, for readers that do not compile."""
        return base64.b64encode(compile_proto(proto_schema(self.fields))).decode()

    def key(self, number: int, count: int) -> int:
        """The id of a record; all of one id are on the partition that it names."""
        return number if self.changes == 1 else number * SPREAD % 2**32 % max(count // self.changes, 1)

    def values(self, count: int, schema_id: int) -> Iterator[bytes]:
        """The payloads of `count` records."""
        return (value for _, value in self.records(count, schema_id))

    def records(self, count: int, schema_id: int) -> Iterator[tuple[int, bytes]]:
        """Ids and payloads of `count` records."""
        encoding, rests = ENCODINGS[self.value_format], _rests(self)
        for number in range(count):
            key, at = self.key(number, count), ordered_at(number, count)
            yield key, encoding.value(schema_id, key, at, rests(number % DISTINCT))

    def sums(self, count: int) -> Sums:
        """What the rows of `count` records add up to."""
        cents = [_order(n)["amount_cents"] for n in range(min(count, DISTINCT))]
        if self.changes > 1:
            last = {self.key(number, count): number for number in range(count)}
            state = {key: ordered_at(number, count) for key, number in last.items()}
            amount = sum(cents[number % DISTINCT] for number in last.values())
            return Sums(len(last), len(last), sum(last), amount, state)
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


@cache
def _rests(workload: Workload) -> Callable[[int], bytes]:
    """The encoded rest of body n; trickles need few of them, drains all."""
    encoding = ENCODINGS[workload.value_format]
    return cache(lambda number: encoding.rest(workload.fields, workload.body(number)))


WORKLOADS = {
    each.name: each
    for each in (
        Workload("orders", "avro", ORDERS, _order),
        Workload("nested", "avro", NESTED, _nested),
        Workload("json", "json", ORDERS, _order),
        Workload("protobuf", "protobuf", ORDERS, _order),
        Workload("upserts", "avro", ORDERS, _order, changes=4),
    )
}
