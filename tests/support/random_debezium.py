"""Random records of Debezium's as JSON, with and without their schema, and ones that are nearly so."""

import base64
import json
from random import Random
from typing import Any

TIME, DATA, CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
FIELDS = {
    "id": "bigint",
    "day": "date",
    "clock": "bigint",
    "wall": "timestamp_ntz",
    "at": "timestamp",
    "price": "decimal(10,2)",
    "wide": "decimal(38,5)",
    "digits": "string",
    "note": "string",
    "inner": "struct<d: date, p: decimal(7,2)>",
    "list": "array<timestamp_ntz>",
    "map": "map<string, date>",
}
_ANY = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "",
    "x",
    "é😀",
    "true",
    [],
    {},
    [1],
    {"a": 1},
    2**70,
    -0.0,
    10**30,
    "1",
    "c",
    "12.50",
)
_NUMBERS = (
    0,
    1,
    -1,
    19_000,
    -719_162,
    2_932_896,
    2_932_897,
    -719_163,
    10**12,
    253_402_300_799_999,
    253_402_300_800_000,
)
_NUMBERS_MORE = (
    -62_135_596_800_000,
    -62_135_596_800_001,
    10**18,
    2**63,
    10**40,
    999_999,
    -1_000_000,
    1_767_323_045_678_901,
)
_DIGITS = (0, 1, -1, 125, -12_550, 2**62, -(2**63), 10**20, 10**37, 10**38, -(10**60), 255, 256)
_BASE64 = (
    "",
    "AA==",
    "AA=",
    "AA",
    "A===",
    "====",
    "AA==AA==",
    "A A=",
    "é===",
    "AB==",
    "_-==",
    "AAA=",
    "QQ==\n",
    "/+8=",
)
_SCALES = (
    0,
    1,
    2,
    5,
    -3,
    40,
    20_000,
    20_001,
    "2",
    " 2 ",
    "+2",
    "-1",
    "1_0",
    "x",
    "",
    "2.0",
    None,
    True,
    1.0,
    [],
    10**30,
)
_BOOKS = ("Heartbeat", "TransactionMetadataValue", "SchemaChangeValue", "MessageValue", "Other")


