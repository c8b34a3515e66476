"""Layers: built-in < platform file < _defaults.yaml of each folder < contract. The nearest wins.

Mappings are merged key by key, everything else is replaced whole. Each value knows the layer it came from.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tidemark.domain.errors import Problem
from tidemark.domain.secrets import redact_text

KeyPath = tuple[str | int, ...]
LayerName = Literal["built-in", "platform", "defaults", "contract"]

WHOLE: frozenset[KeyPath] = frozenset({("ingest", "start")})
"""Mappings that are one value: a nearer one replaces them."""

SHORT: Mapping[KeyPath, str] = {("upsert",): "keys"}
"""Mappings for which a list may stand: it says this key of them and nothing else."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong at a place in a tree of settings; with a file and a line it becomes a Problem."""

    path: KeyPath
    message: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was set; file and line are None for what is built in."""

    layer: LayerName
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is None:
            return self.layer
        return f"{self.file}:{self.line}" if self.line else self.file


BUILT_IN = Origin("built-in")


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read: plain values, keys all text, and the line (from 1) of each key and list item.

    `filled` are the values that came from the environment, each with what the file says in its place.
    """

    file: str
    tree: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    filled: Mapping[KeyPath, tuple[str, str]] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int | None:
        """The line of `path`, or of the nearest thing around it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def problem(self, finding: Finding, written: KeyPath | None = None) -> Problem:
        """The finding with its place in this file, in the file's words: what the environment holds may be secret.

        `written`: where the file says it, if not at the finding's path.
        """
        at = finding.path if written is None else written
        message = finding.message
        for path, (value, said) in self.filled.items():
            if value and path[: len(at)] == at:
                message = _in_the_words_of_the_file(message, value, said)
        suggestion = None if at in self.filled else finding.suggestion  # it is made of the value
        return Problem(self.file, self.line(at), dotted(finding.path), redact_text(message), suggestion)


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings under `root` of a document."""

    name: LayerName
    document: Document
    root: KeyPath = ()

    @property
    def tree(self) -> Mapping[str, Any]:
        """The settings; empty when there are none."""
        node: Any = self.document.tree
        for key in self.root:
            node = node.get(key) if isinstance(node, Mapping) else None
        return node if isinstance(node, Mapping) else {}

    def origin(self, path: KeyPath) -> Origin:
        """Where this layer sets `path`."""
        return Origin(self.name, self.document.file, self.document.line(self.root + self._written(path)))

    def problem(self, finding: Finding) -> Problem:
        """The finding with its place in the layer's file."""
        moved = Finding(self.root + finding.path, finding.message, finding.suggestion)
        return self.document.problem(moved, self.root + self._written(finding.path))

    def _written(self, path: KeyPath) -> KeyPath:
        """Where `path` stands in the document: a short form leaves out a key."""
        if path[1:2] == (SHORT.get(path[:1]),) and isinstance(self.tree.get(str(path[0])), list):
            return (path[0], *path[2:])
        return path


@dataclass(frozen=True, slots=True)
class Merged:
    """Layers on top of each other: the effective tree, and the layer that set each node of it."""

    tree: dict[str, Any]
    owners: Mapping[KeyPath, Layer]
    nearest: Layer

    def problem(self, finding: Finding) -> Problem:
        """The finding in the file that is to blame; what is missing is blamed on the nearest file."""
        for end in range(len(finding.path), 0, -1):
            if owner := self.owners.get(finding.path[:end]):
                return owner.problem(finding)
        return self.nearest.problem(finding)

    def origin(self, path: KeyPath) -> Origin:
        """Where `path` was set; built-in when no layer says anything about it."""
        owner = self.owners.get(path)
        return owner.origin(path) if owner else BUILT_IN


def merge(layers: Sequence[Layer]) -> Merged:
    """Put the layers, farthest first, on top of each other; at least one."""
    tree: dict[str, Any] = {}
    owners: dict[KeyPath, Layer] = {}
    for layer in layers:
        _lay_over(tree, layer.tree, (), layer, owners)
    return Merged(tree, owners, layers[-1])


def _lay_over(
    below: dict[str, Any], above: Mapping[str, Any], at: KeyPath, layer: Layer, owners: dict[KeyPath, Layer]
) -> None:
    for key, value in above.items():
        path = (*at, key)
        if path in SHORT and isinstance(value, list):
            value = {SHORT[path]: value}  # noqa: PLW2901
        if not isinstance(value, Mapping):
            _forget(below.get(key), path, owners)
            below[key] = value
        else:
            if not isinstance(below.get(key), dict) or path in WHOLE:
                _forget(below.get(key), path, owners)
                below[key] = {}
            _lay_over(below[key], value, path, layer, owners)
        owners[path] = layer


def _forget(value: Any, path: KeyPath, owners: dict[KeyPath, Layer]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            owners.pop((*path, key), None)
            _forget(item, (*path, key), owners)


def _in_the_words_of_the_file(message: str, value: str, said: str) -> str:
    """Messages quote a value; where this one does not, the value is sought as a word of its own."""
    if repr(value) in message:
        return message.replace(repr(value), repr(said))
    return re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _: said, message)


def dotted(path: KeyPath) -> str:
    """`("quality", 0, "min")` -> `quality.0.min`."""
    return ".".join(str(part) for part in path)


def leaves(tree: Any, at: KeyPath = ()) -> dict[KeyPath, Any]:
    """Every value that is not a mapping, or an empty one, by its path; a list is one value."""
    if not isinstance(tree, Mapping) or (not tree and at):
        return {at: tree}
    found: dict[KeyPath, Any] = {}
    for key, value in tree.items():
        found.update(leaves(value, (*at, key)))
    return found
