"""What one contract must hold beyond the shape of its keys: keys that fit each other, names that exist."""

import re
from collections.abc import Iterator

from tidemark.domain.columns.partitioning import TIME_TRANSFORMS
from tidemark.domain.config.contract import REGISTRY_FORMATS, ContractKeys, Declaration, Value
from tidemark.domain.config.event_rules import event_findings
from tidemark.domain.config.key_rules import key_findings
from tidemark.domain.config.layering import Finding, KeyPath
from tidemark.domain.config.layout_rules import layout_findings, rule_findings
from tidemark.domain.config.naming import table_fault
from tidemark.domain.config.platform import Platform
from tidemark.domain.config.property_rules import property_findings
from tidemark.domain.config.quality import regex_fault, rule_faults, same_names
from tidemark.domain.config.units import format_duration, parse_duration
from tidemark.domain.config.upsert_rules import column_findings, upsert_findings
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.debezium import json_documents
from tidemark.domain.formats.json_columns import declared
from tidemark.domain.suggest import nearest

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NEEDS_MESSAGE_FORMAT = frozenset({"protobuf", "registry"})
_DAY = parse_duration("1d")
_MINUTE = parse_duration("1m")


def declaration_findings(said: Declaration, platform: Platform | None) -> Iterator[Finding]:
    """Everything that is wrong with one whole contract; names are looked up when there is a platform."""
    yield from _topic(said)
    yield from _value(said.value)
    yield from event_findings(said)
    yield from layout_findings(said)
    yield from rule_findings(said)
    yield from column_findings(said)
    yield from setting_findings(said)
    if platform:
        yield from _names(said, platform)


def setting_findings(said: ContractKeys) -> Iterator[Finding]:
    """Everything that is wrong with settings, which may be defaults only."""
    yield from _thresholds(said)
    yield from _partitions(said)
    yield from _group(said.ingest.commit_to_group or "")
    yield from property_findings(said)
    if said.schema_changes.incompatible == "apply":
        message = (
            "apply is not possible: no column holds both types exactly, and nothing is ever dropped from a table; "
            "review sends the writer's records to the quarantine once approved, quarantine at once"
        )
        yield Finding(("schema_changes", "incompatible"), message, "review")
    for place, rule in enumerate(said.quality):
        yield from (Finding(("quality", place, key), message) for key, message in rule_faults(rule))
        if rule.check == "min_rows" and isinstance(rule.min, int) and rule.min > said.ingest.max_records:
            message = f"no batch has so many rows: ingest.max_records is {said.ingest.max_records}"
            yield Finding(("quality", place, "min"), message)
    yield from (Finding(("quality", place), message) for place, message in same_names(said.quality))
    yield from upsert_findings(said)
    yield from key_findings(said)


def _topic(said: Declaration) -> Iterator[Finding]:
    if said.topic is None and said.topics is None:
        yield Finding(("topic",), "is missing: a contract names its topic")
    if said.topic is not None and said.topics is not None:
        yield Finding(("topics",), "stands beside `topic`: a contract has one of the two")
    if said.topics is not None:
        yield from _pattern(said.topics, said.table)
        if said.upsert and said.upsert.table is not None:
            message = "one table for many topics: leave it out for <table>_current"
            yield Finding(("upsert", "table"), message)
    elif said.table is not None and (fault := table_fault(said.table)):
        yield Finding(("table",), fault)


def _pattern(topics: str, table: str | None) -> Iterator[Finding]:
    if fault := regex_fault(topics):
        yield Finding(("topics",), fault)
        return
    if table is None:
        return
    groups = re.compile(topics).groupindex
    places = PLACEHOLDER.findall(table)
    for place in places:
        if place not in groups:
            message = f"{{{place}}} is no named group of `topics`"
            yield Finding(("table",), message, f"{{{meant}}}" if (meant := nearest(place, groups)) else None)
    if not places:
        yield Finding(
            ("table",), "one table for many topics: use a named group of `topics`, as in shop.{name}"
        )
    elif fault := table_fault(PLACEHOLDER.sub("x", table)):
        yield Finding(("table",), fault)


def _value(value: Value) -> Iterator[Finding]:
    in_registry = value.format in REGISTRY_FORMATS
    mode = value.schema_mode
    if not in_registry and mode != "by_schema_id":
        yield Finding(("value", "schema"), f"format {value.format} has no schema in the registry")
    if not in_registry and value.subject is not None:
        yield Finding(("value", "subject"), f"format {value.format} has no schema in the registry")
    if (value.version is None) == (mode == "pinned"):
        message = "schema: pinned needs a version" if mode == "pinned" else "is for schema: pinned only"
        yield Finding(("value", "version"), message)
    if value.message is not None and value.format not in _NEEDS_MESSAGE_FORMAT:
        yield Finding(("value", "message"), "is for Protobuf only")
    if value.message is None and value.format == "protobuf" and mode != "by_schema_id":
        message = f"is missing: with schema: {mode} nothing in a value says which message it is"
        yield Finding(("value", "message"), message)
    if value.fields is not None and value.format != "json":
        yield Finding(("value", "fields"), "is for format: json only")
    elif value.fields is not None:
        yield from _fields(value)
    yield from _types(value)
    if value.envelope != "none" and value.format in {"string", "raw"}:
        yield Finding(("value", "envelope"), f"format {value.format} has no envelope")
    elif value.envelope != "none" and value.format in {"protobuf", "json_schema"}:
        message = f"{value.envelope} is read from Avro (registry, avro) or json, not from {value.format}"
        yield Finding(("value", "envelope"), message)


