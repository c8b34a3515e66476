"""The ledger: what a table has consumed, kept in the summary of the snapshot that published it (a receipt).

The JSON lies under `tidemark.ledger`. Integer keys are partitions. Counts are short lists, for a ledger is written
with every commit: [read, written, quarantined, tombstones, skipped].
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.offsets import Ranges, advance
from tidemark.domain.ledger.settlement import Settlement
from tidemark.domain.times import later

LEDGER_PROPERTY = "tidemark.ledger"
LEDGER_TAG = "tidemark_ledger"
BATCH_PROPERTY = "tidemark.batch"
"""Of a snapshot with the rows of a batch; its receipt is the next one."""
ACT_PROPERTY = "tidemark.act"
"""Of a receipt: who asked for it, for what, and at which head it was planned."""
LEDGER_VERSION = 1
BRANCH_PREFIX = "tidemark_"

Kind = Literal["first", "append", "gap", "epoch", "rollback", "replay"]


class Counts(NamedTuple):
    """Records of one partition by fate; `balanced` is the audit's identity."""

    read: int = 0
    written: int = 0
    quarantined: int = 0
    tombstones: int = 0
    skipped: int = 0

    @property
    def balanced(self) -> bool:
        """Every record that was read is in exactly one place."""
        return self.read == self.written + self.quarantined + self.tombstones + self.skipped

    def plus(self, other: "Counts") -> "Counts":
        """The sums, field by field."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING = Counts()


def add_up(counts: Iterable[Counts]) -> Counts:
    """The sum over partitions."""
    whole = Counts()
    for each in counts:
        whole = whole.plus(each)
    return whole


class Gap(BaseModel):
    """Offsets [start, end) that Kafka lost before they were read and that someone accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    partition: int
    start: int
    end: int
    epoch: int = 0


def known_id(topic_id: str | None) -> str | None:
    """An id of a topic; librdkafka says zero where the broker has none."""
    return None if topic_id in {None, "", "A" * 22} else topic_id


class Ledger(BaseModel):
    """One entry: the state after the receipt that carries it (docs/concepts.md, The ledger)."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: int = LEDGER_VERSION
    kind: Kind = "append"
    cluster_id: str | None
    topic_id: Annotated[str | None, BeforeValidator(known_id)]
    """None while the cluster's brokers have no ids of topics."""
    topic: str
    epoch: int = 0
    start: dict[int, int] = Field(default_factory=dict)
    """Where the first load of this epoch began, per partition."""
    from_: dict[int, int] = Field(default_factory=dict, alias="from")
    next: dict[int, int] = Field(default_factory=dict)
    counts: dict[int, Counts] = Field(default_factory=dict)
    totals: dict[int, Counts] = Field(default_factory=dict)
    """Since the epoch began."""
    reloaded: dict[int, list[tuple[int, int]]] = Field(default_factory=dict)
    """Offsets below `next` that replays have touched since the epoch began; never fewer than those."""
    revision: int = 0
    """Counts replays and rollbacks: when it is the same, nothing below `next` has changed."""
    settlement: Settlement | None = None
    """What this receipt asks of the quarantine table; the next receipt is only written once that is done."""
    gaps: list[Gap] = Field(default_factory=list)
    batch_id: str = ""
    attempt: str = ""
    run_id: str = ""
    schema_ids: list[int] = Field(default_factory=list)
    max_timestamp: datetime | None = None
    watermark: datetime | None = None
    """The newest `event_time` of all rows so far, where the contract names one."""
    event_time: str | None = None
    """The column that `watermark` is of; not written without one: an earlier Tidemark knows no such field."""
    unrouted: int = 0
    """Of the skipped records since the epoch began, those whose type no table of the topic is for."""
    truncates: dict[int, int] = Field(default_factory=dict)
    """Partition -> offset of the last record of this epoch that emptied the source and was skipped: no upsert table
    followed it then. One before it takes nothing that this one does not."""
    unmade: int = 0
    """Tombstones of earlier epochs that were only counted, and truncates that were skipped: what they deleted would be
    in an upsert table that is made of the rows."""
    others: list[int] = Field(default_factory=list)
    """Schema ids of the topic's other record types that were met since the epoch began."""
    contract: str = ""
    tidemark: str = ""

    def to_json(self) -> str:
        """The compact JSON that goes into a snapshot summary."""
        return self.model_dump_json(by_alias=True, exclude=None if self.event_time else {"event_time"})

    @classmethod
    def from_json(cls, text: str, *, table: str) -> Self:
        """Read a ledger of any version up to ours.

        Raises:
            Stopped: `ledger_missing` when the text is no ledger, `misconfigured` when a newer Tidemark wrote it.
        """
        try:
            require_known(text, LEDGER_VERSION, table)
            return cls.model_validate_json(text)
        except ValueError as error:
            raise Stopped(
                "ledger_missing", table, f"the newest receipt does not hold a ledger: {error}"
            ) from error

    def watermark_of(self, event_time: str | None) -> datetime | None:
        """The watermark, unless it is another column's than `event_time`; None says that of neither."""
        other = event_time and self.event_time and event_time != self.event_time
        return None if other else self.watermark

    def after(self, ranges: Ranges, counts: Mapping[int, Counts], entry: "Entry") -> Self:
        """The ledger once `ranges` are published with `counts`; a pure successor of this one.

        Raises:
            ValueError: a range does not begin where this ledger ends, or counts do not balance.
        """
        for partition, each in ranges.items():
            if self.next.get(partition, 0) != each.start:
                raise ValueError(
                    f"partition {partition}: {each} does not follow {self.next.get(partition, 0)}"
                )
        for partition, each_count in counts.items():
            if not each_count.balanced:
                raise ValueError(f"partition {partition}: {each_count} does not balance")
        new = set(ranges) - set(self.next)
        return self.model_copy(
            update={
                **entry.author(),
                **entry.clocks(self),
                "kind": "append",
                "topic_id": self.topic_id or entry.topic_id,
                "start": {**self.start, **dict.fromkeys(new, 0)},
                "from_": {partition: each.start for partition, each in ranges.items()},
                "next": advance(self.next, ranges),
                "counts": dict(counts),
                "totals": {
                    p: self.totals.get(p, Counts()).plus(counts.get(p, Counts()))
                    for p in {*self.totals, *counts}
                },
                "unrouted": self.unrouted + entry.unrouted,
                "truncates": {**self.truncates, **entry.truncates},
                "others": sorted({*self.others, *entry.others}),
                "settlement": None,
            }
        )


