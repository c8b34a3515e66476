"""What happened: one published microbatch, and what a run did to one table, as `run --json` prints it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from tidemark.domain.ledger.ledger import NOTHING, Counts, add_up
from tidemark.domain.ledger.merge_ledger import Changes
from tidemark.domain.ledger.quality_results import RuleResult, add_results
from tidemark.domain.states import State

Number = TypeVar("Number", int, float)
ASIDE = "schema_not_allowed"
"""The cause of records that the contract or an approval sends to the quarantine: commits have it for no others."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One published microbatch. `seconds` are per stage, `bytes` and `files` those of the new data files."""

    table: str
    snapshot_id: int
    from_: Mapping[int, int]
    next: Mapping[int, int]
    counts: Mapping[int, Counts]
    schema_ids: frozenset[int]
    max_timestamp: datetime | None
    seconds: Mapping[str, float]
    files: int
    bytes: int
    at: datetime
    ahead: int = 0
    watermark: datetime | None = None
    late: int = 0
    quality: Mapping[str, RuleResult] = field(default_factory=dict)
    changes: Changes | None = None
    """Of a merge."""
    undone: str = ""
    """`back` or `rebuild`, and why: a merge that followed history which was undone."""
    unrouted: int = 0
    causes: Mapping[str, int] = field(default_factory=dict)
    """Of what went to quarantine."""

    @property
    def rows(self) -> Counts:
        """The sum over partitions."""
        return add_up(self.counts.values())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run did to one table. `from_` and `next` are offsets per partition; `error` is an error's JSON."""

    table: str
    state: State
    commits: int = 0
    rows: Counts = NOTHING
    from_: Mapping[int, int] = field(default_factory=dict)
    next: Mapping[int, int] = field(default_factory=dict)
    snapshot_id: int | None = None
    seconds: float = 0.0
    error: Mapping[str, Any] | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    lag_records: int = 0
    files: int = 0
    bytes: int = 0
    schema_ids: frozenset[int] = frozenset()
    last: Commit | None = None
    stream_clock: datetime | None = None
    table_clock: datetime | None = None
    late: int = 0
    """Rows whose event time lay before the watermark."""
    quality: Mapping[str, RuleResult] = field(default_factory=dict)
    """What the contract's rules came to, by name."""
    changes: Changes | None = None
    undone: str = ""
    """What merges followed that was undone, one sentence each."""
    unrouted: int = 0
    """Skipped records whose type no table of the topic is for."""
    ahead: int = 0
    """Records dated more than an hour ahead: they move no clock."""
    causes: Mapping[str, int] = field(default_factory=dict)
    """Records that went to quarantine, by cause."""

    @property
    def stopped(self) -> bool:
        """The run ended in an error for this table."""
        return self.error is not None

    def plus(self, commit: Commit) -> "Outcome":
        """With one more commit; where the table stands is for the caller to add."""
        changes = (self.changes or Changes()).plus(commit.changes) if commit.changes else self.changes
        return replace(
            self,
            commits=self.commits + 1,
            rows=self.rows.plus(commit.rows),
            from_={**commit.from_, **self.from_},
            snapshot_id=commit.snapshot_id,
            stages=_summed(self.stages, commit.seconds),
            files=self.files + commit.files,
            bytes=self.bytes + commit.bytes,
            schema_ids=self.schema_ids | commit.schema_ids,
            last=commit,
            late=self.late + commit.late,
            quality=add_results(self.quality, commit.quality),
            changes=changes,
            undone="; ".join(filter(None, (self.undone, commit.undone))),
            unrouted=self.unrouted + commit.unrouted,
            ahead=self.ahead + commit.ahead,
            causes=_summed(self.causes, commit.causes),
        )

    def as_json(self) -> dict[str, Any]:
        """The stable shape of `run --json`."""
        return {
            "table": self.table,
            "state": self.state,
            "commits": self.commits,
            "rows": self.rows._asdict(),
            "from": {str(p): o for p, o in sorted(self.from_.items())},
            "next": {str(p): o for p, o in sorted(self.next.items())},
            "snapshot_id": self.snapshot_id,
            "seconds": round(self.seconds, 3),
            "error": dict(self.error) if self.error else None,
        }


def _summed(first: Mapping[str, Number], second: Mapping[str, Number]) -> dict[str, Number]:
    return {**first, **{name: first.get(name, 0) + each for name, each in second.items()}}
