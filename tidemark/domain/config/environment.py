"""`${NAME}` in a configuration file reads the environment; `$${` is a literal `${`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemark.domain.config.layering import Finding, KeyPath
from tidemark.domain.secrets import HIDDEN, under_secret
from tidemark.domain.suggest import nearest

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^{}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


SIMILAR = 0.8
"""Environments are full of names that have nothing to do with us."""


@dataclass(slots=True)
class Substitution:
    """Fills in references and gathers what is wrong with them."""

    environ: Mapping[str, str]
    findings: list[Finding] = field(default_factory=list)
    filled: dict[KeyPath, tuple[str, str]] = field(default_factory=dict)
    """(the value, what the file says of it) at each place with a reference."""

    def fill(self, value: Any, path: KeyPath = ()) -> Any:
        """The same tree with every reference replaced by its value; keys are left alone."""
        if isinstance(value, Mapping):
            return {key: self.fill(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.fill(item, (*path, place)) for place, item in enumerate(value)]
        if isinstance(value, str) and "${" in value:
            self.filled[path] = (_REFERENCE.sub(lambda found: self._value(found, path), value), value)
            return self.filled[path][0]
        return value

    def _value(self, found: re.Match[str], path: KeyPath) -> str:
        name = found["name"]
        if name is None:
            return "${"
        if not found["end"] or not _NAME.fullmatch(name):
            shown = HIDDEN if under_secret(path) else found[0]
            message = f"{shown} is not a reference to the environment: ${{NAME}}, or $${{ for the characters"
            self.findings.append(Finding(path, message))
        elif name in self.environ:
            return self.environ[name]
        else:
            message = f"the environment has no {name}"
            self.findings.append(Finding(path, message, nearest(name, self.environ, SIMILAR)))
        return found[0]
