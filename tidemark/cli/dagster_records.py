"""What Dagster's records say about tables: how their last run ended, whether they were ever loaded, sightings of lag.

Nothing here is needed: with no instance, or one that does not answer, there are no hints.
"""

import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemark.engine.look.status import Hint

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun

LOOK_BACK = 100
"""Ended runs that are looked at for tables whose newest run has not ended; what lies further back gives no hint."""


def hints(home: Path, tables: Sequence[str]) -> Mapping[str, Hint]:
    """Hints by table; empty when Dagster has never been used here or its storage does not answer."""
    folder = Path(os.environ.get("DAGSTER_HOME") or home / "dagster").absolute()
    if not tables or not (folder / "dagster.yaml").exists():
        return {}
    from dagster import DagsterInstance  # noqa: PLC0415 - a second of imports, only when something lags

    from sensors.sighted import recorded_sightings  # noqa: PLC0415

    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    os.environ["DAGSTER_HOME"] = str(folder)
    try:
        with DagsterInstance.get() as instance:
            stopped = _last_runs(instance, tables)
            loaded = _loaded(instance, tables)
            sightings = recorded_sightings(instance)
    except Exception:  # noqa: BLE001 - a cache that does not answer
        return {}
    return {
        table: Hint(
            stopped=stopped[table][0] if table in stopped else None,
            at=stopped[table][1] if table in stopped else None,
            loaded=table in loaded,
            sightings=tuple(sightings.get(table, ())),
        )
        for table in tables
    }


def _last_runs(instance: "DagsterInstance", tables: Sequence[str]) -> dict[str, tuple[Any, datetime]]:
    """State (None: it went well) and end of the newest ended run of each table.

    Dagster knows the newest run of an asset, however long ago it was; if that one goes on, the one before it counts.
    """
    from dagster import DagsterRunStatus, RunsFilter  # noqa: PLC0415

    from assets.names import table_key, table_of  # noqa: PLC0415

    done = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE]
    known = instance.get_asset_records([table_key(table) for table in tables])
    newest: dict[str, set[str]] = defaultdict(set)
    for each in known:
        if run_id := each.asset_entry.last_run_id:
            newest[run_id].add(table_of(each.asset_entry.asset_key))
    records = (
        list(instance.get_run_records(RunsFilter(run_ids=sorted(newest), statuses=done))) if newest else []
    )
    if len(records) < len(newest):
        records += instance.get_run_records(RunsFilter(statuses=done), limit=LOOK_BACK)
    found: dict[str, tuple[Any, datetime]] = {}
    for record in sorted(records, key=lambda each: -(each.end_time or 0)):
        at = datetime.fromtimestamp(record.end_time or 0, UTC)
        run = record.dagster_run
        selected = {table_of(key) for key in run.asset_selection or ()}
        chosen = selected or newest[run.run_id]  # of a whole job Dagster knows whose newest run it is
        for table, state in _ends(instance, run, chosen & set(tables)):
            found.setdefault(table, (state, at))
    return found


def _ends(
    instance: "DagsterInstance", run: "DagsterRun", chosen: AbstractSet[str]
) -> Iterable[tuple[str, Any]]:
    from assets.names import STOPPED_TAG  # noqa: PLC0415

    stopped = {} if run.is_success else json.loads(run.tags.get(STOPPED_TAG, "{}"))
    crashed = chosen and not run.is_success and not stopped and not _interrupted(instance, run.run_id)
    return [(table, stopped.get(table, "failed" if crashed else None)) for table in chosen]


def _interrupted(instance: "DagsterInstance", run_id: str) -> bool:
    """Whether the run was asked to end, as when Dagster itself is stopped: no fault of its tables."""
    from dagster import DagsterEventType  # noqa: PLC0415

    found = instance.get_records_for_run(run_id, of_type=DagsterEventType.RUN_FAILURE, limit=1).records
    event = found[0].event_log_entry.dagster_event if found else None
    error = getattr(event.event_specific_data, "error", None) if event else None
    return error is not None and "DagsterExecutionInterruptedError" in error.message


def _loaded(instance: "DagsterInstance", tables: Sequence[str]) -> set[str]:
    from assets.names import table_key, table_of  # noqa: PLC0415

    records = instance.get_asset_records([table_key(table) for table in tables])
    return {table_of(r.asset_entry.asset_key) for r in records if r.asset_entry.last_materialization}
