"""What a backfill will load, pinned before anything is loaded: offsets of Kafka, or windows of rows."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.partitioning import column_parts
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.section import REVEAL
from tidemark.domain.config.units import format_duration
from tidemark.domain.errors import Refused
from tidemark.domain.ledger.backfill import BACKFILL, Backfill, Cutover, Source, parse_source, place
from tidemark.domain.ledger.guard import examine, stopped_by
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.domain.maintenance.retention import retention_cut
from tidemark.domain.times import first_millisecond
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.operate.backfill.pace import Pace
from tidemark.engine.operate.backfill.source import Opened, check_columns, in_range, open_source, time_of
from tidemark.engine.schema.evolve import value_columns
from tidemark.engine.table.head_rows import head_rows
from tidemark.engine.table.operations import Signature

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command says. Without `cutover` the load ends with the comparison; `abort` drops what was loaded."""

    source: str = ""
    since: datetime | None = None
    until: datetime | None = None
    time_column: str = ""
    window_seconds: int | None = None
    max_records: int | None = None
    cutover: bool = False
    abort: bool = False
    pace: Pace = field(default_factory=Pace)

    def require_sense(self, table: str) -> None:
        """Raises Refused when the arguments contradict each other or their least value."""
        wrong = {
            "cutover publishes what abort drops: say one of them": self.cutover and self.abort,
            "a window is at least one second long": self.window_seconds is not None
            and self.window_seconds < 1,
            "a commit holds at least one record": self.max_records is not None and self.max_records < 1,
            "a rate is not negative; 0 is any": self.pace.rate < 0,
        }
        for why in (says for says, so in wrong.items() if so):
            raise Refused(why, next_step=f"tidemark backfill {table} with other arguments", table=table)


@dataclass(frozen=True, slots=True)
class Work:
    """A table, where its history comes from, and what is loaded."""

    contract: Contract
    target: TableState
    source: Source
    plan: Backfill
    opened: Opened | None
    shadow: str | None = None
    """The uuid of what it is loaded into; None before that is made."""
    rows: int | None = None
    """Those of a source of rows, as far as they were counted when they were pinned."""

    @property
    def told(self) -> dict[str, Any]:
        """What goes into the operations log in every case."""
        offsets = {str(p): [r.start, r.end] for p, r in sorted(self.plan.ranges.items())}
        cut = _deleted_before(self.contract)
        return {
            "source": self.plan.source,
            "from": self.plan.since.isoformat(),
            "to": self.plan.until.isoformat(),
            **({"offsets": offsets} if self.source.records else self._windows),
            **({"source_snapshot": self.plan.snapshot} if self.plan.snapshot else {}),
            **({"beyond_retention": cut.isoformat()} if cut and self.plan.since < cut else {}),
        }

    def cutover(self, signature: Signature, batch: str, rows: int, at: datetime) -> Cutover:
        """What the table and the operations log say of its published end."""
        return Cutover(
            at=at,
            source=self.plan.source,
            since=self.plan.since,
            until=self.plan.until,
            by=signature.authenticated or signature.by,
            reason=signature.reason,
            run_id=signature.run_id,
            batch_id=batch,
            contract=self.contract.digest,
            source_state=self.plan.source_state,
            time_column=self.plan.time_column,
            rows=rows,
        )

    @property
    def _windows(self) -> dict[str, int]:
        """Those that are copied one by one: from the first that has a row to the last; and what is in none."""
        planned = self.plan.end[0] - self.plan.start[0]
        return {"windows_planned": planned, "rows_without_time": self.plan.rows_without_time}


def work_of(
    lake: Lake,
    contract: Contract,
    target: TableState,
    source: Source,
    found: tuple[TableState, Backfill] | None,
    asked: Asked,
) -> Work:
    """What is under way, not opened yet, which the command must not contradict; else what it asks for, pinned now."""
    if found is not None:
        state, plan = found
        known = source_of(contract, plan)
        require_same(contract, known, plan, source, asked)
        return Work(contract, target, known, plan, None, state.uuid)
    if asked.cutover and asked.since is None and asked.until is None:
        raise Refused(
            f"nothing of a backfill of {contract.table} is loaded that could be published",
            next_step=f"tidemark backfill {contract.table} --from TIME --to TIME --reason … loads one",
            table=contract.table,
        )
    if asked.since is None or asked.until is None or asked.since >= asked.until:
        raise Refused(
            "a backfill needs --from TIME --to TIME, the first before the second",
            next_step=f"tidemark backfill {contract.table} --from 2026-01-01 --to 2026-02-01 --reason …",
            table=contract.table,
        )
    cut = _deleted_before(contract)
    if cut is not None and asked.until <= cut and contract.upsert is None:
        raise Refused(
            f"rows of {contract.table} from before {cut.isoformat()} are deleted by its retention: nothing that is "
            "loaded up to --to would stay",
            next_step="raise `retention` in the contract, or name a later --to",
            table=contract.table,
        )
    if source.records:
        return _of_records(lake, contract, target, source, asked.since, asked.until)
    return _of_rows(lake, contract, target, source, asked, asked.since, asked.until)


