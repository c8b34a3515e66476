"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Poll until `condition` is true; what it gave."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(0.05)
