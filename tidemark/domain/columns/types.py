"""Column types: the tree that schemas are turned into and tables are compared by.

Belongs here: the types and the rule by which one widens to another (docs/types.md). What a table lacks is asked
in `coverage`, how Spark spells a type in `spark_types`; reading a type out of a schema language or out of a
table has modules of its own.
"""

import re
from dataclasses import dataclass, replace

TYPE_RULES = 2
"""Version of the rules (docs/types.md) that this Tidemark knows; a table says which one its columns were made by.

By 1 the columns of unions did not say that they are of unions.
"""
TYPE_RULES_PROPERTY = "tidemark.type-rules"

MAX_PRECISION = 38
"""The widest decimal of Iceberg and of Spark, in digits."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WIDER = {"int": "long", "float": "double"}


@dataclass(frozen=True, slots=True)
class Primitive:
    """boolean, int, long, float, double, decimal(p,s), string, binary, date, timestamp, timestamptz or variant.

    A name outside this list (uuid, time, fixed[16] … of a foreign table) equals only itself.
    """

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """(precision, scale) of a decimal, None for everything else."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ListType:
    """A list; elements may be NULL."""

    element: "ColumnType"

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map; values may be NULL, keys may not."""

    key: "ColumnType"
    value: "ColumnType"

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a field of a struct; `doc` becomes its comment.

    `meaning` is how the values are to be read where the type does not say it: their unit, their encoding. It is that of
    the elements of a list and of the values of a map; None is unknown.
    """

    name: str
    type: "ColumnType"
    doc: str = ""
    required: bool = False
    meaning: str | None = ""

    def means_as(self, other: "Field") -> bool:
        """False where values of both side by side would be read wrongly; what is not known is let be."""
        return self.meaning is None or other.meaning is None or self.meaning == other.meaning


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields in their order; they are matched by name, so the order carries no meaning."""

    fields: tuple[Field, ...]

    def field(self, name: str) -> Field | None:
        """The field of exactly this name."""
        return next((field for field in self.fields if field.name == name), None)

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{field.name}: {field.type}' for field in self.fields)}>"


ColumnType = Primitive | ListType | MapType | Struct

BOOLEAN = Primitive("boolean")
INT = Primitive("int")
LONG = Primitive("long")
FLOAT = Primitive("float")
DOUBLE = Primitive("double")
STRING = Primitive("string")
BINARY = Primitive("binary")
DATE = Primitive("date")
TIMESTAMP = Primitive("timestamp")
TIMESTAMPTZ = Primitive("timestamptz")
VARIANT = Primitive("variant")
"""What has no single type, on tables of format 3."""


def decimal(precision: int, scale: int) -> Primitive:
    """The decimal of these; raises ValueError outside 1 ≤ precision ≤ 38, 0 ≤ scale ≤ precision."""
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        raise ValueError(f"no decimal({precision}, {scale}): 1 to {MAX_PRECISION} digits, scale within them")
    return Primitive(f"decimal({precision},{scale})")


KAFKA_COLUMN = Field(
    "_kafka",
    Struct(
        (
            Field("topic", STRING),
            Field("partition", INT),
            Field("offset", LONG),
            Field("timestamp", TIMESTAMPTZ, "of the record, in milliseconds; who set it says timestamp_type"),
            Field("timestamp_type", INT, "-1 none, 0 set by the producer, 1 set by the broker on append"),
            Field("key", BINARY),
            Field("headers", ListType(Struct((Field("key", STRING), Field("value", BINARY))))),
            Field("schema_id", INT, "registry id of the writer schema; NULL where the value carries none"),
            Field("tombstone", BOOLEAN),
            Field(
                "epoch",
                INT,
                "counts how often a recreated topic was accepted; with partition and offset it is "
                "the identity of the record",
            ),
        ),
    ),
    "Where the row comes from",
)
"""The struct that every append table carries. Types are those of Spark's Kafka source."""


def table_columns(columns: Struct) -> Struct:
    """The value columns and the `_kafka` struct, as an append table has them."""
    return Struct((*columns.fields, KAFKA_COLUMN))


def widens(old: ColumnType, new: ColumnType) -> bool:
    """True when every value of `old` lands exactly in `new` by an allowed widening, or none is needed.

    int→long, float→double, decimal(p,s)→decimal(p2≥p,s), nested everywhere but in map keys (docs/types.md).
    A struct may gain fields.
    """
    match old, new:
        case Primitive(), Primitive():
            return old == new or _WIDER.get(old.name) == new.name or _wider_decimal(old, new)
        case ListType(), ListType():
            return widens(old.element, new.element)
        case MapType(), MapType():
            same_key = widens(old.key, new.key) and widens(new.key, old.key)
            return same_key and widens(old.value, new.value)
        case Struct(), Struct():
            pairs = ((field, new.field(field.name)) for field in old.fields)
            return all(found is not None and widens(field.type, found.type) for field, found in pairs)
    return False


def holds_variant(kind: ColumnType) -> bool:
    """Whether a variant is anywhere in the type."""
    match kind:
        case Struct(fields):
            return any(holds_variant(field.type) for field in fields)
        case ListType(element):
            return holds_variant(element)
        case MapType(_, value):
            return holds_variant(value)
    return kind == VARIANT


def has_order(kind: ColumnType) -> bool:
    """Whether its values can be compared and grouped: one value each, and no document."""
    return isinstance(kind, Primitive) and kind != VARIANT


def as_text(kind: ColumnType) -> ColumnType:
    """The type with JSON text in place of variants."""
    match kind:
        case Struct(fields):
            return Struct(tuple(replace(f, type=as_text(f.type)) for f in fields))
        case ListType(element):
            return ListType(as_text(element))
        case MapType(key, value):
            return MapType(key, as_text(value))
    return STRING if kind == VARIANT else kind


def _wider_decimal(old: Primitive, new: Primitive) -> bool:
    if old.decimal is None or new.decimal is None:
        return False
    return new.decimal[1] == old.decimal[1] and new.decimal[0] >= old.decimal[0]