def require_same(contract: Contract, known: Source, plan: Backfill, source: Source, asked: Asked) -> None:
    """Raises Refused when the command says anything else than what is under way from the source `known`."""
    said = [asked.since in {None, plan.since}, asked.until in {None, plan.until}]
    said.append(not asked.source or str(source) == plan.source)
    told = f"{plan.source}, {plan.since.isoformat()} to {plan.until.isoformat()}"
    if not known.records:
        width = timedelta(seconds=plan.window_seconds)
        said += [
            asked.time_column in {"", plan.time_column},
            asked.window_seconds in {None, plan.window_seconds},
        ]
        told += f" of {plan.time_column}, in windows of {format_duration(width)}"
    if not all(said):
        raise Refused(
            f"another backfill of {contract.table} is under way: {told}",
            next_step=f"tidemark backfill {contract.table} goes on with it, --abort drops it",
            table=contract.table,
        )


def _deleted_before(contract: Contract) -> datetime | None:
    """Up to which record time the next maintenance would delete rows; None where they stay for ever."""
    return retention_cut(datetime.now(UTC), contract.retention.append) if contract.retention else None


def opened_again(lake: Lake, work: Work) -> Work:
    """What is under way, with its source's rows, if it has rows. Raises Refused when they are not those of then."""
    if work.source.records:
        return work
    opened = open_source(lake, work.source, work.plan.snapshot)
    if (opened.files, opened.digest) != (work.plan.files, work.plan.digest or opened.digest):
        raise other_files(work)
    return replace(work, opened=opened)


def other_files(work: Work) -> Refused:
    """Rows that came since may lie in windows that are not looked at."""
    return Refused(
        f"{work.source} has other files than when the load began, told apart by name, size and time",
        next_step=f"tidemark backfill {work.contract.table} --abort --reason …, then the backfill anew",
        table=work.contract.table,
    )


def require_shadow(work: Work, state: TableState) -> None:
    """Raises Refused when the shadow, as `state` shows it, is not what this run found or made, or would make."""
    if work.shadow is None and not state.exists:
        return
    says = state.properties.get(BACKFILL)
    same = says is not None and Backfill.model_validate_json(says) == work.plan
    if not same or work.shadow not in {None, state.uuid}:
        raise Refused(
            f"the backfill of {work.contract.table} was dropped meanwhile, or another one began in its place",
            next_step="repeat the command: it begins anew, or says which one is under way",
            table=work.contract.table,
        )


def require_same_rules(work: Work) -> None:
    """Raises Refused where other rules send records to quarantine than when the load began: they are not judged again.

    Published, they would put back into quarantine what was replayed since, or bring rows that today's rules forbid.
    """
    if work.plan.judged_by in {"", _quarantine_rules(work.contract)}:
        return
    table = work.contract.table
    raise Refused(
        f"the rules of {table} that send records to quarantine were edited since its backfill began to load by them",
        next_step=f"tidemark backfill {table} --abort --reason …, then the backfill anew, by today's rules; "
        "or take the edit back",
        table=table,
    )


def _quarantine_rules(contract: Contract) -> str:
    """A digest of them. Those that block are judged at the cutover as well, and need none."""
    rules = [rule for rule in contract.quality if rule.on_failure == "quarantine"]
    told = sorted(rule.model_dump_json(context=REVEAL) for rule in rules)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def source_of(contract: Contract, plan: Backfill) -> Source:
    """Where a backfill that is under way reads."""
    return parse_source("" if plan.source == str(Source()) else plan.source, contract.cluster)


def _of_records(
    lake: Lake,
    contract: Contract,
    target: TableState,
    source: Source,
    since: datetime,
    until: datetime,
) -> Work:
    cluster, topic = (source.cluster, source.name) if source.name else (contract.cluster, contract.topic)
    kafka, ledger = lake.kafka(cluster), target.ledger
    assert ledger is not None  # noqa: S101 - `backfill` has checked it
    described = kafka.describe([topic]).get(topic)
    if described is None:
        raise Refused(
            f"cluster {cluster} has no topic {topic}",
            next_step="mend --source topic:CLUSTER/NAME",
            table=contract.table,
        )
    finding = examine(ledger, lake.topic(contract)) if source.kind == "own" else None
    if finding and finding.state != "offsets_expired":
        raise stopped_by(contract, finding)
    first, last = (kafka.offsets_at(topic, described.end, first_millisecond(at)) for at in (since, until))
    ranges = {p: OffsetRange(a, max(a, last[p])) for p, a in first.items()}
    placed = place(ledger, ranges, contract.table).ranges if source.kind == "own" else ranges
    start = {p: placed[p].start if p in placed else a for p, a in first.items()}
    end = {p: placed[p].end if p in placed else start[p] for p in first}
    plan = Backfill(
        source=str(source),
        since=since,
        until=until,
        start=start,
        end=end,
        epoch=source.epoch(ledger.epoch),
        judged_by=_quarantine_rules(contract),
        revision=ledger.revision if source.kind == "own" else None,
    )
    if not plan.ranges:
        raise Refused(
            f"topic {topic} has no records between {since.isoformat()} and {until.isoformat()} that "
            f"{contract.table} could take",
            next_step="widen --from and --to, or name another --source; what the first load read is there already",
            table=contract.table,
        )
    return Work(contract, target, source, plan, None)


