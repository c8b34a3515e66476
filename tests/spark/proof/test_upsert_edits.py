"""Rule: what the contract says of an upsert table is followed by the table that is there, and every row stays."""

from datetime import UTC, datetime

from append_log import AppendLog

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.operate.approve import approve
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.schema.history import history
from tidemark.engine.table.operations import Signature

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
VALUES = (Field("id", LONG), Field("region", STRING), Field("v", STRING))
COLUMNS, WITH_NOTE = Struct((*VALUES, KAFKA_COLUMN)), Struct((*VALUES, Field("note", STRING), KAFKA_COLUMN))


class Edited:
    """An upsert table whose contract is edited between merges; `map` is what it must hold."""

    def __init__(self, lakehouse, **contract):
        self.lakehouse, self.map, self.next = lakehouse, {}, 0
        self.log = AppendLog(lakehouse, COLUMNS, value={"format": "avro"}, **contract)
        self.name = self.log.current.contract.table

    def send(self, value, keys):
        """The keys get a value, those that are a multiple of five are deleted."""
        rows = []
        for key in keys:
            values = (
                key,
                f"r{key % 3}",
                value if key % 5 else None,
                *(["n"] * (len(self.log.columns.fields) - 4)),
            )
            rows.append((*values, ("t", 0, self.next, NOON, 0, None, None, None, not key % 5, 0)))
            self.next += 1
            self.map.pop(key, None)
            if key % 5:
                self.map[key] = value
        self.log.commit(rows, {0: self.next})

    def merge(self):
        outcome = catch_up_merges(self.log.lake, self.log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = self.table().scan().to_arrow().to_pylist()
        by_spark = self.lakehouse.spark().sql(f"SELECT id, v FROM {self.name}").collect()
        assert sorted((r["id"], r["v"]) for r in found) == sorted((r["id"], r["v"]) for r in by_spark)
        assert {r["id"]: r["v"] for r in found} == self.map
        assert len(found) == len(self.map)

    def table(self):
        return self.lakehouse.catalog.load_table(self.name)

    def foreseen(self):
        found = foresee_upsert(self.log.lake, self.log.current)
        return found.verdict, sorted(change["kind"] for change in found.changes)

    def delete_files(self):
        return {
            row["file_path"].rpartition(".")[2] for row in self.table().inspect.delete_files().to_pylist()
        }

    def sorted_by(self):
        table = self.table()
        return [table.schema().find_column_name(f.source_id) for f in table.sort_order().fields]


def test_an_edited_layout_and_properties_reach_the_table_that_is_there(lakehouse):
    """Given an upsert table, when layout, format, properties and columns change, then the next merge follows,
    what must be approved waits beside it, and what is taken out of the contract is as it was."""
    upsert = {"keys": ["id"], "sort_by": ["v"], "partition_by": []}
    made = Edited(lakehouse, sort_by=["region"], partition_by=["region"], upsert=upsert)
    assert made.foreseen() == ("nothing", [])
    made.send("a", range(20))
    assert made.foreseen() == ("apply", ["create_table"])
    made.merge()
    assert (made.sorted_by(), len(made.table().spec().fields)) == (["v"], 0), "not as the append table"
    assert made.foreseen() == ("nothing", [])

    upsert |= {"sort_by": ["region"], "partition_by": ["bucket(2, id)"], "format_version": 3}
    mode = {"write.merge.mode": "copy-on-write", "mine": "1"}
    made.log.edit(value={"format": "avro"}, upsert=upsert, table_properties=mode)
    lakehouse.spark().sql(f"ALTER TABLE {made.log.contract.table} ADD COLUMN note string AFTER v")
    made.log.columns = WITH_NOTE
    made.send("b", range(3, 12))
    waits = ["add_column", "format_version", "partition_spec", "property", "property", "sort_order"]
    assert made.foreseen() == ("review", waits)
    made.merge()
    assert made.delete_files() == set(), "copy-on-write leaves no deletes to readers"
    assert made.sorted_by() == ["region"]
    assert [str(f.transform) for f in made.table().spec().fields] == ["bucket[2]"]
    assert made.table().properties["tidemark.deletes"] == "hard"
    assert made.foreseen() == ("review", ["format_version"])

    plan = foresee_upsert(made.log.lake, made.log.current).plan
    approve(
        made.log.lake, made.log.current.contract, plan, Signature("ada", "all readers know it", run_id="r")
    )
    made.log.edit(value={"format": "avro"}, upsert=upsert)
    made.send("c", range(8, 14))
    made.merge()
    properties = made.table().properties
    assert (made.table().metadata.format_version, made.delete_files()) == (3, {"puffin"})
    assert ("mine" in properties, properties["write.merge.mode"]) == (False, "merge-on-read")
    told = history(made.log.lake.state(made.name))
    assert [each["by"] for each in told] == ["contract", "ada", "contract"]
    assert made.foreseen() == ("nothing", [])


def test_what_was_decided_when_the_table_was_made_is_foreseen_as_impossible(lakehouse):
    """Given rows that were merged by one order with hard deletes, when the contract says another, then the plan says what the merge will."""
    upsert = {"keys": ["id"], "deletes": "hard"}
    made = Edited(lakehouse, upsert=upsert)
    made.send("a", range(4))
    made.merge()
    made.send("b", range(2, 6))
    for edit in ({"deletes": "soft"}, {"order_by": ["_kafka.timestamp"]}, {"keys": ["v"]}):
        made.log.edit(value={"format": "avro"}, upsert={**upsert, **edit})
        assert made.foreseen()[0] == "impossible"
        assert catch_up_merges(made.log.lake, made.log.current, "test").state == "table_incompatible"
    made.log.edit(value={"format": "avro"}, upsert=upsert)
    assert made.foreseen() == ("nothing", [])
    made.merge()
