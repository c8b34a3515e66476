"""What a topic becomes: the keys of a contract file and the resolved contract of one table.

`Declaration` is what a file may say, `Contract` what the rest of Tidemark works with: one topic, one table,
nothing left to default. Every key: docs/reference/contract.md.
"""

import hashlib
import json
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Discriminator,
    Field,
    GetJsonSchemaHandler,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from tidemark.domain.columns.partitioning import ColumnPath, PartitionField, PartitionSpec, PartitionSpecs
from tidemark.domain.config.naming import QUARANTINE, Link, Owner, TagKey, TagValue, Topic
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.config.section import REVEAL, PropertyValue, Section, bounds
from tidemark.domain.config.units import Count, PositiveDuration, Ratio, Several, Size, whole_number
from tidemark.domain.suggest import nearest
from tidemark.domain.times import is_within_years

ValueFormat = Literal["registry", "avro", "protobuf", "json_schema", "json", "string", "raw"]
KeyFormat = Literal["raw", "string", "registry", "avro", "protobuf", "json_schema", "json"]
SchemaMode = Literal["by_schema_id", "by_latest_schema", "pinned"]
OnChange = Literal["apply", "review", "quarantine"]
FormatVersion = Annotated[Literal[2, 3], BeforeValidator(whole_number)]
REGISTRY_FORMATS = frozenset({"registry", "avro", "protobuf", "json_schema"})


class Owners(Section):
    """Who answers for the data (the tables) and for the stream (the topic)."""

    data: Owner | None = None
    stream: Owner | None = None


class Value(Section):
    """How record values are decoded; `subject` is filled in for formats of the registry."""

    format: ValueFormat = "registry"
    schema_mode: SchemaMode = Field("by_schema_id", alias="schema")
    subject: str | None = Field(None, min_length=1)
    version: Count | None = None
    message: str | None = Field(None, min_length=1)
    fields: dict[str, str] | None = None
    envelope: Literal["none", "debezium", "debezium_flat"] = "none"
    types: dict[str, str] | None = None


class Key(Section):
    """How record keys are decoded, and which columns they stand for."""

    format: KeyFormat = "raw"
    fields: tuple[ColumnPath, ...] = ()


class ColumnNote(Section):
    """Governance of one column; `allow` names downstream tables that may carry it."""

    tags: tuple[TagKey, ...] = ()
    description: str | None = None
    allow: tuple[str, ...] = ()


class SchemaChanges(Section):
    """What happens when a writer's schema changes."""

    add_column: OnChange = "apply"
    widen_type: OnChange = "apply"
    remove_column: OnChange = "apply"
    incompatible: OnChange = "review"


class Upsert(Section):
    """The second table, with the current state by key; `upsert: [order_id]` gives the keys alone."""

    table: str | None = None
    keys: tuple[ColumnPath, ...] = Field(min_length=1)
    order_by: tuple[ColumnPath, ...] = Field(("_kafka.offset",), min_length=1)
    deletes: Literal["hard", "soft"] = "hard"
    on_truncate: Literal["stop", "apply"] = "stop"
    partition_by: PartitionSpecs | None = None
    sort_by: tuple[ColumnPath, ...] | None = None
    format_version: FormatVersion | None = None
    target_lag: PositiveDuration | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if isinstance(value, str) and value:
            context = {"suggestion": f"[{value}]"}
            raise PydanticCustomError("upsert", "must be a mapping, or a list of keys", context)
        return {"keys": value} if isinstance(value, (list, tuple)) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(core), {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


class Quarantine(Section):
    """Shares of a batch that may be unreadable before Tidemark warns, and before it publishes nothing.

    A default gives way to the other key: `fail: 0` alone makes `warn` 0.
    """

    warn: Ratio = 0.001
    fail: Ratio = 0.05
    _bounds = bounds("warn", "fail")


FRESH_WARN, FRESH_FAIL = 2, 10
"""Target lags after which published data is late, where the contract does not say."""


class Freshness(Section):
    """Lag of published data; a resolved contract always has `warn` and `fail` (= 2 and 10 target lags)."""

    warn: PositiveDuration | None = None
    fail: PositiveDuration | None = None
    silence: PositiveDuration | None = None


class StartOffsets(Section):
    """First load from these offsets; partitions that are not named start at the earliest."""

    offsets: dict[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] = Field(
        min_length=1, json_schema_extra={"propertyNames": {"pattern": r"^\d+$"}}
    )

    @model_validator(mode="before")
    @classmethod
    def _each_once(cls, value: Any) -> Any:
        offsets = value.get("offsets") if isinstance(value, dict) else None
        named = [int(str(p)) for p in offsets if str(p).isdecimal()] if isinstance(offsets, dict) else []
        if len(set(named)) < len(named):
            raise PydanticCustomError("offsets", "names a partition twice")
        return value


class StartConsumerGroup(Section):
    """First load from what this consumer group has committed."""

    consumer_group: str = Field(min_length=1)


def _start_form(value: Any) -> str:
    if isinstance(value, (StartOffsets, StartConsumerGroup)):
        return "offsets" if isinstance(value, StartOffsets) else "consumer_group"
    if isinstance(value, dict):
        return nearest(next(iter(value), ""), ["offsets", "consumer_group"]) or "offsets"
    return "word" if isinstance(value, str) and not value[:1].isdigit() else "time"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _one_form(value: Any) -> Any:
    if isinstance(value, dict) and {"offsets", "consumer_group"} <= set(value):
        raise PydanticCustomError("start", "has two forms: give either offsets or consumer_group")
    if _is_number(value):
        raise PydanticCustomError(  # pydantic would take it for seconds or milliseconds since 1970
            "start",
            "a number alone does not say what it counts: a time is written as 2026-01-01T00:00:00Z, offsets as "
            "{offsets: {0: 123}}",
        )
    return value


def _within_years(at: datetime) -> datetime:
    if not is_within_years(at):
        raise PydanticCustomError("start", "is in no year from 1 to 9999 of UTC")
    return at


_TIME_SCHEMA = {"type": "string", "format": "date-time", "pattern": r"^\d{4}-"}
"""The pattern, because `format` asserts nothing by default, and a word would be a time as well."""

Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("word")]
    | Annotated[AwareDatetime, AfterValidator(_within_years), WithJsonSchema(_TIME_SCHEMA), Tag("time")]
    | Annotated[StartOffsets, Tag("offsets")]
    | Annotated[StartConsumerGroup, Tag("consumer_group")],
    Discriminator(_start_form),
]


