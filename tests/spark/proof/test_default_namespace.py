"""Rule: a contract of one line is as good as any: its table lies in namespace `lake` of catalog `lake`."""

import json

import pytest
from lakehouse import Table

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.maintenance import compaction
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.pause import resume
from tidemark.engine.operate.rollback import Target, rollback
from tidemark.engine.table.operations import Signature

ONCALL = Signature("oncall", "seen and agreed")
SOON = "{compaction: {min_input_files: 2}, snapshots: {max_age: 1s, min_keep: 1}, orphans: {older_than: 1d}}"


@pytest.mark.long
@pytest.mark.parametrize("format_version", [2, 3])
def test_all_that_spark_does_to_a_table_finds_it_where_catalog_and_namespace_are_called_alike(
    lakehouse, monkeypatch, format_version
):
    """Given a namespace called like the catalog, when its tables are loaded, merged, rolled back, compacted and expired, then each call of a procedure names the table."""
    monkeypatch.setattr(compaction, "HOT_FACTOR", 2)
    topic = lakehouse.cluster.topic(f"plain_{format_version}")
    (lakehouse.contracts / "plain.yaml").write_text(
        f"topic: {topic.name}\n"
        "value: {format: json, fields: {id: bigint, v: string, ts: bigint}}\n"
        f"format_version: {format_version}\nmaintenance: {SOON}\n"
        "upsert: {keys: [id], order_by: [ts]}\nquarantine: {fail: 1}\nkey: {format: string, fields: [id]}\n"
    )
    table = Table(lakehouse, topic, f"lake.{topic.name}")
    current = upsert_table_of(table.contract)

    def came(*events):
        rows = [(str(i).encode(), told(i, v, ts), 0) for i, v, ts in events]
        topic.send_raw(rows)
        assert (table.run().error, catch_up_merges(lakehouse.lake, current, "test").error) == (None, None)

    came((1, "a", 1), (2, "b", 1))
    first = table.head
    came((1, None, 2), (3, "c", 2))
    topic.send_raw([(b"9", b"{", 0)])
    came((2, "d", 3), (3, None, 3))
    assert state_of(lakehouse, current) == {2: "d"}
    rollback(lakehouse.lake, table.contract, Target(first), ONCALL)
    resume(lakehouse.lake, table.contract, ONCALL)
    came((4, "e", 4))
    assert state_of(lakehouse, current) == {2: "d", 4: "e"}
    done = list(maintain(lakehouse.lake, table.contract))
    assert not [(each.table, each.kind, each.error) for each in done if each.error]
    assert {each.kind for each in done if each.acted} >= {"compaction", "snapshot_expiry"}
    assert state_of(lakehouse, current) == {2: "d", 4: "e"}


def told(key, value, ts):
    return None if value is None else json.dumps({"id": key, "v": value, "ts": ts}).encode()


def state_of(lakehouse, current):
    found = lakehouse.catalog.load_table(current.contract.table).scan().to_arrow().to_pylist()
    return {row["id"]: row["v"] for row in found}
