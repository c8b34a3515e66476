"""Columns that a table has had and that somebody has renamed or dropped by hand.

Added again without a word they would be NULL in all rows that are there, under the name that readers know; merged
without a word they would be in the upsert table.
"""

from collections.abc import Iterable
from dataclasses import replace

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.columns.names import Path
from tidemark.domain.plan.schema_plan import Change, SchemaPlan
from tidemark.engine.access.table_shape import fields, schema_at, schema_fields
from tidemark.engine.access.table_state import TableState


def reviewed(plan: SchemaPlan, state: TableState) -> SchemaPlan:
    """The plan, whose additions of such columns wait for a person. Tidemark itself renames and drops none."""
    if not state.schemas or not any(_is_added(change) for change in plan.changes):
        return plan
    known = {path: field.field_id for schema in state.schemas for path, field in schema_fields(schema)}
    now = {field.field_id: path for path, field in schema_fields(state.schemas[-1])}
    changes = []
    for change in plan.changes:
        if _is_added(change) and change.path in known:
            here = now.get(known[change.path])
            changes.append(replace(change, verdict="review", reason=f"{change.reason}; {_why(here)}"))
        else:
            changes.append(change)
    return replace(plan, changes=tuple(changes))


def taken_away(metadata: TableMetadata, wanted: Iterable[Path]) -> dict[Path, Path | None]:
    """Those of `wanted` that main's head lacks and an earlier schema had, with their names in the present one.

    A head that was rolled back lacks what came later too, which the present schema has.
    """
    head = schema_at(metadata, metadata.current_snapshot())
    there = {(), *(path for path, _ in schema_fields(head))}
    lacking = [path for path in wanted if path not in there and path[:-1] in there]
    if not lacking:
        return {}
    now = {field.field_id: path for path, field in fields(metadata)}
    present = frozenset(now.values())
    had = {
        path: field.field_id
        for schema in metadata.schemas
        for path, field in schema_fields(schema)
        if schema.schema_id < head.schema_id or path not in present
    }
    return {path: path if path in present else now.get(had[path]) for path in lacking if path in had}


def _is_added(change: Change) -> bool:
    return change.kind == "add_column" and change.verdict == "apply"


def _why(here: tuple[str, ...] | None) -> str:
    done = f"renamed it to {'.'.join(here)}" if here else "dropped it"
    back = "Rename it back by hand, or approve" if here else "Approve"
    return (
        f"but the table has had a column of this name, and somebody has {done} by hand. {back} a new column, which is "
        "NULL in the rows that are there"
    )
