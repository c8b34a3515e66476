"""Maintenance of the tables of a contract: append, quarantine, upsert. Faults are kept apart per table and kind."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta

from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import current_of
from tidemark.domain.errors import Outage, Overtaken, TidemarkError, error_fields
from tidemark.domain.maintenance.gain import ASSETS, Asset, Gain, Kind
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import named
from tidemark.engine.maintain.compact import compact
from tidemark.engine.maintain.expire import expire
from tidemark.engine.maintain.expire_rows import expire_rows
from tidemark.engine.maintain.named_snapshots import named_snapshots
from tidemark.engine.maintain.orphans import remove_orphans
from tidemark.engine.table.lease import Held
from tidemark.engine.table.operations import Operation, Signature, record

BUDGET = timedelta(minutes=10)
"""After so long no further commit is begun on a table; what is left goes on next time."""


def tables_of(contract: Contract) -> list[str]:
    """The tables that one contract stands for."""
    current = current_of(contract)
    merged = (current.contract.table, current.memory) if current else ()
    return [contract.table, contract.quarantine_table, *merged]


def maintain(
    lake: Lake, contract: Contract, assets: Collection[Asset] = ASSETS, *, dry_run: bool = False
) -> Iterator[Gain]:
    """What each kind of maintenance found and did, table by table; never raises."""
    work: Mapping[Asset, Callable[[], Iterator[Gain]]] = {
        "compaction": lambda: _compaction(lake, contract, dry_run=dry_run),
        "snapshot_expiry": lambda: _expiry(lake, contract, dry_run=dry_run),
        "orphan_files": lambda: _orphans(lake, contract, dry_run=dry_run),
    }
    for each in ASSETS:
        if each in assets:
            yield from work[each]()


def maintain_now(
    lake: Lake, contract: Contract, assets: Collection[Asset], signature: Signature
) -> Operation:
    """The same at once, for the verb `maintain`: logged with who and why.

    Raises:
        TidemarkError: a table could not be maintained; what was done to the others is in the log.
    """
    before = lake.state(contract.table, ledger=False).head
    gains = list(maintain(lake, contract, assets, dry_run=signature.dry_run))
    operation = Operation(
        by=signature.by,
        verb="maintain",
        table=contract.table,
        reason=signature.reason,
        run_id=signature.run_id,
        arguments={
            "dry_run": signature.dry_run,
            "kinds": [each for each in ASSETS if each in assets],
            "found": [each.as_json() for each in gains],
        },
        before_snapshot=before,
        after_snapshot=lake.state(contract.table, ledger=False).head,
    )
    if not signature.dry_run:
        record(lake, operation)
    if failed := [each for each in gains if each.error]:
        raise TidemarkError(
            "; ".join(f"{each.table} {each.kind}: {each.reason}" for each in failed),
            next_step=f"tidemark maintain {contract.table}",
            table=contract.table,
        )
    return operation


def _compaction(lake: Lake, contract: Contract, *, dry_run: bool) -> Iterator[Gain]:
    limits = contract.maintenance.compaction
    for table in tables_of(contract):
        until = time.monotonic() + BUDGET.total_seconds()

        def work(table: str = table, until: float = until) -> Gain:
            return compact(lake, table, limits, until=until, dry_run=dry_run)

        yield _apart(lake, table, "compaction", work)


def _expiry(lake: Lake, contract: Contract, *, dry_run: bool) -> Iterator[Gain]:
    limits = contract.maintenance.snapshots
    if contract.retention is not None:
        yield _apart(
            lake,
            contract.table,
            "retention",
            lambda: expire_rows(lake, contract, dry_run=dry_run),
        )
    for table in tables_of(contract):

        def work(table: str = table) -> Gain:
            return expire(
                lake, table, limits, lambda: named_snapshots(lake, contract, table), dry_run=dry_run
            )

        yield _apart(lake, table, "snapshot_expiry", work)


def _orphans(lake: Lake, contract: Contract, *, dry_run: bool) -> Iterator[Gain]:
    limits = contract.maintenance.orphans
    for table in tables_of(contract):

        def work(table: str = table) -> Gain:
            return remove_orphans(lake, table, limits, dry_run=dry_run)

        yield _apart(lake, table, "orphan_files", work)


def _apart(lake: Lake, table: str, kind: Kind, work: Callable[[], Gain]) -> Gain:
    """The gain, or why there is none: a table that cannot be maintained now takes no other with it."""
    try:
        with named(table):
            try:
                return work()
            except Held as held:
                return Gain(table, kind, acted=False, reason=str(held))
    except Overtaken:
        return Gain(
            table, kind, acted=False, reason="someone wrote at the same time and was faster; next time"
        )
    except Exception as error:  # noqa: BLE001 - the border between tables
        if isinstance(error, Outage) and error.state == "spark_down":
            lake.lose_spark()
        return Gain(table, kind, acted=False, reason=str(error), error=error_fields(error))
