"""CPU seconds, as the figures of the bench count them."""

import os
from typing import Any

import psutil


def cpu_of(stack: dict[str, Any]) -> float:
    """What the Spark server, its children and this process have used so far."""
    server = psutil.Process(stack["processes"]["spark"])
    times = [p.cpu_times() for p in (server, *server.children(recursive=True), psutil.Process(os.getpid()))]
    return float(sum(t.user + t.system for t in times))
