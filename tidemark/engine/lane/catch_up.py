"""One table until it has caught up: microbatches, a few retries for outages, and never an exception."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, error_fields
from tidemark.domain.ledger.offsets import total, waiting
from tidemark.domain.outcome import Commit, Outcome
from tidemark.domain.states import State, named_state
from tidemark.engine.access.lake import Lake, renewing_spark
from tidemark.engine.access.outages import asked
from tidemark.engine.ingest.microbatch import microbatch

T = TypeVar("T")
RETRIES = 3
"""New attempts after an outage, with 1, 2 and 4 seconds between them."""
_WAIT = 2.0**RETRIES - 1
_OF_ALL: frozenset[State] = frozenset({"catalog_down", "registry_down", "spark_down"})
"""Outages of what many tables need: one that has waited for it in vain has done so for those that come next.

What is published does not tell of a registry, which not every table needs: that one is down until the time is over.
"""


def catch_up(
    lake: Lake,
    contract: Contract,
    run_id: str,
    *,
    loaded_before: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Publish until the end offsets seen at the start are reached, or `stop` says so. Errors are in the outcome."""
    done = drained(
        lake,
        contract.table,
        lambda: lake.topic(contract, one_of_many=True).end,
        lambda goal: microbatch(lake, contract, run_id, loaded_before=loaded_before, goal=goal),
        stop,
        lambda goal, commit: not waiting(commit.next, goal),
    )
    return summarise(lake, contract, done)


def drained(
    lake: Lake,
    table: str,
    goal: Callable[[], T],
    batch: Callable[[T], Commit | None],
    stop: Callable[[], bool],
    reached: Callable[[T, Commit], bool] = lambda _goal, _commit: False,
) -> Outcome:
    """What came of batches until `goal`, as it is at the start, is reached or `stop` says so. Never raises.

    It is where no batch is left to make, or a commit that has `reached` it says so before another is planned.
    A few retries for outages come between batches; where the goal cannot be had, nothing is begun.
    """
    began, done = time.perf_counter(), Outcome(table, "fresh")
    try:
        end = goal()
        while not stop() and (commit := through_outages(lake, lambda: batch(end), stop)):
            done = done.plus(commit)
            if reached(end, commit):
                break
    except Exception as error:  # noqa: BLE001 - one table must never take another with it
        done = replace(done, error=error_fields(error))
    return replace(done, seconds=time.perf_counter() - began)


def through_outages(lake: Lake, attempt: Callable[[], T], stop: Callable[[], bool]) -> T:
    """`attempt`, which looks at the truth, again after an outage; a lost Spark session is made anew.

    Raises:
        Stopped: at once.
        Outage: after the last retry, when `stop` says so, or where another table just waited for the same in vain.
    """
    turn = 0
    while True:
        began = time.monotonic()
        try:
            with renewing_spark(lake):
                found = attempt()
        except Outage as outage:
            in_vain = turn == RETRIES or began < lake.waited_for.get(outage.state, 0)
            if in_vain and outage.state in _OF_ALL:
                lake.waited_for[outage.state] = time.monotonic() + _WAIT
            if in_vain or stop():
                raise
            time.sleep(2.0**turn)
            turn += 1
        else:
            lake.waited_for.pop("catalog_down", None)
            if isinstance(found, Commit):  # a table that is level, or a look, has not asked Spark
                lake.waited_for.pop("spark_down", None)
            return found


def summarise(lake: Lake, contract: Contract, done: Outcome) -> Outcome:
    """The outcome of a run on one table, with what table and topic say now where they still answer."""
    state, _ = asked(lambda: lake.state(contract.table))
    topic, _ = asked(lambda: lake.topic(contract, one_of_many=True))
    ledger = state.ledger if state else None
    following = dict(ledger.next) if ledger else {}
    lag = total(waiting(following, topic.end)) if topic and ledger else 0
    clock = None
    if topic:
        clock, _ = asked(lambda: lake.kafka(contract.cluster).clock(topic.name, topic.end))
    return replace(
        done,
        state=ending_state(done, paused=state is not None and state.paused, lag=lag),
        from_={**following, **done.from_},
        next=following,
        snapshot_id=done.snapshot_id or (state.head if state else None),
        lag_records=lag,
        stream_clock=clock,
        table_clock=ledger.max_timestamp if ledger else None,
    )


def ending_state(done: Outcome, *, paused: bool, lag: int) -> State:
    """How a run leaves a table: in what stopped it, else as it says of itself and by what still waits (`lag`)."""
    if done.error:
        return named_state(done.error.get("state"))
    if paused:
        return "paused"
    return "lagging" if lag else "fresh"
