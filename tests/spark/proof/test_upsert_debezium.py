"""A Debezium topic ends equal to its source table: snapshot, changes, key updates, tombstones, unknown values, truncates."""

from datetime import UTC, datetime

import pytest
from debezium import HEARTBEAT, change, envelope_schema, framed, register

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.accept_upsert import accept_upsert
from tidemark.engine.operate.replay_range import replay_range
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.table.operations import Signature
from tidemark.engine.table.properties import set_properties

ADA = Signature("ada", "a test")
COLUMNS = {"note": "string", "doc": "string"}
VALUE = envelope_schema(COLUMNS)
KEY = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
UNKNOWN = "__debezium_unavailable_value"


class Source:
    """A table whose changes go to a topic as a connector sends them; `rows` is the table itself.

    Each event is a second later than the one before, and in the Kafka partition of its key.
    """

    def __init__(self, lakehouse, partitions=1):
        self.topic = lakehouse.cluster.bare_topic("debezium_upsert", partitions)
        self.ids = {name: register(self.topic, "value", each) for name, each in SCHEMAS.items()}
        self.key_id = register(self.topic, "key", KEY)
        self.rows, self.sent, self.events = {}, [], 0

    def put(self, op, key, note, doc, *, told=None):
        """Snapshot, insert or update; `told` stands for a large value that did not change."""
        row = {"id": key, "note": note, "doc": doc}
        before = self.rows.get(key)
        self.rows[key] = row
        self._change(key, op, before=before, after={**row, "doc": told or doc})

    def drop(self, key, *, tombstone=True):
        """A delete as without REPLICA IDENTITY FULL: it knows nothing but the key."""
        del self.rows[key]
        self._change(key, "d")
        if tombstone:
            self.tombstone(key)

    def tombstone(self, key):
        self._send(framed(self.key_id, KEY, {"id": key}), None, key)

    def rekey(self, old, new, *, told=None):
        """A primary key update: delete of the old, create of the new; `told` is all that its key knows of the large value."""
        row = self.rows[old]
        self.drop(old)
        self.put("c", new, row["note"], told or row["doc"])

    def truncate(self):
        self.rows.clear()
        self._send(None, framed(self.ids["value"], VALUE, change("t")), 0)

    def message(self):
        self._send(None, framed(self.ids["value"], VALUE, change("m")), 0)

    def heartbeat(self):
        self._send(None, framed(self.ids["heartbeat"], HEARTBEAT, {"ts_ms": 5}), 0)

    def _change(self, key, op, **images):
        """With the place of the event in its transaction, as `provide.transaction.metadata` adds it."""
        block = {"id": "571", "total_order": self.events, "data_collection_order": 1}
        event = change(op, transaction=block, **images)
        self._send(framed(self.key_id, KEY, {"id": key}), framed(self.ids["value"], VALUE, event), key)

    def _send(self, key, value, place):
        self.events += 1
        at = 1_767_225_600_000 + self.events * 1000
        self.sent.append((key, value, place % self.topic.partitions, at))

    def flush(self, *, but=None):
        """Send what waits, `but` that of one partition, which comes with the next flush."""
        producer = self.topic._new_producer()
        held = [each for each in self.sent if each[2] == but]
        for key, value, partition, at in self.sent:
            if partition != but:
                producer.produce(self.topic.name, value, key, partition, timestamp=at)
        assert producer.flush(30) == 0
        self.sent = held


SCHEMAS = {"value": VALUE, "heartbeat": HEARTBEAT}


