"""What a mart was made of, noted on the mart itself, and which of its tables were corrected since. Asks the catalog."""

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY
from tidemark.domain.lineage.corrections import Step, correction
from tidemark.domain.lineage.marts import Mart
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, is_undone
from tidemark.engine.access.outages import named
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.access.table_state import load
from tidemark.engine.table.properties import set_properties

MADE_OF = "tidemark.made-of"
"""Property of a mart: table -> `<uuid>/<snapshot>` that it was made of."""


@dataclass(frozen=True, slots=True)
class MartStanding:
    """A mart before its build.

    `heads`: what it will be made of; `stale`: table -> why; `anew`: it can be helped; `absent`: tables that are
    not there.
    """

    heads: Mapping[str, str] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)
    anew: bool = True
    absent: tuple[str, ...] = ()

    @property
    def left(self) -> Mapping[str, str]:
        """What stays stale, for making it anew would lose figures of rows that retention has deleted."""
        return {} if self.anew else self.stale


def standings(
    lake: Lake, chosen: Sequence[Mart], marts: Mapping[str, Mart], contracts: Sequence[Contract]
) -> dict[str, MartStanding]:
    """How the chosen marts stand, by table; tables of other systems are left out. Raises Outage, Stopped."""
    merged = upsert_tables(contracts)
    known = {each.table for each in contracts} | merged.keys()
    found = dict[str, MartStanding]()
    for mart in chosen:
        with named(mart.table):
            found[mart.table] = _standing(lake, mart.table, sources_of(mart, marts) & known, merged)
    return found


def sources_of(mart: Mart, marts: Mapping[str, Mart]) -> frozenset[str]:
    """The tables that a mart is made of, through other marts too."""
    found: set[str] = set()
    for table in mart.upstream:
        found |= sources_of(marts[table], marts) if table in marts else {table}
    return frozenset(found)


def note(lake: Lake, mart: str, heads: Mapping[str, str]) -> None:
    """Write on the mart what it was made of; a view has nowhere to write it and needs it not.

    Raises:
        Outage, Stopped, Overtaken: it is not written; the next build takes the mart for one that is as old as its note.
    """
    with named(mart):
        made = load(lake.catalog, mart)
        if made is not None and _noted(made.properties) != dict(heads):
            set_properties(lake, mart, {MADE_OF: json.dumps(dict(heads), sort_keys=True)})


def _standing(lake: Lake, mart: str, tables: Collection[str], merged: Collection[str]) -> MartStanding:
    made = load(lake.catalog, mart)
    before = _noted(made.properties) if made else {}
    heads: dict[str, str] = {}
    stale: dict[str, str] = {}
    absent: list[str] = []
    whole = True
    for table in sorted(tables):
        loaded = load(lake.catalog, table)
        if loaded is None:
            absent.append(table)
            continue
        metadata = loaded.metadata
        if metadata.current_snapshot_id is None:
            continue
        heads[table] = f"{metadata.table_uuid}/{metadata.current_snapshot_id}"
        whole &= EXPIRED_BEFORE not in metadata.properties
        why = _corrected(metadata, before.get(table), merged=table in merged) if made else None
        if why is not None:
            stale[table] = why
    return MartStanding(heads, stale, anew=whole, absent=tuple(absent))


def _corrected(metadata: TableMetadata, before: str | None, *, merged: bool) -> str | None:
    uuid, _, snapshot = (before or "").partition("/")
    if uuid not in {"", str(metadata.table_uuid)}:
        return "was made anew"
    since = int(snapshot) if snapshot else None
    return correction(
        [_step(each) for each in ancestors(metadata, metadata.current_snapshot_id)],
        since,
        undone=since is not None and is_undone(metadata, since),
        trimmed=EXPIRED_BEFORE in metadata.properties,
        merged=merged,
    )


def _noted(properties: Mapping[str, str]) -> dict[str, str]:
    with suppress(ValueError):
        found = json.loads(properties.get(MADE_OF, "{}"))
        return {str(table): str(head) for table, head in found.items()}
    return {}


def _step(snapshot: Snapshot) -> Step:
    text = summary_of(snapshot).get(LEDGER_PROPERTY)
    ledger = json.loads(text) if text else {}
    operation = snapshot.summary.operation.value if snapshot.summary else ""
    return Step(snapshot.snapshot_id, operation, str(ledger.get("action") or ledger.get("kind") or ""))
