"""The batch that was held back, and whether someone has accepted it: two notes on the table, `p:from-to` per partition.

Both are about one stand of the ledger: once it has moved, they say nothing.
"""

import re

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange, Ranges
from tidemark.domain.states import HELD_BACK
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import ACCEPTED_BATCH, HELD_BATCH, TableState
from tidemark.engine.table.create import set_properties

_RANGE = re.compile(r"(\d+):(\d+)-(\d+)")


def held_batch(state: TableState) -> dict[int, OffsetRange] | None:
    """The batch that the last run held back, as long as nothing was published since."""
    return _noted(state, HELD_BATCH)


def accepted_batch(state: TableState) -> dict[int, OffsetRange] | None:
    """The batch that someone lets through as it is, as long as nothing was published since."""
    return _noted(state, ACCEPTED_BATCH)


def hold_back(lake: Lake, state: TableState, ranges: Ranges, error: BaseException) -> None:
    """Note which batch was stopped for what is in it, so that this one and no other can be accepted."""
    text = spelled(ranges)
    if isinstance(error, Stopped) and error.state in HELD_BACK and state.properties.get(HELD_BATCH) != text:
        set_properties(lake, state.table, {HELD_BATCH: text})


def forget(lake: Lake, state: TableState) -> None:
    """Take the notes away, after a batch was published."""
    noted = [name for name in (HELD_BATCH, ACCEPTED_BATCH) if name in state.properties]
    if noted:
        set_properties(lake, state.table, dict.fromkeys(noted))


def spelled(ranges: Ranges) -> str:
    """`0:100-140,1:7-9`."""
    return ",".join(f"{p}:{each.start}-{each.end}" for p, each in sorted(ranges.items()))


def _noted(state: TableState, name: str) -> dict[int, OffsetRange] | None:
    found = {
        int(p): OffsetRange(int(a), int(b)) for p, a, b in _RANGE.findall(state.properties.get(name, ""))
    }
    return found if found and _is_next(found, state.ledger) else None


def _is_next(ranges: Ranges, ledger: Ledger | None) -> bool:
    return ledger is not None and all(each.start == ledger.next.get(p, 0) for p, each in ranges.items())
