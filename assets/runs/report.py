"""From an outcome of the engine to what Dagster shows: numbers where it can plot them, text where it cannot.

Snapshot ids are text: they do not fit into the numbers of a browser. Events are kept small
(domain/cadence/event_budget.py): offsets and state of a result are in `tidemark/outcome`, fates that are rare are left
out at zero.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG, extract_data_version_from_entry

from assets.checks.repeated import repeated
from assets.column_lineage import from_append, from_topic
from assets.names import OUTCOME, RECEIPT, table_key
from assets.runs.snapshot_ids import ids_as_text
from assets.specs import column_schema
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import is_upsert_table
from tidemark.domain.errors import Outage, Stopped
from tidemark.domain.outcome import Outcome
from tidemark.domain.states import REMEDIES
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.config.discovery import columns_to_json


def result(
    contract: Contract,
    outcome: Outcome,
    state: TableState | None,
    columns: Struct | None = None,
) -> dg.MaterializeResult[None]:
    """The one result of a table in a run; `state`: as it is now, if that is known; `columns` on a change.

    The data version is the newest receipt: what is made of the table is not stale while nothing was published.
    """
    metadata = _metadata(outcome)
    if state is not None and is_upsert_table(contract):
        metadata["delete_files"] = state.delete_files
        metadata["share_deleted"] = round(state.delete_rows / max(1, state.rows), 4)
    metadata[OUTCOME] = dg.MetadataValue.json(ids_as_text(outcome.as_json()))
    if state is not None:
        metadata["dagster/row_count"] = state.live_rows
    if state is not None and columns is not None:
        listed = columns_to_json(columns)
        made_of = (from_append if is_upsert_table(contract) else from_topic)(contract, listed)
        metadata["dagster/uri"] = state.location
        metadata["dagster/column_schema"] = column_schema(contract, listed, made_of)
        metadata["dagster/column_lineage"] = made_of
    version = dg.DataVersion(str(state.receipt)) if state is not None and state.receipt else None
    return dg.MaterializeResult(asset_key=table_key(outcome.table), metadata=metadata, data_version=version)


def untold(
    lake: Lake, instance: dg.DagsterInstance, contracts: Iterable[Contract], run_id: str
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Of the tables to which this run committed last and whose result it could not give: it was ended before.

    What is made of them is then made anew as after any result; what their checks say goes on to be shown. Of tables
    after one that cannot be reached now nothing is told.
    """
    for contract in contracts:
        try:
            state = lake.state(contract.table)
        except Stopped:
            continue
        except Outage:
            return
        ledger = state.merged or state.ledger
        if ledger is not None and ledger.run_id == run_id:
            yield from published(instance, contract, state)


