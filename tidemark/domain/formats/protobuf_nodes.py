"""What a Protobuf message is expected to hold: the tree that messages are taken apart by.

Belongs here: the nodes alone, on the standard library alone: they travel to Spark's executors, which need not
have this package. What a node becomes as a column is in `protobuf_columns`.
"""

from dataclasses import dataclass
from typing import Literal

ScalarKind = Literal["boolean", "int", "uint", "long", "ulong", "float", "double", "string", "binary"]
KnownKind = Literal["timestamp", "timestamp_nanos", "duration", "json", "variant", "empty"]


@dataclass(frozen=True)
class Scalar:
    """A number, text or bytes; `uint` and `ulong` are of 32 and 64 bits without sign."""

    kind: ScalarKind


@dataclass(frozen=True)
class Enum:
    """Numbers and their names."""

    names: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Known:
    """A message with a meaning of its own; `empty` is any message without fields."""

    kind: KnownKind


@dataclass(frozen=True)
class Wrapper:
    """A scalar in a message, so that it can be missing."""

    value: Scalar


@dataclass(frozen=True)
class Repeated:
    """A list."""

    item: "Node"


@dataclass(frozen=True)
class Entries:
    """A map."""

    key: Scalar
    value: "Node"


@dataclass(frozen=True)
class Part:
    """A field; `has_presence` says whether unset differs from its default."""

    name: str
    node: "Node"
    has_presence: bool
    doc: str = ""


@dataclass(frozen=True)
class Message:
    """A message with fields."""

    name: str
    parts: tuple[Part, ...]


Node = Scalar | Enum | Known | Wrapper | Repeated | Entries | Message
