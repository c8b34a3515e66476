"""From what was seen of a topic to a contract for it, and a verdict whether a table of it makes sense.

Heavy transformation and joins have no place in a contract: what a topic needs of that is said, and belongs downstream.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import DATE, STRING, TIMESTAMP, TIMESTAMPTZ, Struct
from tidemark.domain.config.contract import REGISTRY_FORMATS, Value
from tidemark.domain.config.section import REVEAL

Level = Literal["no_fit", "note"]
DAILY_PARTITION = 50 * 1024**2
"""Bytes a day from which a partition of each day makes files worth reading; below, months do."""
WIDE = 300
LARGE = 1024**2
_KEYS = 0.999
_PREFERRED = (
    "event_time",
    "occurred_at",
    "ordered_at",
    "created_at",
    "updated_at",
    "at",
    "timestamp",
    "ts",
    "time",
)
_DEBEZIUM = {"before", "after", "op", "source"}
DEBEZIUM_FLAT = {"__op", "__deleted"}
"""Fields of Debezium's flattened changes, of which each has one."""


@dataclass(frozen=True, slots=True)
class Reason:
    """`no_fit`: there can be no table as things are; `note`: what someone should know first."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is: records now in the topic, records of the last day, bytes of a sampled record."""

    records: int
    records_per_day: int
    record_bytes: int

    @property
    def bytes_per_day(self) -> int:
        """Key and value, as they are in Kafka."""
        return self.records_per_day * self.record_bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """Record keys of the sample; `columns` had the key's text in every sampled record."""

    sampled: int = 0
    null: int = 0
    distinct: int = 0
    columns: tuple[str, ...] = ()

    @property
    def unique(self) -> float | None:
        """Distinct keys among those that are there; None when no record has one."""
        there = self.sampled - self.null
        return self.distinct / there if there else None


@dataclass(frozen=True, slots=True)
class Seen:
    """A topic as it was surveyed; `columns` is None where nothing tells them, `key_format` where the keys do not."""

    topic: str
    table: str
    cluster: str
    value: Mapping[str, Any]
    columns: Struct | None
    sizes: Sizes
    keys: Keys = field(default_factory=Keys)
    key_format: Literal["registry", "json"] | None = None
    compacted: bool = False
    json_text: tuple[str, ...] = ()
    largest: int = 0
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A contract as the file would say it, and the verdict."""

    seen: Seen
    contract: Mapping[str, Any]
    event_times: tuple[str, ...]
    reasons: tuple[Reason, ...]

    @property
    def fits(self) -> bool:
        """Nothing speaks against a table."""
        return all(reason.level != "no_fit" for reason in self.reasons)

    def as_json(self) -> dict[str, Any]:
        """The shape of `new --json`, without the file."""
        seen = self.seen
        return {
            "topic": seen.topic,
            "table": seen.table,
            "fit": self.fits,
            "reasons": [{"level": reason.level, "text": reason.text} for reason in self.reasons],
            "contract": dict(self.contract),
            "columns": [{"name": f.name, "type": str(f.type)} for f in (seen.columns or Struct(())).fields],
            "size": {
                "records": seen.sizes.records,
                "records_per_day": seen.sizes.records_per_day,
                "record_bytes": seen.sizes.record_bytes,
                "bytes_per_day": seen.sizes.bytes_per_day,
            },
            "keys": {
                "sampled": seen.keys.sampled,
                "null": seen.keys.null,
                "distinct": seen.keys.distinct,
                "unique": seen.keys.unique,
                "columns": list(seen.keys.columns),
            },
            "event_time": list(self.event_times),
        }


def propose(seen: Seen, inherited: Mapping[str, Any] | None = None) -> Proposal:
    """A contract that says no more than it must where a file inherits the settings `inherited`."""
    above = inherited or {}
    times = tuple(_event_times(seen.columns or Struct(())))
    contract: dict[str, Any] = {"topic": seen.topic}
    if seen.cluster != above.get("cluster", "main"):
        contract["cluster"] = seen.cluster
    value = _apart({**seen.value, **_envelope(seen)}, above.get("value") or {})
    if value:
        contract["value"] = value
    if seen.key_format and _envelope(seen):  # a delete may name its row by nothing but the key
        contract["key"] = {"format": seen.key_format}
    chosen = next((name for name in _PREFERRED if name in times), times[0] if len(times) == 1 else None)
    if chosen:
        contract["event_time"] = chosen
        daily = seen.sizes.bytes_per_day >= DAILY_PARTITION
        contract["partition_by"] = [f"{'day' if daily else 'month'}({chosen})"]
    elif seen.sizes.bytes_per_day >= DAILY_PARTITION:
        contract["partition_by"] = ["day(_kafka.timestamp)"]
    return Proposal(seen, contract, times, (*seen.reasons, *_reasons(seen, times, chosen)))


def _apart(value: Mapping[str, Any], inherited: Mapping[str, Any]) -> dict[str, Any]:
    """What a file must say to have this `value`: whatever differs from what it inherits, be it taken back."""
    wanted, there = (
        Value.model_validate(each).model_dump(by_alias=True, context=REVEAL) for each in (value, inherited)
    )
    return {key: said for key, said in wanted.items() if said != there[key]}


def _event_times(columns: Struct) -> Iterator[str]:
    """Columns that could say when something happened, in the order of the table."""
    yield from (
        f.name for f in columns.fields if f.type in {TIMESTAMPTZ, TIMESTAMP, DATE} and f.name.isidentifier()
    )


def declared_fields(columns: Struct) -> dict[str, str]:
    """Columns as `value.fields` spells them."""
    return {f.name: spark_ddl(f.type) for f in columns.fields}


def _names(seen: Seen) -> set[str]:
    return {f.name for f in (seen.columns or Struct(())).fields}


def _envelope(seen: Seen) -> dict[str, str]:
    """By the schema's fields; where no schema tells the columns, the survey has seen it in the documents."""
    if seen.value.get("format", "registry") not in REGISTRY_FORMATS:
        return {key: value for key, value in seen.value.items() if key == "envelope"}
    names = _names(seen)
    if names >= _DEBEZIUM:
        return {"envelope": "debezium"}
    return {"envelope": "debezium_flat"} if names & DEBEZIUM_FLAT else {}


