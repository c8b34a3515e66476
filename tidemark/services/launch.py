"""Bring services up at the same time, keeping those that run."""

import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from tidemark.services.errors import ServiceFailed
from tidemark.services.processes import Mark, has_ended, server, start, stop
from tidemark.services.progress import Event, OnProgress
from tidemark.services.service import Place, Service

POLL_SECONDS = 0.2
SILENCE_SECONDS = 20.0


class Launch:
    """One attempt to bring all services up; what it started is stopped again when it fails."""

    def __init__(self, services: tuple[Service, ...], place: Place, on_progress: OnProgress) -> None:
        self._services = services
        self._place = place
        self._on_progress = on_progress
        self._started: list[Mark] = []
        self._cancelled = threading.Event()

    def run(self) -> None:
        """Return when all answer; raises ServiceError, or whatever interrupted it."""
        alive = {each.name: self._alive(each) for each in self._services}
        for each in self._services:
            if alive[each.name] is None:
                stop(self._mark(each))  # before its ports are asked for: one that lives without known ports
                self._place.ports.settle(each.ports)
        with ThreadPoolExecutor(len(self._services), thread_name_prefix="up") as pool:
            try:
                waiting = [pool.submit(self._one, each, alive[each.name]) for each in self._services]
                for future in wait(waiting, return_when=FIRST_EXCEPTION).done:
                    future.result()
            except BaseException:
                self._cancelled.set()
                for mark in self._started:
                    stop(mark, patience=2)
                raise

    def _alive(self, service: Service) -> int | None:
        """The pid of a server that can be kept: it lives, and we know where it listens."""
        process = server(self._mark(service))
        if process is None or not all(port in self._place.ports for port in service.ports):
            return None
        return process.pid

    def _one(self, service: Service, pid: int | None) -> None:
        began = time.monotonic()
        if pid is not None and self._answers(service, pid):
            service.prepare(self._place)  # an `up` that was killed may have left that out
            self._on_progress(Event(service.name, f"up, pid {pid}", finished=True))
            return
        mark = self._mark(service)
        stop(mark)  # a server that lives but does not answer, Python workers of one that was killed
        self._started.append(mark)
        try:
            pid = self._start(service, mark, began)
            service.prepare(self._place)
        except BaseException:
            stop(mark, patience=2)
            raise
        self._on_progress(
            Event(service.name, f"up after {time.monotonic() - began:.1f} s, pid {pid}", finished=True)
        )

    def _answers(self, service: Service, pid: int) -> bool:
        """A server at hard work may miss a question; only one that stays silent is replaced."""
        deadline = time.monotonic() + SILENCE_SECONDS
        while not (answers := service.is_ready(self._place)):
            if self._cancelled.is_set() or has_ended(pid) or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        return answers

    def _start(self, service: Service, mark: Mark, began: float) -> int:
        self._on_progress(Event(service.name, "starting"))
        log = self._place.log(service.name)
        pid = start(service.command(self._place), mark, log)
        while not service.is_ready(self._place):
            if has_ended(pid):
                raise ServiceFailed(service.name, "ended while starting", log)
            if self._cancelled.is_set():
                raise ServiceFailed(service.name, "was stopped because another service failed", log)
            if time.monotonic() - began > service.patience:
                raise ServiceFailed(service.name, f"did not answer within {service.patience:.0f} s", log)
            time.sleep(POLL_SECONDS)
        self._on_progress(Event(service.name, "answers, getting ready"))
        return pid

    def _mark(self, service: Service) -> Mark:
        return Mark.of(service.name, self._place.home)
