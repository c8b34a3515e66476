"""Acts whose row in the operations log is missing, for their run died behind its change: the table says who asked.

Whoever changes the table next writes the row. A run at work is given a minute to write its own.
"""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tidemark.domain.ledger.ledger import ACT_PROPERTY
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.snapshots import made_at, summary_of
from tidemark.engine.access.table_state import ACCEPTED, PAUSED, RESUMED, TableState, load
from tidemark.engine.table.operations import Operation, Signature, log_unfinished_act, logged_runs, record

OWN_TIME = timedelta(minutes=1)
MOST = 50
"""Acts that are looked at, newest first."""
_NOTES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    PAUSED: ("pause", {}),
    RESUMED: ("resume", {}),
    ACCEPTED: ("accept", {"what": "quarantine-batch"}),
}
"""Properties by which a table tells of an act without a receipt: its verb, and arguments beside those of the note."""


def act_of(signature: Signature, verb: str, before: int | None, **arguments: Any) -> str:
    """What the receipt of an act says, for `log_missing_acts`."""
    asked = {"verb": verb, "before": before, "arguments": arguments}
    return json.dumps({**json.loads(signature.as_note()), **asked}, sort_keys=True, default=str)


def log_missing_acts(lake: Lake, table: str) -> None:
    """Log the acts of a table that took place and are not in the log, each once, oldest first."""
    for operation in reversed(_missing(lake, table, OWN_TIME)):
        record(lake, operation)
    state = lake.state(table, ledger=False)
    for name in _old_notes(state):
        log_noted(lake, state, name)


def log_noted(lake: Lake, state: TableState, name: str) -> Operation | None:
    """Log the act that the property `name` tells of; None where it tells of none, or of one that is in the log."""
    verb, arguments = _NOTES[name]
    says = _noted(state, name)
    return log_unfinished_act(lake, says, verb, state.table, **arguments, **says.get("told", {}))


def _noted(state: TableState, name: str) -> Mapping[str, Any]:
    """What `Signature.as_note` has left there; empty where somebody's hand has written something else.

    Empty too for the resumption of a table that is still paused: it failed when it had written this alone.
    """
    if name == RESUMED and state.paused:
        return {}
    try:
        says = json.loads(state.properties.get(name, ""))
    except ValueError:
        return {}
    return says if isinstance(says, dict) else {}


def _old_notes(state: TableState) -> list[str]:
    """The properties that tell of an act, oldest first; without those of runs that may still be at work."""
    until = (datetime.now(UTC) - OWN_TIME).isoformat()
    said = {name: str(_noted(state, name).get("at", "")) for name in _NOTES}
    return sorted((name for name, at in said.items() if "" < at <= until), key=said.__getitem__)


def log_missing_acceptance(lake: Lake, table: str, what: str) -> Operation | None:
    """Log the newest acceptance of `what` that is not in the log, for somebody repeats it; None if there is none."""
    for operation in _missing(lake, table, own_time=timedelta(0)):
        if operation.verb == "accept" and operation.arguments.get("what") == what:
            record(lake, operation)
            return operation
    return None


def _missing(lake: Lake, table: str, own_time: timedelta) -> list[Operation]:
    """The acts that are not in the log, newest first; without those of runs that may still be at work."""
    loaded = load(lake.catalog, table)
    acts = _acts(loaded, own_time) if loaded else {}
    known = logged_runs(lake, acts) if acts else frozenset()
    return [_operation(table, *act) for run_id, act in acts.items() if run_id not in known]


def _acts(table: Table, own_time: timedelta) -> dict[str, tuple[Mapping[str, Any], Snapshot]]:
    """Run -> what its newest receipt says, newest first; without runs that may still be at work."""
    found: dict[str, tuple[Mapping[str, Any], Snapshot]] = {}
    until = time.time() - own_time.total_seconds()
    there = {each.snapshot_id: each for each in table.metadata.snapshots}
    # what was on main once, also when it was rolled back since
    for entry in reversed(table.metadata.snapshot_log):
        snapshot = there.get(entry.snapshot_id)
        text = summary_of(snapshot).get(ACT_PROPERTY)
        if snapshot is not None and text and len(found) < MOST:
            says = json.loads(text)
            if says["run_id"] and snapshot.timestamp_ms / 1000 <= until:
                found.setdefault(says["run_id"], (says, snapshot))
    return found


def _operation(table: str, says: Mapping[str, Any], receipt: Snapshot) -> Operation:
    return Operation(
        by=says["by"],
        authenticated=says["authenticated"],
        verb=says["verb"],
        table=table,
        reason=says["reason"],
        run_id=says["run_id"],
        arguments={"dry_run": False, **says["arguments"]},
        before_snapshot=says["before"],
        after_snapshot=receipt.snapshot_id,
        at=made_at(receipt),
    )
