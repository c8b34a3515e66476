"""One table until it has caught up: microbatches, a few retries for outages, and never an exception."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, error_fields, state_of
from tidemark.domain.ledger.offsets import total, waiting
from tidemark.domain.outcome import Outcome
from tidemark.domain.states import State
from tidemark.engine.access.lake import Lake, renewing_spark
from tidemark.engine.access.outages import translated
from tidemark.engine.access.table_state import TableState
from tidemark.engine.ingest.microbatch import microbatch

Found = TypeVar("Found")
RETRIES = 3
"""New attempts from the plan after an outage, with 1, 2 and 4 seconds between them."""


def catch_up(
    lake: Lake,
    contract: Contract,
    run_id: str,
    *,
    known: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Publish until the end offsets seen at the start are reached, or `stop` says so. Errors are in the outcome."""
    began, done = time.perf_counter(), Outcome(contract.table, "fresh")
    error: Exception | None = None
    try:
        with translated(contract.table, topic=contract.topic, cluster=contract.cluster):
            goal = lake.topic(contract).end
            while not stop():
                commit = through_outages(
                    lake, lambda: microbatch(lake, contract, run_id, known=known, goal=goal), stop
                )
                if commit is None:
                    break
                done = done.plus(commit)
    except Exception as found:  # noqa: BLE001 - one table must never take another with it
        error = found
    return summarise(lake, contract, done, seconds=time.perf_counter() - began, error=error)


def through_outages(
    lake: Lake, attempt: Callable[[], Found | None], stop: Callable[[], bool]
) -> Found | None:
    """`attempt`, which plans from the truth, again after an outage; a lost Spark session is made anew.

    Raises:
        Stopped: at once.
        Outage: after the last retry, or when `stop` says so.
    """
    for turn in range(RETRIES + 1):
        try:
            with renewing_spark(lake):
                return attempt()
        except Outage:
            if turn == RETRIES or stop():
                raise
            time.sleep(2.0**turn)
    return None


def summarise(
    lake: Lake, contract: Contract, done: Outcome, *, seconds: float, error: Exception | None
) -> Outcome:
    """The outcome of a run on one table, with what table and topic say now where they still answer."""
    state = _quietly(lambda: lake.state(contract.table))
    topic = _quietly(lambda: lake.topic(contract))
    ledger = state.ledger if state else None
    following = dict(ledger.next) if ledger else {}
    lag = total(waiting(following, topic.end)) if topic and ledger else 0
    return replace(
        done,
        state=_state(error, state, lag),
        from_={**following, **done.from_},
        next=following,
        snapshot_id=done.snapshot_id or (state.head if state else None),
        seconds=seconds,
        error=error_fields(error) if error else None,
        lag_records=lag,
        stream_clock=_quietly(lambda: lake.kafka(contract.cluster).clock(topic.name, topic.end))
        if topic
        else None,
        table_clock=ledger.max_timestamp if ledger else None,
    )


def _state(error: Exception | None, state: TableState | None, lag: int) -> State:
    if error is not None:
        return state_of(error)
    if state is not None and state.paused:
        return "paused"
    return "lagging" if lag else "fresh"


def _quietly(ask: Callable[[], Any]) -> Any:
    """The answer, or None from a service that is in the very trouble the outcome reports."""
    try:
        return ask()
    except Exception:  # noqa: BLE001
        return None
