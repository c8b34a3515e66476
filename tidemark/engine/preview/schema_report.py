"""A table's columns with their ids, its layout, and how it came to be so (`tidemark schema`)."""

from typing import Any

from pyiceberg.types import ListType, MapType, StructType

from tidemark.domain.config.contract import Contract
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_shape import fields
from tidemark.engine.access.table_state import load, read_state
from tidemark.engine.schema.history import history
from tidemark.engine.table.absent import unloaded


def schema_report(lake: Lake, contract: Contract) -> dict[str, Any]:
    """{"table", "format_version", "schema_id", "columns", "partition_by", "sort_by", "history"}.

    Columns are all fields at any depth: {"id", "path", "type", "required", "doc"}; the type of a struct, list or map is
    just that word, its parts follow. History, oldest first: {"plan", "at", "by", "reason", "run_id", "schema_ids",
    "changes", "declared", "authenticated"}.

    Raises:
        Refused: the table does not exist.
        Outage: the catalog does not answer.
    """
    with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
        table = load(lake.catalog, contract.table)
        if table is None:
            raise unloaded(lake, contract.table)
        state = read_state(lake.catalog, contract.table, ledger=False)
    return {
        "table": contract.table,
        "format_version": table.metadata.format_version,
        "schema_id": table.metadata.current_schema_id,
        "columns": [
            {
                "id": field.field_id,
                "path": ".".join(path),
                "type": _word(field.field_type),
                "required": field.required,
                "doc": field.doc,
            }
            for path, field in fields(table.metadata)
        ],
        "partition_by": list(state.shape.partition_by),
        "sort_by": list(state.shape.sort_by),
        "history": history(state),
    }


def _word(kind: Any) -> str:
    match kind:
        case StructType():
            return "struct"
        case ListType():
            return "list"
        case MapType():
            return "map"
    return str(kind)
