"""What a mart was made of, noted on the mart itself, and which of its tables were corrected since. Asks the catalog."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables
from tidemark.domain.ledger.ledger import LEDGER_PROPERTY
from tidemark.domain.lineage.corrections import Step, correction
from tidemark.domain.lineage.marts import Mart, beneath
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.access.foreign_commits import by_retention, removed_rows
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors, is_undone
from tidemark.engine.access.outages import translated
from tidemark.engine.access.snapshots import summary_of
from tidemark.engine.access.table_state import load
from tidemark.engine.table.properties import set_properties

MADE_OF = "tidemark.made-of"
"""Property of a mart: table -> `<uuid>/<snapshot>` that it was made of, and under REVISIONS `<epoch>.<revision>`."""
REVISIONS = "revisions"


@dataclass(frozen=True, slots=True)
class MartStanding:
    """A mart, and what its build does to it.

    `left`: table -> why the mart is stale, after its build where it is about to be built; `anew`: the build makes it
    anew; `heads`: what it is made of then, `<uuid>/<snapshot>/<epoch>.<revision>`; `absent`: tables that are not there.
    """

    left: Mapping[str, str] = field(default_factory=dict)
    anew: bool = False
    heads: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()


def standings(
    lake: Lake,
    chosen: Sequence[Mart],
    marts: Mapping[str, Mart],
    contracts: Sequence[Contract],
    *,
    built: bool = False,
    full_refresh: bool = False,
) -> dict[str, MartStanding]:
    """How the chosen marts stand, by table; tables of other systems are left out.

    `built`: they are about to be, each after those beneath it; `full_refresh`: because somebody wants them anew, or
    a mart that dbt never makes anew left as it is.

    Raises:
        Outage, Stopped.
    """
    merged = upsert_tables(contracts)
    look = _Look(
        lake,
        marts,
        frozenset({each.table for each in contracts} | merged.keys()),
        frozenset(merged),
        frozenset(mart.table for mart in chosen) if built else frozenset(),
        full_refresh=full_refresh,
    )
    return {mart.table: look.at(mart) for mart in chosen}


def note(lake: Lake, mart: str, heads: Mapping[str, str]) -> None:
    """Write on the mart what it was made of; a view has nowhere to write it and needs it not.

    Raises:
        Outage, Stopped, Overtaken: it is not written; the next build takes the mart for one that is as old as its note.
    """
    with translated(mart):
        made = load(lake.catalog, mart)
        if made is not None and _noted(made.properties) != dict(heads):
            set_properties(lake, mart, {MADE_OF: _as_note(heads)})


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at some marts, and at those beneath them."""

    lake: Lake
    marts: Mapping[str, Mart]
    known: frozenset[str]
    merged: frozenset[str]
    built: frozenset[str]
    full_refresh: bool
    seen: dict[str, MartStanding] = field(default_factory=dict)

    def at(self, mart: Mart) -> MartStanding:
        """What a mart beneath has not followed, this one has not either, whatever the tables say.

        It notes what that one was made of, so that it is made anew after it. A view has no note: it is looked through.
        """
        if mart.table not in self.seen:
            below = {table: self.at(self.marts[table]) for table in mart.upstream if table in self.marts}
            with translated(mart.table):
                self.seen[mart.table] = self._on(mart, below)
        return self.seen[mart.table]

    def _on(self, mart: Mart, below: Mapping[str, MartStanding]) -> MartStanding:
        made = load(self.lake.catalog, mart.table)
        before = _noted(made.properties) if made else {}
        through = {
            table: (f"{why}, which {lower} has not followed", standing.heads.get(table))
            for lower, standing in below.items()
            for table, why in standing.left.items()
        }
        own: dict[str, str] = {}
        heads: dict[str, str | None] = {}
        absent: list[str] = []
        trimmed = False
        for table in sorted(beneath(mart, self.marts) & self.known):
            loaded = load(self.lake.catalog, table)
            if loaded is None:
                absent.append(table)
                continue
            metadata = loaded.metadata
            _by_new_name(before, table, f"{metadata.table_uuid}/")
            if metadata.current_snapshot_id is None:
                continue
            chain = _chain(metadata)
            now = next((f"/{each.revision}" for each in chain if each.revision), "")
            heads[table] = f"{metadata.table_uuid}/{metadata.current_snapshot_id}{now}"
            trimmed |= bool(metadata.properties.get(EXPIRED_BEFORE))
            if made and (why := _corrected(metadata, chain, before.get(table), merged=table in self.merged)):
                own[table] = why
        built = mart.table in self.built
        helped = built and (self.full_refresh or not (trimmed or mart.keeps))
        left = {**({} if helped else own), **{table: why for table, (why, _) in through.items()}}
        if made and not built:
            heads = {**before}
        else:
            heads |= {table: before.get(table) if table in own else through[table][1] for table in left}
        return MartStanding(
            left,
            anew=helped and bool(own.keys() - through.keys()),
            heads={table: head for table, head in heads.items() if head is not None},
            absent=tuple(absent),
        )


def _by_new_name(noted: dict[str, str], table: str, uuid: str) -> None:
    """A table that was renamed is noted by its old name."""
    old = next((name for name, head in noted.items() if head.startswith(uuid)), table)
    if old != table:
        noted[table] = noted.pop(old)


def _corrected(
    metadata: TableMetadata, chain: Sequence[Step], before: str | None, *, merged: bool
) -> str | None:
    uuid, snapshot, noted = [*(before or "").split("/"), "", ""][:3]
    if uuid not in {"", str(metadata.table_uuid)}:
        return "was made anew"
    since = int(snapshot) if snapshot else None
    return correction(
        chain,
        since,
        noted,
        undone=since is not None and is_undone(metadata, since),
        merged=merged,
    )


def _noted(properties: Mapping[str, str]) -> dict[str, str]:
    with suppress(ValueError):
        found = json.loads(properties.get(MADE_OF, "{}"))
        revisions = found.pop(REVISIONS, {})
        return {
            table: "/".join([str(head), *filter(None, [revisions.get(table)])])
            for table, head in found.items()
        }
    return {}


def _as_note(heads: Mapping[str, str]) -> str:
    """An earlier Tidemark passes over the revisions."""
    parts = {table: head.split("/") for table, head in heads.items()}
    revisions = {table: revision for table, (_, _, *more) in parts.items() for revision in more}
    return json.dumps(
        {**{table: "/".join(each[:2]) for table, each in parts.items()}, REVISIONS: revisions}, sort_keys=True
    )


def _chain(metadata: TableMetadata) -> list[Step]:
    """The way to main, newest first; retention's deletes pass for nothing: a mart keeps those rows in its figures."""
    own = by_retention(metadata)
    steps = map(_step, ancestors(metadata, metadata.current_snapshot_id))
    return [replace(each, operation="") if each.snapshot_id in own else each for each in steps]


def _step(snapshot: Snapshot) -> Step:
    text = summary_of(snapshot).get(LEDGER_PROPERTY)
    ledger = json.loads(text) if text else {}
    operation = snapshot.summary.operation.value if snapshot.summary and removed_rows(snapshot) else ""
    raised = ledger.get("append_revision" if ledger.get("kind") == "merge" else "revision")
    return Step(
        snapshot.snapshot_id,
        operation,
        str(ledger.get("action") or ledger.get("kind") or ""),
        "" if raised is None else f"{ledger.get('epoch', 0)}.{raised}",
    )
