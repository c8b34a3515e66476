"""Snapshot ids in Dagster's JSON metadata: as text, for a browser rounds numbers beyond 2^53; and back for `--json`."""

from typing import Any

_ROUNDED = 2**53
_IDS = ("snapshot", "planned", "found", "receipt", "oldest")
"""What the names of fields with snapshot ids have in them."""


def ids_as_text(value: Any) -> Any:
    """JSON without numbers that a browser would round."""
    if isinstance(value, dict):
        return {name: ids_as_text(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [ids_as_text(each) for each in value]
    return str(value) if type(value) is int and abs(value) > _ROUNDED else value


def ids_as_numbers(value: Any, name: str = "") -> Any:
    """What `ids_as_text` was given: ids are numbers again."""
    if isinstance(value, dict):
        return {key: ids_as_numbers(each, key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [ids_as_numbers(each, name) for each in value]
    is_id = isinstance(value, str) and value.isdecimal() and any(each in name for each in _IDS)
    return int(value) if is_id else value
