"""Quality rules of a contract: on the values of a row, and on the staged batch as a whole."""

import re
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from tidemark.domain.partitioning import ColumnPath
from tidemark.domain.section import Section

Check = Literal["not_null", "in_range", "one_of", "matches", "unique", "min_rows"]
TABLE_CHECKS = frozenset({"unique", "min_rows"})
"""Checks on the staged batch as a whole; they can block or warn, there is no row to quarantine."""

_TAKES: dict[str, frozenset[str]] = {
    "not_null": frozenset({"column"}),
    "in_range": frozenset({"column", "min", "max"}),
    "one_of": frozenset({"column", "values"}),
    "matches": frozenset({"column", "pattern"}),
    "unique": frozenset({"column", "columns"}),
    "min_rows": frozenset({"min"}),
}
_ARGUMENTS = ("column", "columns", "min", "max", "values", "pattern")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`")
_BRACKETS = {")": "(", "]": "["}


class QualityRule(Section):
    """A `check`, or an `sql` expression that must not be false for any row."""

    check: Check | None = None
    sql: str | None = Field(None, min_length=1)
    column: ColumnPath | None = None
    columns: tuple[ColumnPath, ...] | None = Field(None, description="unique: these columns together")
    min: float | str | None = None
    max: float | str | None = None
    values: tuple[str | float | bool, ...] | None = None
    pattern: str | None = None
    on_failure: Literal["block", "quarantine", "warn"] = "quarantine"

    @model_validator(mode="before")
    @classmethod
    def _table_checks_block(cls, rule: Any) -> Any:
        if isinstance(rule, dict) and rule.get("check") in TABLE_CHECKS:
            return {"on_failure": "block", **rule}
        return rule


def rule_faults(rule: QualityRule) -> Iterator[tuple[str, str]]:
    """(key, what is wrong) for every part of the rule that does not fit the rest."""
    if (rule.check is None) == (rule.sql is None):
        yield "check", "a rule has either `check` or `sql`"
        return
    given = {name for name in _ARGUMENTS if getattr(rule, name) is not None}
    if rule.sql is not None:
        yield from ((name, "does not go with `sql`") for name in sorted(given))
        yield from (("sql", fault) for fault in [sql_fault(rule.sql)] if fault)
        return
    yield from _check_faults(rule, given)


def _check_faults(rule: QualityRule, given: set[str]) -> Iterator[tuple[str, str]]:
    check = str(rule.check)
    takes = _TAKES[check]
    yield from ((name, f"does not go with `check: {check}`") for name in sorted(given - takes))
    if takes == {"column", "min", "max"}:
        needed = bool(given & {"min", "max"}) and "column" in given
        missing = "a column and min or max"
    elif check == "unique":
        needed = len(given & takes) == 1
        missing = "either `column` or `columns`"
    else:
        needed = takes <= given
        missing = " and ".join(sorted(takes))
    if not needed:
        yield "check", f"{check} needs {missing}"
    if check in TABLE_CHECKS and rule.on_failure == "quarantine":
        yield "on_failure", f"{check} looks at the whole batch: block or warn"
    if rule.pattern is not None:
        yield from (("pattern", fault) for fault in [regex_fault(rule.pattern)] if fault)


def regex_fault(pattern: str) -> str | None:
    """Why `pattern` is not a regular expression, or None."""
    try:
        re.compile(pattern)
    except re.error as error:
        return f"{pattern!r} is not a regular expression: {error}"
    return None


def sql_fault(expression: str) -> str | None:
    """What plainly cannot be a Spark SQL condition: open quotes or brackets, statements, comments."""
    bare = _QUOTED.sub(" ", expression)
    if not expression.strip():
        return "is empty"
    if any(quote in bare for quote in "'\"`"):
        return "a quote is not closed"
    if ";" in bare or "--" in bare or "/*" in bare:
        return "one condition only: no ; and no comments"
    open_ones: list[str] = []
    for letter in bare:
        if letter in "([":
            open_ones.append(letter)
        elif letter in _BRACKETS and (not open_ones or open_ones.pop() != _BRACKETS[letter]):
            return f"a {letter} too many"
    return f"a {open_ones[-1]} is not closed" if open_ones else None
