"""Quality rules of a contract: on the values of a row, and on a batch as a whole (docs/guide.md, Quality).

A rule is broken by what is false, as a CHECK constraint is: NULL, and a condition that NULL makes unknown, passes every
rule but `not_null`. Belongs here: the shape of a rule, its name, and whether its parts fit each other. Whether it fits
the columns is asked in `quality_fit`.
"""

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from tidemark.domain.columns.partitioning import ColumnPath
from tidemark.domain.config.quality_sql import sql_fault
from tidemark.domain.config.section import Section
from tidemark.domain.config.units import whole_number
from tidemark.domain.config.yaml_numbers import Written

CheckName = Literal["not_null", "in_range", "in_set", "not_in_set", "matches", "length", "unique", "min_rows"]
CHECKS: tuple[CheckName, ...] = get_args(CheckName)
TABLE_CHECKS = frozenset({"unique", "min_rows"})
"""Checks on the staged batch as a whole; they can block or warn, there is no row to quarantine."""
RESERVED = frozenset(
    {
        "freshness",
        "quarantine_rate",
        "reconciliation",
        "schema_drift",
        "files",
        "event_time",
        "retention_headroom",
        "kafka_reconciliation",
    }
)
"""Asset checks that every table has, so no rule may be called like one."""
CAUSE_PREFIX = "quality:"
NAME = re.compile(r"[A-Za-z0-9_]{1,100}")
_OTHER_NAMES = {
    "accepted_values": "in_set",
    "isin": "in_set",
    "one_of": "in_set",
    "not_accepted_values": "not_in_set",
    "notin": "not_in_set",
    "between": "in_range",
    "accepted_range": "in_range",
    "str_matches": "matches",
    "regex": "matches",
    "str_length": "length",
    "not_nullable": "not_null",
    "row_count": "min_rows",
}
"""What dbt and pandera call them."""

_TAKES: dict[str, frozenset[str]] = {
    "not_null": frozenset({"column"}),
    "in_range": frozenset({"column", "min", "max"}),
    "in_set": frozenset({"column", "values"}),
    "not_in_set": frozenset({"column", "values"}),
    "matches": frozenset({"column", "pattern"}),
    "length": frozenset({"column", "min", "max"}),
    "unique": frozenset({"column", "columns", "within"}),
    "min_rows": frozenset({"min"}),
}
_ARGUMENTS = ("column", "columns", "min", "max", "values", "pattern", "within")
_COUNTS = frozenset({"length", "min_rows"})
_ENDS = ("min", "max")


def _known_check(value: Any) -> Any:
    if isinstance(value, str) and value in _OTHER_NAMES:
        text = f"{value!r} is none of {', '.join(CHECKS)}"
        raise PydanticCustomError("check", "{text}", {"text": text, "suggestion": _OTHER_NAMES[value]})
    return value


