"""Avro schemas, read into a tree with every name resolved.

Belongs here: the Avro 1.12 specification's way of writing schemas: names, namespaces, references, logical
types. What a node becomes as a column is in `avro_columns`, how Spark is told to decode it in `avro_decoder`.

The tree is fully expanded: a record referenced twice appears twice, so the same name may differ from place
to place; a record that contains itself has no such tree and is refused.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tidemark.domain.columns.names import Path
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro_default import encode_default
from tidemark.domain.formats.avro_nodes import (
    KEY,
    LEAF_KINDS,
    Array,
    Entries,
    Enum,
    Fixed,
    Leaf,
    LeafKind,
    Logical,
    Node,
    Record,
    RecordField,
    Union,
    branch_kind,
    max_decimal_precision,
)
from tidemark.domain.formats.connect import is_variable_decimal, semantic_leaf

MAX_NODES = 20_000
"""An expanded schema beyond this is refused: no table has so many columns, but references can multiply."""

_LOGICAL_ON: dict[str, frozenset[str]] = {
    "int": frozenset({"date", "time-millis"}),
    "long": frozenset(
        {
            "time-micros",
            *(
                f"{local}timestamp-{unit}"
                for local in ("", "local-")
                for unit in ("millis", "micros", "nanos")
            ),
        }
    ),
    "string": frozenset({"uuid"}),
}
_FIXED_SIZE_OF = {"uuid": 16, "duration": 12}


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the schema at `path` that the plan tells: a rule applied, a part ignored."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema as written by a producer.

    `routes` is set where the table is for one record of a top-level union, and `root` is that: for each branch, whether
    it is the table's `own`, `routed` to another table or `unrouted`.
    """

    root: Node
    notes: tuple[Note, ...] = ()
    routes: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """The full name of the top-level record, by which events are routed; None for other types."""
        return self.root.name if isinstance(self.root, Record) else None


def parse(
    text: str,
    references: Sequence[str] = (),
    *,
    connect: bool = False,
    variants: bool = False,
    routes: Sequence[str] = (),
) -> AvroSchema:
    """Read the text of a schema; with `connect` the semantic names of Kafka Connect's converter count (`connect`).

    With `variants` too, Debezium's Json is a VARIANT; inside of lists and maps it stays text. With `routes` the own
    branch alone is read: what the others are made of is the matter of their tables.

    `references` are the texts of the schemas whose names it uses, dependencies first. Raises
    SchemaUnsupported, with the path, for text that is no Avro schema and for a record that contains itself.
    """
    reader = _Reader(connect=connect, variants=connect and variants)
    try:
        for reference in references:
            reader.declare(_json(reference), None)
        schema = _json(text)
        if routes:
            own = routes.index("own")
            reader.declare(schema[:own], None)
            schema = schema[own]
        return AvroSchema(reader.read(schema, None, ()), tuple(reader.notes), tuple(routes))
    except RecursionError as error:
        raise SchemaUnsupported("", "nested too deeply to be read") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if text.strip() in LEAF_KINDS:
            return text.strip()
        raise SchemaUnsupported("", f"the schema is no JSON: {error}") from error


