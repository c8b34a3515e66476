"""What a contract's layout and quality rules must hold where the contract itself says what the columns are."""

from collections.abc import Iterable, Iterator

from tidemark.domain.columns.layout import layout_faults, leaf_paths, resolve
from tidemark.domain.columns.partitioning import PartitionField
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct
from tidemark.domain.config.contract import Declaration, Value
from tidemark.domain.config.layering import Finding, KeyPath
from tidemark.domain.config.quality_fit import misfits
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro_columns import WHOLE_COLUMNS
from tidemark.domain.formats.debezium import document_columns, json_documents
from tidemark.domain.formats.json_columns import columns, declared
from tidemark.domain.suggest import nearest


def layout_findings(said: Declaration) -> Iterator[Finding]:
    """Partitions, sort columns and event time that the declared columns cannot give."""
    known = known_columns(said.value)
    if known is None:
        return
    every = Struct((*known.fields, KAFKA_COLUMN))
    yield from table_findings(every, said.partition_by, said.sort_by)
    for fault in layout_faults(every, [], [], said.event_time):
        yield Finding(("event_time",), fault.removeprefix("event_time: "))


def table_findings(
    columns: Struct,
    partition_by: Iterable[PartitionField] | None,
    sort_by: Iterable[str] | None,
    block: KeyPath = (),
) -> Iterator[Finding]:
    """Partitions and sort columns that a table of these columns cannot have; `block` is where the keys stand."""
    for place, partition in enumerate(partition_by or ()):
        for fault in layout_faults(columns, [partition], []):
            yield Finding((*block, "partition_by", place), fault.removeprefix("partition_by: "))
    for place, column in enumerate(sort_by or ()):
        for fault in layout_faults(columns, [], [column]):
            yield Finding((*block, "sort_by", place), fault.removeprefix("sort_by: "))


def rule_findings(said: Declaration) -> Iterator[Finding]:
    """Columns of quality rules that are not among the declared ones, and rules that do not fit those that are."""
    known = known_columns(said.value)
    if known is None:
        return
    every = Struct((*known.fields, KAFKA_COLUMN))
    for place, rule in enumerate(said.quality):
        at: KeyPath = ("quality", place)
        for part, path in enumerate(rule.paths):
            if resolve(every, path) is None:
                key: KeyPath = ("columns", part) if rule.columns else ("column",)
                near = nearest(path, leaf_paths(every))
                yield Finding((*at, *key), f"there is no column {path}", near)
        yield from (Finding(at, fault) for fault in misfits(rule, every))


def known_columns(value: Value) -> Struct | None:
    """The columns of the value, None when a registry or the documents say them."""
    if value.format in WHOLE_COLUMNS:
        return WHOLE_COLUMNS[value.format]
    if value.format != "json" or (value.envelope == "none" and not value.fields):
        return None
    try:
        if value.envelope == "none":
            return columns(declared(value.fields or {}))
        return document_columns(json_documents(value.fields, value.envelope, truncates=False))
    except SchemaUnsupported:
        return None
