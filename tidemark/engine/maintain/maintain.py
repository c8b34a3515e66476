"""Maintenance of the tables of a contract: append, quarantine, upsert. Faults are kept apart per table and kind."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from math import inf

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Outage, Overtaken, Stopped, TidemarkError, error_fields
from tidemark.domain.maintenance.gain import KINDS, Gain, Kind, Step
from tidemark.domain.states import OUTAGES, named_state
from tidemark.engine.access.lake import Lake, renewing_spark
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import load
from tidemark.engine.maintain.compact import compact
from tidemark.engine.maintain.expire import expire, fitted, plan_expiry
from tidemark.engine.maintain.expire_rows import expire_rows
from tidemark.engine.maintain.named_snapshots import named_snapshots
from tidemark.engine.maintain.orphans import remove_orphans
from tidemark.engine.maintain.whose import not_ours
from tidemark.engine.table.absent import gone
from tidemark.engine.table.lease import Leased
from tidemark.engine.table.operations import Operation, Signature, log_operation
from tidemark.engine.table.publish import tag_newest
from tidemark.engine.table.unlogged import log_missing_acts

BUDGET = timedelta(minutes=10)
"""After so long with one table nothing further is begun on it; what is left goes on next time."""
UNREACHED = "the time of the run was up before its turn; the schedule of maintenance goes on with it"
OVERFULL = 0.25
"""Of `max_count`: a table with so many more snapshots is relieved of them before its nightly expiry."""


def tables_of(contract: Contract) -> list[str]:
    """The tables that one contract stands for."""
    current = upsert_table_of(contract)
    merged = (current.contract.table, current.memory) if current else ()
    return [contract.table, contract.quarantine_table, *merged]


def maintain(
    lake: Lake,
    contract: Contract,
    kinds: Collection[Kind] = KINDS,
    *,
    until: float = inf,
    dry_run: bool = False,
) -> Iterator[Gain]:
    """What each kind of maintenance found and did, table by table; never raises.

    Nothing is begun after `until` (of time.monotonic), which may come before the budget of a table is used up.
    """
    limits = contract.maintenance
    steps: Mapping[Step, Callable[[str, float], Gain]] = {
        "compaction": lambda table, end: compact(lake, table, limits.compaction, until=end, dry_run=dry_run),
        "retention": lambda _, end: expire_rows(lake, contract, until=end, dry_run=dry_run),
        "snapshot_expiry": lambda table, end: _expired(lake, contract, table, end, dry_run=dry_run),
        "orphan_files": lambda table, end: remove_orphans(
            lake, table, limits.orphans, until=end, dry_run=dry_run
        ),
    }
    for kind in KINDS:
        if kind not in kinds:
            continue
        if kind == "snapshot_expiry" and contract.retention is not None:
            yield _apart(lake, contract, contract.table, "retention", steps["retention"], until)
        for table in tables_of(contract):
            yield _apart(lake, contract, table, kind, steps[kind], until)


def relieve(lake: Lake, contract: Contract) -> Iterator[Gain]:
    """Expiry of the tables that have far more snapshots than `max_count`, nothing about the others; never raises.

    Each commit writes all snapshots of its table again: a batch every three seconds makes 60,000 of them in a day.
    """

    def work(table: str, until: float) -> Gain:
        found = load(lake.catalog, table)
        if found is None or not _overfull(lake, contract, table, found.metadata):
            return Gain(table, "snapshot_expiry", acted=False, reason="it can wait")
        return _expired(lake, contract, table, until, dry_run=False)

    for table in tables_of(contract):
        gain = _apart(lake, contract, table, "snapshot_expiry", work)
        if gain.acted or gain.error:
            yield gain


def _overfull(lake: Lake, contract: Contract, table: str, metadata: TableMetadata) -> bool:
    """Whether a table has far more snapshots than `max_count`, and as many that nothing keeps."""
    limits = contract.maintenance.snapshots
    most = fitted(limits, metadata).max_count
    if len(metadata.snapshots) - most <= most * OVERFULL:
        return False
    expired = plan_expiry(metadata, limits, named_snapshots(lake, contract, table)).expired
    return len(expired) > most * OVERFULL


def maintain_now(lake: Lake, contract: Contract, kinds: Collection[Kind], signature: Signature) -> Operation:
    """`maintain` for the verb of that name: at once, and logged with who and why.

    Raises:
        Stopped, Outage: a table could not be maintained, or is gone; what was done to the others is in the log.
    """
    before = _head(lake, contract)
    gains = list(maintain(lake, contract, kinds, dry_run=signature.dry_run))
    operation = log_operation(
        lake,
        signature,
        "maintain",
        contract.table,
        {
            "kinds": [each for each in KINDS if each in kinds],
            "found": [each.as_json() for each in gains],
        },
        before,
        _head(lake, contract),
    )
    if failed := [each for each in gains if each.error]:
        raise _not_maintained(contract, failed)
    current = upsert_table_of(contract)
    for table in (contract.table, *([current.contract.table] if current else ())):
        if missing := gone(lake, table):
            raise missing
    return operation


def _head(lake: Lake, contract: Contract) -> int | None:
    with translated(contract.table):
        return lake.state(contract.table, ledger=False).head


def _not_maintained(contract: Contract, failed: Sequence[Gain]) -> TidemarkError:
    """A service that does not answer and a stop state keep their names: they are findings, not bad use."""
    told = "; ".join(f"{each.table} {each.kind}: {_detail(each)}" for each in failed)
    states = [named_state(each.error.get("state")) for each in failed if each.error]
    state = next((each for each in states if each in OUTAGES), states[0])
    kind = Outage if state in OUTAGES else Stopped
    return kind(state, contract.table, told, topic=contract.topic, cluster=contract.cluster)


def _detail(gain: Gain) -> str:
    """Why, where what the state means and the next step are told around it."""
    error = gain.error or {}
    detail = error.get("detail")
    return f"{error['state']}: {detail}" if detail else str(error.get("message", gain.reason))


def _expired(lake: Lake, contract: Contract, table: str, until: float, *, dry_run: bool) -> Gain:
    if not dry_run:
        log_missing_acts(lake, table)  # its receipt may go
        tag_newest(lake, table)  # others expire too, and no run of a paused table lets its tag follow
    must_stay = partial(named_snapshots, lake, contract, table)
    return expire(lake, table, contract.maintenance.snapshots, must_stay, until=until, dry_run=dry_run)


def _apart(
    lake: Lake,
    contract: Contract,
    table: str,
    kind: Step,
    work: Callable[[str, float], Gain],
    end: float = inf,
) -> Gain:
    """The gain, or why there is none: a table that cannot be maintained now takes no other with it.

    `work` gets the table and the moment (of time.monotonic) after which it begins nothing further, `end` at the latest.
    """
    if time.monotonic() > end:
        return Gain(table, kind, acted=False, reason=UNREACHED)
    try:
        with renewing_spark(lake), translated(table):
            if why := not_ours(lake, contract, table, to_the_row=kind == "retention"):
                return Gain(table, kind, acted=False, reason=why)
            try:
                return work(table, min(end, time.monotonic() + BUDGET.total_seconds()))
            except Leased as held:
                return Gain(table, kind, acted=False, reason=str(held))
    except Overtaken:
        return Gain(
            table, kind, acted=False, reason="someone wrote at the same time and was faster; next time"
        )
    except Exception as error:  # noqa: BLE001 - the border between tables
        return Gain(table, kind, acted=False, reason=str(error), error=error_fields(error))
