"""What a replay stands on, and how it ends: the same stage, audit, receipt and publish as a batch.

The receipt comes first and names what it asks of the quarantine table; `settle` carries that out.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.columns.types import table_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage, Refused, Stopped
from tidemark.domain.ledger.evidence import Evidence
from tidemark.domain.ledger.guard import Topic, another_cluster, another_topic, stopped_by
from tidemark.domain.ledger.ledger import Ledger, batch_id
from tidemark.domain.ledger.offsets import Ranges
from tidemark.domain.ledger.replay import Recount, replayed
from tidemark.domain.ledger.settlement import Settlement
from tidemark.domain.maintenance.retention import expired_before
from tidemark.engine.access.conditions import expired, within
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import TableState
from tidemark.engine.decode.decoding import KeyDecoding
from tidemark.engine.ingest.executable_rules import check_rules
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.quality_stage import judge_stage
from tidemark.engine.ingest.quarantine_repair import settle_and_take_back
from tidemark.engine.ingest.readable_head import with_readable_head
from tidemark.engine.ingest.ready import evolve_if_needed, require_bare_values_covered
from tidemark.engine.ingest.stage import Staged
from tidemark.engine.schema.evolve import refused_ids, removing_ids, value_columns
from tidemark.engine.schema.keys import key_decoding
from tidemark.engine.schema.writers import TopicSchemas, read_schemas
from tidemark.engine.table.absent import unloaded
from tidemark.engine.table.branch import branch_identifier
from tidemark.engine.table.publish import publish
from tidemark.engine.table.settle import settle_published


@dataclass(frozen=True, slots=True)
class ReplayBase:
    """A loaded table whose quarantine says what its ledger says, and how its values are decoded today."""

    contract: Contract
    state: TableState
    ledger: Ledger
    schemas: TopicSchemas
    run_id: str
    refused: frozenset[int]
    parked: frozenset[int]
    key: KeyDecoding | None = None

    def plan(self, ranges: Ranges, topic: Topic | None = None) -> Plan:
        """A replay of `ranges`; its batch id is its own, for the same range may be replayed again."""
        ledger, attempt = self.ledger, uuid4().hex[:8]
        return Plan(
            contract=self.contract,
            topic=topic or Topic(ledger.topic, ledger.cluster_id, ledger.topic_id, {}, {}, {}),
            state=self.state,
            ledger=ledger,
            schemas=self.schemas,
            ranges=ranges,
            batch_id=batch_id(f"{self.contract.table}|replay {attempt}", ledger.epoch, ranges),
            attempt_id=attempt,
            run_id=self.run_id,
            refused=self.refused,
            parked=self.parked,
            key=self.key,
        )


def require_offsets(table: str, first: int, upto: int | None) -> None:
    """Raises Refused unless offsets can lie in [first, upto); without `upto` there is no end."""
    if first < 0 or (upto is not None and upto <= first):
        raise Refused(
            "a replay needs offsets --from a --to b with 0 <= a < b",
            next_step=f"tidemark reconcile {table} lists partitions and offsets",
            table=table,
        )


def require_partition(table: str, ledger: Ledger, partition: int) -> None:
    """Raises Refused for a partition that the table has not read."""
    if partition not in ledger.next:
        raise Refused(
            f"{table} has read partitions {sorted(ledger.next)} of {ledger.topic}, not {partition}",
            next_step=f"tidemark reconcile {table} lists partitions and offsets",
            table=table,
        )


def beyond_retention(state: TableState) -> Column | None:
    """True for a record so old that the next expiry deletes its row; None where retention has deleted nothing yet."""
    cut = expired_before(state.properties)
    return None if cut is None else expired(F.col("_kafka.timestamp"), cut)


def replay_base(lake: Lake, contract: Contract, run_id: str, *, dry_run: bool) -> ReplayBase:
    """The table as it is now; what an earlier replay has left to do is done first.

    Raises:
        Refused: the table was never loaded.
        Stopped: its ledger is missing, or is of another cluster or topic; what the contract declares waits for an
            approval, or its rules do not fit.
    """
    state = lake.state(contract.table)
    if state.ledger is None:
        raise unloaded(lake, contract.table)
    _require_own_schemas(lake, contract, state.ledger)
    if not dry_run:
        settle_and_take_back(lake, contract, state, state.ledger)
    schemas = read_schemas(lake, contract, state, frozenset(state.ledger.others))
    state = evolve_if_needed(lake, contract, state, schemas, run_id, dry_run=dry_run)
    if not dry_run:
        state = with_readable_head(lake, contract, state, run_id)
    if state.ledger is None:
        raise unloaded(lake, contract.table)
    refused = refused_ids(contract, state, schemas)
    parked = removing_ids(contract, state, schemas, "review", "impossible")
    if schemas.framing == "bare":
        require_bare_values_covered(contract, state, schemas)
    check_rules(lake, contract, table_columns(value_columns(state)))
    key = key_decoding(lake, contract, value_columns(state))
    return ReplayBase(contract, state, state.ledger, schemas, run_id, refused, parked, key)


def _require_own_schemas(lake: Lake, contract: Contract, ledger: Ledger) -> None:
    """Raises Stopped where the schemas of today are those of another cluster or topic than what is replayed.

    Without Kafka nobody says so: what the quarantine keeps can be replayed all the same.
    """
    cluster_id = None
    with suppress(Outage, Stopped):
        cluster_id = lake.kafka(contract.cluster).cluster_id()
    if finding := another_cluster(ledger, cluster_id) or another_topic(ledger, contract.topic):
        raise stopped_by(contract, finding)


def judge_replay(
    lake: Lake, plan: Plan, staged: Staged, without: frozenset[str], remedy: str, replaced: str | None = None
) -> None:
    """The contract's rules on the stage, but for checks that a part of a batch cannot meet.

    `replaced`: the rows that the stage takes the place of; rules of the whole table are judged against the others.

    Raises:
        Refused: a blocking rule does not hold; `remedy` is what to do beside changing it.
    """
    if not plan.staged_rules:
        return
    try:
        judge_stage(lake, plan, staged, without, replaced)
    except Stopped as stopped:
        raise Refused(
            f"{plan.contract.table}: a blocking quality rule does not hold for what would be published: "
            f"{stopped.fields['detail']}",
            next_step=f"{remedy}, or change the rule in the contract",
            **{key: stopped.fields[key] for key in ("state", "table", "rules")},
        ) from stopped


def check_staged(plan: Plan, rows: int, expected: int) -> None:
    """Raises Stopped(`failed`) when the stage does not hold as many rows as were decoded."""
    if rows != expected:
        raise Stopped("failed", plan.contract.table, f"{rows} rows are staged, {expected} were decoded.")


def check_each_once(lake: Lake, plan: Plan, *, only: int | None = None) -> None:
    """The branch holds each offset of the plan's ranges at most once, and `only` of them if that is given.

    Raises:
        Stopped: `failed`: it does not; nothing was published.
    """
    partition, offset, epoch = (F.col(f"_kafka.{name}") for name in ("partition", "offset", "epoch"))
    whole = lake.spark().table(branch_identifier(lake, plan.attempt))
    rows = whole.where((epoch == plan.ledger.epoch) & within(plan.ranges, partition, offset))
    places = F.struct("_kafka.partition", "_kafka.offset")
    found = rows.agg(F.count("*").alias("n"), F.count_distinct(places).alias("places")).collect()[0]
    if found["n"] != found["places"] or (only is not None and found["n"] != only):
        raise Stopped(
            "failed",
            plan.contract.table,
            f"The stage holds {found['n']} rows at {found['places']} offsets of the replay"
            + ("" if only is None else f", {only} were read")
            + "; nothing was published.",
            next_step="" if only is not None else _one_row_each(plan.contract.table),
        )


def _one_row_each(table: str) -> str:
    return (
        f"tidemark reconcile {table} names the offsets that are there twice; tidemark replay {table} --partition … "
        "--from … --to … --reason … makes each of them one row; then repeat this"
    )


def publish_and_settle(
    lake: Lake,
    plan: Plan,
    written: frozenset[int],
    evidence: Evidence,
    recount: Recount,
    settlement: Settlement,
    require_unchanged: Callable[[], None] | None = None,
    properties: Mapping[str, str] | None = None,
) -> int:
    """Receipt, publish, settle; returns the receipt.

    `require_unchanged` re-checks what was read. `properties` are table properties that come with it.

    Raises:
        Overtaken: main has moved since the plan.
    """
    ledger = replayed(plan.ledger, recount, settlement, plan.entry(evidence))
    receipt = publish(
        lake, plan.attempt, written, ledger, require_unchanged, act=plan.act, properties=properties
    )
    settle_published(lake, plan.contract, ledger)
    return receipt
