"""Answers of many tables: what one of them waits for hides no other's."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from tidemark.domain.errors import Outage, Stopped

T = TypeVar("T")


def each_apart(asks: Mapping[str, Callable[[], T]]) -> tuple[list[T], dict[str, Stopped | Outage]]:
    """The answers, and by table why others have none; an error may be about a table beside, its quarantine say."""
    found: list[T] = []
    unknown: dict[str, Stopped | Outage] = {}
    for table, ask in asks.items():
        try:
            found.append(ask())
        except (Stopped, Outage) as error:
            unknown[table] = error
    return found, unknown
