"""The nodes of an Avro schema after names are resolved (Apache Avro 1.12 specification).

Belongs here: the tree alone. Avro's `map` and the array of {key, value} records with logicalType map are both
`Entries`: their bytes are the same, blocks of key and value.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

LeafKind = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LEAF_KINDS: frozenset[str] = frozenset(get_args(LeafKind))

Logical = Literal[
    "",
    "date",
    "time-millis",
    "time-micros",
    "time-nanos",
    "timestamp-millis",
    "timestamp-micros",
    "timestamp-nanos",
    "local-timestamp-millis",
    "local-timestamp-micros",
    "local-timestamp-nanos",
    "zoned-timestamp",
    "decimal",
    "uuid",
    "duration",
    "document",
]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive with the logical type that is valid on it, if any."""

    kind: LeafKind
    logical: Logical = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """`size` bytes."""

    name: str
    size: int
    logical: Logical = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Enum:
    """Encoded as the position of the symbol."""

    name: str
    symbols: tuple[str, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class RecordField:
    """`default` is the field's default in Avro's binary encoding, None when it has none."""

    name: str
    type: "Node"
    doc: str = ""
    default: bytes | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Names of named types are full names; `variable-decimal` is a number that brings its own scale."""

    name: str
    fields: tuple[RecordField, ...]
    doc: str = ""
    logical: Literal["", "variable-decimal"] = ""


@dataclass(frozen=True, slots=True)
class Array:
    """Elements of one type."""

    items: "Node"


@dataclass(frozen=True, slots=True)
class Entries:
    """Keys and values in the order written; a key may appear twice in the bytes."""

    key: "Node"
    value: "Node"
    written_as: Literal["map", "array"] = "map"


@dataclass(frozen=True, slots=True)
class Union:
    """Branches in the order of the schema, null among them."""

    branches: tuple["Node", ...]

    @property
    def values(self) -> tuple["Node", ...]:
        """The branches that are not null."""
        return tuple(branch for branch in self.branches if branch != NULL)


Node = Leaf | Fixed | Enum | Record | Array | Entries | Union

NULL = Leaf("null")
KEY = Leaf("string")


def max_decimal_precision(size: int) -> int:
    """The most digits that always fit into `size` bytes in two's complement, as the specification counts."""
    return len(str((1 << (8 * size - 1)) - 1)) - 1 if size > 0 else 0


def branch_kind(node: Node) -> str:
    """What tells the branches of a union apart: the full name of a named type, the kind of every other."""
    match node:
        case Leaf(kind):
            return kind
        case Fixed(name) | Enum(name) | Record(name):
            return name
        case Array():
            return "array"
        case Entries(_, _, written_as):
            return written_as
        case Union():
            return "union"


def merged_numbers(union: Union) -> Literal["long", "double"] | None:
    """The one number type of a union of int and long, or of float and double, without logical types.

    Spark merges these two, exactly, and so do we (docs/types.md, Avro).
    """
    match set(union.values):
        case kinds if kinds == {Leaf("int"), Leaf("long")}:
            return "long"
        case kinds if kinds == {Leaf("float"), Leaf("double")}:
            return "double"
    return None


def skeleton(node: Node) -> Node:
    """The node without names of types, docs and defaults: schemas of one skeleton are decoded in one way."""
    match node:
        case Fixed():
            return replace(node, name="")
        case Enum(_, symbols):
            return Enum("", symbols)
        case Record(_, fields):
            parts = tuple(RecordField(field.name, skeleton(field.type)) for field in fields)
            return Record("", parts, logical=node.logical)
        case Array(items):
            return Array(skeleton(items))
        case Entries(key, value):
            return Entries(skeleton(key), skeleton(value))
    return node
