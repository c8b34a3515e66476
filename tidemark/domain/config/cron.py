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
_NEVER_IN_FEBRUARY = {"30", "31"}


def cron_fault(schedule: str) -> str | None:
    """Why `schedule` is not a cron schedule, or None."""
    if schedule in _WORDS:
        return None
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return "has five fields: minute, hour, day of the month, month, day of the week"
    for text, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        if not all(_part_fits(part, low, high, words) for part in text.lower().split(",")):
            return f"{text!r} is not a {name} ({low} to {high})"
    if fields[3].lower() in {"2", "feb"} and fields[2] in _NEVER_IN_FEBRUARY:
        return "that day never comes"
    return None


def _part_fits(part: str, low: int, high: int, words: dict[str, int]) -> bool:
    span, slash, step = part.partition("/")
    found = _PART.fullmatch(span)
    if not found or (slash and not (step.isdecimal() and 1 <= int(step) <= high)):
        return False
    if found["all"]:
        return True
    numbers = [_number(word, words) for word in (found["low"], found["high"] or found["low"])]
    return all(low <= number <= high for number in numbers) and numbers[0] <= numbers[1]


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
