"""`tidemark metrics`: the figures of `status --json` for Prometheus, asked at each scrape, on this machine only."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily

from tidemark.cli.choice import chosen_both
from tidemark.cli.contracts import load_contracts
from tidemark.cli.output import console
from tidemark.cli.status import statuses
from tidemark.domain.errors import Refused, TidemarkError
from tidemark.domain.states import STATES
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import places
from tidemark.engine.config.follow import Followed
from tidemark.engine.look.status import Status
from tidemark.engine.look.topics import refresh_topics

LOOPBACK = "127.0.0.1"
FRESH_FOR = 5.0
"""Seconds that one look serves: two scrapers do not ask Kafka twice."""
LISTED_FOR = 60.0
"""Seconds that a list of topics serves, where a contract takes what a pattern matches."""
_FIGURES = {
    "lag_records": "Offsets in Kafka that are not published",
    "lag_seconds": "Age of the oldest unpublished offset, by Tidemark's clock",
    "retention_headroom_seconds": "Until Kafka deletes the oldest unpublished record",
    "rows": "Rows of the table",
    "data_files": "Data files of the table",
    "delete_files": "Delete files of the table",
    "quarantined": "Unresolved rows in quarantine",
}


class TableFigures:
    """Collects the status of tables when Prometheus asks."""

    def __init__(self, tables: Sequence[str]) -> None:
        """Raises what `load_contracts` does, and Refused where there is no such table."""
        self._tables = tables
        self._lake = Lake(load_contracts())
        self._files = Followed(places(os.environ))
        self._listed = time.monotonic()
        chosen_both(self._lake.configuration, tables)
        self._seen: list[Status] = []
        self._at = float("-inf")
        self._turn = Lock()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge per figure; what could not be asked is left out, `tidemark_state` says why."""
        found = self._statuses()
        for figure, meaning in _FIGURES.items():
            gauge = GaugeMetricFamily(f"tidemark_{figure}", meaning, labels=["table", "topic"])
            for each in found:
                value = each.as_json()[figure]
                if value is not None:
                    gauge.add_metric([each.table, each.topic], value)
            yield gauge
        yield from _clocks(found)
        state = GaugeMetricFamily(
            "tidemark_state", "1 for the state that a table is in", labels=["table", "state"]
        )
        for each in found:
            for name in STATES:
                state.add_metric([each.table, name], float(each.state == name))
        yield state

    def _statuses(self) -> list[Status]:
        with self._turn:  # each scrape has a thread of its own
            return self._newest()

    def _newest(self) -> list[Status]:
        if time.monotonic() - self._at > FRESH_FOR:
            with suppress(TidemarkError):  # what is broken, or out of reach, is told by other commands
                self._follow()
            self._seen = statuses(self._lake, self._tables)
            self._at = time.monotonic()
        return self._seen

    def _follow(self) -> None:
        """The contracts that are on disk now, unless they are broken or lack a table that is wanted."""
        if time.monotonic() - self._listed > LISTED_FOR:
            self._listed = time.monotonic()
            refresh_topics(self._lake, self._files.where.home)
        found = self._files.now()
        if found != self._lake.configuration:
            chosen_both(found, self._tables)
            self._lake.close()
            self._lake = Lake(found)


def metrics(tables: Sequence[str], port: int, *, once: bool) -> None:
    """Serve /metrics until Ctrl-C, or print it once.

    Raises:
        Refused: there is no such table, or the port cannot be had.
    """
    registry = CollectorRegistry()
    registry.register(TableFigures(tables))
    if once:
        console().file.write(generate_latest(registry).decode())
        return
    try:
        server, thread = start_http_server(port, addr=LOOPBACK, registry=registry)
    except OSError as error:
        raise Refused(
            f"port {port} cannot be had: {error.strerror}", next_step="--port names another"
        ) from error
    console().print(f"http://{LOOPBACK}:{server.server_port}/metrics   Ctrl-C stops")
    with suppress(KeyboardInterrupt):
        thread.join()
    server.shutdown()


def _clocks(found: Sequence[Status]) -> Iterator[GaugeMetricFamily]:
    clocks = {
        "stream_clock": "Time of the newest record in Kafka",
        "table_clock": "Time of the newest published record",
        "last_commit": "When something was last published",
    }
    for name, meaning in clocks.items():
        gauge = GaugeMetricFamily(f"tidemark_{name}_timestamp_seconds", meaning, labels=["table", "topic"])
        for each in found:
            at = getattr(each, name)
            if at is not None:
                gauge.add_metric([each.table, each.topic], at.timestamp())
        yield gauge
