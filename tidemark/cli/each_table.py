"""Answers of many tables: what one of them waits for hides no other's."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from tidemark.domain.errors import Outage, Stopped

T = TypeVar("T")


def each_apart(asks: Iterable[Callable[[], T]]) -> tuple[list[T], list[Stopped | Outage]]:
    """The answers, and why others have none."""
    found: list[T] = []
    unknown: list[Stopped | Outage] = []
    for ask in asks:
        try:
            found.append(ask())
        except (Stopped, Outage) as error:
            unknown.append(error)
    return found, unknown
