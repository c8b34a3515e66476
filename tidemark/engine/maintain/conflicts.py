"""Commits of maintenance that a write to the very same files has beaten: tried again, counted, never forced."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tidemark.engine.access.outages import says

T = TypeVar("T")
TRIES = 3
_TOO_LATE = (
    "ValidationException",
    "CommitFailedException",
    "Missing required files",
    "Cannot commit",
    "Still referenced by refs",
    "is not an ancestor of",
)
_PAUSE = 0.2


@dataclass(slots=True)
class Conflicts:
    """How often the commits of one run came too late, and which of them gave up."""

    count: int = 0
    gave_up: list[str] = field(default_factory=list)

    def tried(self, what: str, work: Callable[[], T], times: int = TRIES) -> T | None:
        """What `work` gives; None when it was too late each time, which is noted as `what`."""
        for left in reversed(range(times)):
            try:
                return work()
            except Exception as error:
                if not says(error, _TOO_LATE):
                    raise
                self.count += 1
                if left:
                    time.sleep(_PAUSE)
                    continue
                said = str(error).partition("\n")[0]
                self.gave_up.append(f"{what} is being changed by others; next time ({said})")
        return None
