"""What an act of the operations log did, in words: which plan, offsets and snapshots it was about."""

from collections.abc import Mapping
from typing import Any

from tidemark.domain.config.units import first_few

MOST = 12
"""Parts of one value that are shown."""
_ELSEWHERE = frozenset({"dry_run", "cutover"})
_PLACES = frozenset({"partition", "from", "to", "epoch"})
"""Numbers that say something when they are 0, as counts do not."""
_FIRST = {name: place for place, name in enumerate(("what", "partition", "from", "to"))}
_RANGE = 2


def told(operation: Mapping[str, Any]) -> list[str]:
    """`name: value` for each argument that says something, then how main moved."""
    said = [
        f"{name.replace('_', ' ')}: {_value(value)}"
        for name, value in sorted(
            operation["arguments"].items(), key=lambda each: _FIRST.get(each[0], len(_FIRST))
        )
        if name not in _ELSEWHERE and (name in _PLACES or value not in (None, False, 0, "", [], {}))
    ]
    before, after = operation.get("before_snapshot"), operation.get("after_snapshot")
    return [*said, f"snapshot: {before or 'none'} → {after}"] if after not in (None, before) else said


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return first_few([f"{name}:{_part(each)}" for name, each in value.items()], MOST)
    if isinstance(value, list | tuple):
        return first_few([_part(each) for each in value], MOST)
    return str(value)


def _part(value: Any) -> str:
    if isinstance(value, Mapping):
        return _gain(value) if "acted" in value else _change(value)
    if isinstance(value, list | tuple) and len(value) == _RANGE:
        return f"[{value[0]}, {value[1]})"
    return str(value)


def _gain(value: Mapping[str, Any]) -> str:
    """What maintenance of one kind came to: done or not, why, and its numbers but the time it took."""
    error = value.get("error")
    end = "failed" if error else "done" if value["acted"] else "nothing done"
    why = (error.get("message") or error.get("state")) if error else value.get("reason")
    numbers = [
        f"{name.replace('_', ' ')} {each}"
        for name, each in value.items()
        if type(each) in {int, float} and each and name != "seconds"
    ]
    inside = "; ".join(filter(None, (why, ", ".join(numbers))))
    return f"{value['table']} {value['kind']} {end}" + (f" ({inside})" if inside else "")


def _change(value: Mapping[str, Any]) -> str:
    """A change of a schema by kind and path; of anything else its plain parts."""
    if "path" in value:
        path = value["path"] or ""
        return f"{value['kind']} {path if isinstance(path, str) else '.'.join(path)}".strip()
    return " ".join(f"{name} {each}" for name, each in value.items() if not isinstance(each, Mapping | list))
