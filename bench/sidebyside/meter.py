"""CPU, memory and time of everything that a peer runs: its processes, their children, and servers that it detached."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from bench.sidebyside.ending import end

EVERY = 0.2
"""Seconds between two looks. CPU is exact for children that ended; a grandchild may lose its last look."""

Known = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU and of the clock, and the highest sum of resident memory in MiB."""

    cpu: float
    seconds: float
    memory: int


class Failed(Exception):
    """A process of a peer ended with an error; the text is the end of what it wrote."""


class Meter:
    """Measures from `with` on until `stop` (or the end of `with`), then ends what it started."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._seen: dict[int, dict[Known, float]] = {}
        self._ended: dict[int, float] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        self._memory = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._cost: Cost | None = None

    def __enter__(self) -> Self:
        self._began = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for process in self._started:
            end(process)

    def start(self, command: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> int:
        """Start a process that goes on; gives its pid. It is ended with the meter."""
        with self.log.open("ab") as out:
            process = subprocess.Popen(
                [*map(str, command)],
                env={**os.environ, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._started.append(process)
        self.follow(process.pid)
        return process.pid

    def run(self, command: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> None:
        """Run a process to its end; raises Failed."""
        pid = self.start(command, environ)
        _, status, usage = os.wait4(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._started[-1].returncode = code
        with self._lock:
            self._ended[pid] = usage.ru_utime + usage.ru_stime
        if code:
            raise Failed(f"exit {code}: {self.tail()}")

    def wait(self, pid: int, patience: float) -> None:
        """Until a process that was told to end has ended, or for so long."""
        with suppress(subprocess.TimeoutExpired):
            next(each for each in self._started if each.pid == pid).wait(patience)

    def roots(self) -> list[int]:
        """What is followed and still runs."""
        with self._lock:
            return [pid for pid in self._seen if pid not in self._ended]

    def cpu(self) -> float:
        """Seconds of CPU until now, of what could be seen."""
        self._look()
        with self._lock:
            return self._sum()

    def follow(self, pid: int) -> None:
        """Count a process from its own start, with its children: a server that detached itself."""
        with self._lock:
            self._seen.setdefault(pid, {})

    def alive(self) -> bool:
        """Whether everything that was started still runs."""
        return all(process.poll() is None for process in self._started)

    def tail(self) -> str:
        """The end of what the processes wrote."""
        return self.log.read_text(errors="replace")[-3000:]

    def stop(self) -> Cost:
        """End the measurement; what runs goes on. A second call gives the same."""
        if self._cost is None:
            seconds = time.perf_counter() - self._began
            self._look()
            self._over.set()
            self._thread.join()
            self._cost = Cost(self._sum(), seconds, self._memory >> 20)
        return self._cost

    def _sum(self) -> float:
        """Each process once: a server that detached itself is seen below its starter too, until that ends."""
        root_of = {known: root for root, seen in self._seen.items() for known in seen}
        own = {
            root: sum(cpu for known, cpu in seen.items() if root_of[known] == root)
            for root, seen in self._seen.items()
        }
        return sum(max(cpu, self._ended.get(root, 0)) for root, cpu in own.items())

    def _watch(self) -> None:
        while not self._over.wait(EVERY):
            self._look()

    def _look(self) -> None:
        with self._lock:
            memory = 0
            for root, seen in self._seen.items():
                with suppress(psutil.NoSuchProcess):
                    top = psutil.Process(root)
                    for each in (top, *top.children(recursive=True)):
                        memory += _note(each, seen)
            self._memory = max(self._memory, memory)


def _note(process: psutil.Process, seen: dict[Known, float]) -> int:
    try:
        times = process.cpu_times()
        seen[process.pid, process.create_time()] = times.user + times.system
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
