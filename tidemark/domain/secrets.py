"""What must never be printed, and mappings that do not print it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

HIDDEN = "***"
_SECRET = re.compile(
    r"pass(word|phrase|wd)|secret|token|credential|jaas|user[._-]?info|authorization|private|signature"
    r"|access[._-]?key|account[._-]?key|api[._-]?key|key[._-]pem|keystore[._-]key|connection[._-]string|\.pin$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(location|path|file|ur[il]|endpoint|enabled|providers?|type|class|name|scope|-ms|\.ms)$", re.IGNORECASE
)
_IN_URL = re.compile(r"(?P<before>://[^/@\s:]*:)(?!\d+[/?#])\S*(?=@)")
_IN_PARAMETER = re.compile(
    r"(?i)(?P<before>(?:pass(?:word|wd|phrase)|\bpwd|secret|token|\bsig|signature|(?:access|account|api|secret)[._-]?key)=)"
    r"(?:\"[^\"]*\"|[^&;\s]+)"
)


def is_secret(key: str) -> bool:
    """Whether the value of this key may not be shown; keys that name a place or a kind may."""
    return bool(_SECRET.search(key)) and not _HARMLESS.search(key)


def under_secret(path: Iterable[str | int]) -> bool:
    """Whether the value at this path, or the list that it stands in, may not be shown."""
    keys = [key for key in path if isinstance(key, str)]
    return bool(keys) and is_secret(keys[-1])


def redact_text(text: str) -> str:
    """Passwords inside URLs and connection strings become ***."""
    return _IN_PARAMETER.sub(rf"\g<before>{HIDDEN}", _IN_URL.sub(rf"\g<before>{HIDDEN}", text))


def without_login(url: str) -> str:
    """The URL without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def redact(value: Any, key: str = "") -> Any:
    """The same JSON-like value with every secret replaced by ***, at any depth."""
    if isinstance(value, Mapping):
        return {name: redact(item, str(name)) for name, item in value.items()}
    if value is not None and is_secret(key) and not isinstance(value, bool):
        return HIDDEN
    if isinstance(value, (list, tuple)):
        return type(value)(redact(item, key) for item in value) if type(value) in {list, tuple} else value
    return redact_text(value) if isinstance(value, str) else value


class Properties(Mapping[str, str]):
    """Client properties: reads like a mapping, prints without secrets. A copy as a dict has them in the clear."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(redact(self._values))
