"""SQL conditions of quality rules, looked at offline: what plainly cannot be one, and what must not stand in one.

A condition is one expression over the columns of one row that gives the same answer whenever the record is read
again: no subqueries, nothing that depends on time, chance or the session. Spark says the rest when a batch is planned.
"""

import re
from collections.abc import Iterable

_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`")
_BRACKETS = {")": "(", "]": "["}
_STATEMENTS = re.compile(r"\b(select|table|values)\b|\(\s*(from)\b", re.IGNORECASE)
_CHANGING = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "now", "user", "version"),
        *("current_date", "curdate", "current_time", "current_timestamp", "localtimestamp"),
        *("current_user", "session_user", "current_timezone"),
        *("current_catalog", "current_database", "current_schema"),
        *("monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
    }
)
_CHANGING_WORDS = re.compile(
    r"(?<!\.)\b(current_(?:date|time|timestamp|user)|session_user)\b(?!\.)|\bunix_timestamp\s*\(\s*\)",
    re.IGNORECASE,
)
"""What Spark calls without brackets where no column has the name, and what changes only without arguments."""
_CHANGING_TEXT = re.compile(r"""(['"])\s*(now|today|yesterday|tomorrow)(\s+[\w/+:-]+)?\s*\1""", re.IGNORECASE)
"""Texts that Spark takes for times of the day on which it looks, wherever a date or timestamp is expected."""
_FOREIGN = frozenset({"java_method", "reflect", "try_reflect", "raise_error", "assert_true"})
_CALL = re.compile(r"\b(\w+)\s*\(")
_WORD = re.compile(r"`((?:[^`]|``)+)`|([^\W\d]\w*)")
_TEXTS = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")


def sql_fault(expression: str) -> str | None:
    """What plainly cannot be a Spark SQL condition, or must not be one; None when nothing is seen."""
    bare = _QUOTED.sub(" ", expression)
    if not expression.strip():
        return "is empty"
    if any(quote in bare for quote in "'\"`"):
        return "a quote is not closed"
    if ";" in bare or "--" in bare or "/*" in bare:
        return "one condition only: no ; and no comments"
    return _bracket_fault(bare) or _meaning_fault(bare) or _changing_fault(expression)


def mentioned(expression: str, columns: Iterable[str]) -> tuple[str, ...]:
    """The columns whose names stand in the condition, as Spark finds them: in any case."""
    words = {(word[0] or word[1]).lower() for word in _WORD.findall(_TEXTS.sub(" ", expression))}
    return tuple(name for name in columns if name.lower() in words)


def _bracket_fault(bare: str) -> str | None:
    open_ones: list[str] = []
    for letter in bare:
        if letter in "([":
            open_ones.append(letter)
        elif letter in _BRACKETS and (not open_ones or open_ones.pop() != _BRACKETS[letter]):
            return f"a {letter} too many"
    return f"a {open_ones[-1]} is not closed" if open_ones else None


def _meaning_fault(bare: str) -> str | None:
    if found := _STATEMENTS.search(bare):
        word = found[1] or found[2]
        return (
            f"a condition looks at one row: no subqueries ({word}; a column of that name goes in backticks)"
        )
    return None


def _changing_fault(expression: str) -> str | None:
    bare = _TEXTS.sub(" ", expression).replace("`", "")  # a function may be called by its quoted name too
    called = {name.lower() for name in _CALL.findall(bare)}
    changing = sorted(called & _CHANGING) + [found[0] for found in _CHANGING_WORDS.finditer(bare)]
    if changing:
        return f"{changing[0]} does not give the same answer when the record is read again"
    if foreign := sorted(called & _FOREIGN):
        return f"{foreign[0]} has no place in a condition"
    if found := _CHANGING_TEXT.search(expression):
        return (
            f"{found[0]} is a time to Spark, another one when the record is read again; "
            "for a column that holds the text, use check: in_set"
        )
    return None
