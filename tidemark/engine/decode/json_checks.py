"""A JSON Schema as checks on the way: what a document is held against while the server's own decoder reads it.

Belongs here: which schemas say nothing but that. Most do: types, required and closed objects, lists of texts, bounds.
A document of any other schema is parsed and validated in Python.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from tidemark.domain.formats.json_nodes import Entries, Items, Leaf, LeafKind, Node, Object
from tidemark.domain.formats.json_schema import SchemaReferences

Said = dict[str, Any]
_EVERYWHERE = frozenset({"type"})
_TEXTS = frozenset({"enum", "const", "minLength", "maxLength"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_OF_ARRAYS = frozenset({"items", "minItems", "maxItems"})
_COMBINING = ("oneOf", "anyOf", "allOf")
_OTHERS = frozenset(
    {
        "not",
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "propertyNames",
        "patternProperties",
        "minProperties",
        "maxProperties",
        "multipleOf",
        "pattern",
        "uniqueItems",
        "prefixItems",
        "additionalItems",
        "dependencies",
        "dependentSchemas",
        "dependentRequired",
        "unevaluatedProperties",
        "unevaluatedItems",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "$dynamicRef",
        "$recursiveRef",
        "$id",
        "$anchor",
        "$schema",
        "$vocabulary",
    }
)
_CHECKS = _EVERYWHERE | _TEXTS | _BOUNDS | _OF_OBJECTS | _OF_ARRAYS | _OTHERS | {"$ref", *_COMBINING}
_MOST = (1 << 31) - 1


class Unknown(Exception):
    """A schema that says more than can be checked on the way."""


def said_of(node: Node) -> Said:
    """A tree without a schema. Raises Unknown for a leaf that is left to Python."""
    match node:
        case Leaf("binary" | "variant"):
            raise Unknown
        case Leaf("decimal"):
            return {"kind": "decimal", "precision": node.precision, "scale": node.scale}
        case Leaf(kind):
            return {"kind": kind}
        case Items(item):
            return {"kind": "items", "item": said_of(item)}
        case Entries(value):
            return {"kind": "entries", "value": said_of(value)}
    properties = [{"name": prop.name, "node": said_of(prop.node)} for prop in node.properties]
    return {"kind": "object", "open": node.is_open, "properties": properties}


def checked(node: Node, document: Any) -> Said:
    """The tree that was read from the schema `document`, with what it says of the values.

    Raises Unknown.
    """
    if not isinstance(document, dict):
        raise Unknown
    root = {key: value for key, value in document.items() if key not in {"$id", "$schema"}}
    try:
        return _Checks(SchemaReferences(document)).of(node, root)
    except (
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as odd:  # whoever validates with it will say why
        raise Unknown from odd


class _Checks:
    def __init__(self, references: SchemaReferences) -> None:
        self.references = references

    def of(self, node: Node, schema: Any) -> Said:
        if schema is True:
            schema = {}
        if not isinstance(schema, dict):
            raise Unknown
        said = _CHECKS & schema.keys()
        if said and node == Leaf("text"):  # what contains itself among them
            raise Unknown
        if "$ref" in said:
            return self.referred(node, schema, said)
        if combined := [keyword for keyword in _COMBINING if keyword in said]:
            return self.combined(node, schema, combined[0], said)
        return self.typed(node, schema, said)

    def referred(self, node: Node, schema: Mapping[str, Any], said: frozenset[str]) -> Said:
        if said != {"$ref"} and not self.references.is_draft_7:
            raise Unknown
        return self.of(node, self.references.resolved(str(schema["$ref"]), ()))

    def combined(self, node: Node, schema: Mapping[str, Any], keyword: str, said: frozenset[str]) -> Said:
        """Of one subschema, or of one beside null."""
        parts = [part for part in schema[keyword] if keyword == "allOf" or not _is_null(part)]
        if said != {keyword} or len(parts) != 1:
            raise Unknown
        found = self.of(node, parts[0])
        if len(schema[keyword]) > 1:
            if found.get("null", True):
                raise Unknown
            return {**found, "null": True}
        return found

    def typed(self, node: Node, schema: Mapping[str, Any], said: frozenset[str]) -> Said:
        """Each kind of node with the keywords that may stand beside its type."""
        match node:
            case Leaf(kind):
                return _leaf(kind, said_of(node), schema, said)
            case Items(item):
                found = {"kind": "items", "item": self.of(item, schema["items"])}
                known = _only(said, _EVERYWHERE | _OF_ARRAYS, found)
                return {**known, **_nullable(schema), **_sizes(schema, "minItems", "maxItems")}
            case Entries(value):
                found = {"kind": "entries", "value": self.of(value, schema["additionalProperties"])}
                return {**_only(said, _EVERYWHERE | {"additionalProperties"}, found), **_nullable(schema)}
        return self.object(node, schema, said)

    def object(self, node: Object, schema: Mapping[str, Any], said: frozenset[str]) -> Said:
        names = {prop.name for prop in node.properties}
        required, others = schema.get("required", []), schema.get("additionalProperties", True)
        if not isinstance(required, list) or not names >= set(required) or others not in (True, False, {}):
            raise Unknown
        properties = [
            {"name": prop.name, "node": self.of(prop.node, schema["properties"][prop.name])}
            for prop in node.properties
        ]
        found = {"kind": "object", "open": node.is_open, "properties": properties}
        known = _only(said, _EVERYWHERE | _OF_OBJECTS, found)
        return {**known, **_nullable(schema), **({"required": required} if required else {})}


def _is_null(schema: Any) -> bool:
    """That of null and nothing else, whatever it is called."""
    return isinstance(schema, dict) and schema.get("type") == "null" and _CHECKS & schema.keys() == {"type"}


def _leaf(kind: LeafKind, found: Said, schema: Mapping[str, Any], said: frozenset[str]) -> Said:
    """Each kind of value with the keywords that may stand beside its type."""
    match kind:
        case "text":
            return found
        case "string" | "date" | "timestamptz":
            return _text(schema, _only(said, _EVERYWHERE | _TEXTS, found))
        case "long" | "double" | "decimal":
            return {**_only(said, _EVERYWHERE | _BOUNDS, found), **_nullable(schema), **_bounds(schema)}
        case "boolean":
            return {**_only(said, _EVERYWHERE, found), **_nullable(schema)}
    raise Unknown


def _only(said: frozenset[str], known: frozenset[str], found: Said) -> Said:
    if not said <= known:
        raise Unknown
    return found


def _nullable(schema: Mapping[str, Any]) -> Said:
    kinds = schema.get("type", "null")
    return {} if kinds == "null" or "null" in kinds else {"null": False}


def _text(schema: Mapping[str, Any], found: Said) -> Said:
    texts = [schema["const"]] if "const" in schema else schema.get("enum")
    if "const" in schema and "enum" in schema:
        raise Unknown
    sizes = _sizes(schema, "minLength", "maxLength")
    if texts is None:
        return {**found, **_nullable(schema), **sizes}
    if not all(text is None or isinstance(text, str) for text in texts):
        raise Unknown
    null = {} if None in texts and not _nullable(schema) else {"null": False}
    return {**found, **null, **sizes, "enum": [text for text in texts if text is not None]}


def _sizes(schema: Mapping[str, Any], least: str, most: str) -> Said:
    """Raises Unknown for what is no whole number."""
    sizes = {"least": schema.get(least, 0), "most": schema.get(most, _MOST)}
    if any(type(size) is not int or not 0 <= size <= _MOST for size in sizes.values()):
        raise Unknown
    return sizes if {least, most} & schema.keys() else {}


def _bounds(schema: Mapping[str, Any]) -> Said:
    """By keyword, in decimal digits."""
    bounds = {keyword: schema[keyword] for keyword in sorted(_BOUNDS & schema.keys())}
    if not all(type(bound) is int or (type(bound) is float and isfinite(bound)) for bound in bounds.values()):
        raise Unknown
    return {keyword: repr(bound) for keyword, bound in bounds.items()}