def require_known(text: str, ours: int, table: str) -> None:
    """Require that the JSON of a ledger, of whichever kind, is of a version up to `ours`.

    Raises:
        Stopped: `misconfigured`: a newer Tidemark wrote it.
        ValueError: it is no JSON.
    """
    said = from_json(text)
    version = said.get("version") if isinstance(said, dict) else None
    if isinstance(version, int) and version > ours:
        raise Stopped(
            "misconfigured",
            table,
            f"its ledger has version {version}, written by a newer Tidemark; this one reads up to "
            f"{ours}: upgrade Tidemark.",
            ledger_version=version,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """Who wrote a receipt, and what the pass saw beside the counts."""

    batch_id: str
    attempt: str
    run_id: str
    contract: str
    tidemark: str
    schema_ids: frozenset[int] = frozenset()
    max_timestamp: datetime | None = None
    watermark: datetime | None = None
    event_time: str | None = None
    unrouted: int = 0
    truncates: Mapping[int, int] = field(default_factory=dict)
    others: frozenset[int] = frozenset()
    topic_id: str | None = None
    """Of the topic as it is; a ledger that has none yet takes it over."""

    def author(self) -> dict[str, object]:
        """The fields of a ledger that say who wrote it, from what."""
        return {
            "version": LEDGER_VERSION,
            "batch_id": self.batch_id,
            "attempt": self.attempt,
            "run_id": self.run_id,
            "schema_ids": sorted(self.schema_ids),
            "contract": self.contract,
            "tidemark": self.tidemark,
        }

    def clocks(self, before: Ledger) -> dict[str, object]:
        """The fields of a ledger that tell times: of all rows so far, `before` and now."""
        return {
            "max_timestamp": later(before.max_timestamp, self.max_timestamp),
            "watermark": later(before.watermark_of(self.event_time), self.watermark),
            "event_time": self.event_time or before.event_time,
        }


def batch_id(table: str, epoch: int, ranges: Ranges) -> str:
    """The same batch has the same id in every attempt: 16 hex digits of what it reads."""
    text = f"{table}|{epoch}|" + ",".join(f"{p}:{r.start}-{r.end}" for p, r in sorted(ranges.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def branch_name(batch: str, attempt: str) -> str:
    """The branch of one attempt alone."""
    return f"{BRANCH_PREFIX}{batch}_{attempt}"
