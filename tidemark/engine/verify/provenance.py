"""Where a row comes from, as its table tells: receipt, schema, approvals."""

from datetime import datetime
from functools import partial
from typing import Any

from tidemark.domain.columns.names import all_names
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.times import iso
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import asked
from tidemark.engine.access.table_state import TableState
from tidemark.engine.schema.history import history
from tidemark.engine.schema.subjects import subjects_of
from tidemark.engine.schema.writers import read_schemas

_COLUMNS = frozenset({"add_column", "widen_type"})
"""Changes that every later schema with the column needs."""


def receipt_facts(receipt: tuple[int, datetime, Ledger] | None) -> dict[str, Any]:
    """Who brought a row in; nothing of it is known once its receipt was expired."""
    snapshot, at, ledger = receipt or (None, None, None)
    return {
        "snapshot_id": snapshot,
        "published_at": iso(at),
        "kind": ledger.kind if ledger else None,
        "run_id": ledger.run_id if ledger else None,
        "batch_id": ledger.batch_id if ledger else None,
        "contract": ledger.contract if ledger else None,
        "tidemark": ledger.tidemark if ledger else None,
    }


def schema_facts(lake: Lake, contract: Contract, schema_id: int | None) -> dict[str, Any] | None:
    """Subject and version of a schema id; None when the registry does not answer or forgot it."""
    if schema_id is None:
        return None
    subject, version = None, None
    for each in subjects_of(contract):
        versions, _ = asked(partial(lake.registry(contract.cluster).versions, each))
        for found in versions or ():
            if found.id == schema_id:
                subject, version = each, found.version
    return {"id": schema_id, "subject": subject, "version": version}


def approvals(
    lake: Lake, contract: Contract, state: TableState, schema_id: int | None
) -> list[dict[str, Any]]:
    """Changes of the table that were made for this schema, or of columns that it has, with who let them through.

    An entry names the schema that first needed it; later ones have the column, too. While the registry does not answer
    only the former are known.
    """
    kept, entries = ("plan", "by", "reason", "at", "run_id"), history(state)
    paths = [{each["path"] for each in entry["changes"] if each["kind"] in _COLUMNS} for entry in entries]
    columns = _columns_of(lake, contract, state, schema_id) if any(paths) else None
    names = all_names(columns) if columns else frozenset()
    return [
        {name: entry.get(name) for name in kept}
        for entry, changed in zip(entries, paths, strict=True)
        if schema_id in entry.get("schema_ids", ()) or changed & names
    ]


def _columns_of(lake: Lake, contract: Contract, state: TableState, schema_id: int | None) -> Struct | None:
    """Those of a schema, of a record without one those that the contract declares; None where nobody knows them."""
    found, _ = asked(partial(read_schemas, lake, contract, state))
    if found is None or schema_id is None:
        return found.plain if found else None
    return next((each.columns for each in found.writers if each.id == schema_id), None)