def _of_rows(
    lake: Lake,
    contract: Contract,
    target: TableState,
    source: Source,
    asked: Asked,
    since: datetime,
    until: datetime,
) -> Work:
    opened = open_source(lake, source)
    check_columns(opened, target)
    column = asked.time_column or contract.event_time or ""
    if not column:
        raise Refused(
            "windows of rows are cut by a time",
            next_step="say --time-column NAME, or event_time in the contract",
            table=contract.table,
        )
    plan = Backfill(
        source=str(source),
        since=since,
        until=until,
        start={},
        end={},
        epoch=source.epoch(0),
        time_column=column,
        window_seconds=asked.window_seconds or DAY,
        snapshot=opened.snapshot,
        files=opened.files,
        digest=opened.digest,
    )
    found = in_range(opened, plan)
    if not found.rows:
        raise Refused(
            f"{source} has no rows between {since.isoformat()} and {until.isoformat()}",
            next_step="widen --from and --to, or name another --time-column",
            rows_without_time=found.without_time,
        )
    pinned = {"start": {0: found.first}, "end": {0: found.upto}, "rows_without_time": found.without_time}
    return Work(contract, target, source, plan.model_copy(update=pinned), opened, rows=found.rows)


def check_elsewhere(lake: Lake, work: Work) -> None:
    """Raises Refused when rows from elsewhere would feed an upsert table, or be there twice beside live ones."""
    if work.source.kind == "own":
        return
    if work.contract.upsert is not None:
        raise Refused(
            f"{work.contract.table} feeds an upsert table, which knows records of its own topic only",
            next_step="backfill from the topic itself, or into a contract without `upsert`; what is loaded already is "
            "first dropped by --abort",
            table=work.contract.table,
        )
    if work.target.head is None:
        return
    there = head_rows(lake, work.target)
    live, time = _in_range(work, there.where("_kafka.epoch >= 0"))
    found = live.agg(F.count("*").alias("n"), F.min(time).cast("string").alias("first")).collect()[0]
    if found["n"]:
        raise Refused(
            f"{work.contract.table} has {found['n']} rows of its own topic from {found['first']} on, before --to "
            f"{work.plan.until.isoformat()}: they would be there twice",
            next_step="--to that time, or backfill from the topic itself; what is loaded already is first dropped by "
            "--abort",
            table=work.contract.table,
            rows=found["n"],
            first=found["first"],
        )
    if _has_time(work):
        _check_same_time(work, there)


def rows_beside(lake: Lake, work: Work) -> dict[str, dict[str, int]]:
    """Rows that other backfills from elsewhere have brought into the same time: one export has several spellings."""
    if work.target.head is None:
        return {}
    others = head_rows(lake, work.target).where(f"_kafka.epoch < 0 AND _kafka.epoch <> {work.plan.epoch}")
    inside, _ = _in_range(work, others)
    found = dict(map(tuple, inside.groupBy("_kafka.topic").count().collect()))
    return {"rows_of_other_sources": dict(sorted(found.items()))} if found else {}


def _in_range(work: Work, rows: DataFrame) -> tuple[DataFrame, Column]:
    """Those rows of the table that lie in the range of time, and the time by which they do."""
    time = time_of(work.plan.time_column if _has_time(work) else "_kafka.timestamp")
    return rows.where((time >= F.lit(work.plan.since)) & (time < F.lit(work.plan.until))), time


def _has_time(work: Work) -> bool:
    """The table has the column by which windows of rows are cut."""
    if work.source.records:
        return False
    return value_columns(work.target).field(column_parts(work.plan.time_column)[0]) is not None


def _check_same_time(work: Work, there: DataFrame) -> None:
    """Raises Refused when an earlier load of this source went by another time: a cutover replaces rows by theirs."""
    mine = there.where(f"_kafka.epoch = {work.plan.epoch}")
    other = ~time_of(work.plan.time_column).cast("timestamp").eqNullSafe(time_of("_kafka.timestamp"))
    if found := mine.where(other).count():
        raise Refused(
            f"{found} rows of {work.contract.table} were loaded from {work.source} by another time than "
            f"{work.plan.time_column}",
            next_step="say the --time-column of that backfill, or take it back first: tidemark rollback "
            f"{work.contract.table} --snapshot …",
            table=work.contract.table,
        )
