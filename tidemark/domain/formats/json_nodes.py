"""What a JSON document is expected to hold: the tree that documents are checked and taken apart by.

Belongs here: the nodes alone, on the standard library alone: they travel to Spark's executors, which need not
have this package. What a node becomes as a column is in `json_columns`.
"""

from dataclasses import dataclass
from typing import Literal

EXTRA = "_extra"
"""The field of an open object's struct that holds, as JSON text, what no other field is for."""

LeafKind = Literal[
    "boolean",
    "int",
    "long",
    "double",
    "decimal",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamptz",
    "text",
    "document",
    "variant",
]


@dataclass(frozen=True)
class Leaf:
    """One value. `text` is any JSON value as its text, `document` the whole record's text as it came.

    `variant` is any JSON value as text of which a VARIANT keeps every digit.
    """

    kind: LeafKind
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True)
class Items:
    """An array."""

    item: "Node"


@dataclass(frozen=True)
class Entries:
    """An object whose keys are data."""

    value: "Node"


@dataclass(frozen=True)
class Property:
    """A named part of an object."""

    name: str
    node: "Node"
    doc: str = ""


@dataclass(frozen=True)
class Object:
    """An object with declared properties; what else an open one holds is kept under EXTRA."""

    properties: tuple[Property, ...]
    is_open: bool = True


Node = Leaf | Items | Entries | Object
