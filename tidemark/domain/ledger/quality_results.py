"""What rules came to: how many rows broke them, where, and with which values, per batch and summed up over a run."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tidemark.domain.columns.partitioning import as_noted, path_of
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.formats.explanation import Explanation

SAMPLES = 5
"""Rows that a result shows."""
PII = "pii"

OnFailure = Literal["block", "quarantine", "warn"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A row that broke a rule; `values` as text, without columns that are tagged pii."""

    partition: int
    offset: int
    values: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def from_json(cls, text: str) -> "Sample":
        """The sample that Spark wrote as {"p": …, "o": …, "v": {column: text}}; a NULL is left out there."""
        read = json.loads(text)
        return cls(read["p"], read["o"], tuple((read.get("v") or {}).items()))

    def as_json(self) -> dict[str, Any]:
        """{"partition", "offset", "values"}."""
        return {"partition": self.partition, "offset": self.offset, "values": dict(self.values)}


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule on the rows of one batch, or of all batches of a run."""

    rule: str
    on_failure: OnFailure
    expectation: str
    failed: int = 0
    samples: tuple[Sample, ...] = ()
    counted: str = "rows"
    """What `failed` counts."""

    @classmethod
    def of(cls, rule: QualityRule, failed: int = 0, samples: Iterable[Sample] = ()) -> "RuleResult":
        """The result of `rule`; of the samples the first few are kept."""
        kept = tuple(sorted(set(samples), key=lambda each: (each.partition, each.offset))[:SAMPLES])
        counted = "rows too few" if rule.check == "min_rows" else "rows"
        return cls(rule.title, rule.on_failure, rule.expectation, failed, kept, counted)

    def plus(self, other: "RuleResult") -> "RuleResult":
        """Both batches together; the earlier samples stay."""
        more = tuple(each for each in other.samples if each not in self.samples)
        return replace(other, failed=self.failed + other.failed, samples=(*self.samples, *more)[:SAMPLES])

    def as_json(self) -> dict[str, Any]:
        """{"rule", "on_failure", "expectation", "failed", "samples"}."""
        return {
            "rule": self.rule,
            "on_failure": self.on_failure,
            "expectation": self.expectation,
            "failed": self.failed,
            "samples": [each.as_json() for each in self.samples],
        }

    def __str__(self) -> str:
        where = ", ".join(f"{each.partition}:{each.offset}" for each in self.samples)
        return f"{self.rule} ({self.expectation}): {self.failed} {self.counted}" + (
            f", at {where}" if where else ""
        )


_BESIDE = frozenset({"_kafka.key", "_kafka.headers"})
_WHOLE = frozenset({"the value", "the document"})
_INSIDE = frozenset({"element", "key", "value"})
_DOCUMENT = "the document"
"""Hidden with the column `value`, where that is the whole document: every place lies in it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules over the columns of a table (`_kafka` included), and the columns whose values nobody may be shown."""

    rules: tuple[QualityRule, ...]
    columns: Struct
    hidden: frozenset[str] = frozenset()


def row_rules(contract: Contract, columns: Struct, *, accepted: bool = False) -> Rules | None:
    """The rules that are judged while a batch is decoded; None when there are none.

    In an `accepted` batch rows that would block it go to the quarantine instead.
    """
    rules = [
        rule.model_copy(update={"on_failure": "quarantine"}) if rule.staged else rule
        for rule in contract.quality
        if rule.of_rows and (accepted or not rule.staged)
    ]
    return Rules(tuple(rules), columns, hidden_columns(contract)) if rules else None


def staged_rules(
    contract: Contract, columns: Struct, *, accepted: bool = False, of_rows: bool = True
) -> Rules | None:
    """The rules that are judged on the stage; None when there are none. In an `accepted` batch none blocks.

    Those of rows are among them unless rows were judged before: always in an accepted batch, or without `of_rows`.
    """
    judged = accepted or not of_rows
    rules = [rule for rule in contract.quality if rule.staged and not (judged and rule.of_rows)]
    if accepted:
        rules = [rule.model_copy(update={"on_failure": "warn"}) for rule in rules]
    return Rules(tuple(rules), columns, hidden_columns(contract)) if rules else None


def hidden_columns(contract: Contract) -> frozenset[str]:
    """Paths that the contract tags as personal data, in lower case; with any, key and headers, which may repeat it."""
    tagged = frozenset(
        path.lower() for path, note in contract.columns.items() if PII in map(str.lower, note.tags)
    )
    whole = contract.value.format == "json" and not contract.value.fields and "value" in tagged
    return tagged | _BESIDE | ({_DOCUMENT} if whole else frozenset()) if tagged else tagged


def redacted(explanation: Explanation, hidden: Collection[str]) -> Explanation:
    """The explanation without words that may quote a hidden value: those about its place, or about the whole value.

    A place is a path with dots or a JSON pointer before the first colon; the row may lie one level down (Debezium).
    What a parser says of the whole value names no value, but a key in quotes.
    """
    place, colon, words = explanation.detail.partition(": ")
    if not hidden or not colon:
        return explanation
    shown = _hidden_place(place, hidden)
    if shown is None or (shown in _WHOLE and explanation.cause == "undecodable" and '"' not in words):
        return explanation
    return replace(
        explanation, detail=f"{shown}: not told here, for it may quote a value that is tagged {PII}"
    )


def _hidden_place(place: str, hidden: Collection[str]) -> str | None:
    """What may be said of a place that may hold a hidden value; None where none can be."""
    if place in _WHOLE:
        return place
    if _DOCUMENT in hidden:
        return _DOCUMENT
    mark = "/" if place.startswith("/") else "."
    parts = place.split(mark)
    at = next((n for n in range(len(parts)) if _is_hidden(parts[n:], hidden)), None)
    return None if at is None else mark.join(parts[: at + 1])


def _is_hidden(parts: Sequence[str], hidden: Collection[str]) -> bool:
    """Whether a place lies in a hidden column or holds it, whatever the places of elements and keys of maps are."""
    names = _named(part.replace("~1", "/").replace("~0", "~") for part in parts)
    known = [_named(path_of(path)) for path in hidden]
    return any(names[: len(each)] == each[: len(names)] for each in known)


def _named(path: Iterable[str]) -> list[str]:
    """Without the words and numbers that stand for elements of lists and parts of maps; the first is a column.

    A dot within a name parts it too, as in a path whose name it is not known to be.
    """
    first, *parts = as_noted(path).split(".")
    return [first, *(part for part in parts if part not in _INSIDE and not part.isdigit())]


def may_show(path: str, hidden: Iterable[str]) -> bool:
    """Whether values of `path` may be shown: neither it, nor what holds it, nor a part of it is hidden."""
    parts = tuple(path.lower().replace("`", "").split("."))
    for each in hidden:
        other = tuple(each.replace("`", "").split("."))
        shorter = min(len(parts), len(other))
        if parts[:shorter] == other[:shorter]:
            return False
    return True


def add_results(first: Mapping[str, RuleResult], second: Mapping[str, RuleResult]) -> dict[str, RuleResult]:
    """Both together, by rule."""
    return {
        **first,
        **{name: first[name].plus(each) if name in first else each for name, each in second.items()},
    }
