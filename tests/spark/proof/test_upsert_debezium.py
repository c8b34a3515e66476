"""A Debezium topic ends equal to its source table: snapshot, changes, key updates, tombstones, unknown values, truncates."""

from topics import Topic

from tests.support.debezium import change, envelope_schema, framed
from tidemark.domain.config.upsert import current_of
from tidemark.engine.lane.merge_catch_up import merge_up

COLUMNS = {"note": "string", "doc": "string"}
VALUE = envelope_schema(COLUMNS)
KEY = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
UNKNOWN = "__debezium_unavailable_value"


class Source:
    """A table whose changes go to a topic as a connector sends them; `rows` is the table itself."""

    def __init__(self, lakehouse):
        self.topic = Topic(lakehouse.cluster, "debezium_upsert", {})
        self.topic.name += f"_{id(self)}"
        self.topic.create(1)
        self.value_id = lakehouse.cluster.register(f"{self.topic.name}-value", VALUE)
        self.key_id = lakehouse.cluster.register(f"{self.topic.name}-key", KEY)
        self.rows = {}
        self.sent = []

    def put(self, op, key, note, doc, *, told=None):
        """Snapshot, insert or update; `told` stands for a large value that did not change."""
        row = {"id": key, "note": note, "doc": doc}
        before = self.rows.get(key)
        self.rows[key] = row
        self._send(key, change(op, before=before, after={**row, "doc": told or doc}))

    def drop(self, key, *, tombstone=True):
        """A delete as without REPLICA IDENTITY FULL: it knows nothing but the key."""
        del self.rows[key]
        self._send(key, change("d"))
        if tombstone:
            self.sent.append((framed(self.key_id, KEY, {"id": key}), None, 0))

    def rekey(self, old, new):
        """A primary key update: delete of the old, create of the new."""
        row = self.rows[old]
        self.drop(old)
        self.put("c", new, row["note"], row["doc"])

    def truncate(self):
        self.rows.clear()
        self.sent.append((None, framed(self.value_id, VALUE, change("t")), 0))

    def message(self):
        self.sent.append((None, framed(self.value_id, VALUE, change("m")), 0))

    def _send(self, key, event):
        text = framed(self.key_id, KEY, {"id": key})
        self.sent.append((text, framed(self.value_id, VALUE, event), 0))

    def flush(self):
        self.topic.send_raw(self.sent)
        self.sent.clear()


def test_a_debezium_topic_ends_equal_to_its_source_table(lakehouse):
    source = Source(lakehouse)
    table = lakehouse.table(
        source.topic,
        value={"envelope": "debezium"},
        key={"format": "registry"},
        upsert={"keys": ["id"], "on_truncate": "apply"},
    )
    current = current_of(table.contract)

    def run():
        source.flush()
        outcome = table.run()
        assert outcome.error is None, outcome.error["message"]
        merged = merge_up(lakehouse.lake, current, "test")
        assert merged.error is None, merged.error["message"]
        found = lakehouse.catalog.load_table(current.contract.table).scan().to_arrow().to_pylist()
        rows = {r["id"]: {name: r[name] for name in ("id", "note", "doc")} for r in found}
        assert len(found) == len(rows)
        assert rows == source.rows
        return merged.changes

    for key in range(5):
        source.put("r", key, f"n{key}", f"big {key}")
    source.message()
    run()
    source.put("u", 0, "changed", "big 0", told=UNKNOWN)
    source.drop(1)
    source.put("c", 1, "again", "new")
    source.put("u", 1, "once more", "new", told=UNKNOWN)
    source.rekey(2, 20)
    run()
    source.put("u", 20, "moved", "big 2", told=UNKNOWN)
    source.drop(3, tombstone=False)
    source.put("c", 5, "five", "x")
    source.drop(5)
    run()
    source.truncate()
    source.put("c", 4, "after", "the truncate")
    source.put("c", 7, "seven", "y")
    done = run()
    assert (done.truncates, done.deleted) == (1, 3)
    assert source.rows.keys() == {4, 7}
