"""The ledger of an upsert table: which rows of the append table are merged. Lies under `tidemark.ledger`, kind `merge`.

Merged is what lies before (epoch, next): rows of earlier epochs, and of this one below `next` in their partition.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import require_known

MERGE_LEDGER_VERSION = 1

Action = Literal["first", "merge", "back", "rebuild"]


class Truncation(NamedTuple):
    """The truncate events of a Kafka partition as one: what came before any of them is gone, even if it comes late.

    `pos` is the place of the last of them in the database's log, which may have begun anew in between; None where
    one of them does not tell it.
    """

    epoch: int
    offset: int
    timestamp_ms: int
    pos: str | None = None

    def joined(self, other: "Truncation") -> "Truncation":
        """What takes whatever either takes: record times of a partition may go back."""
        if self.epoch != other.epoch:
            return max(self, other, key=lambda each: each.epoch)
        last = max(self, other, key=lambda each: each.offset)
        pos = last.pos if self.pos is not None and other.pos is not None else None
        return Truncation(self.epoch, last.offset, max(self.timestamp_ms, other.timestamp_ms), pos)


class Changes(NamedTuple):
    """What a merge did. `read` append rows; `stale` of them lost to a newer row, `superseded` to one of their batch.

    `deleted` are rows that are gone (hard) or marked (soft); `absent` deletes found no row.
    """

    read: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    absent: int = 0
    stale: int = 0
    superseded: int = 0
    null_key: int = 0
    truncates: int = 0

    def plus(self, other: "Changes") -> "Changes":
        """The sums, field by field."""
        return Changes(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class MergeLedger(BaseModel):
    """One entry: the state after the receipt that carries it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = MERGE_LEDGER_VERSION
    kind: Literal["merge"] = "merge"
    action: Action = "merge"
    append_table: str
    append_uuid: str
    append_snapshot: int
    append_revision: int | None = None
    """The append table's `revision` then; None: written before ledgers named it."""
    epoch: int = 0
    next: dict[int, int] = Field(default_factory=dict)
    truncated: dict[int, Truncation] = Field(default_factory=dict)
    changes: Changes = Changes()
    totals: Changes = Changes()
    """Since the table was made or rebuilt."""
    memory: int | None = None
    """The snapshot of the memory of hard deletes that goes with the rows; 0: nothing was ever remembered.

    None: written before ledgers named it, so all that is remembered goes with the rows.
    """
    no_tombstones: tuple[int, int] | None = None
    """(epoch, how many) tombstones that were only counted, before the contract had `upsert`, and that someone accepted
    to be missing."""
    no_truncates: tuple[int, dict[int, int]] | None = None
    """(epoch, partition -> offset) of the last truncate that was skipped, likewise accepted."""
    no_keys: tuple[int, dict[int, int]] | None = None
    """(epoch, partition -> offset) before which deletes that lack a part of the key were accepted to be missing.

    Written only where there is one: versions that do not know the entry refuse a ledger that has it.
    """
    own_topic_only: bool = False
    """Someone has accepted that rows of a backfill from elsewhere are not in it."""
    why: str = ""
    """Why it went back or was rebuilt."""
    batch_id: str = ""
    attempt: str = ""
    run_id: str = ""
    max_timestamp: datetime | None = None
    contract: str = ""
    tidemark: str = ""

    @property
    def anew(self) -> bool:
        """Someone has accepted that the table is made anew from the append rows that are there."""
        return not self.append_uuid

    def to_json(self) -> str:
        """The compact JSON that goes into a snapshot summary."""
        return self.model_dump_json(exclude=None if self.no_keys else {"no_keys"})

    @classmethod
    def from_json(cls, text: str, *, table: str) -> Self:
        """Read a merge ledger of any version up to ours.

        Raises:
            Stopped: `ledger_missing` when the text is none, `misconfigured` when a newer Tidemark wrote it.
        """
        try:
            require_known(text, MERGE_LEDGER_VERSION, table)
            return cls.model_validate_json(text)
        except ValueError as error:
            raise Stopped(
                "ledger_missing", table, f"the newest receipt does not hold a merge ledger: {error}"
            ) from error

    def covers(self, epoch: int, partition: int, offset: int) -> bool:
        """Whether the append row of this identity is merged."""
        return epoch < self.epoch or (epoch == self.epoch and offset < self.next.get(partition, 0))


def is_merge_ledger(text: str) -> bool:
    """Whether a receipt's JSON is that of an upsert table."""
    try:
        return bool(json.loads(text).get("kind") == "merge")
    except (ValueError, AttributeError):
        return False


def merge_id(table: str, append_snapshot: int, upto: tuple[int, Mapping[int, int]]) -> str:
    """The same merge has the same id in every attempt: 16 hex digits of what it reads."""
    epoch, following = upto
    text = f"{table}|{append_snapshot}|{epoch}|" + ",".join(f"{p}:{o}" for p, o in sorted(following.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