def _reasons(seen: Seen, times: tuple[str, ...], chosen: str | None) -> Iterator[Reason]:
    if _envelope(seen):
        yield Reason(
            "note", "change records of Debezium: `upsert` keeps the current state beside the history"
        )
    if len(times) > 1 and chosen is None:
        yield Reason("note", f"choose event_time among {', '.join(times)}")
    yield from _elsewhere(seen)
    yield from _about_keys(seen)


def _elsewhere(seen: Seen) -> Iterator[Reason]:
    """What belongs into a store, or downstream."""
    columns = seen.columns.fields if seen.columns else ()
    if seen.largest > LARGE:
        says = f"records of up to {seen.largest} bytes: keep large objects in a store, and their address here"
        yield Reason("note", says)
    if len(columns) > WIDE:
        yield Reason("note", f"{len(columns)} columns: each batch of so wide a table takes seconds")
    for name in seen.json_text:
        yield Reason(
            "note", f"{name} holds JSON as text: it lands as text, take it apart downstream (dbt, Flink)"
        )
    for f in columns:
        if _depth(f.type) > 2:  # noqa: PLR2004 - a list of structs is fine
            yield Reason(
                "note", f"{f.name} is nested deeply: it lands so, flatten it downstream (dbt, Flink)"
            )


def _about_keys(seen: Seen) -> Iterator[Reason]:
    keys = seen.keys
    if seen.compacted:
        says = "the topic is compacted: older versions of a key may be gone; `upsert` gives the current state"
        yield Reason("note", says)
    if keys.sampled and keys.null == keys.sampled:
        yield Reason("note", "no record has a key: `upsert` needs columns that identify a row")
    elif keys.unique is not None and keys.unique < _KEYS:
        by = f", by {' or '.join(keys.columns)}" if keys.columns else ""
        says = f"keys come again ({keys.unique:.0%} distinct): `upsert` would keep the newest row of each{by}"
        yield Reason("note", says)


def _depth(kind: Any) -> int:
    match kind:
        case Struct(fields):
            return 1 + max((_depth(f.type) for f in fields), default=0)
    inner = [getattr(kind, name) for name in ("element", "value") if hasattr(kind, name)]
    return 1 + max(map(_depth, inner)) if inner else 0


def json_text_columns(rows: list[Mapping[str, Any]], columns: Struct) -> tuple[str, ...]:
    """Text columns whose every value looks like a JSON object or array."""
    found = []
    for f in columns.fields:
        texts = [row[f.name] for row in rows if isinstance(row.get(f.name), str)] if f.type == STRING else []
        if texts and all(text[:1] in "{[" and text[-1:] in "}]" and len(text) > 1 for text in texts):
            found.append(f.name)
    return tuple(found)
