"""Cron schedules of five fields, as Dagster's scheduler reads them."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from tidemark.domain.suggest import nearest

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_PART = re.compile(r"(?P<all>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?")
_WORDS = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of the months."""


def cron_fault(schedule: str) -> str | None:
    """Why `schedule` is not a cron schedule, or None."""
    if schedule in _WORDS:
        return None
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return "has five fields: minute, hour, day of the month, month, day of the week"
    meant = []
    for text, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        parts = [_part(part, low, high, words) for part in text.lower().split(",")]
        if not all(parts):
            return f"{text!r} is not a {name} ({low} to {high})"
        meant.append({number for part in parts for number in part})
    _, _, days, months, _ = meant
    if min(days) > max(_LONGEST[month - 1] for month in months):  # also beside weekdays Dagster refuses that
        return "that day never comes"
    return None


def _part(part: str, low: int, high: int, words: dict[str, int]) -> range:
    """The numbers that a part of a field stands for; none when it is not one."""
    span, slash, step = part.partition("/")
    found = _PART.fullmatch(span)
    if not found or (slash and not (step.isdecimal() and 1 <= int(step) <= high)):
        return range(0)
    first, last = low, high
    if not found["all"]:
        first = _number(found["low"], words)
        last = _number(found["high"], words) if found["high"] else high if slash else first
    every = int(step) if slash else 1
    return range(first, last + 1, every) if low <= first and last <= high else range(0)


def _number(word: str, words: dict[str, int]) -> int:
    return int(word) if word.isdecimal() else words.get(word, -1)


def _cron(value: str) -> str:
    if fault := cron_fault(value):
        raise PydanticCustomError(
            "cron",
            "{value} is not a cron schedule: {fault}",
            {
                "value": repr(value),
                "fault": fault,
                "suggestion": nearest(value, _WORDS) if value[:1] == "@" else None,
            },
        )
    return value


Cron = Annotated[str, AfterValidator(_cron), Field(examples=["*/30 * * * *"])]
"""Minute, hour, day of the month, month, day of the week; in UTC."""