class Mirror:
    """The upsert table of a source; after every merge it is the source."""

    def __init__(self, lakehouse, source, **upsert):
        self.lakehouse, self.source = lakehouse, source
        self.edit(**upsert)

    def edit(self, **upsert):
        self._declare(upsert={"keys": ["id"], **upsert})
        self.current = upsert_table_of(self.table.contract)

    def without_upsert(self):
        self._declare()

    def _declare(self, **more):
        self.table = self.lakehouse.table(
            self.source.topic, value={"envelope": "debezium"}, key={"format": "registry"}, **more
        )

    def ingest(self, **how):
        self.source.flush(**how)
        outcome = self.table.run()
        assert outcome.error is None, outcome.error["message"]

    def merge(self):
        return catch_up_merges(self.lakehouse.lake, self.current, "test")

    def run(self, **how):
        """Send, ingest, merge; what the merge did."""
        self.ingest(**how)
        merged = self.merge()
        assert merged.error is None, merged.error["message"]
        assert self.rows() == self.source.rows
        return merged.changes

    def counts(self):
        """Of all partitions together: read, written, skipped."""
        read, written, _, _, skipped = map(sum, zip(*self.table.ledger["totals"].values(), strict=True))
        return read, written, skipped

    def rows(self, *, marked=False):
        """As PyIceberg reads them; Spark reads the same, and each key once."""
        name = self.current.contract.table
        found = self.lakehouse.catalog.load_table(name).scan().to_arrow().to_pylist()
        by_spark = [row.asDict() for row in self.lakehouse.spark().table(name).collect()]
        columns = [c for c in ("id", "note", "doc", "_is_deleted") if c in (found or by_spark or [{}])[0]]
        seen, read = ([[row[c] for c in columns] for row in rows] for rows in (by_spark, found))
        assert sorted(seen, key=str) == sorted(read, key=str)
        assert len({row["id"] for row in found}) == len(found)
        chosen = [row for row in found if bool(row.get("_is_deleted")) is marked]
        return {row["id"]: {each: row[each] for each in ("id", "note", "doc")} for row in chosen}


def test_a_debezium_topic_ends_equal_to_its_source_table(lakehouse):
    """Given snapshot, changes, unknown values, key updates, deletes, heartbeats and transactions, then the map is the source."""
    source = Source(lakehouse)
    mirror = Mirror(lakehouse, source)
    for key in range(5):
        source.put("r", key, f"n{key}", f"big {key}")
    source.message()
    source.heartbeat()
    mirror.run()
    source.put("u", 0, "changed", "big 0", told=UNKNOWN)
    source.drop(1)
    source.put("c", 1, "again", "new")
    source.heartbeat()
    source.put("u", 1, "once more", "new", told=UNKNOWN)
    source.rekey(2, 20)
    mirror.run()
    source.put("u", 20, "moved", "big 2", told=UNKNOWN)
    source.drop(3, tombstone=False)
    source.put("c", 5, "five", "x")
    source.drop(5)
    mirror.run()
    source.rekey(4, 40, told=UNKNOWN)
    mirror.run()


@pytest.mark.parametrize("deletes", [pytest.param("hard", marks=pytest.mark.long), "soft"])
def test_a_truncate_takes_what_was_there_before_it_and_nothing_else(lakehouse, deletes):
    """Given two Kafka partitions, when the source is emptied, then by default nothing moves and the event is named; with
    `apply` all that was before it goes in one commit, what comes late and is older stays out, what is newer stays."""
    source = Source(lakehouse, partitions=2)
    mirror = Mirror(lakehouse, source, deletes=deletes)
    for key in range(6):
        source.put("r", key, f"n{key}", "doc")
    source.drop(5)
    mirror.run()
    before = dict(source.rows)
    source.put("u", 3, "changed", "doc")
    source.put("c", 9, "only before it", "doc")
    source.truncate()
    source.put("c", 4, "after", "the truncate")
    mirror.ingest(but=1)
    stopped = mirror.merge()
    assert (stopped.state, mirror.rows()) == ("misconfigured", before)
    assert "partition 0 at offset 3" in stopped.error["message"]

    mirror.edit(deletes=deletes, on_truncate="apply")
    done = mirror.run(but=1)
    assert (done.truncates, done.deleted) == (1, 4)
    source.put("c", 7, "seven", "newer, and after what is late")
    late = mirror.run()
    assert (late.inserted, mirror.source.rows.keys()) == (1, {4, 7})
    if deletes == "soft":
        assert mirror.rows(marked=True).keys() >= {0, 1, 2, 3, 5}


def test_a_table_that_is_made_anew_behind_a_truncate_deletes_none_of_its_old_rows(lakehouse):
    """Given merged rows and a truncate that is not merged yet, when the append table is dropped and loaded again, then
    the upsert table is made anew of what came after it."""
    source = Source(lakehouse)
    mirror = Mirror(lakehouse, source, on_truncate="apply")
    for key in range(3):
        source.put("r", key, "note", "doc")
    mirror.run()
    source.truncate()
    source.put("c", 4, "after", "doc")
    source.flush()
    lakehouse.spark().sql(f"DROP TABLE {mirror.table.name} PURGE")
    accept(lakehouse.lake, mirror.table.contract, "first-load", ADA)
    done = mirror.run()
    assert (done.truncates, done.inserted, done.deleted) == (1, 1, 0)