def _types(value: Value) -> Iterator[Finding]:
    if value.types and value.format not in _NEEDS_MESSAGE_FORMAT:
        yield Finding(("value", "types"), "is for Protobuf only")
        return
    for choice, kind in (value.types or {}).items():
        path = ("value", "types", choice)
        if choice != "timestamp_nanos":
            yield Finding(path, "is no choice", nearest(choice, ["timestamp_nanos"]))
        elif kind != "long":
            yield Finding(path, f"{kind} is not possible", "long")


def _fields(value: Value) -> Iterator[Finding]:
    fields = value.fields or {}
    if not fields:
        yield Finding(("value", "fields"), "names no field: leave it out for one column with the document")
        return
    try:
        if value.envelope == "none":
            declared(fields)
        else:
            json_documents(fields, value.envelope, truncates=False)
    except SchemaUnsupported as error:
        name = (
            error.path
            if error.path in fields
            else next((f for f in fields if error.path.startswith(f"{f}.")), "")
        )
        yield Finding(("value", "fields", *([name] if name else [])), error.message)


def _thresholds(said: ContractKeys) -> Iterator[Finding]:
    if said.quarantine.warn > said.quarantine.fail:
        yield Finding(("quarantine", "warn"), f"is above quarantine.fail ({said.quarantine.fail})")
    warn, fail = said.freshness.warn, said.freshness.fail
    if warn and fail and warn > fail:
        yield Finding(("freshness", "warn"), f"is above freshness.fail ({format_duration(fail)})")
    if said.freshness.silence is not None and said.freshness.silence < _MINUTE:
        yield Finding(("freshness", "silence"), "is below 1m: Dagster does not look more often", "1m")
    if not said.maintenance.compaction.target_file_size:
        yield Finding(
            ("maintenance", "compaction", "target_file_size"), "is nothing: files need a size", "256MB"
        )
    snapshots = said.maintenance.snapshots
    if snapshots.min_keep > snapshots.max_count:
        yield Finding(("maintenance", "snapshots", "min_keep"), f"is above max_count ({snapshots.max_count})")
    if said.maintenance.orphans.older_than < _DAY:
        message = "is below 1d: files of a commit under way would be taken for orphans"
        yield Finding(("maintenance", "orphans", "older_than"), message, "1d")


def _group(named: str) -> Iterator[Finding]:
    if {"{", "}"} & set(named.replace("{table}", "")):
        meant = PLACEHOLDER.sub("{table}", named)
        yield Finding(("ingest", "commit_to_group"), "nothing but {table} stands for something", meant)


def _partitions(said: ContractKeys) -> Iterator[Finding]:
    upsert = said.upsert.partition_by if said.upsert else None
    for block, fields in (((), said.partition_by), (("upsert",), upsert)):
        seen: set[tuple[str, str]] = set()
        for place, field in enumerate(fields or ()):
            kind = "time" if field.transform in TIME_TRANSFORMS else field.transform
            if (kind, field.column) in seen:
                key: KeyPath = (*block, "partition_by", place)
                yield Finding(key, f"{field} repeats another transform of {field.column}")
            seen.add((kind, field.column))


def _names(said: Declaration, platform: Platform) -> Iterator[Finding]:
    if platform.kafka and said.cluster not in platform.kafka:
        message = f"the platform file has no Kafka cluster {said.cluster!r}"
        yield Finding(("cluster",), message, nearest(said.cluster, platform.kafka))
    elif (
        platform.kafka
        and said.value.format in REGISTRY_FORMATS
        and said.cluster not in platform.schema_registry
    ):
        message = (
            f"format {said.value.format} needs a schema registry, and there is none for {said.cluster!r}"
        )
        yield Finding(("value", "format"), message)
    elif (
        platform.kafka
        and said.key.format in REGISTRY_FORMATS
        and said.cluster not in platform.schema_registry
    ):
        message = f"format {said.key.format} needs a schema registry, and there is none for {said.cluster!r}"
        yield Finding(("key", "format"), message)
    if said.lane not in platform.lanes:
        message = f"the platform file has no lane {said.lane!r}"
        yield Finding(("lane",), message, nearest(said.lane, platform.lanes))
