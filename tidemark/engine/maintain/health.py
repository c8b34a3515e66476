"""How a table's files stand against the contract's thresholds, from its metadata alone."""

from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.config.contract import Contract
from tidemark.domain.maintenance.compaction import HOT_FACTOR, MANY_MANIFESTS, Layout
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import load
from tidemark.engine.maintain.expire import fitted, plan_expiry
from tidemark.engine.maintain.maintain import tables_of
from tidemark.engine.maintain.named_snapshots import named_snapshots
from tidemark.engine.maintain.whose import not_ours
from tidemark.engine.table.absent import gone
from tidemark.engine.table.live_files import read_layout

SLACK = 2
"""Maintenance runs now and then: only what is this many times beyond its threshold is a finding."""


@dataclass(frozen=True, slots=True)
class Health:
    """Numbers of one table, and what is wrong with it as sentences."""

    numbers: dict[str, float]
    faults: tuple[str, ...]


def health(lake: Lake, contract: Contract) -> Health | None:
    """The tables of a contract; None when it was never loaded.

    Raises:
        Outage: the catalog or the store does not answer.
        Stopped: `table_missing`, of a table that was loaded.
    """
    numbers: dict[str, float] = {}
    faults: list[str] = []
    for name in tables_of(contract):
        with translated(name):
            table = load(lake.catalog, name)
            if table is None:
                if name == contract.table and (missing := gone(lake, name)):
                    raise missing
                continue
            if not_ours(lake, contract, name):
                continue
            layout = read_layout(table)
            unexpired = _unexpired(lake, contract, name, table.metadata)
        short = "" if name == contract.table else f"{name.removeprefix(contract.namespace + '.')}: "
        found = _numbers(layout, contract)
        numbers |= {f"{short}{key}": value for key, value in found.items()}
        faults += [f"{short}{fault}" for fault in (*_faults(layout, contract, found), *unexpired)]
    return Health(numbers, tuple(faults)) if numbers else None


def _numbers(layout: Layout, contract: Contract) -> dict[str, float]:
    target = contract.maintenance.compaction.target_file_size
    return {
        "data_files": layout.data_files,
        "delete_files": layout.delete_files,
        "bytes": layout.bytes,
        "small_file_ratio": round(layout.small_ratio(target), 4),
        "delete_ratio": round(layout.delete_ratio, 4),
        "read_amplification": round(layout.read_amplification(target), 2),
        "manifests": layout.manifests,
        "snapshots": layout.snapshots,
    }


def _unexpired(lake: Lake, contract: Contract, name: str, metadata: TableMetadata) -> list[str]:
    """What a reader has yet to read may be many times `max_count`: none of it is late that expiry would not take."""
    limits = contract.maintenance.snapshots
    there, most = len(metadata.snapshots), fitted(limits, metadata).max_count
    if there <= most * SLACK:
        return []
    expired = plan_expiry(metadata, limits, named_snapshots(lake, contract, name)).expired
    late = len(expired) > most * (SLACK - 1)
    return [f"{there} snapshots, max_count is {most}"] if late else []


def _faults(layout: Layout, contract: Contract, found: dict[str, float]) -> list[str]:
    limits = contract.maintenance
    compaction, allowed = limits.compaction, limits.compaction.min_input_files * HOT_FACTOR * SLACK
    worst = max((len(p.below(compaction.target_file_size * 0.75)) for p in layout.partitions), default=0)
    checks = {
        f"{worst} small files in one partition, {allowed} are expected at most": worst > allowed,
        f"{found['delete_ratio']:.0%} of rows deleted, max_delete_ratio is {compaction.max_delete_ratio:.0%}": (
            found["delete_ratio"] > compaction.max_delete_ratio * SLACK
        ),
        f"{layout.manifests} manifests": layout.manifests > MANY_MANIFESTS * HOT_FACTOR,
    }
    return [says for says, wrong in checks.items() if wrong]
