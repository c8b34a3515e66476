"""What a contract asks of a table apart from its columns: layout, properties, comments, and edits of its own keys.

Pure, like the plan of the columns it stands beside; applied once, nothing is left to plan.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tidemark.domain.columns.layout import layout_faults
from tidemark.domain.columns.partitioning import as_noted
from tidemark.domain.columns.shape import Shape, spelled, spelled_columns
from tidemark.domain.columns.types import KAFKA_COLUMN, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.plan.applied import applied
from tidemark.domain.plan.comments import Comments, comment_changes, commented, wanted_comments
from tidemark.domain.plan.contract_record import RECORD, contract_edits, record_after, record_of, remembered
from tidemark.domain.plan.schema_plan import Change, SchemaPlan, Verdict, WriterColumns
from tidemark.domain.plan.table_properties import BASE, CODEC, COMMENT, LEVEL, asked_for, governance

_NONE = "none"


def with_table(
    plan: SchemaPlan,
    contract: Contract,
    columns: Struct,
    shape: Shape,
    writers: Iterable[WriterColumns],
    kept: Collection[str] = (),
) -> SchemaPlan:
    """The plan of the columns, with comments on what it adds, and the changes of everything else.

    `kept` are keys of the contract that the table cannot follow.
    """
    comments = wanted_comments(writers, contract.columns)
    growth = tuple(_described(change, comments) for change in plan.changes)
    now = applied(columns, (c for c in growth if c.verdict == "apply"))
    later = applied(columns, growth)
    unfit = tuple(_event_time(contract, now, later))
    edits = (
        *_optional(shape),
        *_partition_spec(contract, now, later, shape),
        *_sort_order(contract, now, later, shape),
        *unfit,
        *_format_version(contract, shape),
        *_properties(contract, shape),
        *comment_changes(columns, comments),
        *(
            e
            for e in contract_edits(contract, shape.properties, kept)
            if e.path not in {c.path for c in unfit}
        ),
    )
    return replace(plan, changes=(*growth, *edits))


def with_layout(
    plan: SchemaPlan, contract: Contract, columns: Struct, shape: Shape, base: Mapping[str, str]
) -> SchemaPlan:
    """The plan of an upsert table's columns, with what its contract says of layout, format and `table_properties`.

    `base`: the properties that such a table begins with, to which one goes back that the contract no longer names.
    """
    now = applied(columns, (c for c in plan.changes if c.verdict == "apply"))
    later = applied(columns, plan.changes)
    edits = (
        *_partition_spec(contract, now, later, shape),
        *_sort_order(contract, now, later, shape),
        *_format_version(contract, shape),
        *_changed(_table_properties(contract, shape, base), shape),
    )
    return replace(plan, changes=(*plan.changes, *edits))


def strayed(contract: Contract, columns: Struct, shape: Shape) -> bool:
    """Whether somebody else has made a column required, or changed the layout that this contract gave the table.

    Only if it can be put right. Where the table remembers another layout than this contract's, the contract was
    edited.
    """
    if any(change.verdict == "apply" for change in _optional(shape)):
        return True
    changes = (
        *_partition_spec(contract, columns, columns, shape),
        *_sort_order(contract, columns, columns, shape),
    )
    if not changes:
        return False
    before, now = remembered(shape.properties), record_of(contract)
    same = all(before.get(key) == now[key] for key in ("partition_by", "sort_by"))
    return same and any(change.verdict == "apply" for change in changes)


def properties_after(
    contract: Contract, done: Collection[Change], left: Collection[Change], there: Mapping[str, str]
) -> dict[str, str | None]:
    """The properties to set (None: to remove) for changes that are done, the record of the contract among them.

    `left` are the other changes of the plan.
    """
    found: dict[str, str | None] = {
        c.path[0]: None if c.new is None else str(c.new) for c in done if c.kind == "property"
    }
    return {**found, RECORD: record_after(contract, left, there)}


def _described(change: Change, comments: Comments) -> Change:
    if change.kind != "add_column" or change.column is None:
        return change
    return replace(
        change,
        new=commented(change.column, comments, change.path),
        doc=comments.get(as_noted(change.path)) or change.doc,
    )


def _optional(shape: Shape) -> Iterator[Change]:
    for path in shape.required:
        identifies = path in shape.identifiers
        yield Change(
            "make_optional",
            path,
            "required",
            "optional",
            "impossible" if identifies else "apply",
            "it is an identifier field of the table, which Iceberg does not let become optional"
            if identifies
            else "a record may lack it, and one NULL would fail the whole batch",
        )


def _partition_spec(contract: Contract, now: Struct, later: Struct, shape: Shape) -> Iterator[Change]:
    wanted = spelled(contract.partitioning)
    if frozenset(wanted) == frozenset(shape.partition_by) or _unsaid(shape, wanted, "partition_by"):
        return
    faults = layout_faults(_whole(now), contract.partitioning, ())
    waits = bool(faults) and not layout_faults(_whole(later), contract.partitioning, ())
    verdict, reason = _layout_verdict(faults, waits=waits)
    kept = "new files are laid out so; files that are there keep their own spec, and every reader knows both"
    yield Change("partition_spec", (), _listed(shape.partition_by), _listed(wanted), verdict, reason or kept)


def _sort_order(contract: Contract, now: Struct, later: Struct, shape: Shape) -> Iterator[Change]:
    wanted = spelled_columns(contract.sort_by)
    if wanted == shape.sort_by or _unsaid(shape, wanted, "sort_by"):
        return
    faults = layout_faults(_whole(now), (), contract.sort_by)
    waits = bool(faults) and not layout_faults(_whole(later), (), contract.sort_by)
    verdict, reason = _layout_verdict(faults, waits=waits)
    kept = "new files are sorted so; files that are there when compaction rewrites them"
    yield Change("sort_order", (), _listed(shape.sort_by), _listed(wanted), verdict, reason or kept)


def _event_time(contract: Contract, now: Struct, later: Struct) -> Iterator[Change]:
    faults = layout_faults(_whole(now), (), (), contract.event_time)
    if faults:
        waits = not layout_faults(_whole(later), (), (), contract.event_time)
        verdict, reason = _layout_verdict(faults, waits=waits)
        yield Change("layout", ("event_time",), None, contract.event_time, verdict, reason)


def _layout_verdict(faults: list[str], *, waits: bool) -> tuple[Verdict, str]:
    if not faults:
        return "apply", ""
    if waits:
        return "review", f"{'; '.join(faults)}, until the reviewed columns are there"
    return "impossible", "; ".join(faults)


def _unsaid(shape: Shape, wanted: tuple[str, ...], key: str) -> bool:
    """The contract says nothing, and never has: what the table's maker chose stays."""
    return not wanted and not remembered(shape.properties).get(key)


