"""End a process of ours with everything it started."""

import os
import signal
import subprocess
from contextlib import suppress

PATIENCE = 5.0


def end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM to its session, SIGKILL to what is left."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
