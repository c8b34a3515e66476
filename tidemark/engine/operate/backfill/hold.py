"""A backfill that copies a table reads one snapshot of it for hours or days: a tag on the source keeps that snapshot.

A tag is respected by everyone's expiry, also by those who maintain a table that is not ours.
"""

import time

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.naming import SHADOW
from tidemark.domain.ledger.backfill import BACKFILL, Backfill, Source
from tidemark.domain.times import DAY_MS
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.operate.backfill.pace import Pace, Say
from tidemark.engine.operate.backfill.plan import source_of

DAYS = 365
"""After so long a tag that nobody came to remove keeps nothing any more; expirers count that from its snapshot."""


def tag_of(contract: Contract) -> str:
    """The name of the tag on the source of a table's backfill."""
    return f"tidemark_backfill_{contract.table}"


def hold(lake: Lake, contract: Contract, source: Source, plan: Backfill, say: Say) -> None:
    """Tag the snapshot that is read; said where the source does not let us, for then someone else must keep it."""
    if source.kind != "table" or plan.snapshot is None:
        return
    loaded = load(lake.catalog, source.name)
    there = loaded.metadata.refs.get(tag_of(contract)) if loaded else None
    if there is not None and there.snapshot_id == plan.snapshot:
        return
    found = loaded.metadata.snapshot_by_id(plan.snapshot) if loaded else None
    age = int(time.time() * 1000 - found.timestamp_ms) // DAY_MS if found else 0
    try:
        lake.spark().sql(
            f"ALTER TABLE {lake.identifier(source.name)} CREATE OR REPLACE TAG `{tag_of(contract)}` "
            f"AS OF VERSION {plan.snapshot} RETAIN {DAYS + max(0, age)} DAYS"
        )
    except Exception as error:  # noqa: BLE001 - a source that may only be read can be loaded all the same
        say(f"{source} cannot be tagged ({error}): nobody may expire its snapshot {plan.snapshot} meanwhile")


def hold_renamed(lake: Lake, contract: Contract, former: str) -> None:
    """Let the tag of a backfill under way have the name that its table `former` gets; before that gets it."""
    text = lake.state(former + SHADOW, ledger=False).properties.get(BACKFILL)
    if text is None:
        return
    plan = Backfill.model_validate_json(text)
    source = source_of(contract, plan)
    hold(lake, contract, source, plan, Pace().say)
    let_go(lake, contract.model_copy(update={"table": former}), source)


def let_go(lake: Lake, contract: Contract, source: Source) -> None:
    """Remove the tag; before the shadow, which says that there is one, is dropped."""
    loaded = load(lake.catalog, source.name) if source.kind == "table" else None
    if loaded is not None and tag_of(contract) in loaded.metadata.refs:
        lake.spark().sql(
            f"ALTER TABLE {lake.identifier(source.name)} DROP TAG IF EXISTS `{tag_of(contract)}`"
        )
