"""What must never be printed, and mappings that do not print it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

HIDDEN = "***"
_KEY = r"[\w.\-]"
_END = rf"(?!{_KEY})"
_SAYS_SECRET = (
    r"(?:pass(?:word|phrase|wd)|secret|token|credential|jaas|user[._-]?info|authorization|private|signature|cookie"
    r"|(?:access|account|api|functions|subscription|(?:en|de)cryption|sse)[._-]?key|key[._-]pem|keystore[._-]key"
    rf"|connection[._-]string|service[._-]account[._-]json|oauthbearer\.config{_END}|\.pin{_END}"
    rf"|(?<![^\W_])(?:pwd|sas|sig)(?![^\W_]))"
)
_SAYS_HARMLESS = (
    r"(?:location|path|file|ur[il]|endpoint|enabled|providers?|type|class|name|scope|-ms|\.ms|exception|error)"
    + _END
)
_SECRET = re.compile(_SAYS_SECRET, re.IGNORECASE)
_HARMLESS = re.compile(_SAYS_HARMLESS, re.IGNORECASE)
_IN_URL = re.compile(r"(?P<before>://[^/@\s:]*:)(?!\d+[/?#])\S{0,2000}(?=@)")
_TOKEN_IN_URL = re.compile(r"(?P<before>\bhttps?://)[^/@\s:?#]+(?=@)", re.IGNORECASE)
_PROSE = r"[A-Za-z]+[.:)\]]?[ \t]+\S"
_IN_PAIR = re.compile(
    rf"(?<!{_KEY})(?P<before>(?={_KEY}*?{_SAYS_SECRET})(?!{_KEY}*{_SAYS_HARMLESS}){_KEY}+"
    rf"\\?[\"']?[ \t]*(?:=|:(?!//)(?![ \t]*(?!(?:Bearer|Basic)\b){_PROSE}))[ \t]*)(?!(?:\*\*\*|…)(?:\W|\Z))"
    r"(?:(?P<quote>\\?[\"'])(?:(?!(?P=quote))(?:\\.|.))*(?:(?P=quote)|\Z)|(?:(?:Bearer|Basic)[ \t]+)?[^&;\s]+)",
    re.IGNORECASE | re.DOTALL,
)
"""As in `password=x`, `"client_secret": "x"`, `Authorization: Bearer x`; not `sasl.password: is missing`."""


def is_secret(key: str) -> bool:
    """Whether the value of this key may not be shown; keys that name a place or a kind may."""
    return bool(_SECRET.search(key)) and not _HARMLESS.search(key)


def under_secret(path: Iterable[str | int]) -> bool:
    """Whether the value at this path, or the list that it stands in, may not be shown."""
    keys = [key for key in path if isinstance(key, str)]
    return bool(keys) and is_secret(keys[-1])


def redact_text(text: str) -> str:
    """Passwords inside URLs, connection strings, headers and mappings become ***; doing so twice changes nothing."""
    for pattern in (_IN_URL, _TOKEN_IN_URL):
        text = pattern.sub(rf"\g<before>{HIDDEN}", text)
    return _IN_PAIR.sub(rf"\g<before>\g<quote>{HIDDEN}\g<quote>", text)


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
