"""The history of a table's changes, kept in its properties, newest last: plan, approver, run, time.

A change that takes several commits (format 3, a rename) is written down as begun before the first of them. What a
crash leaves begun is told by the next look, with those of its changes that were made.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyiceberg.table.metadata import TableMetadata

from tidemark.domain.plan.contract_record import EVENT
from tidemark.domain.plan.schema_plan import Change
from tidemark.engine.access.table_shape import fields
from tidemark.engine.access.table_state import TableState

HISTORY = "tidemark.schema.history"
BEGUN = "tidemark.schema.begun"
KEPT = 50
"""Entries of the history that stay in the table property."""
Entry = Mapping[str, Any]


def history(state: TableState) -> list[dict[str, Any]]:
    """What was changed, by whom and why, oldest first."""
    return noted(state.properties, HISTORY)


def is_retyped(state: TableState) -> bool:
    """Whether the table has had records of another type: what it skipped then may be its own now."""
    changes = (change for entry in history(state) for change in entry["changes"])
    return any((change["kind"], change["path"]) == ("contract", EVENT) for change in changes)


def unfinished(state: TableState, left: Iterable[Change] = ()) -> list[dict[str, Any]]:
    """Entries of changes that are under way, or that a crash has cut off; approved ones that are `left` aside."""
    keys = {_key(change.as_json()) for change in left}
    return [each for each in noted(state.properties, BEGUN) if not _waits(each, keys)]


def noted(there: Mapping[str, str], name: str) -> list[Any]:
    """A list that a table property holds."""
    return list(json.loads(there.get(name, "[]")))


def is_rest(state: TableState, waits: Iterable[Change], plan: str) -> bool:
    """Whether `waits` is what a crash has left of the approved `plan`."""
    keys = {_key(change.as_json()) for change in waits}
    approved = [
        each for each in unfinished(state) if (each["plan"], each["by"] != "contract") == (plan, True)
    ]
    return bool(keys) and any(keys <= _keys(each) for each in approved)


def begun(there: Mapping[str, str], entry: Entry) -> dict[str, str | None]:
    """The property to set before the first commit; none when the same was begun before, by a run that failed."""
    others = noted(there, BEGUN)
    if any((each["by"], _keys(each)) == (entry["by"], _keys(entry)) for each in others):
        return {}
    return {BEGUN: json.dumps([*others, entry])}


def history_properties(
    table: str,
    metadata: TableMetadata,
    entry: Entry | None,
    left: Iterable[Change],
    before: Iterable[Entry] = (),
) -> dict[str, str | None]:
    """The properties to set after the last commit: `entry`, and what dead runs had begun, as far as it was made.

    What two runs made at once is one entry: `before` is the history that was planned on. A begun approval
    stays begun while any of it is `left`.
    """
    there, paths = metadata.properties, {".".join(path) for path, _ in fields(metadata)}
    known, others = noted(there, HISTORY), noted(there, BEGUN)
    since = [each for each in known if not _is_among(each, before)]
    ours = [entry] if entry else []
    keys = {_key(change.as_json()) for change in left}
    claimed = keys.union(*map(_keys, ours))
    added = [each for each in ours if not any(_keys(each) <= _keys(other) for other in since)]
    waiting = [each for each in others if _waits(each, keys)]
    for each in (each for each in others if each not in waiting):
        if _is_among(each, [*ours, *known]):
            claimed |= _keys(each)
            continue
        changes = [c for c in each["changes"] if _key(c) not in claimed and not _is_told(c, known)]
        made = [c for c in changes if _is_made(c, table, paths)]
        claimed |= set(map(_key, made))
        added += [{**each, "changes": made}] if made else []
    entries = [*known, *sorted(added, key=lambda each: str(each["at"]))]
    return {HISTORY: json.dumps(_kept(entries)), **({BEGUN: json.dumps(waiting)} if others else {})}


def _kept(entries: list[Entry]) -> list[Entry]:
    """The newest; what the contract alone let through goes before what somebody has approved."""
    over = max(0, len(entries) - KEPT)
    routine = [n for n, each in enumerate(entries) if each["by"] == "contract"]
    gone = {
        *routine[:over],
        *[n for n in range(len(entries)) if n not in routine][: over - len(routine[:over])],
    }
    return [each for n, each in enumerate(entries) if n not in gone]


def _waits(entry: Entry, left: Collection[tuple[Any, ...]]) -> bool:
    return entry["by"] != "contract" and not _keys(entry).isdisjoint(left)


def _is_told(change: Mapping[str, Any], known: Iterable[Entry]) -> bool:
    """Whether the last that is known of this place is the same change."""
    place = [
        each
        for entry in known
        for each in entry["changes"]
        if (each["kind"], each["path"]) == (change["kind"], change["path"])
    ]
    return bool(place) and _key(place[-1]) == _key(change)


def _is_made(change: Mapping[str, Any], table: str, paths: Collection[str]) -> bool:
    match change["kind"]:
        case "add_column":
            return change["path"] in paths
        case "rename":
            return bool(change["to"] == table)
    return True


def _keys(entry: Entry) -> set[tuple[Any, ...]]:
    return set(map(_key, entry["changes"]))


def _key(change: Mapping[str, Any]) -> tuple[Any, ...]:
    return change["kind"], change["path"], change["to"]


def _is_among(entry: Entry, entries: Iterable[Entry]) -> bool:
    return any(all(entry[k] == each[k] for k in ("plan", "at", "run_id")) for each in entries)