def published(
    instance: dg.DagsterInstance, contract: Contract, state: TableState
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """What is known of the last commit of a run that gave no result, or whose result is no more."""
    yield dg.AssetMaterialization(
        table_key(contract.table),
        description="Published by a run that has given no result here.",
        metadata={
            "dagster/row_count": state.live_rows,
            "snapshot_id": str(state.head),
            RECEIPT: str(state.receipt),
            **_clock("committed_at", state.committed_at),
        },
        tags={DATA_VERSION_TAG: str(state.receipt)},
    )
    yield from repeated(instance, contract)


def is_unreported(
    instance: dg.DagsterInstance, contract: Contract, state: TableState, run_id: str = ""
) -> bool:
    """Whether Dagster lacks the result of the newest receipt, and no run that goes on will give it.

    `run_id`: the run that asks, which is none of those.
    """
    if state.receipt is None or _told_receipt(instance, contract) == str(state.receipt):
        return False
    ledger = state.merged or state.ledger
    by = ledger.run_id if ledger else run_id
    run = instance.get_run_by_id(by) if by != run_id else None
    return run is None or run.is_finished


def _told_receipt(instance: dg.DagsterInstance, contract: Contract) -> str | None:
    """The receipt that the table's newest result in Dagster is of."""
    entry = instance.get_latest_materialization_event(table_key(contract.table))
    version = extract_data_version_from_entry(entry) if entry else None
    return version.value if version else None


def observation(contract: Contract, outcome: Outcome) -> dg.AssetObservation:
    """What a run that goes on has done for a table so far: short, for it comes often."""
    return dg.AssetObservation(
        asset_key=table_key(contract.table),
        metadata={**_shared(outcome), "offsets": dg.MetadataValue.json(_offsets(outcome))},
    )


def quarantine_landed(contract: Contract, outcome: Outcome) -> dg.AssetMaterialization:
    """Rows came into the quarantine table."""
    return dg.AssetMaterialization(
        asset_key=table_key(contract.quarantine_table),
        metadata={
            "rows_quarantined": outcome.rows.quarantined,
            "share": outcome.rows.quarantined / max(1, outcome.rows.read),
            "look": f"tidemark status {contract.table} --quarantine",
        },
    )


def failure(stopped: Sequence[Outcome], others: str = "") -> dg.Failure:
    """One failure for all tables that stopped, which a retry would not help. `others`: what is said of others."""
    errors = {each.table: dict(each.error or {}) for each in stopped}
    lines = [
        f"{error.get('message') or table}\n  safe: {error.get('safe') or REMEDIES['failed'].safe}"
        f"\n  next: {error.get('next_step') or 'read the log of this run'}"
        for table, error in errors.items()
    ]
    return dg.Failure(
        description="\n".join([*lines, *filter(None, [others])]),
        metadata={
            **{table: dg.MetadataValue.json(ids_as_text(error)) for table, error in errors.items()},
            "tidemark/outcomes": dg.MetadataValue.json(ids_as_text([each.as_json() for each in stopped])),
        },
        allow_retries=False,
    )


def _metadata(outcome: Outcome) -> dict[str, Any]:
    seconds = {f"seconds_{stage}": round(taken, 3) for stage, taken in outcome.stages.items()}
    rare = {
        "tombstones": outcome.rows.tombstones,
        "skipped": outcome.rows.skipped,
        "rows_late": outcome.late,
        "unrouted": outcome.unrouted,
        "timestamps_ahead": outcome.ahead,
    }
    return {
        **_shared(outcome),
        **{fate: count for fate, count in rare.items() if count},
        **_changes(outcome),
        "files": outcome.files,
        "schema_ids": ", ".join(str(each) for each in sorted(outcome.schema_ids)),
        "seconds": round(outcome.seconds, 3),
        **seconds,
        **_clock("stream_clock", outcome.stream_clock),
    }


def _changes(outcome: Outcome) -> dict[str, Any]:
    """What merges did to rows: inserted, updated, deleted always, the rest, and undone history, where there is any."""
    if outcome.changes is None:
        return {}
    undone = {"history": outcome.undone} if outcome.undone else {}
    found = outcome.changes._asdict()
    always = ("inserted", "updated", "deleted")
    names = {name: f"rows_{name}" for name in found if name != "read"}
    shown = {names[name]: n for name, n in found.items() if name in names and (n or name in always)}
    return {**shown, **undone}


def _shared(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {
        "commits": outcome.commits,
        "rows_read": outcome.rows.read,
        "rows_written": outcome.rows.written,
        "rows_quarantined": outcome.rows.quarantined,
        "lag_records": outcome.lag_records,
        "bytes": outcome.bytes,
    }
    if outcome.snapshot_id is not None:
        found["snapshot_id"] = str(outcome.snapshot_id)
    return {**found, **_clock("table_clock", outcome.table_clock)}


def _offsets(outcome: Outcome) -> dict[str, list[int]]:
    return {str(p): [outcome.from_[p], o] for p, o in sorted(outcome.next.items())}


def _clock(name: str, at: datetime | None) -> dict[str, Any]:
    return {name: dg.MetadataValue.timestamp(at)} if at else {}