def group_of(named: str, table: str) -> str:
    """The consumer group that `commit_to_group` names for a table."""
    return named.replace("{table}", table)


class Ingest(Section):
    """Where the first load starts, and how many records one batch holds at most."""

    start: Annotated[Start, BeforeValidator(_one_form)] = "earliest"
    max_records: Count = 2_000_000
    commit_to_group: str | None = Field(None, min_length=1)


class Retention(Section):
    """Append rows older than this are deleted by maintenance, never before they are merged."""

    append: PositiveDuration


class Compaction(Section):
    """When files are worth rewriting."""

    target_file_size: Size = 256 * 1024**2
    min_input_files: Several = 8
    max_delete_ratio: Ratio = 0.1
    max_bytes: Size = 20 * 1024**3


class Snapshots(Section):
    """Which snapshots are kept. A default gives way to the other key: `max_count: 5` alone makes `min_keep` 5."""

    max_age: PositiveDuration = Field("7d", validate_default=True)
    min_keep: Count = 20
    max_count: Count = 2_000
    _bounds = bounds("min_keep", "max_count")


class Orphans(Section):
    """Which unreferenced files may go."""

    older_than: PositiveDuration = Field("3d", validate_default=True)


class Maintenance(Section):
    """Thresholds; when maintenance runs is in the platform file."""

    compaction: Compaction = Compaction()
    snapshots: Snapshots = Snapshots()
    orphans: Orphans = Orphans()


class ContractKeys(Section):
    """What a declaration and a resolved contract have in common; values are the built-in defaults."""

    cluster: str = "main"
    description: str | None = None
    owners: Owners = Owners()
    approvers: tuple[Owner, ...] = ()
    runbook: Link | None = None
    tags: dict[TagKey, TagValue] = Field(default_factory=dict)
    lane: str = "default"
    target_lag: PositiveDuration = Field("1m", validate_default=True)
    event_time: ColumnPath | None = None
    value: Value = Value()
    key: Key = Key()
    events: dict[str, str] | None = None
    columns: dict[str, ColumnNote] = Field(default_factory=dict)
    partition_by: PartitionSpecs | None = None
    sort_by: tuple[ColumnPath, ...] = ()
    format_version: FormatVersion = 2
    table_properties: dict[str, PropertyValue] = Field(default_factory=dict)
    schema_changes: SchemaChanges = SchemaChanges()
    upsert: Upsert | None = None
    quality: tuple[QualityRule, ...] = ()
    quarantine: Quarantine = Quarantine()
    freshness: Freshness = Freshness()
    ingest: Ingest = Ingest()
    retention: Retention | None = None
    maintenance: Maintenance = Maintenance()


class Declaration(ContractKeys):
    """A contract file, `_defaults.yaml`, or `defaults` of the platform file."""

    topic: Topic | None = None
    topics: str | None = Field(
        None, description="regular expression that matches whole topic names", min_length=1
    )
    table: str | None = Field(None, description="namespace.name; {group} of `topics` may stand in it")


class Contract(ContractKeys):
    """One topic and the append table it becomes, resolved.

    Of a contract with `events` there is one for each record type, which is `event`.
    """

    topic: Topic
    table: str
    event: str | None = None

    @property
    def namespace(self) -> str:
        """`shop` of `shop.orders`."""
        return self.table.partition(".")[0]

    @property
    def name(self) -> str:
        """`orders` of `shop.orders`."""
        return self.table.partition(".")[2]

    @property
    def quarantine_table(self) -> str:
        """Where rows go that could not enter."""
        return self.table + QUARANTINE

    @property
    def partitioning(self) -> tuple[PartitionSpec, ...]:
        """`partition_by` (`[]`: none), or by day of the event time when only that is said."""
        if self.partition_by is not None:
            return self.partition_by
        return (PartitionField("day", self.event_time),) if self.event_time else ()

    @cached_property
    def digest(self) -> str:
        """The first 16 hex digits of the sha256 of the resolved content."""
        content = self.model_dump(mode="json", context=REVEAL, exclude=None if self.event else {"event"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
