"""How fast a backfill loads, and who is told of it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast: at most `rate` rows or records a second on average, 0 for as fast as it goes; `say` is told."""

    rate: float = 0.0
    say: Say = lambda _: None

    def keep(self, done: int, began: float) -> None:
        """Wait until `done` rows since `began` are no more than allowed."""
        if self.rate > 0:
            time.sleep(max(0.0, done / self.rate - (time.monotonic() - began)))
