"""Random Avro schemas, compatible changes of them, values, and what docs/types.md says that they become.

Nothing of the product is used here: what is expected comes from fastavro's decode of the bytes alone.
"""

import string
import struct
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any

from pyiceberg.types import ListType, MapType, StructType

LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "uuid": "string",
}
PLAIN = ("boolean", "int", "long", "float", "double", "string", "bytes")
EDGES = {
    "boolean": [True, False],
    "int": [0, -1, 2**31 - 1, -(2**31)],
    "long": [0, -1, 2**63 - 1, -(2**63), 2**53 + 1],
    "float": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1.5, 3.4028234663852886e38],
    "double": [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, 0.1],
    "string": ["", "é😀", "a\x00b", " ", "x" * 300],
    "bytes": [b"", b"\x00", bytes(range(256))],
}


@dataclass
class Maker:
    """Makes schemas and values from one source of chance."""

    chance: Random
    numbers: Any = field(default_factory=lambda: count(1))
    gone: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Fields that a record has lost, as they may come back."""

    def name(self, prefix: str) -> str:
        return f"{prefix}{next(self.numbers)}"

    def record(self, fields: int, depth: int) -> dict[str, Any]:
        listed = [{"name": self.name("Field"), "type": self.type(depth)} for _ in range(fields)]
        return {"type": "record", "name": self.name("Rec"), "fields": listed}

    def type(self, depth: int) -> Any:
        kinds = ["plain", "logical", "fixed", "enum", "decimal", "duration"]
        if depth:
            kinds += ["record", "array", "map", "optional", "optional", "union"]
        kind = self.chance.choice(kinds)
        return getattr(self, f"_{kind}")(depth)

    def _plain(self, _depth: int) -> Any:
        return self.chance.choice(PLAIN)

    def _logical(self, _depth: int) -> Any:
        logical = self.chance.choice(sorted(LOGICAL))
        return {"type": LOGICAL[logical], "logicalType": logical}

    def _fixed(self, _depth: int) -> Any:
        return {"type": "fixed", "name": self.name("Fix"), "size": self.chance.randint(1, 20)}

    def _duration(self, _depth: int) -> Any:
        return {"type": "fixed", "name": self.name("Dur"), "size": 12, "logicalType": "duration"}

    def _enum(self, _depth: int) -> Any:
        symbols = [f"S{number}" for number in range(self.chance.randint(1, 5))]
        return {"type": "enum", "name": self.name("Enum"), "symbols": symbols}

    def _decimal(self, _depth: int) -> Any:
        precision = self.chance.choice([1, 9, 18, 19, 38])
        scale = self.chance.randint(0, precision)
        shape = {"logicalType": "decimal", "precision": precision, "scale": scale}
        if self.chance.random() < 0.5:
            return {"type": "bytes", **shape}
        return {"type": "fixed", "name": self.name("Dec"), "size": 17, **shape}

    def _record(self, depth: int) -> Any:
        return self.record(self.chance.randint(1, 3), depth - 1)

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self.type(depth - 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self.type(depth - 1)}

    def _optional(self, depth: int) -> Any:
        inner = self.type(0) if depth == 1 else self.type(depth - 1)
        while isinstance(inner, list):
            inner = self.type(depth - 1)
        branches = ["null", inner]
        self.chance.shuffle(branches)
        return branches

    def _union(self, depth: int) -> Any:
        chosen = self.chance.sample(self._families(depth), self.chance.randint(2, 4))
        return ["null", *chosen]

    def _families(self, depth: int) -> list[Any]:
        """Branches that Python's types tell apart."""
        return [
            "boolean",
            self.chance.choice(["int", "long"]),
            "string",
            "bytes",
            self.record(2, depth - 1),
            {"type": "array", "items": self.type(0)},
        ]

    def changed(self, schema: Any) -> Any:  # noqa: PLR0911
        """A later version that can read what this one wrote."""
        match schema:
            case "int":
                return self.chance.choice(["int", "long"])
            case "float":
                return self.chance.choice(["float", "double"])
            case list():
                return self._changed_union(schema)
            case {"logicalType": "decimal", "precision": precision}:
                return {**schema, "precision": min(38, precision + self.chance.choice([0, 1, 9]))}
            case {"type": "enum", "symbols": symbols}:
                return {**schema, "symbols": [*symbols, *self.chance.choice([[], [self.name("New")]])]}
            case {"type": "array", "items": items}:
                return {**schema, "items": self._loosened(self.changed(items))}
            case {"type": "map", "values": values}:
                return {**schema, "values": self._loosened(self.changed(values))}
            case {"type": "record"}:
                return self._changed_record(schema)
        return schema

    def _changed_union(self, branches: list[Any]) -> list[Any]:
        """Of one type its change; of several a further branch, and other fields in those that are records."""
        if len([each for each in branches if each != "null"]) == 1:
            return [each if each == "null" else self.changed(each) for each in branches]
        kept = [self.changed(each) if isinstance(each, dict) else each for each in branches]
        kinds = {_family(each) for each in kept}
        free = [each for each in self._families(1) if _family(each) not in kinds]
        return [*kept, *(free[:1] if self.chance.random() < 0.5 else [])]

    def _changed_record(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Fields change, go, come, come back, and change places; one without fields would have no column."""
        kept, gone = [], self.gone.setdefault(schema["name"], [])
        back = [gone.pop() for _ in range(len(gone)) if self.chance.random() < 0.5]
        for each in schema["fields"]:
            if self.chance.random() > 0.15 or each is schema["fields"][0]:
                first = each.get("default") is not None
                kept.append({**each, "type": self._loosened(self.changed(each["type"]), first=first)})
            elif not isinstance(each["type"], list):
                gone.append({"name": each["name"], "type": ["null", each["type"]], "default": None})
        added = [self._added() for _ in range(self.chance.choice([0, 0, 1]))]
        fields = [*kept, *back, *added]
        rest = fields[1:]
        if self.chance.random() < 0.5:
            self.chance.shuffle(rest)
        return {**schema, "fields": [*fields[:1], *rest]}

    def _loosened(self, schema: Any, *, first: bool = False) -> Any:
        """Now and then NULL is let in; `first`: a default stands for the type itself."""
        if isinstance(schema, list) or self.chance.random() > 0.15:
            return schema
        return [schema, "null"] if first else ["null", schema]

    def _added(self) -> dict[str, Any]:
        kind, default = self.chance.choice(
            [("long", -7), ("string", "é"), (["null", "string"], None), ("boolean", True)]
        )
        return {"name": self.name("Added"), "type": kind, "default": default}

    def value(self, schema: Any) -> Any:  # noqa: PLR0911
        match schema:
            case str():
                return self._of(schema)
            case list():
                return self.value(self.chance.choice(schema)) if schema != ["null"] else None
            case {"logicalType": "decimal", "precision": precision, "scale": scale}:
                digits = self.chance.choice([0, 1, precision])
                number = self.chance.randint(0, 10**digits - 1) if digits else 0
                return Decimal((self.chance.randint(0, 1), tuple(map(int, str(number))), -scale))
            case {"logicalType": logical} if logical in LOGICAL:
                return self._logical_value(logical)
            case {"type": "fixed", "size": size}:
                return self.chance.randbytes(size)
            case {"type": "enum", "symbols": symbols}:
                return self.chance.choice(symbols)
            case {"type": "array", "items": items}:
                return [self.value(items) for _ in range(self.chance.randint(0, 3))]
            case {"type": "map", "values": values}:
                return {self._text(): self.value(values) for _ in range(self.chance.randint(0, 3))}
            case {"type": "record", "fields": fields}:
                return {each["name"]: self.value(each["type"]) for each in fields}
        return self._of(schema["type"])

    def _of(self, kind: str) -> Any:
        if kind == "null":
            return None
        if self.chance.random() < 0.5:
            return self.chance.choice(EDGES[kind])
        return {
            "boolean": lambda: True,
            "int": lambda: self.chance.randint(-(2**31), 2**31 - 1),
            "long": lambda: self.chance.randint(-(2**63), 2**63 - 1),
            "float": lambda: struct.unpack("f", struct.pack("f", self.chance.gauss(0, 1e6)))[0],
            "double": lambda: self.chance.gauss(0, 1e9),
            "string": self._text,
            "bytes": lambda: self.chance.randbytes(self.chance.randint(0, 9)),
        }[kind]()

    def _text(self) -> str:
        return "".join(self.chance.choices(string.printable + "äß漢😀", k=self.chance.randint(0, 9)))

    def _logical_value(self, logical: str) -> Any:
        if logical == "uuid":
            return f"{self.chance.getrandbits(32):08x}-0000-4000-8000-{self.chance.getrandbits(48):012x}"
        bound = {
            "date": 100_000,
            "time-millis": 86_399_999,
            "time-micros": 86_399_999_999,
            "timestamp-millis": 4 * 10**12,
            "local-timestamp-millis": 4 * 10**12,
            "timestamp-micros": 4 * 10**15,
            "local-timestamp-micros": 4 * 10**15,
            "timestamp-nanos": 2**63 - 1,
        }[logical]
        low = 0 if logical.startswith("time-") else -bound
        return self.chance.choice([low, -1 if low else 0, 0, bound, self.chance.randint(low, bound)])


def wanted(value: Any, writer: Any, versions: list[Any]) -> Any:  # noqa: PLR0911
    """What the table holds for a value that fastavro has decoded.

    `versions` are the same place in every version of the schema, oldest first, None where it is not there.
    """
    if isinstance(writer, list):
        return _union(value, writer, versions)
    if value is None:
        return None
    inner = [_unwrapped(each) for each in versions]
    match writer:
        case {"type": "record", "fields": fields}:
            return _record(value, fields, inner)
        case {"type": "array", "items": items}:
            return [wanted(each, items, [v and v["items"] for v in inner]) for each in value]
        case {"type": "map", "values": values}:
            found = {k: wanted(each, values, [v and v["values"] for v in inner]) for k, each in value.items()}
            return sorted(found.items())
        case {"logicalType": "duration"}:
            return dict(zip(("months", "days", "millis"), struct.unpack("<III", value), strict=True))
        case {"logicalType": "uuid"}:
            return str(value)
    if isinstance(value, time):
        return (
            timedelta(
                hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
            )
        ) // timedelta(microseconds=1)
    return value


def _union(value: Any, writer: list[Any], versions: list[Any]) -> Any:
    branches = [branch for branch in writer if branch != "null"]
    if value is None:
        return None
    if len(branches) == 1:
        return wanted(value, branches[0], versions)
    chosen = next(branch for branch in branches if _is_of(value, branch))
    by_version = [{_branch_name(b): b for b in each or [] if b != "null"} for each in versions]
    names = {name: None for each in by_version for name in each}
    places = [each.get(_branch_name(chosen)) for each in by_version]
    return {name: wanted(value, chosen, places) if name == _branch_name(chosen) else None for name in names}


def _family(branch: Any) -> str:
    """What Python's types tell apart: of int and long a union holds one."""
    kind = branch if isinstance(branch, str) else str(branch["type"])
    return "long" if kind == "int" else kind


def _unwrapped(schema: Any) -> Any:
    if isinstance(schema, list):
        rest = [branch for branch in schema if branch != "null"]
        return rest[0] if len(rest) == 1 else schema
    return schema


def _record(value: dict[str, Any], fields: list[dict[str, Any]], versions: list[Any]) -> dict[str, Any]:
    mine = {each["name"]: each["type"] for each in fields}
    by_version = [{f["name"]: f for f in v["fields"]} if v else {} for v in versions]
    found = {}
    for name in {name: None for each in by_version for name in each}:
        places = [each[name]["type"] if name in each else None for each in by_version]
        if name in mine:
            found[name] = wanted(value[name], mine[name], places)
        else:
            found[name] = by_version[-1].get(name, {}).get("default")
    return found


def _is_of(value: Any, branch: Any) -> bool:
    kind = branch if isinstance(branch, str) else branch["type"]
    python = {
        "boolean": bool,
        "int": int,
        "long": int,
        "string": str,
        "bytes": bytes,
        "record": dict,
        "array": list,
    }[kind]
    return type(value) is python


def _branch_name(branch: Any) -> str:
    if isinstance(branch, str):
        return branch
    return branch["name"] if branch["type"] == "record" else branch["type"]


def stored(value: Any) -> Any:
    """What Arrow gives for a stored value, with maps in one order."""
    match value:
        case dict():
            return {key: stored(each) for key, each in value.items()}
        case [(_, _), *_] if all(isinstance(each, tuple) for each in value):
            return sorted((key, stored(each)) for key, each in value)
        case list():
            return [stored(each) for each in value]
        case datetime() if value.tzinfo:
            return value.astimezone(UTC)
    return value


def as_pyiceberg_reads(value: Any, kind: Any) -> Any:
    """What PyIceberg 0.12 makes of a stored value of the Iceberg type `kind`.

    It reads a NULL list or map of structs as an empty one (apache/iceberg-python#3833), where files and Spark have NULL;
    not inside of a list or map of anything else, which it takes from the file as it is.
    """
    if isinstance(kind, ListType) and isinstance(kind.element_type, StructType):
        return [as_pyiceberg_reads(each, kind.element_type) for each in value or ()]
    if isinstance(kind, MapType) and isinstance(kind.value_type, StructType):
        return [(k, as_pyiceberg_reads(v, kind.value_type)) for k, v in value or ()]
    if isinstance(kind, StructType) and value is not None:
        types = {each.name: each.field_type for each in kind.fields}
        return {name: as_pyiceberg_reads(each, types[name]) for name, each in value.items()}
    return value
