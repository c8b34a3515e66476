"""Pydantic's complaints in the words of someone who writes configuration files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidemark.domain.config.layering import Finding, KeyPath
from tidemark.domain.secrets import HIDDEN, under_secret
from tidemark.domain.suggest import nearest

Model = TypeVar("Model", bound=BaseModel)

MISSING = "is missing"
UNKNOWN = "unknown key"
_KINDS = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "dict": "a mapping",
    "model": "a mapping",
    "tuple": "a list",
    "list": "a list",
}
_SECTIONS = ("dict", "model")
_COLLECTIONS = (Mapping, list, tuple)
_BOUNDS = {"greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le")}
MAX_DEPTH = 6
"""Rounds of `salvage`: what is taken out may leave incomplete what holds it, level by level."""
_EMPTY = frozenset({"string_too_short", "too_short"})


def validate(model: type[Model], tree: Mapping[str, Any]) -> tuple[Model | None, list[Finding]]:
    """The model, or None and everything that is wrong with the tree."""
    try:
        return model.model_validate(tree), []
    except ValidationError as error:
        return None, [_finding(model, tree, detail) for detail in error.errors(include_url=False)]


def once(findings: Iterable[Finding]) -> list[Finding]:
    """A key that is missing because it was mistyped is one mistake, not two."""
    found = list(findings)
    meant = _meant_by(found)
    return [each for each in found if not each.message.startswith(MISSING) or each.path not in meant]


def salvage(
    model: type[Model],
    tree: Mapping[str, Any],
    findings: Sequence[Finding],
    stand_ins: Mapping[str, Mapping[str, Any]] | None = None,
) -> Model | None:
    """The model of what is sound in the tree, for rules to look at; `stand_ins` complete broken blocks.

    A mistyped key says what the one that is meant would: rules of other keys go by it.
    """
    kept = deepcopy(dict(tree))
    for _ in range(MAX_DEPTH):
        for finding in findings:
            _put_right(kept, finding)
        completed = {
            block: {**complete, **(kept.get(block) or {})} for block, complete in (stand_ins or {}).items()
        }
        found, findings = validate(model, {**kept, **completed})
        if found:
            return found
    return None


def apart_from(rules: Iterable[Finding], faults: Sequence[Finding]) -> list[Finding]:
    """The findings of rules that do not stem from what was taken out for a fault of its own."""
    own = {fault.path for fault in faults} | _meant_by(faults)
    return [each for each in rules if not any(_overlap(each.path, path) for path in own)]


def _meant_by(faults: Iterable[Finding]) -> set[KeyPath]:
    """The keys that mistyped ones beside them stand for."""
    return {(*each.path[:-1], each.suggestion) for each in faults if each.suggestion}


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    return all(a == b for a, b in zip(one, other, strict=False))


def _put_right(tree: Any, fault: Finding) -> None:
    """Take out the value at the fault, or what should have held it, a list as a whole; a mistyped key is put right."""
    path, meant = fault.path, fault.suggestion if fault.message == UNKNOWN else None
    node, holder, place = tree, tree, path[0] if path else None
    for part in path:
        if isinstance(node, dict) and part in node:
            holder, place, node = node, part, node[part]
        else:
            meant = None
            break
    if not isinstance(holder, dict):
        return
    holder.pop(place, None)
    if meant and "." not in meant:
        holder.setdefault(meant, node)


def _valid_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that may stand in the mapping at `path`."""
    return list(dict.fromkeys(key for node in _schemas(model, path) for key in node.get("properties", {})))


def _valid_values(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The words that may stand at `path`, where only certain words may."""
    return [str(value) for node in _schemas(model, path) for value in node.get("enum", ())]


def _finding(model: type[BaseModel], tree: Mapping[str, Any], detail: ErrorDetails) -> Finding:
    path = _path(tree, detail["loc"])
    kind = detail["type"]
    if kind == "missing":
        path = (*path, detail["loc"][-1])
        return Finding(path, MISSING)
    if kind == "extra_forbidden":
        return Finding(path, UNKNOWN, _meant(model, path[:-1], str(path[-1])))
    shown = _shown(path, detail["input"])
    if kind == "literal_error":
        words = _valid_values(model, path)
        return Finding(path, f"{shown} is none of {', '.join(words)}", nearest(str(detail["input"]), words))
    return Finding(path, _message(detail, shown), _context(detail).get("suggestion"))


def _meant(model: type[BaseModel], at: KeyPath, word: str) -> str | None:
    """What an unknown key of the mapping at `at` stands for: a key of a section in it, or the nearest of its own."""
    known = _valid_keys(model, at)
    inner = [f"{section}.{word}" for section in known if word in _valid_keys(model, (*at, section))]
    return " or ".join(inner) or nearest(word, known)


def _shown(path: KeyPath, value: Any) -> str:
    """How a message names the value: a collection by its kind alone, for there may be secrets in it."""
    if isinstance(value, _COLLECTIONS):
        return "a mapping" if isinstance(value, Mapping) else "a list"
    return HIDDEN if under_secret(path) else repr(value)


def _message(detail: ErrorDetails, shown: str) -> str:
    kind = detail["type"]
    if detail["input"] is None:
        return "is empty: give it a value, or leave the key out"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"{shown} must be {words} {_context(detail)[bound]}"
    if kind in _EMPTY:
        return "must not be empty"
    if kind.startswith(("datetime", "timezone")):
        return f"{shown} is not a time with its zone, like 2026-01-01T00:00:00Z"
    if (wanted := kind.rpartition("_")[0].partition("_")[0]) in _KINDS:
        must = f"must be {_KINDS[wanted]}"
        if isinstance(detail["input"], _COLLECTIONS):
            must = f"{must}, not {shown}"
        elif wanted not in _SECTIONS:  # in the place of one may stand a secret of it
            must = f"{shown} {must}"
        return must
    return detail["msg"]


def _context(detail: ErrorDetails) -> dict[str, Any]:
    return detail.get("ctx", {})


def _path(tree: Any, location: tuple[str | int, ...]) -> KeyPath:
    """The part of pydantic's location that is a place in the tree; names of union branches are not."""
    path: list[str | int] = []
    for part in location:
        if isinstance(tree, Mapping) and str(part) in tree:
            path.append(str(part))
            tree = tree[str(part)]
        elif isinstance(tree, (list, tuple)) and isinstance(part, int) and part < len(tree):
            path.append(part)
            tree = tree[part]
    return tuple(path)


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _schemas(model: type[BaseModel], path: KeyPath) -> list[dict[str, Any]]:
    root = _schema(model)
    nodes = list(_branches(root, root))
    for part in path:
        nodes = [
            branch for node in nodes for inner in _inner(node, part) for branch in _branches(inner, root)
        ]
    return nodes


def _inner(node: dict[str, Any], part: str | int) -> Iterator[dict[str, Any]]:
    if isinstance(part, int):
        inner = node.get("items")
    else:
        inner = node.get("properties", {}).get(part, node.get("additionalProperties"))
    if isinstance(inner, dict):
        yield inner


def _branches(node: dict[str, Any], root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in node:
        yield from _branches(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    yield node
    for inner in [*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())]:
        yield from _branches(inner, root)
