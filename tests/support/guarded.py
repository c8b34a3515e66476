"""A server of the tests that ends with them, however they end, and can be killed and started again in between."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidemark.services.ports import LOOPBACK

# Waits for the end of its input, which is the end of the tests however it comes, and ends what it started.
GUARD = """
import subprocess, sys
_, user, number, *command = sys.argv
server = subprocess.Popen(command, stdin=subprocess.DEVNULL, user=user or None)
sys.stdin.read()
server.send_signal(int(number))
server.wait()
"""


class Guarded:
    """One process; `is_ready` says when it answers. It ends by `number`; its user is by default ours."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        is_ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        *,
        user: str = "",
        number: signal.Signals = signal.SIGKILL,
    ) -> None:
        self._command = [sys.executable, "-c", GUARD, user, str(int(number)), *command]
        self._log, self._is_ready, self._environment = log, is_ready, {**os.environ, **(environment or {})}

    def start(self, seconds: float = 60) -> None:
        """Return when it answers."""
        with self._log.open("ab") as log:
            self._guard = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + seconds
        while not self._is_ready():
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"it does not answer: {self._log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """Without any farewell, and wait until it is gone."""
        self._guard.communicate()


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