def _bound(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise PydanticCustomError("bound", "must be a number, or text like a date")
    return value.digits if isinstance(value, Written) else value


def _member(value: Any) -> Any:
    if not isinstance(value, (bool, int, float, str)):
        raise PydanticCustomError("member", "must be text, a number or true/false")
    return value.digits if isinstance(value, Written) else value


Bound = Annotated[int | float | str, PlainValidator(_bound, json_schema_input_type=float | str)]
Member = Annotated[
    bool | int | float | str, PlainValidator(_member, json_schema_input_type=bool | float | str)
]


_THEN = {
    "block": "else nothing of the batch is published",
    "quarantine": "else the row goes to quarantine",
    "warn": "else the row is counted",
}
_THEN_OF_TOO_FEW = {**_THEN, "warn": "else it is published, and how many are missing is counted"}


class QualityRule(Section):
    """A `check`, or an `sql` condition that must not be false for any row."""

    name: str | None = Field(None, description="of the asset check and of the cause; = check and column")
    check: Annotated[CheckName | None, BeforeValidator(_known_check)] = None
    sql: str | None = Field(None, min_length=1)
    column: ColumnPath | None = None
    columns: tuple[ColumnPath, ...] | None = Field(
        None, description="unique: these columns together", min_length=1
    )
    min: Bound | None = Field(None, description="inclusive")
    max: Bound | None = Field(None, description="inclusive")
    values: tuple[Member, ...] | None = Field(None, min_length=1)
    pattern: str | None = Field(None, description="regular expression (Java) that matches the whole text")
    within: Literal["batch", "table"] | None = Field(
        None, description="unique: among the rows of a batch (the default), or of the whole table"
    )
    on_failure: Literal["block", "quarantine", "warn"] = "quarantine"

    @model_validator(mode="before")
    @classmethod
    def _by_check(cls, rule: Any) -> Any:
        """Checks of the whole batch block, and counts are numbers, be they written as text."""
        if not isinstance(rule, dict):
            return rule
        if str(rule.get("check")) in TABLE_CHECKS:
            rule = {"on_failure": "block", **rule}
        if str(rule.get("check")) in _COUNTS:
            rule = {key: whole_number(value) if key in _ENDS else value for key, value in rule.items()}
        return rule

    @property
    def title(self) -> str:
        """The name of the rule, of its asset check and of its cause: for ever the same for the same rule."""
        if self.name is not None:
            return self.name
        if self.sql is not None:
            return f"sql_{hashlib.sha256(' '.join(self.sql.split()).encode()).hexdigest()[:8]}"
        about = "_".join(re.sub(r"[^A-Za-z0-9_]", "_", path) for path in self.paths)
        return f"{self.check}_{about}" if about else str(self.check)

    @property
    def cause(self) -> str:
        """Why a row that broke this rule is in quarantine: `quality:<check>`; its detail says which rule."""
        return f"{CAUSE_PREFIX}{self.name or self.check or 'sql'}"

    @property
    def paths(self) -> tuple[str, ...]:
        """The columns that the rule names; none for SQL."""
        return self.columns or ((self.column,) if self.column is not None else ())

    @property
    def of_rows(self) -> bool:
        """The rule judges each row by itself."""
        return self.check not in TABLE_CHECKS

    @property
    def staged(self) -> bool:
        """The rule judges what is staged: the whole batch, or rows that block it."""
        return not self.of_rows or self.on_failure == "block"

    @property
    def expectation(self) -> str:
        """The rule in words, for a person who reads why a row failed."""
        if self.sql is not None:
            return self.sql
        return f"{' and '.join(self.paths) or 'the batch'} {self._predicate}"

    @property
    def promise(self) -> str:
        """The rule in words, with what becomes of a batch or row that breaks it."""
        then = _THEN_OF_TOO_FEW if self.check == "min_rows" else _THEN
        return f"{self.expectation}; {then[self.on_failure]}"

    @property
    def _predicate(self) -> str:
        listed = ", ".join(str(each) for each in self.values or ())
        return {
            "not_null": "is not NULL",
            "in_range": f"lies in {_interval(self)}",
            "length": f"has a length in {_interval(self)}",
            "in_set": f"is one of {listed}",
            "not_in_set": f"is none of {listed}",
            "matches": f"matches {self.pattern}",
            "unique": f"is unique within the {self.within or 'batch'}",
            "min_rows": f"has at least {self.min} rows",
        }[str(self.check)]


def _interval(rule: QualityRule) -> str:
    low = "(-∞" if rule.min is None else f"[{rule.min}"
    high = "∞)" if rule.max is None else f"{rule.max}]"
    return f"{low}, {high}"


def rule_faults(rule: QualityRule) -> Iterator[tuple[str, str]]:
    """(key, what is wrong) for every part of the rule that does not fit the rest."""
    if rule.name is not None and not NAME.fullmatch(rule.name):
        yield "name", f"{rule.name!r} must be 1 to 100 letters, digits and _"
    if rule.name in RESERVED:
        yield "name", f"every table has a check called {rule.name}: choose another name"
    if (rule.check is None) == (rule.sql is None):
        yield "check", "a rule has either `check` or `sql`"
        return
    given = {name for name in _ARGUMENTS if getattr(rule, name) is not None}
    if rule.sql is not None:
        yield from ((name, "does not go with `sql`") for name in sorted(given))
        yield from (("sql", fault) for fault in [sql_fault(rule.sql)] if fault)
        return
    yield from _check_faults(rule, given)
    yield from _argument_faults(rule)


def same_names(rules: Iterable[QualityRule]) -> Iterator[tuple[int, str]]:
    """(place, what is wrong) for each rule that is called like an earlier one."""
    seen: dict[str, int] = {}
    for place, rule in enumerate(rules):
        first = seen.setdefault(rule.title.lower(), place)
        if first != place:
            yield place, f"is called {rule.title}, as rule {first} is: give one of them a `name`"


def _check_faults(rule: QualityRule, given: set[str]) -> Iterator[tuple[str, str]]:
    check = str(rule.check)
    takes = _TAKES[check]
    yield from ((name, f"does not go with `check: {check}`") for name in sorted(given - takes))
    if takes == {"column", "min", "max"}:
        needed = bool(given & {"min", "max"}) and "column" in given
        missing = "a column and min or max"
    elif check == "unique":
        needed = len(given & {"column", "columns"}) == 1
        missing = "either `column` or `columns`"
    else:
        needed = takes <= given
        missing = " and ".join(sorted(takes))
    if not needed:
        yield "check", f"{check} needs {missing}"
    if check in TABLE_CHECKS and rule.on_failure == "quarantine":
        yield "on_failure", f"{check} looks at the whole batch: block or warn"


def _argument_faults(rule: QualityRule) -> Iterator[tuple[str, str]]:
    if rule.pattern is not None:
        yield from (("pattern", fault) for fault in [regex_fault(rule.pattern, java=True)] if fault)
    for key in _ENDS:
        bound = getattr(rule, key)
        if isinstance(bound, str) and bound.lower() == ".nan":
            yield key, "NaN is no bound"
        if rule.check in _COUNTS and bound is not None and (not isinstance(bound, int) or bound < 0):
            yield key, f"{bound!r} is no whole number from 0"
    if isinstance(rule.min, (int, float)) and isinstance(rule.max, (int, float)) and rule.min > rule.max:
        yield "min", f"is above max ({rule.max})"


_UNCLOSED = ("missing )", "unbalanced", "unterminated", "nothing to repeat")


def regex_fault(pattern: str, *, java: bool = False) -> str | None:
    """Why `pattern` is no regular expression, or None; of Java's only what is none of any kind: Spark says the rest."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        if not java or error.msg.startswith(_UNCLOSED):
            return f"{pattern!r} is not a regular expression: {error}"
    except (OverflowError, RecursionError) as error:
        return f"{pattern!r} is too large a regular expression: {error}"
    return None
