"""What a contract's layout and quality rules must hold where the contract itself says what the columns are."""

from collections.abc import Iterator

from tidemark.domain.columns.layout import layout_faults, leaf_paths, resolve
from tidemark.domain.columns.types import KAFKA_COLUMN, Struct
from tidemark.domain.config.contract import Declaration, Value
from tidemark.domain.config.layering import Finding, KeyPath
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro_columns import WHOLE_COLUMNS
from tidemark.domain.formats.json_columns import columns, declared
from tidemark.domain.suggest import nearest


def layout_findings(said: Declaration) -> Iterator[Finding]:
    """Partitions, sort columns and event time that the declared columns cannot give."""
    known = known_columns(said.value)
    if known is None:
        return
    every = Struct((*known.fields, KAFKA_COLUMN))
    for place, partition in enumerate(said.partition_by or ()):
        for fault in layout_faults(every, [partition], []):
            yield Finding(("partition_by", place), fault.removeprefix("partition_by: "))
    for place, column in enumerate(said.sort_by):
        for fault in layout_faults(every, [], [column]):
            yield Finding(("sort_by", place), fault.removeprefix("sort_by: "))
    for fault in layout_faults(every, [], [], said.event_time):
        yield Finding(("event_time",), fault.removeprefix("event_time: "))


def rule_findings(said: Declaration) -> Iterator[Finding]:
    """Columns of quality rules that are not among the declared ones."""
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


def known_columns(value: Value) -> Struct | None:
    """The columns of the value, None when a registry or the documents say them."""
    if value.format in WHOLE_COLUMNS:
        return WHOLE_COLUMNS[value.format]
    if value.format != "json" or not value.fields or value.envelope != "none":
        return None
    try:
        return columns(declared(value.fields))
    except SchemaUnsupported:
        return None