def test_a_mark_keeps_what_the_delete_said(lakehouse):
    """Given soft deletes and the tombstones after them, in one merge or in the next, then the mark is that of the delete."""
    source = Source(lakehouse)
    mirror = Mirror(lakehouse, source, deletes="soft")
    for key in range(3):
        source.put("c", key, "note", "doc")
    source.drop(0)
    source.drop(1, tombstone=False)
    mirror.run()
    source.tombstone(1)
    source.tombstone(2)
    del source.rows[2]
    mirror.run()
    table = lakehouse.catalog.load_table(mirror.current.contract.table)
    said = {row["id"]: row["_cdc"] and row["_cdc"]["op"] for row in table.scan().to_arrow().to_pylist()}
    assert said == {0: "d", 1: "d", 2: None}
    source.put("c", 0, "back", "doc")
    source.tombstone(0)
    del source.rows[0]
    mirror.run()
    assert mirror.rows(marked=True)[0]["note"] == "back"


def test_a_truncate_that_was_skipped_before_there_was_an_upsert_table_is_asked_for(lakehouse):
    """Given a topic that was read without `upsert`, when its source was emptied meanwhile, then nothing is merged until
    that one event is read again, or someone accepts what it took; the counts say what became of it."""
    source = Source(lakehouse, partitions=2)
    mirror = Mirror(lakehouse, source)
    mirror.without_upsert()
    for key in range(4):
        source.put("r", key, f"n{key}", "doc")
    source.truncate()
    source.put("c", 2, "after", "the first")
    source.truncate()
    source.message()
    source.put("c", 4, "after", "both")
    mirror.ingest()
    assert (mirror.table.ledger["truncates"], mirror.counts()) == ({"0": 4}, (9, 6, 3))

    mirror.edit(on_truncate="apply")
    stopped = mirror.merge()
    assert stopped.state == "misconfigured"
    assert (
        f"tidemark replay {mirror.table.name} --partition 0 --from 4 --to 5 --reason"
        in stopped.error["message"]
    )
    assert foresee_upsert(lakehouse.lake, mirror.current).verdict == "impossible"
    replay_range(lakehouse.lake, mirror.table.contract, 0, 4, 5, ADA)
    assert (mirror.table.ledger["truncates"], mirror.counts()) == ({}, (9, 7, 2))
    assert mirror.run().truncates == 1

    replay_range(lakehouse.lake, mirror.table.contract, 0, 0, 7, ADA)
    assert mirror.counts() == (9, 8, 1)
    mirror.run()

    mirror.without_upsert()
    source.truncate()
    source.put("c", 8, "kept", "like what was there")
    source.rows |= {4: {"id": 4, "note": "after", "doc": "both"}}
    mirror.ingest()
    mirror.edit(on_truncate="apply")
    assert mirror.merge().state == "misconfigured"
    accept_upsert(lakehouse.lake, mirror.current, "first-load", ADA)
    mirror.run()
    source.put("c", 9, "and", "on")
    mirror.run()


@pytest.mark.parametrize("deletes", ["hard", pytest.param("soft", marks=pytest.mark.long)])
def test_values_that_retention_took_the_events_of_outlive_a_replay(lakehouse, deletes):
    """Given values that only events told which are gone, when those that did not know them are read again, then they
    are still there, and a mark keeps its row."""
    source = Source(lakehouse)
    mirror = Mirror(lakehouse, source, deletes=deletes)
    for key in range(4):
        source.put("c", key, "first", f"big {key}")
    mirror.run()
    source.put("u", 0, "changed", "big 0", told=UNKNOWN)
    source.put("u", 1, "changed", "new")
    source.drop(2)
    mirror.run()
    marked = mirror.rows(marked=True)
    assert marked == ({2: {"id": 2, "note": "first", "doc": "big 2"}} if deletes == "soft" else {})
    set_properties(lakehouse.lake, mirror.table.name, {EXPIRED_BEFORE: datetime.now(UTC).isoformat()})
    lakehouse.spark().sql(f"DELETE FROM {mirror.table.name} WHERE _kafka.offset < 4")
    replay_range(lakehouse.lake, mirror.table.contract, 0, 4, 8, ADA)
    merged = mirror.merge()
    assert merged.error is None, merged.error["message"]
    assert merged.changes.read == 4
    assert mirror.rows() == source.rows
    assert mirror.rows(marked=True) == marked
