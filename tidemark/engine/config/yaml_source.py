"""Reads a YAML file into plain values, keeping the line of every key.

Plain words mean what they mean in YAML 1.2: only true and false are booleans, so `country: NO` stays text,
and so do dates. Refused, because they would silently drop or hide settings: a key given twice, merge keys,
tags, aliases that contain themselves or make too much of a file, a second document.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tidemark.domain.config.layering import Document, KeyPath, dotted
from tidemark.domain.config.yaml_numbers import WrittenFloat, WrittenInt
from tidemark.domain.errors import Problem
from tidemark.domain.secrets import HIDDEN, under_secret

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(
    f"{_TAG}{kind}" for kind in ("str", "null", "bool", "int", "float", "timestamp", "seq", "map")
)
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_BROKEN = re.compile(r"[-+]?([0-9][0-9_]*)?\.[0-9]+([eE][-+]?[0-9]+)?|[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
_LONGEST_NUMBER = 400
"""Characters of a number; Python reads none of more than 4,300 digits."""
_NO_NUMBER = object()
MOST_VALUES = 100_000
"""Values that a file may have; aliases of aliases come to more from a few lines."""
DEEPEST = 1_000
"""Collections within each other that are looked at: libyaml ends the process on some 20,000."""
SHORT = 5_000
"""Characters of a file that cannot be nested so deep that it matters."""


class _TooMuch(Exception):
    """(line, what is said of the file)."""


@dataclass(slots=True)
class _Reader:
    file: str
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    within: list[yaml.Node] = field(default_factory=list)
    values: int = 0

    def refuse(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(self.file, _line(node), dotted(path), message))

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.values += 1
        if self.values > MOST_VALUES:
            raise _TooMuch(_line(node), f"has more than {MOST_VALUES:,} values, those of its aliases counted")
        self.lines.setdefault(path, _line(node))
        if node.tag not in _PLAIN_TAGS:
            self.refuse(node, path, f"the tag {HIDDEN if under_secret(path) else node.tag} is not understood")
            return None
        if any(node is outer for outer in self.within):
            self.refuse(node, path, "an alias contains itself")
            return None
        if isinstance(node, yaml.ScalarNode):
            found = _scalar(node)
            if found is _NO_NUMBER:
                self.refuse(
                    node, path, f"is no number that means anything here ({len(node.value)} characters)"
                )
                return None
            return found
        self.within.append(node)
        try:
            return self._collection(node, path)
        finally:
            self.within.pop()

    def _collection(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        return [self.value(item, (*path, place)) for place, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.refuse(key, path, "a key must be one word")
            elif key.tag == f"{_TAG}merge":
                self.refuse(
                    key, (*path, "<<"), "merge keys are not read: put what is shared into _defaults.yaml"
                )
            elif key.value in found:
                first = self.lines[*path, key.value]
                self.refuse(key, (*path, key.value), f"is given twice, first on line {first}")
            else:
                self.lines[*path, key.value] = _line(key)
                found[key.value] = self.value(value, (*path, key.value))
        return found


def read_document(path: Path) -> tuple[Document | None, list[Problem]]:
    """The file as a Document (None when it cannot be read as a mapping), and what is wrong with it."""
    file = str(path)
    try:
        return _read(file, path.read_text(encoding="utf-8"))
    except OSError as error:
        return None, [Problem(file, None, "", f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError:
        return None, [Problem(file, None, "", "is not UTF-8 text")]
    except yaml.YAMLError as error:
        return None, [_syntax(file, error)]
    except RecursionError:
        return None, [Problem(file, None, "", "is nested too deep to be read")]


def _read(file: str, text: str) -> tuple[Document | None, list[Problem]]:
    if len(text) > SHORT:
        _require_shallow(text)
    node = yaml.CSafeLoader(text).get_single_node()
    if node is None:
        return Document(file, {}, {(): 1}), []
    reader = _Reader(file)
    if not isinstance(node, yaml.MappingNode):
        return None, [Problem(file, _line(node), "", "must be a mapping of keys to values")]
    try:
        tree = reader.value(node, ())
    except _TooMuch as much:
        line, message = much.args
        return None, [*reader.problems, Problem(file, line, "", message)]
    return Document(file, tree or {}, reader.lines), reader.problems


def _require_shallow(text: str) -> None:
    """Raises RecursionError, as Python's own part does of what is less deep."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentEndEvent):
            return
        if depth > DEEPEST:
            raise RecursionError


def _scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    plain = text.replace("_", "")
    if node.tag == f"{_TAG}null":
        return None
    if node.tag == f"{_TAG}bool" and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    if node.tag == f"{_TAG}int" and _WHOLE.fullmatch(text):
        return _number(int(plain), WrittenInt, text) if len(text) <= _LONGEST_NUMBER else _NO_NUMBER
    if node.tag == f"{_TAG}float" and _BROKEN.fullmatch(text):
        found = float(plain)
        return _number(found, WrittenFloat, text) if math.isfinite(found) else _NO_NUMBER
    return text


def _number(found: float, kind: type[WrittenInt | WrittenFloat], text: str) -> float:
    return found if repr(found) == text else kind(text)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _syntax(file: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed"
    if "single document" in str(getattr(error, "context", "")):
        said = "a second document begins: one contract per file"
    elif "cannot start any token" in said:
        said += ": a tab (YAML indents with spaces), or a word that begins with @, % or ` and needs quotes"
    return Problem(file, mark.line + 1 if mark else None, "", f"is not YAML: {said}")