class _Reader:
    """Reads one schema; `names` holds each named type's definition with the namespace around it."""

    def __init__(self, *, connect: bool, variants: bool) -> None:
        self.connect = connect
        self.variants = variants
        self.names: dict[str, tuple[dict[str, Any], str | None]] = {}
        self.open: list[str] = []
        self.notes: list[Note] = []
        self.nodes = 0

    def declare(self, schema: Any, namespace: str | None) -> None:
        """Know the named types of a schema that is not read itself."""
        match schema:
            case list():
                for part in schema:
                    self.declare(part, namespace)
            case {"type": "record" | "error" | "enum" | "fixed", "name": str()}:
                _, inside = self._define(schema, namespace, ())
                self.declare(schema.get("fields"), inside)
            case dict():
                for key in ("type", "items", "values"):
                    self.declare(schema.get(key), namespace)

    def read(self, schema: Any, namespace: str | None, path: Path) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise SchemaUnsupported(
                _dotted(path), f"the schema has more than {MAX_NODES} nodes when expanded"
            )
        match schema:
            case str():
                return self._named(schema, namespace, path)
            case list():
                return self._union(schema, namespace, path)
            case {"type": str() as kind}:
                return self._complex(kind, schema, namespace, path)
            case {"type": dict() | list() as inner}:
                return self.read(inner, namespace, path)
        raise SchemaUnsupported(_dotted(path), f"no Avro type: {json.dumps(schema)[:100]}")

    def _named(self, name: str, namespace: str | None, path: Path) -> Node:
        if name in LEAF_KINDS:
            return Leaf(cast("LeafKind", name))
        for full in (_full_name(name, namespace), name):
            if full in self.names:
                definition, around = self.names[full]
                return self._complex(definition["type"], definition, around, path)
        raise SchemaUnsupported(
            _dotted(path), f"the type {name} is not defined in this schema or its references"
        )

    def _complex(  # noqa: PLR0911 - one return per type of the specification
        self, kind: str, schema: dict[str, Any], namespace: str | None, path: Path
    ) -> Node:
        match kind:
            case "record" | "error":
                return self._record(schema, namespace, path)
            case "enum":
                name, _ = self._define(schema, namespace, path)
                return Enum(name, tuple(self._list(schema, "symbols", path)), _doc(schema))
            case "fixed":
                return self._fixed(schema, namespace, path)
            case "array":
                return self._array(schema, namespace, path)
            case "map":
                return Entries(KEY, self._repeated(schema.get("values"), namespace, (*path, "value")))
            case _ if kind in LEAF_KINDS:
                return self._leaf(cast("LeafKind", kind), schema, path)
        return self._named(kind, namespace, path)

    def _define(self, schema: dict[str, Any], namespace: str | None, path: Path) -> tuple[str, str | None]:
        """Record the definition; its full name, and the namespace that holds inside it."""
        name = schema.get("name")
        if not name or not _is_text(name):
            raise SchemaUnsupported(_dotted(path), f"a {schema['type']} needs a name")
        full = _full_name(name, schema.get("namespace", namespace))
        self.names[full] = (schema, namespace)
        return full, full.rpartition(".")[0] or None

    def _record(self, schema: dict[str, Any], namespace: str | None, path: Path) -> Record:
        name, inside = self._define(schema, namespace, path)
        if name in self.open:
            raise SchemaUnsupported(
                _dotted(path), f"the record {name} contains itself; no column type can hold it"
            )
        self.open.append(name)
        fields = tuple(self._field(field, inside, path) for field in self._list(schema, "fields", path))
        self.open.pop()
        variable = self.connect and is_variable_decimal(name, fields)
        return Record(name, fields, _doc(schema), "variable-decimal" if variable else "")

    def _field(self, field: Any, namespace: str | None, path: Path) -> RecordField:
        if not isinstance(field, dict) or not _is_text(field.get("name")) or "type" not in field:
            raise SchemaUnsupported(_dotted(path), f"no field of a record: {json.dumps(field)[:100]}")
        here = (*path, field["name"])
        node = self.read(field["type"], namespace, here)
        return RecordField(field["name"], node, _doc(field), self._default(field, node, here))

    def _default(self, field: dict[str, Any], node: Node, path: Path) -> bytes | None:
        if "default" not in field:
            return None
        try:
            return encode_default(node, field["default"])
        except ValueError as error:
            self._note(path, f"default ignored: {error}")
            return None

    def _fixed(self, schema: dict[str, Any], namespace: str | None, path: Path) -> Fixed:
        name, _ = self._define(schema, namespace, path)
        size = schema.get("size")
        if not isinstance(size, int) or size < 0:
            raise SchemaUnsupported(_dotted(path), f"no size of a fixed: {size!r}")
        logical = _logical(schema)
        if logical == "decimal" and self._is_decimal(schema, path, max_decimal_precision(size)):
            return Fixed(name, size, "decimal", schema["precision"], schema.get("scale", 0))
        if _FIXED_SIZE_OF.get(logical) == size:
            return Fixed(name, size, cast("Logical", logical))
        return Fixed(name, size)

    def _array(self, schema: dict[str, Any], namespace: str | None, path: Path) -> Array | Entries:
        items = self._repeated(schema.get("items"), namespace, (*path, "element"))
        if schema.get("logicalType") == "map" and isinstance(items, Record):
            parts = {field.name: field.type for field in items.fields}
            if list(parts) == ["key", "value"]:
                return Entries(parts["key"], parts["value"], "array")
            self._note(path, "logicalType map ignored: the record has other fields than key and value")
        return Array(items)

    def _repeated(self, schema: Any, namespace: str | None, path: Path) -> Node:
        """What a lambda takes apart: Spark calls no Python there, so documents stay text."""
        outside, self.variants = self.variants, False
        try:
            return self.read(schema, namespace, path)
        finally:
            self.variants = outside

    def _union(self, schemas: list[Any], namespace: str | None, path: Path) -> Node:
        if not schemas:
            raise SchemaUnsupported(_dotted(path), "a union needs a branch")
        branches = tuple(self.read(schema, namespace, path) for schema in schemas)
        kinds = [branch_kind(branch) for branch in branches]
        if len(set(kinds)) < len(kinds) or any(isinstance(branch, Union) for branch in branches):
            raise SchemaUnsupported(_dotted(path), f"no union: {', '.join(kinds)}")
        return Union(branches)

    def _leaf(self, kind: LeafKind, schema: dict[str, Any], path: Path) -> Leaf:
        if self.connect and (semantic := semantic_leaf(kind, schema, documents=self.variants)):
            return semantic
        logical = _logical(schema)
        if kind == "bytes" and logical == "decimal" and self._is_decimal(schema, path, None):
            return Leaf(kind, "decimal", schema["precision"], schema.get("scale", 0))
        if logical in _LOGICAL_ON.get(kind, ()):
            return Leaf(kind, cast("Logical", logical))
        return Leaf(kind)

    def _is_decimal(self, schema: dict[str, Any], path: Path, limit: int | None) -> bool:
        """The specification asks to ignore a logical type whose attributes are wrong."""
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int):
            allowed = precision if limit is None else limit
            if 0 < precision <= allowed and 0 <= scale <= precision:
                return True
        self._note(
            path, f"logicalType decimal ignored: precision {precision}, scale {scale}, size limit {limit}"
        )
        return False

    def _list(self, schema: dict[str, Any], key: str, path: Path) -> list[Any]:
        found = schema.get(key)
        if not isinstance(found, list):
            raise SchemaUnsupported(_dotted(path), f"{schema.get('name')} needs a list of {key}")
        return found

    def _note(self, path: Path, text: str) -> None:
        self.notes.append(Note(_dotted(path), text))


def _full_name(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _logical(schema: dict[str, Any]) -> str:
    """The logical type; what is no text is none that anybody knows."""
    logical = schema.get("logicalType")
    return logical if isinstance(logical, str) else ""


def _doc(schema: dict[str, Any]) -> str:
    """The comment; half a character, which no catalog takes, as a question mark."""
    doc = schema.get("doc")
    return doc.strip().encode(errors="replace").decode() if isinstance(doc, str) else ""


def _is_text(name: Any) -> bool:
    """False for half a character too: JSON can spell one of the two surrogates alone."""
    return isinstance(name, str) and not any("\ud800" <= each <= "\udfff" for each in name)


def _dotted(path: Path) -> str:
    return ".".join(path)
