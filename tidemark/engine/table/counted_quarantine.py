"""Quarantine rows as they stand once everything that a published receipt asks for is done. Read by PyIceberg alone.

So nobody has to wait for the second half of a commit over two tables, nor can see the first without the second.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import Table

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.settlement import STAGED, Settlement

OPEN = "open"
NEEDED = ("epoch", "partition", "offset", "batch_id", "resolved_by", "resolved_at")
_BEYOND = 2**31
"""Greater than any partition."""


def require_columns(quarantine: Table, name: str, wanted: Iterable[str]) -> None:
    """Raises Stopped (`misconfigured`): somebody has dropped or renamed columns of the quarantine table."""
    there = {each.name for each in quarantine.schema().fields}
    if missing := [each for each in wanted if each not in there]:
        listed = ", ".join(missing)
        raise Stopped(
            "misconfigured",
            name,
            f"somebody has dropped or renamed its columns {listed}: ALTER TABLE {name} RENAME COLUMN … TO {missing[0]} "
            "brings back one that was renamed, and values that are gone with it",
            columns=missing,
        )


def as_settled(batch: pa.RecordBatch, ledger: Ledger, asked: Settlement | None) -> pa.Table:
    """The rows of `batch` (with the columns NEEDED) that count, with a boolean column `open`: it waits for a remedy.

    Rows that wait for their receipt are left out, and so are those beyond `ledger`.
    """
    rows = pa.Table.from_batches([batch])
    numbers = _numbers(rows)
    waits = _mask(pc.is_null(rows["resolved_at"]))
    by = _texts(rows["resolved_by"])
    staged = _mask(pc.starts_with(by, STAGED))
    shown = published(numbers, ledger)
    if asked is not None:
        mine = _equals(by, asked.staged) if asked.revealed else np.zeros(len(waits), dtype=bool)
        waits |= _undone(rows, by, asked)
        waits &= ~_resolved(numbers, asked)
        waits |= mine
        staged &= ~mine
        shown &= ~_mask(pc.is_in(_texts(rows["batch_id"]), pa.array(asked.dropped, pa.string())))
    kept = shown & ~staged
    return rows.append_column(OPEN, pa.array(waits)).filter(pa.array(kept))


def covered(batch: pa.RecordBatch, ledger: Ledger) -> bool:
    """Whether no row of `batch` lies beyond `ledger`."""
    return bool(published(_numbers(pa.Table.from_batches([batch])), ledger).all())


def published(numbers: Mapping[str, Any], ledger: Ledger) -> Any:
    """A boolean array: rows of earlier epochs, and of this one those below `next`.

    Rows beyond belong to a batch that is just being published, or whose attempt died; they are not counted yet.
    """
    partitions, ends = np.array([*sorted(ledger.next.items()), (_BEYOND, 0)], dtype=np.int64).T
    at = np.searchsorted(partitions, numbers["partition"])
    below = (partitions[at] == numbers["partition"]) & (numbers["offset"] < ends[at])
    return (numbers["epoch"] < ledger.epoch) | (numbers["epoch"] == ledger.epoch) & below


def _undone(rows: pa.Table, by: Any, asked: Settlement) -> Any:
    found = np.zeros(rows.num_rows, dtype=bool)
    if not asked.undone:
        return found
    at: Any = np.asarray(pc.fill_null(rows["resolved_at"].cast(pa.int64()), pa.scalar(-1)))
    for run_id, moment in asked.undone:
        found |= _equals(by, run_id) & (at == moment)
    return found


def _resolved(numbers: Mapping[str, Any], asked: Settlement) -> Any:
    found = np.zeros(len(numbers["epoch"]), dtype=bool)
    for partition, runs in asked.resolved.items():
        here = (numbers["epoch"] == asked.epoch) & (numbers["partition"] == partition)
        bounds = np.asarray(runs, dtype=np.int64)
        at = np.searchsorted(bounds[:, 0], numbers["offset"], side="right") - 1
        found |= here & (at >= 0) & (numbers["offset"] < bounds[at, 1])
    return found


def _numbers(rows: pa.Table) -> dict[str, Any]:
    return {name: rows[name].to_numpy().astype(np.int64) for name in ("epoch", "partition", "offset")}


def _texts(column: Any) -> Any:
    return pc.fill_null(column.cast(pa.string()), "")


def _equals(column: Any, text: str) -> Any:
    return _mask(pc.equal(column, pa.scalar(text, pa.string())))


def _mask(column: Any) -> Any:
    return np.asarray(column, dtype=bool)
