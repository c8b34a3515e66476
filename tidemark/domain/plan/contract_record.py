"""What a table remembers of its contract, so that an edit of the contract can be told and explained.

Kept as the table property `tidemark.contract`: a flat JSON object of dotted keys. Only what decides about the table is
in it; values of `table_properties` are not, they may be secret.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tidemark.domain.columns.shape import spelled, spelled_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import format_duration, parse_duration
from tidemark.domain.plan.schema_plan import Change, Kind, Verdict

RECORD = "tidemark.contract"
EVENT = "event"
_ELSEWHERE = frozenset({"partition_by", "sort_by", "table_properties"})
"""Remembered for other plans: those of the layout go by the table's own state."""
_LAYOUT: Mapping[Kind, str] = {
    "partition_spec": "partition_by",
    "sort_order": "sort_by",
    "layout": "event_time",
}
"""The keys of the record that are told of by changes of their own kinds."""
_AS_READ = "records from the next batch on are read so; rows that are there stay as they are"
_KEPT = "columns keep the types they were made with, and records are read so: take it back, or name another `table`"
_REBUILD = (
    "an upsert table that was made by the old rule takes no more rows (table_incompatible) until it is built again: "
    "name another `upsert.table`, or drop it and accept its first load"
)
_BUILT = "the new upsert table is built so"
_REASONS: Mapping[str, str] = {
    "value": _AS_READ,
    "key": _AS_READ,
    "event_time": "late rows are counted by it from the next batch on, and the watermark begins anew",
    "upsert.table": "a new upsert table is built; the old one stays and is no longer merged into",
    "upsert.keys": _REBUILD,
    "upsert.order_by": _REBUILD,
    "upsert.deletes": _REBUILD,
    "upsert.on_truncate": "from the next truncate on",
}


def record_of(contract: Contract) -> dict[str, Any]:
    """The contract as a table remembers it."""
    value, key = contract.value, contract.key
    found: dict[str, Any] = {
        "value.format": value.format,
        "value.schema": value.schema_mode,
        "value.subject": value.subject,
        "value.version": value.version,
        "value.message": value.message,
        "value.envelope": value.envelope,
        "value.types": value.types,
        "key.format": key.format,
        "key.fields": list(key.fields),
        EVENT: contract.event,
        "event_time": contract.event_time,
        "retention.append": format_duration(contract.retention.append) if contract.retention else None,
        "upsert": contract.upsert is not None,
        "partition_by": list(spelled(contract.partitioning)),
        "sort_by": list(spelled_columns(contract.sort_by)),
        "table_properties": sorted(contract.table_properties),
    }
    if contract.upsert:
        found |= {
            "upsert.table": contract.upsert.table,
            "upsert.keys": list(contract.upsert.keys),
            "upsert.order_by": list(contract.upsert.order_by),
            "upsert.deletes": contract.upsert.deletes,
            "upsert.on_truncate": contract.upsert.on_truncate,
        }
    return found


def remembered(properties: Mapping[str, str]) -> dict[str, Any]:
    """What the table remembers; empty for a table that was made before there was a record."""
    return dict(json.loads(properties.get(RECORD, "{}")))


def record_text(contract: Contract) -> str:
    """The value of the property."""
    return json.dumps(record_of(contract), sort_keys=True)


def record_after(contract: Contract, left: Collection[Change], properties: Mapping[str, str]) -> str:
    """The value of the property once a plan is carried out but for what is `left`: of that, the record stays as it was.

    So does the name of an upsert table that is no longer merged into: it may be again.
    """
    kept = {_LAYOUT.get(each.kind) or each.path[0] for each in left if each.kind in {"contract", *_LAYOUT}}
    before = remembered(properties)
    was = {key: before[key] for key in ("upsert.table", *kept) if key in before}
    now = {key: value for key, value in record_of(contract).items() if key not in kept}
    return json.dumps(was | now, sort_keys=True)


def contract_edits(
    contract: Contract, properties: Mapping[str, str], kept: Collection[str] = ()
) -> Iterator[Change]:
    """One change for every remembered key that says something else now; keys it has never seen are no edits.

    What the table cannot follow is `kept`.
    """
    before, now = remembered(properties), record_of(contract)
    merged = bool(before.get("upsert") and now["upsert"])
    for key in sorted(now):
        if key in _ELSEWHERE or key not in before or before[key] == now[key]:
            continue
        if merged or not key.startswith("upsert."):
            verdict, reason = _judged(key, before[key], now[key])
            if key in kept:
                verdict, reason = "impossible", _KEPT
            if reason == _REBUILD and before.get("upsert.table") != now["upsert.table"]:
                reason = _BUILT
            yield Change("contract", (key,), _told(before[key]), _told(now[key]), verdict, reason, 0)


def _judged(key: str, old: Any, new: Any) -> tuple[Verdict, str]:
    match key:
        case "upsert" if new:
            return "apply", "the upsert table is built from the append table"
        case "upsert":
            return "apply", "the upsert table stays as it is and is no longer merged into"
        case "event":
            return ("review" if old else "apply"), another_type(old, new)
        case "event_time" if new is None:
            return "apply", "late rows are no longer counted, and the watermark stays as it is"
        case "retention.append":
            return "apply", _retention(old, new)
    return "apply", _REASONS.get(key) or _REASONS[key.partition(".")[0]]


def another_type(old: str | None, new: str | None) -> str:
    """What it means that the table is for records of another type; None: for all that the topic has."""
    if old is None:
        return "records of other types are skipped from the next batch on; rows that are there stay"
    others = f"those of {new}" if new else "all others"
    return (
        f"records of {old} that were not read yet will be passed over, and {others} that were passed over so far stay "
        "unread until a replay of their offsets"
    )


def type_before(contract: Contract, properties: Mapping[str, str]) -> str | None:
    """The type of the records that the table is for, where the contract has another one now; None where it is that."""
    before = remembered(properties).get(EVENT)
    return before if before != contract.event else None


def _retention(old: str | None, new: str | None) -> str:
    if new is None:
        return "rows are no longer deleted by their age"
    if old is None or parse_duration(new) < parse_duration(old):
        return f"the next maintenance deletes rows older than {new}"
    return "rows stay longer; what maintenance has deleted does not come back"


def _told(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
