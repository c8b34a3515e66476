"""How long the stages of an attempt take."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stopwatch:
    """Seconds per stage of one attempt."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage_name: str) -> Iterator[None]:
        """Add the time that the block takes."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage_name] = self.seconds.get(stage_name, 0.0) + time.perf_counter() - began
