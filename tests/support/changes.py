"""A topic of changes by key, its append and its upsert table, and what both must hold whatever is done to their files.

The model is a dictionary; nothing of the product decides what is expected.
"""

import json
import random
import threading
from typing import Any

import oracle
from lakehouse import Lakehouse

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.maintenance.gain import Gain
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.maintain import maintain

FIELDS = {"id": "bigint", "v": "bigint"}
KEYS = 40
PARTITIONS = 2


class Changes:
    """Updates, deletes, re-inserts and poison, a few per batch, always the same ones."""

    def __init__(self, lakehouse: Lakehouse, **contract: Any) -> None:
        self.lakehouse = lakehouse
        self.topic = lakehouse.cluster.bare_topic("changes", PARTITIONS)
        self.append = lakehouse.table(
            self.topic,
            value={"format": "json", "fields": FIELDS},
            key={"format": "string", "fields": ["id"]},
            quarantine={"fail": 1.0},
            upsert={"keys": ["id"]},
            **contract,
        )
        self.current = upsert_table_of(self.append.contract)
        self.model: dict[int, int] = {}
        self._random = random.Random(11)
        self._sent = 0

    def send(self, count: int = 8) -> None:
        """So many changes more."""
        messages = []
        for _ in range(count):
            key, chance = self._random.randrange(KEYS), self._random.random()
            self._sent += 1
            body: bytes | None = json.dumps({"id": key, "v": self._sent}).encode()
            if chance < 0.02:
                body = b"{"
            elif chance < 0.2:
                body = None
                self.model.pop(key, None)
            else:
                self.model[key] = self._sent
            messages.append((str(key).encode(), body, key % PARTITIONS))
        self.topic.send_raw(messages)

    def ingest(self) -> None:
        outcome = self.append.run()
        assert outcome.error is None, outcome.error

    def merge(self) -> None:
        outcome = catch_up_merges(self.lakehouse.lake, self.current, "test")
        assert outcome.error is None, outcome.error

    def hold(self) -> oracle.Verdict:
        """Every offset is in exactly one place, the map is the model, and each kept snapshot can still be read."""
        verdict = self.append.holds_everything(upsert=True)
        upsert = self.lakehouse.catalog.load_table(self.current.contract.table)
        found = upsert.scan(selected_fields=("id", "v")).to_arrow().to_pylist()
        assert len(found) == len(self.model), "a key is there twice, or missing"
        assert {row["id"]: row["v"] for row in found} == self.model
        by_spark = self.lakehouse.spark().sql(f"SELECT id, v FROM {self.current.contract.table}").collect()
        assert {row["id"]: row["v"] for row in by_spark} == self.model
        self._travel()
        return verdict

    def _travel(self) -> None:
        """At each kept receipt of main there are as many rows as its ledger counts."""
        table = self.append.iceberg()
        for ledger in oracle.ledgers(table):
            written = sum(counts[1] for counts in ledger["totals"].values())
            scan = table.scan(snapshot_id=ledger["snapshot_id"], selected_fields=("_kafka",))
            assert scan.to_arrow().num_rows == written, f"snapshot {ledger['snapshot_id']}"


class Upkeep:
    """Maintenance of one contract beside a running ingest, one at a time."""

    def __init__(self, made: Changes) -> None:
        self._lake, self._contract = made.lakehouse.open_lake(), made.append.contract
        self._thread: threading.Thread | None = None
        self.gains: list[Gain] = []

    def start(self) -> None:
        self.join()
        self._thread = threading.Thread(target=self._maintain)
        self._thread.start()

    def _maintain(self) -> None:
        self.gains += maintain(self._lake, self._contract, ("compaction", "snapshot_expiry"))

    def join(self) -> None:
        if self._thread:
            self._thread.join()
        assert not (failed := [each for each in self.gains if each.error]), failed

    def end(self) -> None:
        """Wait for the last one; a session that nobody closes keeps its process from ending."""
        self.join()
        self._lake.close()

    def acted(self, kind: str) -> int:
        return sum(each.acted for each in self.gains if each.kind == kind)