class Changes:
    """Records; `wild`: how often a part of one is what a stranger may put there."""

    def __init__(self, chance: Random, wild: float) -> None:
        self.chance = chance
        self.wild = wild

    def pick(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def odd(self) -> bool:
        return self.chance.random() < self.wild

    def maybe(self, value: Any) -> Any:
        return self.chance.choice(_ANY) if self.odd() else value

    def number(self) -> int:
        return self.pick(*_NUMBERS, *_NUMBERS_MORE) if self.odd() else self.chance.randint(0, 20_000)

    def unscaled(self) -> str:
        if self.odd():
            return str(self.pick(*_BASE64))
        number = self.pick(*_DIGITS) if self.odd() else self.chance.randint(-99_999, 99_999)
        return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()

    def column(self, name: str) -> tuple[Any, dict[str, Any]]:
        """A value, and its schema."""
        scale = self.pick(*_SCALES) if self.odd() else 2
        decimal = {
            "type": "bytes",
            "name": f"{CONNECT}Decimal",
            "parameters": {"scale": scale if self.odd() else str(scale)},
        }
        variable = {"type": "struct", "name": f"{DATA}VariableScaleDecimal"}
        free: dict[str, Any] = {"scale": scale, "value": self.unscaled()}
        date = {"type": "int32", "name": self.pick(f"{TIME}Date", f"{CONNECT}Date")}
        micros = {"type": "int64", "name": f"{TIME}MicroTimestamp"}
        number = self.number()
        found = {
            "id": (number, {"type": "int64"}),
            "day": self.pick((number, date), ("2026-01-31", {"type": "string"})),
            "clock": (
                number,
                {"type": "int32", "name": self.pick(f"{TIME}Time", f"{TIME}MicroTime", f"{CONNECT}Time")},
            ),
            "wall": self.pick(
                (number, {"type": "int64", "name": f"{TIME}Timestamp"}), (number * 1_000_001, micros)
            ),
            "at": self.pick(
                (number, {"type": "int64", "name": f"{CONNECT}Timestamp"}),
                ("2026-01-02T03:04:05.6Z", {"type": "string"}),
            ),
            "price": (self.unscaled(), decimal),
            "wide": self.pick((self.unscaled(), decimal), (free, variable)),
            "digits": self.pick((self.unscaled(), decimal), (free, variable), ("plain", {"type": "string"})),
            "note": ("é\n", {"type": "string"}),
            "inner": (
                {"d": number, "p": self.unscaled(), "more": 1},
                {"type": "struct", "fields": [{"field": "p", **decimal}, {"field": "d", **date}]},
            ),
            "list": ([number, None], {"type": "array", "items": micros}),
            "map": ({"k": number, "l": None}, {"type": "map", "values": date}),
        }
        value, schema = found[name]
        return self.maybe(value), self.maybe({**schema, "field": name, "optional": True})

    def row(self) -> tuple[Any, Any]:
        """A row, and the schema of its struct."""
        names = [name for name in FIELDS if self.chance.random() < 0.8]
        self.chance.shuffle(names)
        columns = {name: self.column(name) for name in names}
        row = {name: None if self.chance.random() < 0.1 else value for name, (value, _) in columns.items()}
        if self.odd():
            row[self.pick("_cdc", "undeclared", "value")] = self.pick(*_ANY)
        fields = [schema for _, schema in columns.values() if not self.odd()]
        return self.maybe(row), {"type": "struct", "fields": self.maybe(fields)}

    def source(self) -> dict[str, Any]:
        places: tuple[dict[str, Any], ...] = (
            {"lsn": 12345},
            {"file": "binlog.1", "pos": 4, "row": 0},
            {"file": "binlog.1", "pos": 4},
            {"file": "", "pos": 0, "row": 0},
            {"change_lsn": "0:1", "commit_lsn": "0:2", "event_serial_no": 1},
            {"change_lsn": None},
            {"scn": "99"},
            {},
        )
        found = {"snapshot": self.pick("true", "last", False, None), "ts_ms": 5, **self.pick(*places)}
        return {key: self.maybe(value) for key, value in found.items()}

    def enveloped(self) -> Any:
        row, schema = self.row()
        op = self.pick("c", "r", "u", "d", "t", "m") if self.odd() else self.pick("c", "u", "d")
        payload = {
            "before": row if op == "d" and self.chance.random() < 0.7 else None,
            "after": None if op == "d" else row,
            "source": self.maybe(self.source()),
            "op": self.maybe(op),
            "ts_ms": self.maybe(self.number()),
            "transaction": self.pick(None, {"id": "1:2", "total_order": 1}),
        }
        dropped = {key: value for key, value in payload.items() if not self.odd()}
        said = {"type": "struct", "fields": [{**schema, "field": name} for name in ("before", "after")]}
        return self.around(dropped, said)

    def flat(self) -> Any:
        row, schema = self.row()
        meta = {f"source_{key}": value for key, value in self.source().items()}
        meta |= {
            "op": self.pick("c", "u", "d", "r"),
            "deleted": self.pick("true", "false", False),
            "ts_ms": self.number(),
        }
        meta |= {"transaction_id": "7", "table": "t"} if self.chance.random() < 0.3 else {}
        kept = {f"__{key}": self.maybe(value) for key, value in meta.items() if not self.odd()}
        deleted = self.chance.random() < 0.1
        return self.around(None if deleted else {**(row if isinstance(row, dict) else {}), **kept}, schema)

    def around(self, payload: Any, schema: Any) -> Any:
        if self.odd():
            payload = self.pick(
                {"ts_ms": 1},
                {"status": "END", "id": 1, "event_count": 2},
                {"source": {}, "ddl": "x", "ts_ms": 1},
                *_ANY,
            )
        if self.odd() and isinstance(schema, dict):
            schema = {
                **schema,
                "name": self.pick(*(f"io.debezium.connector.common.{name}" for name in _BOOKS), "", None, 7),
            }
        document = {"schema": self.maybe(schema), "payload": payload}
        if self.odd():
            document["more"] = 1
        return payload if self.wild and self.chance.random() < 0.4 else document

    def key(self) -> Any:
        """Of `id`, or of `id` and `day`."""
        (number, one), (day, other) = self.column("id"), self.column("day")
        payload = self.pick({"id": number, "day": day}, {"id": number}, {"Id": number}, number, day, {})
        return self.around(payload, self.pick({"type": "struct", "fields": [one, other]}, one, other))


def text(document: Any) -> bytes:
    """As a converter writes it."""
    return json.dumps(document, ensure_ascii=False).encode()