def _format_version(contract: Contract, shape: Shape) -> Iterator[Change]:
    if contract.format_version == shape.format_version:
        return
    up = contract.format_version > shape.format_version
    yield Change(
        "format_version",
        ("format-version",),
        str(shape.format_version),
        str(contract.format_version),
        "review" if up else "impossible",
        "it cannot be undone, and every reader of the table must know the format"
        if up
        else "a table's format never goes back; name another table in the contract",
    )


def _properties(contract: Contract, shape: Shape) -> Iterator[Change]:
    yield from _changed({**_table_properties(contract, shape, BASE), **governance(contract)}, shape)
    if contract.description and shape.properties.get(COMMENT) != contract.description:
        old = shape.properties.get(COMMENT)
        yield Change("comment", (), old, contract.description, "apply", "as the contract describes the table")


def _table_properties(contract: Contract, shape: Shape, base: Mapping[str, str]) -> dict[str, str | None]:
    """What `table_properties` asks for; what it asked for and no longer does is as at first (None: not there)."""
    wanted = asked_for(contract)
    for key in remembered(shape.properties).get("table_properties", []):
        wanted.setdefault(key, base.get(key))
        if key == CODEC:
            wanted.setdefault(LEVEL, base.get(LEVEL))
    return wanted


def _changed(wanted: Mapping[str, str | None], shape: Shape) -> Iterator[Change]:
    for key, value in wanted.items():
        if shape.properties.get(key) != value:
            yield Change(
                "property", (key,), shape.properties.get(key), value, "apply", "as the contract says"
            )


def _whole(columns: Struct) -> Struct:
    values = (each for each in columns.fields if each.name != KAFKA_COLUMN.name)
    return Struct((*values, Field(KAFKA_COLUMN.name, KAFKA_COLUMN.type)))


def _listed(parts: tuple[str, ...]) -> str:
    return ", ".join(parts) or _NONE
