"""JSON Schemas, drafts 7 and 2020-12, read into the tree that documents are taken apart by (docs/types.md).

Belongs here: which part of a schema has one column type. Whether a document is valid is not asked here: a
validator sees every document before this tree does, so the tree may say less than the schema, never more.
Whatever has no single type is `text`, the JSON text of the value, and is named in the notes.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from tidemark.domain.columns.names import Path
from tidemark.domain.columns.types import MAX_PRECISION
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro import Note
from tidemark.domain.formats.json_columns import JsonDocuments
from tidemark.domain.formats.json_nodes import Entries, Items, Leaf, Node, Object, Property
from tidemark.domain.formats.json_schema_text import for_validator

DRAFTS = ("draft-07", "2020-12")
MAX_NODES = 20_000
MAX_DEPTH = 20
_TEXT = Leaf("text")
_LONG = 1 << 63
_SCALARS: Mapping[str, Leaf] = {
    "number": Leaf("double"),
    "boolean": Leaf("boolean"),
    "string": Leaf("string"),
}
_FORMATS: Mapping[str, Leaf] = {"date-time": Leaf("timestamptz"), "date": Leaf("date")}
_SHAPING = frozenset(
    {
        "type",
        "properties",
        "items",
        "prefixItems",
        "oneOf",
        "anyOf",
        "allOf",
        "enum",
        "const",
        "if",
        "$dynamicRef",
    }
    | {"additionalProperties", "patternProperties", "format", "minimum", "maximum"}
)
"""Keywords that may say what kind of value it is."""
_COMBINING = ("oneOf", "anyOf", "allOf")
_OF_SAME_VALUE = ("not", "if", "then", "else")
_WHEN_THERE = ("dependentSchemas", "dependencies")
_SAYING = frozenset({"type", "enum", "const"})
"""Keywords that say of every value what kind it is."""
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold no schema."""
_JSON_TYPES: Mapping[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def parse(text: str, *, combined_as_text: bool = False) -> JsonDocuments:
    """Read the text of a schema; with `combined_as_text` what has constraints of several subschemas is JSON text.

    Raises SchemaUnsupported, with the path, for another draft, for a reference that leads out of the document,
    and for text that is no schema.
    """
    try:
        written = json.loads(text)
        schema = for_validator(written)
    except (ValueError, RecursionError) as error:
        raise SchemaUnsupported("", f"the schema is no JSON: {error}") from error
    text = text if schema == written else json.dumps(schema)
    if isinstance(schema, dict):
        draft = str(schema.get("$schema", DRAFTS[0]))
        if not any(known in draft for known in DRAFTS):
            raise SchemaUnsupported("$schema", f"{draft} is not read: drafts 7 and 2020-12 are")
    reader = _Reader(SchemaReferences(schema), combined_as_text)
    try:
        root = reader.node(schema, (), ())
        reader.references.require_own()
        reader.references.require_few()
    except (TypeError, AttributeError, RecursionError) as error:
        raise SchemaUnsupported("", f"no valid JSON Schema: {error}") from error
    title = schema.get("title") if isinstance(schema, dict) else None
    return JsonDocuments(root, text, tuple(reader.notes), title=title if isinstance(title, str) else None)


@dataclass
class SchemaReferences:
    """What references in a schema document point at."""

    document: Any

    @property
    def is_draft_7(self) -> bool:
        """In which nothing that stands beside a reference counts."""
        return DRAFTS[0] in str(self.document.get("$schema", DRAFTS[0]))

    @cached_property
    def elsewhere(self) -> frozenset[int]:
        """Identities of the subschemas whose `#` is not the document: a schema around them has an `$id` of its own."""
        others = (each for each in _subschemas(self.document) if each is not self.document)
        named = (each for each in others if isinstance(each.get("$id"), str) and each["$id"][:1] != "#")
        apart = (each for each in named if not (self.is_draft_7 and "$ref" in each))
        return frozenset(id(inner) for each in apart for inner in _subschemas(each))

    def resolved(self, ref: str, path: Path) -> Any:
        """What a reference into the document points at, by JSON pointer or by the name of an anchor.

        Raises SchemaUnsupported, with the path.
        """
        base, _, fragment = ref.partition("#")
        if base and base != str(self.document.get("$id", "")).partition("#")[0]:
            raise SchemaUnsupported(".".join(path), f"$ref {ref} does not point into the document")
        if fragment and not fragment.startswith("/"):
            return self.anchored(ref, fragment, path)
        found = self.document
        for token in fragment.split("/")[1:]:
            name = unquote(token).replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(name)] if isinstance(found, list) else found[name]
            except (KeyError, IndexError, ValueError, TypeError):
                raise SchemaUnsupported(".".join(path), f"$ref {ref} points at nothing") from None
        return found

    def require_own(self) -> None:
        """Raises SchemaUnsupported, with the path, of a reference that leads out of the document wherever it stands."""
        ids = [str(each["$id"]).partition("#")[0] for each in _subschemas(self.document) if "$id" in each]
        for path, ref in _references(self.document, ()):
            base = ref.partition("#")[0]
            if base and not any(each.endswith(base) for each in ids):
                raise SchemaUnsupported(".".join(path), f"$ref {ref} does not point into the document")

    def require_few(self) -> None:
        """Raises SchemaUnsupported where references make one value be held against more subschemas than are written."""
        written, known = list(_subschemas(self.document)), dict[int, int]()
        if any(self._held_against(each, known) > MAX_NODES + len(written) for each in written):
            why = (
                f"{', '.join(_COMBINING)} come to more than {MAX_NODES} subschemas of one value when expanded"
            )
            raise SchemaUnsupported("", why)

    def _held_against(self, schema: Any, known: dict[int, int]) -> int:
        """The number of subschemas that one value is held against, this one included; those that are `known` by id."""
        if not isinstance(schema, dict):
            return 1
        if id(schema) not in known:
            known[id(schema)] = 1  # of one that contains itself
            known[id(schema)] += sum(self._held_against(part, known) for part in self._of_same_value(schema))
        return known[id(schema)]

    def _of_same_value(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        if isinstance(schema.get("$ref"), str) and id(schema) not in self.elsewhere:
            with suppress(SchemaUnsupported):  # said elsewhere, where it counts
                yield self.resolved(schema["$ref"], ())
            if self.is_draft_7:
                return
        for keyword in _COMBINING:
            if isinstance(parts := schema.get(keyword), list):
                yield from parts
        yield from (schema[keyword] for keyword in _OF_SAME_VALUE if keyword in schema)
        for keyword in _WHEN_THERE:
            if isinstance(named := schema.get(keyword), dict):
                yield from named.values()

    def anchored(self, ref: str, name: str, path: Path) -> Any:
        """The subschema that calls itself `name`: `$anchor`, in draft 7 an `$id` of a fragment alone."""
        said = ("$id", f"#{name}") if self.is_draft_7 else ("$anchor", name)
        found = [each for each in _subschemas(self.document) if each.get(said[0]) == said[1]]
        if len(found) != 1:
            raise SchemaUnsupported(".".join(path), f"$ref {ref} points at nothing")
        return found[0]


@dataclass
class _Reader:
    """Reads one schema document."""

    references: SchemaReferences
    combined_as_text: bool = False
    notes: list[Note] = field(default_factory=list)
    nodes: int = 0

    def node(self, schema: Any, path: Path, opened: tuple[str, ...]) -> Node:
        """The node of a subschema; `opened` are the references that lead here."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise SchemaUnsupported(
                ".".join(path), f"the schema has more than {MAX_NODES} nodes when expanded"
            )
        if isinstance(schema, bool):
            return self.text(path, "anything may stand here")
        if not isinstance(schema, dict):
            raise SchemaUnsupported(".".join(path), f"no schema: {json.dumps(schema)[:100]}")
        if len(path) > MAX_DEPTH:
            return self.text(path, f"nested more than {MAX_DEPTH} levels deep")
        if "$ref" in schema:
            return self.reference(schema, path, opened)
        if "$dynamicRef" in schema:
            return self.text(path, "a dynamic reference has no single type")
        keyword = next((each for each in _COMBINING if each in schema), None)
        if keyword and (self.combined_as_text or _type(schema) is None):
            return self.combined(schema, keyword, path, opened)
        return self.typed(schema, path, opened)

    def text(self, path: Path, why: str) -> Node:
        """JSON text, and the note that says so."""
        self.notes.append(Note(".".join(path), f"{why}: JSON text"))
        return _TEXT

    def reference(self, schema: Mapping[str, Any], path: Path, opened: tuple[str, ...]) -> Node:
        ref = str(schema["$ref"])
        if not self.references.is_draft_7 and _SHAPING & schema.keys():
            if not self.combined_as_text and _type(schema) is not None:
                return self.typed(schema, path, opened)
            return self.text(path, f"$ref {ref} with more beside it has no single type")
        if ref.startswith("#") and id(schema) in self.references.elsewhere:
            raise SchemaUnsupported(".".join(path), f"$ref {ref} inside of a schema with an $id of its own")
        if ref in opened:
            return self.text(path, f"{ref} contains itself")
        return self.node(self.references.resolved(ref, path), path, (*opened, ref))

    def combined(self, schema: Mapping[str, Any], keyword: str, path: Path, opened: tuple[str, ...]) -> Node:
        """Of several subschemas: the one that is left when null is taken away."""
        parts = [part for part in schema[keyword] if keyword == "allOf" or not _is_null(part)]
        if len(parts) == 1 and not _SHAPING & (schema.keys() - {keyword}):
            return self.node(parts[0], path, opened)
        return self.text(path, f"{keyword} has no single type")

    def typed(self, schema: Mapping[str, Any], path: Path, opened: tuple[str, ...]) -> Node:
        is_text = self.combined_as_text and "if" in schema and not _SAYING & schema.keys()
        match None if is_text else _type(schema):
            case "object":
                return self.object(schema, path, opened)
            case "array":
                return self.array(schema, path, opened)
            case "integer":
                return Leaf("long") if _is_long(schema) else Leaf("decimal", MAX_PRECISION)
            case "string":
                return _FORMATS.get(str(schema.get("format")), _SCALARS["string"])
            case str() as kind if kind in _SCALARS:
                return _SCALARS[kind]
        return self.text(path, "no single type")

    def object(self, schema: Mapping[str, Any], path: Path, opened: tuple[str, ...]) -> Node:
        declared, more = schema.get("properties") or {}, schema.get("additionalProperties", True)
        patterns = "patternProperties" in schema
        if declared:
            parts = tuple(
                Property(name, self.node(part, (*path, name), opened), self.doc(part))
                for name, part in declared.items()
            )
            return Object(parts, is_open=more is not False or patterns)
        if isinstance(more, dict) and not patterns:
            return Entries(self.node(more, (*path, "value"), opened))
        return self.text(path, "an object without declared properties")

    def doc(self, schema: Any, opened: tuple[str, ...] = ()) -> str:
        """What a property says of itself, else what it refers to, or has beside null, says of it."""
        if not isinstance(schema, dict) or _doc(schema):
            return _doc(schema)
        ref = schema.get("$ref")
        if isinstance(ref, str):
            with suppress(SchemaUnsupported):  # beside a type it is no reference that counts
                if ref not in opened and id(schema) not in self.references.elsewhere:
                    return self.doc(self.references.resolved(ref, ()), (*opened, ref))
            return ""
        parts = [part for each in _COMBINING for part in schema.get(each) or () if not _is_null(part)]
        return self.doc(parts[0], opened) if len(parts) == 1 else ""

    def array(self, schema: Mapping[str, Any], path: Path, opened: tuple[str, ...]) -> Node:
        items = schema.get("items")
        if isinstance(items, dict) and "prefixItems" not in schema:
            return Items(self.node(items, (*path, "element"), opened))
        return self.text(path, "an array whose elements have no single type")


def _type(schema: Mapping[str, Any]) -> str | None:
    """The one type that values have, null aside; None where there is none."""
    declared = schema.get("type")
    if isinstance(declared, list):
        kinds = [kind for kind in declared if kind != "null"]
        return "number" if set(kinds) == {"integer", "number"} else kinds[0] if len(kinds) == 1 else None
    if declared is not None:
        return None if declared == "null" else str(declared)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        kinds = list({_JSON_TYPES.get(type(value), "") for value in values if value is not None})
        return kinds[0] or None if len(kinds) == 1 else None
    implied = (
        "object" if "properties" in schema else "array" if isinstance(schema.get("items"), dict) else None
    )
    return implied if implied and all(_type(each) in {None, implied} for each in _branches(schema)) else None


def _branches(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The subschemas that say more of the same value."""
    parts = [part for keyword in _COMBINING for part in schema.get(keyword, ())]
    parts += [schema.get(keyword) for keyword in ("then", "else")]
    return (part for part in parts if isinstance(part, dict))


def _subschemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in the document; one with an anchor is a schema."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _subschemas(part)


def _references(schema: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every reference in the document, with the way to it; what only looks like one is in a value."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield path, schema["$ref"]
        for key, part in schema.items():
            if key not in _VALUES:
                yield from _references(part, (*path, str(key)))
    elif isinstance(schema, list):
        for place, part in enumerate(schema):
            yield from _references(part, (*path, str(place)))


def _is_null(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    return schema.get("type") == "null" or schema.get("const", 0) is None or schema.get("enum") == [None]


def _is_long(schema: Mapping[str, Any]) -> bool:
    """False when the schema says that integers may be beyond 64 bits."""
    values = [schema["const"]] if "const" in schema else schema.get("enum") or []
    within = [*values, schema.get("minimum", 0), schema.get("maximum", 0)]
    beyond = (schema.get("exclusiveMinimum", 0), schema.get("exclusiveMaximum", 0))
    return all(-_LONG <= value < _LONG for value in within if isinstance(value, int | float)) and all(
        -_LONG - 1 <= value <= _LONG for value in beyond if isinstance(value, int | float)
    )


def _doc(schema: Any) -> str:
    if not isinstance(schema, dict):
        return ""
    return str(schema.get("description") or schema.get("title") or "")
