"""An append table that a test fills itself, without Kafka: commits, replays, new epochs, with ledgers as ingest writes them.

For upsert tables, whose subject begins where the append table ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import yaml

from tidemark.domain.columns.spark_types import columns_ddl
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import UpsertTable, upsert_table_of
from tidemark.domain.ledger.ledger import BATCH_PROPERTY, Entry, Kind, Ledger
from tidemark.domain.ledger.replay import Recount, replayed
from tidemark.domain.ledger.settlement import Settlement
from tidemark.engine.table.branch import Attempt, branch_head, open_branch
from tidemark.engine.table.create import create
from tidemark.engine.table.first_load import base_properties
from tidemark.engine.table.publish import publish


class AppendLog:
    """The append table of one contract; `columns` with `_kafka`, rows as tuples in their order."""

    def __init__(self, lakehouse: Any, columns: Struct, **contract: Any) -> None:
        self.lakehouse, self.columns, self.name = lakehouse, columns, f"log_{uuid4().hex[:8]}"
        self.edit(**contract)
        own = {**base_properties(self.contract), "tidemark.topic": self.name}
        create(self.lake, self.contract, columns, own)
        self.ledger = Ledger(cluster_id="c", topic_id="t", topic=self.name, kind="first")

    def edit(self, **contract: Any) -> None:
        """Say something else in the contract; the append table itself stays as it is."""
        content = {"topic": self.name, "table": f"proof.{self.name}", **contract}
        (self.lakehouse.contracts / f"{self.name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        self.lakehouse.close()  # what is opened from now on knows the contract
        self.lake = self.lakehouse.lake
        self.contract: Contract = next(
            c for c in self.lakehouse.configuration().contracts if c.topic == self.name
        )

    @property
    def current(self) -> UpsertTable:
        found = upsert_table_of(self.contract)
        assert found
        return found

    def commit(
        self,
        rows: Iterable[Sequence[Any]],
        following: Mapping[int, int],
        *,
        kind: Kind = "append",
        epoch: int = 0,
        touched: Mapping[int, list[tuple[int, int]]] | None = None,
        without: str | None = None,
    ) -> int:
        """Publish `rows` with a receipt that says `following`; its snapshot id.

        `touched`: the offsets of a replay; `without`: rows that it takes away.
        """
        spark, before = self.lake.spark(), self.lake.state(self.contract.table, ledger=False)
        attempt = Attempt(self.contract.table, f"tidemark_{uuid4().hex}", before.head)
        made = open_branch(self.lake, attempt)
        table = f"{self.lake.identifier(self.contract.table)}.`branch_{attempt.branch}`"
        if without:
            spark.sql(f"DELETE FROM {table} WHERE {without}")
            made |= {branch_head(self.lake, attempt).snapshot_id}
        writer = spark.createDataFrame(list(rows), columns_ddl(self.columns)).writeTo(table)
        writer.option(f"snapshot-property.{BATCH_PROPERTY}", attempt.branch).append()
        data = branch_head(self.lake, attempt).snapshot_id
        if kind == "replay":
            settlement = Settlement(id="b", epoch=epoch, run_id="r", at=0, resolved=dict(touched or {}))
            entry = Entry(uuid4().hex, "a", "r", "c", "v")
            self.ledger = replayed(self.ledger, Recount({}, {}, touched or {}), settlement, entry)
        else:
            new = {"kind": kind, "epoch": epoch, "topic_id": f"t{epoch}", "next": dict(following)}
            forgotten = {} if epoch == self.ledger.epoch else {"reloaded": {}}
            self.ledger = self.ledger.model_copy(update={"settlement": None, **new, **forgotten})
        return publish(self.lake, attempt, made | {data}, self.ledger)

    def roll_back(self, snapshot: int, ledger: Ledger) -> None:
        """As if the commits since `snapshot` had never been."""
        catalog = self.lake.platform.catalog.name
        self.lake.spark().sql(
            f"CALL `{catalog}`.system.rollback_to_snapshot('{self.contract.table}', {snapshot})"
        )
        self.ledger = ledger
