"""Column types as a contract spells them: Spark DDL, read into our tree.

Belongs here: the spelling. Which of the types a format can fill is the format's question.
"""

import re
from collections.abc import Iterator

from tidemark.domain.columns.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    ColumnType,
    Field,
    ListType,
    MapType,
    Primitive,
    Struct,
    decimal,
)
from tidemark.domain.suggest import nearest

_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")
_NAMES: dict[str, Primitive] = {
    "boolean": BOOLEAN,
    "int": INT,
    "integer": INT,
    "bigint": LONG,
    "long": LONG,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "string": STRING,
    "binary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
    "timestamp_ltz": TIMESTAMPTZ,
    "timestamp_ntz": TIMESTAMP,
}
_DECIMALS = frozenset({"decimal", "dec", "numeric"})
_MEANT = {
    **dict.fromkeys(("tinyint", "byte", "smallint", "short"), "int"),
    **dict.fromkeys(("char", "character", "varchar", "text", "uuid", "json"), "string"),
    **dict.fromkeys(("datetime", "timestamptz"), "timestamp"),
    "bytes": "binary",
    "int8": "bigint",
    "float8": "double",
}
"""What tables have for types of Spark's and other databases' that they do not have."""
_DEFAULT_DECIMAL = (10, 0)
_CLOSE = 0.7
"""Short words are alike by chance."""


def parse_ddl(text: str) -> ColumnType:
    """The type that `text` spells, for example "array<struct<at: timestamp, amount: decimal(10,2)>>".

    Raises ValueError, with what was expected, for everything that is no type or that tables do not have.
    """
    reader = _Reader(text)
    found = reader.type()
    reader.end()
    return found


class _Reader:
    """Tokens of one type, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0

    def type(self) -> ColumnType:
        found = self.named()
        if self.peek().lower() == "not":
            raise ValueError(
                f"{self.text!r}: leave out NOT NULL, every declared column may be without a value"
            )
        return found

    def named(self) -> ColumnType:
        word = self.word("a type").lower()
        match word:
            case "array":
                self.take("<")
                element = self.type()
                self.take(">")
                return ListType(element)
            case "map":
                return self.map()
            case "struct":
                return self.struct()
            case _ if word in _DECIMALS:
                return self.decimal()
        if word not in _NAMES:
            known = [*_NAMES, "decimal", "array", "map", "struct"]
            meant = _MEANT.get(word) or nearest(word, known, close=_CLOSE)
            hint = f" (did you mean {meant}?)" if meant else ""
            raise ValueError(f"{word} is no type of a table{hint}: {', '.join(known)}")
        return _NAMES[word]

    def map(self) -> MapType:
        self.take("<")
        key = self.type()
        self.take(",")
        value = self.type()
        self.take(">")
        return MapType(key, value)

    def struct(self) -> Struct:
        self.take("<")
        fields = [self.field()]
        while self.skip(","):
            fields.append(self.field())
        self.take(">")
        return Struct(tuple(fields))

    def field(self) -> Field:
        name = self.name()
        self.skip(":")
        kind = self.type()
        doc = ""
        if self.peek().lower() == "comment":
            self.at += 1
            doc = re.sub(r"\\(.)", r"\1", self.word("a comment in quotes")[1:-1])
        return Field(name, kind, doc)

    def decimal(self) -> Primitive:
        if not self.skip("("):
            return decimal(*_DEFAULT_DECIMAL)
        precision, scale = self.number(), 0
        if self.skip(","):
            scale = self.number()
        self.take(")")
        return decimal(precision, scale)

    def number(self) -> int:
        word = self.word("a number")
        if not word.isdecimal():
            raise ValueError(f"{word} is no number of digits")
        return int(word)

    def name(self) -> str:
        word = self.word("a name")
        return word[1:-1].replace("``", "`") if word.startswith("`") else word

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def word(self, wanted: str) -> str:
        found = self.peek()
        if not found or found in "<>(),:":
            raise ValueError(
                f"{self.text!r}: {wanted} is missing {f'before {found}' if found else 'at the end'}"
            )
        self.at += 1
        return found

    def skip(self, sign: str) -> bool:
        found = self.peek() == sign
        self.at += found
        return found

    def take(self, sign: str) -> None:
        if not self.skip(sign):
            raise ValueError(
                f"{self.text!r}: {sign} is missing {self.peek() and f'before {self.peek()}'}".rstrip()
            )

    def end(self) -> None:
        if self.peek():
            raise ValueError(f"{self.text!r}: {self.peek()} follows the type")


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"{text!r} is no type: {text[position:].strip()[0]!r} does not belong into one")
        yield found[found.lastindex or 0]
        position = found.end()
