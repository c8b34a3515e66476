"""How every upsert table stands: both ledgers from the catalog, nothing else. A shape of `tidemark status`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from tidemark.domain.cadence.freshness import Judgement, judge_merge
from tidemark.domain.cadence.lag import Lag
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_tables
from tidemark.domain.errors import Stopped, TidemarkError, state_of
from tidemark.domain.states import FINE, OUTAGES, State, remedy
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.listening import listens
from tidemark.engine.access.outages import translated
from tidemark.engine.look.status import Hint, Status
from tidemark.engine.look.tables import CONNECT, looking
from tidemark.engine.merge.pair import Pair, read_pair


def upsert_statuses(
    lake: Lake,
    tables: Iterable[UpsertTable],
    ask: Callable[[Sequence[str]], Mapping[str, Hint]] = lambda _: {},
    look: Callable[[list[Contract]], list[Status]] = lambda _: [],
) -> list[Status]:
    """The upsert tables in their order; `ask` knows how the last run of tables that are behind has ended.

    One that is not there, for its append table has no rows, or of which that lies under another name, stands as its
    append table does: `look` tells how, of others too maybe.
    """
    known = list(tables)
    at = datetime.now(UTC)
    with looking("status") as pool:
        found = list(pool.map(partial(_read, lake), known))
    told = ask([each.contract.table for each, (pair, _, _) in zip(known, found, strict=True) if _waits(pair)])
    unmade = {
        each.append.table: each.append
        for each, (pair, _, _) in zip(known, found, strict=True)
        if _unmade(pair)
    }
    looked = look(list(unmade.values())) if unmade else []
    before = {each.table: Hint(each.state, remedy=each.remedy) for each in looked if each.table in unmade}
    down = any(_waits(pair) for pair, _, _ in found) and not listens(lake.platform.spark.remote, CONNECT)
    polls = {name: lane.poll for name, lane in lake.platform.lanes.items()}
    return [
        _judged(
            each,
            pair,
            fault
            or _stopped(each, pair, told)
            or ("spark_down" if down and _waits(pair) else None)
            or before.get(each.append.table, Hint()).stopped,
            at,
            polls[each.append.lane],
            Hint(fault, remedy=step)
            if step
            else before.get(each.append.table) or told.get(each.contract.table, Hint()),
        )
        for each, (pair, fault, step) in zip(known, found, strict=True)
    ]


def _read(lake: Lake, current: UpsertTable) -> tuple[Pair | None, State | None, str]:
    """Both tables; or why not, with the next step where it is one of the two that stopped, be it the append table."""
    try:
        with translated():
            return read_pair(lake, current), None, ""
    except TidemarkError as error:
        return None, state_of(error), error.next_step if isinstance(error, Stopped) else ""


def lateness_of(lake: Lake, contract: Contract, now: datetime) -> tuple[Lag, Judgement]:
    """How late an upsert table is; `contract` is its own.

    Raises:
        Outage: the catalog does not answer.
        Stopped: `ledger_missing`, `table_missing`.
    """
    with translated(contract.table):
        return lateness(read_pair(lake, upsert_tables(lake.configuration.contracts)[contract.table]), now)


def lateness(pair: Pair, now: datetime) -> tuple[Lag, Judgement]:
    """What is not merged, and how bad that is by the limits of the contract."""
    seconds = (now - pair.oldest).total_seconds() if pair.oldest else None
    found = judge_merge(pair.waiting, seconds, pair.current.contract.freshness)
    return Lag(pair.waiting, seconds or 0.0), found


def _waits(pair: Pair | None) -> bool:
    return pair is not None and pair.behind and not pair.state.paused


def _unmade(pair: Pair | None) -> bool:
    if pair is None or pair.append is not None or pair.state.paused:
        return False
    return not (pair.state.exists and pair.columns.fields)


def _stopped(current: UpsertTable, pair: Pair | None, told: Mapping[str, Hint]) -> State | None:
    """The stop state of the last run, unless something was merged since."""
    hint = told.get(current.contract.table)
    if hint is None or hint.stopped is None or pair is None or hint.stopped in FINE | OUTAGES:
        return None
    at, since = pair.state.committed_at, hint.at
    return None if at and since and at > since else hint.stopped


def _judged(
    current: UpsertTable, pair: Pair | None, fault: State | None, now: datetime, poll: timedelta, hint: Hint
) -> Status:
    contract, state = current.contract, pair.state if pair else None
    merged = state.merged if state else None
    seconds = (now - pair.oldest).total_seconds() if pair and pair.oldest else 0.0
    late = seconds > (contract.target_lag + poll).total_seconds()
    verdict: State = fault or ("paused" if state and state.paused else "lagging" if late else "fresh")
    end = dict(pair.append.ledger.next) if pair and pair.append else {}
    return Status(
        table=contract.table,
        topic=current.append.topic,
        state=verdict,
        lag_records=pair.waiting if pair else None,
        lag_seconds=seconds if pair else None,
        stream_clock=pair.append.ledger.max_timestamp if pair and pair.append else None,
        table_clock=merged.max_timestamp if merged else None,
        headroom=None,
        last_commit=state.committed_at if state else None,
        snapshot_id=state.head if state else None,
        next=dict(merged.next) if merged else {},
        end=end,
        data_files=state.data_files if state else None,
        delete_files=state.delete_files if state else None,
        rows=state.live_rows if state else None,
        quarantined=0,
        remedy=hint.remedy_of(verdict)
        or remedy(verdict, table=contract.table, topic=current.append.table, cluster=contract.cluster),
    )
