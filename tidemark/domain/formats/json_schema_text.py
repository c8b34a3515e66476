r"""A JSON Schema as its validator takes it: texts that are UTF-8, patterns in ECMA-262's unicode mode. Pure.

Outside of that mode, as most patterns are written and Java reads them, a hyphen beside `\w` or `\d` in a class stands
for itself (annex B): `[\w-.]` is what `[\w\-.]` is in both.
"""

import json
import re
from typing import Any

from tidemark.domain.columns.names import Path
from tidemark.domain.errors import SchemaUnsupported

_NAMING = frozenset(
    {
        "properties",
        "patternProperties",
        "definitions",
        "$defs",
        "dependencies",
        "dependentSchemas",
        "dependentRequired",
    }
)
"""Keywords whose keys are names."""
_COUNTING = frozenset({"$ref", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "type", "required"})
"""Keywords whose texts say something of values, `pattern` aside; other texts are annotations."""
_CLASS = re.compile(r"(?s)(\\.)|(\[\^?)((?:\\.|[^\\\]])*)")
_ATOM = r"\\(?:[pPu]\{[^}]*\}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z]|.)|."
_RANGE = re.compile(rf"(?s)({_ATOM})(?:-({_ATOM}))?")
_SET = re.compile(r"\\[wWdDsSpP]")


def for_validator(schema: Any, path: Path = (), keyword: str = "") -> Any:
    """The same schema, half a surrogate pair in annotations as a question mark, and `strict` patterns.

    `keyword` is the one that it is the value of, or "" under a name. Raises SchemaUnsupported, with the path, for half
    a pair that counts: no document can hold one.
    """
    if keyword in {"default", "examples"}:
        return json.loads(_printable(json.dumps(schema, ensure_ascii=False)))
    match schema:
        case _ if keyword in {"const", "enum"}:
            _whole(json.dumps(schema, ensure_ascii=False), path)
        case dict():
            return {
                _key(key, keyword, path): for_validator(part, (*path, key), "" if keyword in _NAMING else key)
                for key, part in schema.items()
            }
        case list():
            return [for_validator(part, (*path, str(at)), keyword) for at, part in enumerate(schema)]
        case str():
            return _text(schema, keyword, path)
    return schema


def strict(pattern: str) -> str:
    """The pattern with the hyphens escaped that stand for themselves, where unicode mode would refuse one."""
    return _CLASS.sub(lambda found: found[0] if found[1] else found[2] + _strict_class(found[3]), pattern)


def _strict_class(body: str) -> str:
    pairs: list[tuple[str, str]] = _RANGE.findall(body)
    loose = [bool(end) and any(map(_SET.match, (first, end))) for first, end in pairs]
    if not any(loose):
        return body
    return "".join(
        _literal(first) + (r"\-" if is_loose else "-" if end else "") + _literal(end)
        for (first, end), is_loose in zip(pairs, loose, strict=True)
    )


def _literal(atom: str) -> str:
    return r"\-" if atom == "-" else atom


def _text(text: str, keyword: str, path: Path) -> str:
    if keyword == "pattern":
        return strict(_whole(text, path))
    return _whole(text, path) if not keyword or keyword in _COUNTING else _printable(text)


def _key(key: str, keyword: str, path: Path) -> str:
    whole = _whole(key, (*path, key))
    return strict(whole) if keyword == "patternProperties" else whole


def _whole(text: str, path: Path) -> str:
    if _printable(text) != text:
        raise SchemaUnsupported(_printable(".".join(path)), "half a surrogate pair, which is no letter")
    return text


def _printable(text: str) -> str:
    """Half a pair, which nothing takes, as a question mark."""
    return text.encode(errors="replace").decode()
