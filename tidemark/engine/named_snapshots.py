"""Snapshots of an append table that others still name: the ledger of its upsert table, and notes on the table itself.

Everyone else tags what must stay; tags are always kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from tidemark.domain.contract import Contract
from tidemark.domain.ledger import LEDGER_PROPERTY, LEDGER_TAG
from tidemark.engine.lake import Lake
from tidemark.engine.table_state import ancestors, load, newest_receipt, summary_of

NAMED = "tidemark.named."
"""A property `tidemark.named.<who>` = snapshot id keeps that snapshot for a reader of the table."""


@dataclass(frozen=True, slots=True)
class Named:
    """Ids that are named, and the one that the upsert table reads on from."""

    ids: frozenset[int] = frozenset()
    read_up_to: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    """What the upsert table has merged, per partition; empty when there is none or it never merged."""
    epoch: int | None = None


def upsert_table(contract: Contract) -> str | None:
    """The name of the contract's second table."""
    if contract.upsert is None:
        return None
    return contract.upsert.table or f"{contract.table}_current"


def named_snapshots(lake: Lake, contract: Contract) -> Named:
    """What must stay of the append table of `contract`."""
    append = load(lake.catalog, contract.table)
    properties = append.metadata.properties if append else {}
    noted = {int(v) for k, v in properties.items() if k.startswith(NAMED) and v.lstrip("-").isdecimal()}
    name = upsert_table(contract)
    upsert = load(lake.catalog, name) if name else None
    if upsert is None:
        return Named(frozenset(noted))
    metadata = upsert.metadata
    tag = metadata.refs.get(LEDGER_TAG)
    heads = [metadata.current_snapshot_id, tag.snapshot_id if tag else None]
    texts = [summary_of(s).get(LEDGER_PROPERTY) for head in heads for s in ancestors(metadata, head)]
    newest = _merge(summary_of(newest_receipt(metadata)).get(LEDGER_PROPERTY))
    return Named(
        frozenset(noted | {each.append_snapshot for each in map(_merge, texts) if each.append_snapshot}),
        read_up_to=newest.append_snapshot,
        offsets=newest.next,
        epoch=newest.epoch,
    )


class _Merge(BaseModel):
    """The part of a merge ledger that matters here."""

    model_config = ConfigDict(extra="ignore")
    kind: str = ""
    append_snapshot: int | None = None
    next: dict[int, int] = Field(default_factory=dict)
    epoch: int | None = None


def _merge(text: str | None) -> _Merge:
    found = _Merge.model_validate_json(text) if text else _Merge()
    return found if found.kind == "merge" else _Merge()
