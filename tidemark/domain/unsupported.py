"""What CONTRACT.md allows and this version does not execute yet: refused by name, never ignored.

Work that makes one of these true deletes its line here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.domain.layering import Finding, KeyPath

ANY = "*"


@dataclass(frozen=True, slots=True)
class NotYet:
    """A key, and those of its values that are not executed (None: all of them); `*` is any key."""

    path: KeyPath
    values: frozenset[str] | None = None


def _not_yet(path: str, *values: str) -> NotYet:
    return NotYet(tuple(path.split(".")), frozenset(values) or None)


CONTRACT: tuple[NotYet, ...] = ()
PLATFORM: tuple[NotYet, ...] = ()


def not_supported(rules: tuple[NotYet, ...], tree: Mapping[str, Any]) -> Iterator[Finding]:
    """A finding for everything in the tree that is valid and not executed."""
    for rule in rules:
        for path, value in _found(tree, rule.path, ()):
            if rule.values is None and value not in (None, [], {}):
                yield Finding(path, "is not supported yet")
            elif rule.values and isinstance(value, str) and value in rule.values:
                yield Finding(path, f"{value} is not supported yet")


def _found(node: Any, path: KeyPath, at: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not path:
        yield at, node
    elif isinstance(node, Mapping):
        for key in node if path[0] == ANY else [str(path[0])]:
            if key in node:
                yield from _found(node[key], path[1:], (*at, key))
