"""A loaded shadow beside what it stands for, window by window: the rows that it would replace, or its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.columns.types import KAFKA_COLUMN
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.backfill import Backfill, Source
from tidemark.engine.access.conditions import rows_within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.operate.backfill.plan import Work
from tidemark.engine.operate.backfill.shadow import Window, fit, shadow_rows
from tidemark.engine.operate.backfill.source import Opened, time_of, window_number
from tidemark.engine.schema.evolve import value_columns
from tidemark.engine.table.head_rows import head_rows
from tidemark.engine.verify.compare import figures, figures_of, prints_of
from tidemark.engine.verify.comparison import NONE, Figures
from tidemark.engine.verify.differences import KEY, ROW
from tidemark.engine.verify.fingerprint import located

_WINDOW = "_tidemark_window"
_PARTITION, _FIRST, _UPTO = "_tidemark_partition", "_tidemark_first", "_tidemark_upto"


@dataclass(frozen=True, slots=True)
class Compared:
    """One window: what is loaded, and what is there now (own topic) or in the source (rows); None: nothing to ask."""

    window: Window
    told: dict[str, Any]
    loaded: Figures
    other: Figures | None

    @property
    def equal(self) -> bool | None:
        """The same rows on both sides."""
        return None if self.other is None else self.loaded == self.other

    def as_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            **self.told,
            "snapshot_id": self.window.snapshot_id,
            "loaded": self.loaded.as_json(),
            "other": self.other.as_json() if self.other else None,
            "equal": self.equal,
        }


def compare_windows(lake: Lake, work: Work, loaded: Sequence[Window]) -> list[Compared]:
    """Every window with its figures; keys are the contract's, else Kafka's, else whole rows."""
    if not loaded:
        return []
    target, source, plan = work.target, work.source, work.plan
    mine = shadow_rows(lake, work.contract, target, plan.epoch)
    keys = _keys(work.contract, mine, source)
    found = _by_window(lake, mine, loaded, keys)
    other: dict[int, Figures] | None = None
    if source.kind == "own" and target.head is not None and target.ledger is not None:
        epoch = target.ledger.epoch
        there = head_rows(lake, target).where(rows_within(epoch, plan.ranges))
        other = _by_window(lake, there, loaded, keys)
    elif work.opened is not None:
        other = _of_source(work.opened, target, plan, keys, loaded[0].ranges[0].end - 1)
    return [
        Compared(
            w,
            _told(w, source, plan),
            found.get(w.number, NONE),
            other.get(w.number, NONE) if other is not None else None,
        )
        for w in loaded
    ]


def _told(window: Window, source: Source, plan: Backfill) -> dict[str, Any]:
    counts = {
        name: sum(getattr(c, name) for c in window.counts.values())
        for name in ("read", "written", "quarantined")
    }
    if source.records:
        return {"offsets": {str(p): [r.start, r.end] for p, r in sorted(window.ranges.items())}, **counts}
    (first, _), (_, end) = plan.window(window.ranges[0].start), plan.window(window.ranges[0].end - 1)
    return {"from": first.astimezone(UTC).isoformat(), "to": end.astimezone(UTC).isoformat(), **counts}


def _keys(contract: Contract, rows: DataFrame, source: Source) -> list[str]:
    named = (contract.upsert.keys if contract.upsert else ()) or contract.key.fields
    known = [name for name in named if located(rows.schema, name) is not None]
    if known and len(known) == len(named):
        return known
    return [f"{KAFKA_COLUMN.name}.key"] if source.records else []


def _marked(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    values = [name for name in rows.columns if name not in {KAFKA_COLUMN.name, _WINDOW}]
    return rows.withColumns({KEY: prints_of(rows, keys or values), ROW: prints_of(rows, values)})


def _by_window(
    lake: Lake, rows: DataFrame, loaded: Sequence[Window], keys: Sequence[str]
) -> dict[int, Figures]:
    places = [(w.number, p, r.start, r.end) for w in loaded for p, r in w.ranges.items()]
    shape = f"{_WINDOW} int, {_PARTITION} int, {_FIRST} bigint, {_UPTO} bigint"
    within = F.broadcast(lake.spark().createDataFrame(places, shape))
    offset = F.col(f"{KAFKA_COLUMN.name}.offset")
    inside = (F.col(f"{KAFKA_COLUMN.name}.partition") == F.col(_PARTITION)) & (offset >= F.col(_FIRST))
    joined = _marked(rows, keys).join(within, inside & (offset < F.col(_UPTO)))
    found = joined.groupBy(_WINDOW).agg(*figures()).collect()
    return {row[_WINDOW]: figures_of(row) for row in found}


def _of_source(
    opened: Opened, target: TableState, plan: Backfill, keys: Sequence[str], first: int
) -> dict[int, Figures]:
    """By the number of the window; the `first` ones, and the one after them, are told as one."""
    time = time_of(plan.time_column)
    number = F.greatest(window_number(plan) - F.lit(first), F.lit(0)).cast("int")
    inside = opened.rows.where((time >= F.lit(plan.since)) & (time < F.lit(plan.until))).withColumn(
        _WINDOW, number
    )
    wanted = value_columns(target)
    rows = fit(inside, opened.columns, wanted, target.table)
    rows = rows.select(*(quoted_name(f.name) for f in wanted.fields), _WINDOW)
    found = _marked(rows, keys).groupBy(_WINDOW).agg(*figures()).collect()
    return {row[_WINDOW]: figures_of(row) for row in found}
