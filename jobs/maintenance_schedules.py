"""Schedules of maintenance: every so often each kind looks at all tables, in one run, and acts where it pays."""

from collections.abc import Sequence

import dagster as dg

from assets.checks.kafka import check_keys
from assets.names import HEALTH, KAFKA_RECONCILIATION, maintenance_key
from jobs.scheduled import scheduled
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import MaintenanceSchedules
from tidemark.domain.maintenance.gain import KINDS, Kind
from tidemark.engine.config.configuration import Places

_SAYS: dict[Kind, str] = {
    "compaction": "Looks for small files and deleted rows in all tables, and rewrites them where that pays.",
    "snapshot_expiry": "Expires snapshots and rows that nothing keeps, judges files.",
    "orphan_files": "Removes files that no snapshot names.",
}


def maintenance_schedules(
    contracts: Sequence[Contract], when: MaintenanceSchedules, where: Places
) -> list[dg.ScheduleDefinition]:
    """One per kind, on by default; the daily one also judges the tables' files, and another compares with Kafka."""
    if not contracts:
        return []
    crons: dict[Kind, str] = {
        "compaction": when.compaction,
        "snapshot_expiry": when.snapshots,
        "orphan_files": when.orphans,
    }
    kinds = [_schedule(kind, crons[kind], contracts, where) for kind in KINDS]
    return [*kinds, _reconciliation(when.snapshots, contracts, where)]


def _reconciliation(cron: str, contracts: Sequence[Contract], where: Places) -> dg.ScheduleDefinition:
    """Apart from expiry: what reads Kafka for long holds up no maintenance, of which there is one run at a time."""
    says = "Compares the newest records of all tables with Kafka."
    checks = dg.AssetSelection.checks(*check_keys(contracts, KAFKA_RECONCILIATION))
    job = dg.define_asset_job("reconcile_with_kafka", checks, description=says)
    return scheduled(job, cron, says, where)


def _schedule(kind: Kind, cron: str, contracts: Sequence[Contract], where: Places) -> dg.ScheduleDefinition:
    selection: dg.AssetSelection = dg.AssetSelection.assets(
        *(maintenance_key(each.table, kind) for each in contracts)
    )
    if kind == "snapshot_expiry":
        selection |= dg.AssetSelection.checks(*check_keys(contracts, HEALTH))
    job = dg.define_asset_job(
        kind,
        selection=selection,
        description=f"{kind.replace('_', ' ').capitalize()} of all tables that need it.",
    )
    return scheduled(job, cron, _SAYS[kind], where)
