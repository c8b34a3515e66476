"""What a backfill loads and where its rows stand beside the ledger (docs/adr/0014). Pure.

Records of the table's own topic keep their identity (epoch, partition, offset) and are counted in the ledger. Rows
from elsewhere have no offset of this topic: each source is an epoch of its own below zero, so that nothing that
goes by the ledger's epoch ever meets them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from zlib import crc32

from pydantic import BaseModel, ConfigDict

from tidemark.domain.errors import Refused
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange, Offsets, Ranges
from tidemark.domain.ledger.replay import Runs

BACKFILL = "tidemark.backfill"
"""Property of a shadow table: what is being loaded into it, as `Backfill` in JSON."""
CUTOVER = "tidemark.cutover"
"""Property of a table: the newest backfill that was published, as `Cutover` in JSON; empty once it is rolled back."""
_ELSEWHERE = 2**30
_SOURCE = re.compile(r"(topic(?!.*/$)|table|parquet):(.+)")

Kind = Literal["own", "topic", "table", "parquet"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from: the table's own topic, another topic, an Iceberg table, or Parquet files."""

    kind: Kind = "own"
    name: str = ""
    cluster: str = ""

    def __str__(self) -> str:
        place = f"{self.cluster}/{self.name}" if self.cluster else self.name
        return "own topic" if self.kind == "own" else f"{self.kind}:{place}"

    @property
    def records(self) -> bool:
        """Kafka records that are decoded; the others are rows already."""
        return self.kind in {"own", "topic"}

    def epoch(self, current: int) -> int:
        """The epoch of its rows in the table, whose ledger is in epoch `current`."""
        return current if self.kind == "own" else -1 - crc32(str(self).encode()) % _ELSEWHERE


def parse_source(text: str, cluster: str) -> Source:
    """`topic:NAME`, `topic:CLUSTER/NAME`, `table:namespace.name`, `parquet:PATH`; empty for the table's own topic.

    Raises:
        Refused: it is none of them.
    """
    if not text:
        return Source()
    found = _SOURCE.fullmatch(text)
    if found is None:
        raise Refused(
            f"{text} is no source of a backfill",
            next_step="--source topic:NAME, topic:CLUSTER/NAME, table:namespace.name or parquet:PATH",
        )
    kind, name = found[1], found[2]
    if kind == "table":
        return Source("table", name)
    if kind == "parquet":
        return Source("parquet", _plain_path(name))
    named, _, topic = name.rpartition("/")
    return Source("topic", topic, named or cluster)


def _plain_path(path: str) -> str:
    """One spelling of a path, for each source is an epoch of its own: a repeated backfill replaces its own rows."""
    scheme, colon, rest = path.rpartition("://")
    plain = re.sub(r"/(?:\./)*/*", "/", rest)
    plain = plain.rstrip("/") or "/"
    return plain if scheme == "file" else f"{scheme}{colon}{plain}"


class Backfill(BaseModel):
    """One backfill, pinned when it begins: whoever repeats the command goes on with exactly this.

    `start`, `end`: offsets per partition; for rows the numbers of the first window that has any and after the last one,
    of partition 0, counted from `since`.
    `window_seconds`, `time_column`, `snapshot` (of an Iceberg source), `files`, `digest` (of their names, sizes and
    times) and `rows_without_time`: rows only.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: str
    since: datetime
    until: datetime
    start: dict[int, int]
    end: dict[int, int]
    epoch: int
    time_column: str = ""
    window_seconds: int = 0
    snapshot: int | None = None
    files: int = 0
    digest: str = ""
    rows_without_time: int = 0
    """Rows of the source that are in no window."""
    judged_by: str = ""
    """Records only: a digest of the rules that sent some to quarantine; empty where an earlier version began."""
    revision: int | None = None
    """The own topic only: that of the table's ledger then; None where an earlier version began."""

    @property
    def source_state(self) -> str:
        """Which rows the source had: its snapshot, or the digest of its files; empty for records."""
        return str(self.snapshot or self.digest)

    @property
    def ranges(self) -> dict[int, OffsetRange]:
        """What is loaded, where there is anything."""
        return {p: OffsetRange(a, self.end[p]) for p, a in self.start.items() if self.end[p] > a}

    def window(self, number: int) -> tuple[datetime, datetime]:
        """The times of a window of rows, the end not included."""
        first = self.since + timedelta(seconds=self.window_seconds * number)
        return first, min(self.until, first + timedelta(seconds=self.window_seconds))


class Cutover(BaseModel):
    """The published end of a backfill: from `until` on the table has what Kafka brings, before it what was loaded."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    at: datetime
    source: str
    since: datetime
    until: datetime
    by: str
    reason: str
    run_id: str
    batch_id: str
    contract: str = ""
    source_state: str = ""
    time_column: str = ""
    rows: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Ranges of the own topic that lie before the first load, and those that the table has read already."""

    below: Ranges
    within: Ranges

    @property
    def ranges(self) -> dict[int, OffsetRange]:
        """Both, joined."""
        joined = dict(self.within)
        for p, each in self.below.items():
            joined[p] = OffsetRange(each.start, joined[p].end if p in joined else each.end)
        return joined

    def lowered(self, start: Offsets) -> dict[int, int]:
        """Where the first load began once the ranges before it are in the table."""
        return {**start, **{p: each.start for p, each in self.below.items()}}


def place(ledger: Ledger, wanted: Ranges, table: str) -> Placement:
    """Where ranges of the table's own topic lie. What is not read yet is left out: that is the ingest's.

    Raises:
        Refused: offsets between the range and the first load would be in no place, or were read in an earlier epoch.
    """
    below: dict[int, OffsetRange] = {}
    within: dict[int, OffsetRange] = {}
    for p, each in sorted(wanted.items()):
        first, following = ledger.start.get(p, 0), ledger.next.get(p, 0)
        end = min(each.end, following)
        if end <= each.start:
            continue
        if end < first:
            raise Refused(
                f"partition {p}: offsets {end} to {first - 1} would be missing between the backfill and the first "
                f"load of {table}, which began at {first}",
                next_step="a later --to: what was loaded already is replaced, never doubled",
                table=table,
                range=[end, first],
            )
        if each.start < first and ledger.epoch:
            raise Refused(
                f"partition {p}: offsets before {first} are of an earlier epoch of {table}: they would be there twice",
                next_step="a later --from",
                table=table,
                range=[each.start, first],
            )
        if each.start < first:
            below[p] = OffsetRange(each.start, first)
        if end > first:
            within[p] = OffsetRange(max(each.start, first), end)
    return Placement(below, within)


def corrected(planned: Backfill, ledgers: Iterable[Ledger]) -> bool:
    """Whether a replay or a rollback since the load began has changed what it stands for, or may have.

    `ledgers` of the table's receipts in this epoch, newest first, as far as they are left: where none is as old as the
    load, nobody can tell any more.
    """
    some = False
    for ledger in ledgers:
        some = True
        if planned.revision is None or ledger.revision <= planned.revision:
            return ledger.revision < (planned.revision or 0)
        if ledger.kind == "rollback" and any(
            ledger.next.get(p, 0) < each.end for p, each in planned.ranges.items()
        ):
            return True
        if ledger.kind == "replay" and ledger.settlement and _meets(ledger.settlement.resolved, planned):
            return True
    return some


def _meets(runs: Runs, planned: Backfill) -> bool:
    return any(
        first < each.end and each.start < last
        for p, each in planned.ranges.items()
        for first, last in runs.get(p, ())
    )
