"""Free loopback ports, remembered so that addresses survive a restart."""

import json
import secrets
import socket
import time
from collections.abc import Iterable, MutableMapping
from pathlib import Path

from tidemark.engine.alone import alone
from tidemark.engine.whole_file import replace_whole

LOOPBACK = "127.0.0.1"
PATIENCE = 5.0
"""Seconds. A killed server counts as dead as soon as its first thread is; its sockets close with its last."""
LOWEST, HIGHEST = 20000, 32000  # below the ports that the system gives to outgoing connections


def without_proxy(environ: MutableMapping[str, str]) -> None:
    """A proxy that the environment names is not asked for what listens on this machine: registry, Spark, Dagster."""
    spared = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if spared.strip() != "*":  # which says all only where it stands alone
        here = [each for each in (LOOPBACK, "localhost") if each not in spared.split(",")]
        environ["no_proxy"] = environ["NO_PROXY"] = ",".join(filter(None, (spared, *here)))


def is_free(port: int) -> bool:
    """True when a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # ports in TIME_WAIT are free for a server
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def accepts(port: int) -> bool:
    """True when something answers on the port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


class Ports:
    """Port numbers by name, kept in a JSON file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = _read(file)

    def __getitem__(self, name: str) -> int:
        return self._known[name]

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def settle(self, names: Iterable[str]) -> None:
        """Give each name a port that is free now: the remembered one if possible, else a new one.

        One process at a time, on top of what others have remembered meanwhile.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with alone(self._file.with_suffix(".lock")):
            before = _read(self._file)
            self._known |= before
            for name in names:
                if name not in self._known or not _gets_free(self._known[name]):
                    self._known[name] = _unused(set(self._known.values()))
            if self._known != before:
                replace_whole(self._file, json.dumps(self._known, indent=1))


def _gets_free(port: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _read(file: Path) -> dict[str, int]:
    try:
        return {str(name): int(port) for name, port in json.loads(file.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}  # never written, or cut off by a crash: the next ports are as good


def _unused(taken: set[int]) -> int:
    while True:
        port = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        if port not in taken and is_free(port):
            return port
