"""An upsert table the whole way from its topic, and what it must hold."""

import json

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.lane.merge_catch_up import catch_up_merges

FIELDS = {"id": "bigint", "region": "string", "v": "string", "ts": "bigint"}


class Upserted:
    """A JSON topic with string keys, its append table and its upsert table."""

    def __init__(self, lakehouse, *, partitions=2, format_version=2, **upsert):
        self.lakehouse = lakehouse
        self.topic = lakehouse.cluster.bare_topic("upsert", partitions)
        self._contract = self.said = {
            "value": {"format": "json", "fields": FIELDS},
            "key": {"format": "string", "fields": ["id"]},
            "format_version": format_version,
            "quarantine": {"fail": 1.0},
            "upsert": {"keys": ["id"], **upsert},
        }
        self.declare()
        self.current = upsert_table_of(self.append.contract)
        self.name = self.current.contract.table

    def declare(self, **more):
        """Write the contract, with more keys or with those of the beginning alone; None: without a key."""
        self.said = {key: value for key, value in {**self._contract, **more}.items() if value is not None}
        self.append = self.lakehouse.table(self.topic, **self.said)

    def send(self, *events):
        """(id, value) or (id, value, ts) or (id, value, ts, region); value None is a tombstone."""
        self.topic.send_raw([self._record(*event) for event in events])

    def _record(self, key, value, ts=0, region="eu"):
        body = {"id": key, "region": region, "v": value, "ts": ts}
        text = None if value is None else json.dumps(body).encode()
        return str(key).encode(), text, key % self.topic.partitions

    def record_in(self, partition, *event):
        """One record in a partition of its own choice."""
        return (*self._record(*event)[:2], partition)

    def merge(self, lake=None):
        outcome = catch_up_merges(lake or self.lakehouse.lake, self.current, "test")
        assert outcome.error is None, outcome.error["message"]
        return outcome.changes

    def both(self, *events):
        """Send, ingest, merge; what the merge did."""
        self.send(*events)
        outcome = self.append.run()
        assert outcome.error is None, outcome.error
        return self.merge()

    def table(self):
        return self.lakehouse.catalog.load_table(self.name)

    def rows(self):
        """id -> v as PyIceberg reads it; Spark reads the same, and each key once."""
        found = self.table().scan().to_arrow().to_pylist()
        by_spark = self.lakehouse.spark().sql(f"SELECT id, v, _kafka.offset AS o FROM {self.name}").collect()
        seen = sorted((r["id"], r["v"], r["_kafka"]["offset"]) for r in found)
        assert seen == sorted((r["id"], r["v"], r["o"]) for r in by_spark)
        assert len({r["id"] for r in found}) == len(found)
        return {r["id"]: r["v"] for r in found if not r.get("_is_deleted")}
