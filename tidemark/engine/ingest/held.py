"""The batch that was held back, and whether someone has accepted it: two notes on the table.

`epoch e`, then `p:from-to` per partition. Both hold for one position of the ledger: once it has moved they are void.
"""

import re

from tidemark.domain.errors import Stopped
from tidemark.domain.ledger.offsets import OffsetRange, Ranges
from tidemark.domain.states import HELD_BACK
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import ACCEPTED_BATCH, HELD_BATCH, TableState
from tidemark.engine.table.properties import set_properties

_EPOCH = re.compile(r"epoch (\d+),")
_RANGE = re.compile(r"(\d+):(\d+)-(\d+)")


def held_batch(state: TableState) -> dict[int, OffsetRange] | None:
    """The batch that the last run held back, as long as nothing was published since."""
    return _noted(state, HELD_BATCH)


def accepted_batch(state: TableState) -> dict[int, OffsetRange] | None:
    """The batch that someone lets through as it is, as long as nothing was published since."""
    return _noted(state, ACCEPTED_BATCH)


def hold_back(lake: Lake, state: TableState, ranges: Ranges, error: BaseException) -> None:
    """Note which batch was stopped for what is in it, so that this one and no other can be accepted."""
    if not isinstance(error, Stopped) or error.state not in HELD_BACK or state.ledger is None:
        return
    text = spelled(ranges, state.ledger.epoch)
    if state.properties.get(HELD_BATCH) != text:
        set_properties(lake, state.table, {HELD_BATCH: text})


def forget(lake: Lake, state: TableState) -> None:
    """Take the notes away, after a batch was published."""
    noted = [name for name in (HELD_BATCH, ACCEPTED_BATCH) if name in state.properties]
    if noted:
        set_properties(lake, state.table, dict.fromkeys(noted))


def emptied(state: TableState) -> dict[str, str]:
    """The notes that are there, as what takes the table back leaves them: the next such batch is asked for anew."""
    return {name: "" for name in (HELD_BATCH, ACCEPTED_BATCH) if state.properties.get(name)}


def spelled(ranges: Ranges, epoch: int) -> str:
    """`epoch 0,0:100-140,1:7-9`."""
    return ",".join(
        [f"epoch {epoch}", *(f"{p}:{each.start}-{each.end}" for p, each in sorted(ranges.items()))]
    )


def _noted(state: TableState, name: str) -> dict[int, OffsetRange] | None:
    text, ledger = state.properties.get(name, ""), state.ledger
    epoch = _EPOCH.match(text)
    if ledger is None or epoch is None or int(epoch[1]) != ledger.epoch:
        return None
    found = {int(p): OffsetRange(int(a), int(b)) for p, a, b in _RANGE.findall(text)}
    is_next = all(each.start == ledger.next.get(p, 0) for p, each in found.items())
    return found if found and is_next else None
