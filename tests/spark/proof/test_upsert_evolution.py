"""Rule: an upsert table follows the columns of its append table, whatever its merges read of the rows that are there."""

import json
import math
import struct
from datetime import UTC, datetime

import pytest
from append_log import AppendLog

from tidemark.domain.columns.types import (
    DOUBLE,
    FLOAT,
    INT,
    KAFKA_COLUMN,
    LONG,
    STRING,
    Field,
    ListType,
    Struct,
)
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.merge import table as merge_table
from tidemark.engine.operate.accept_upsert import accept_upsert
from tidemark.engine.operate.approve import approve
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.schema.evolve import evolve_now
from tidemark.engine.table.operations import Signature

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PART, WIDER_PART = Struct((Field("p", INT),)), Struct((Field("p", LONG), Field("q", STRING)))
BEFORE = Struct(
    (
        Field("id", LONG),
        Field("v", INT),
        Field("n", PART),
        Field("l", ListType(PART)),
        KAFKA_COLUMN,
    )
)
AFTER = Struct(
    (
        Field("id", LONG),
        Field("v", LONG),
        Field("n", WIDER_PART),
        Field("l", ListType(WIDER_PART)),
        KAFKA_COLUMN,
        Field("note", STRING),
    )
)
NOTED = Struct((*BEFORE.fields, Field("note", STRING)))
GROWTH = (
    "ALTER COLUMN v TYPE bigint",
    "ALTER COLUMN n.p TYPE bigint",
    "ALTER COLUMN l.element.p TYPE bigint",
    "ADD COLUMN n.q string",
    "ADD COLUMN l.element.q string",
    "ADD COLUMN note string",
)


def kafka(offset, *, tombstone=False):
    return ("t", 0, offset, NOON, 0, None, None, None, tombstone, 0)


@pytest.mark.parametrize(
    ("deletes", "envelope"),
    [("soft", "none"), ("hard", "debezium_flat"), pytest.param("hard", "none", marks=pytest.mark.long)],
)
def test_a_merge_after_new_and_wider_columns_knows_the_rows_of_before(lakehouse, deletes, envelope):
    """Given stored rows, when the append table gets columns and wider types and one of the rows is deleted,
    one changed and one left alone, then the next merge does it, and a later one too."""
    log = AppendLog(
        lakehouse,
        BEFORE,
        value={"format": "avro", "envelope": envelope},
        upsert={"keys": ["id"], "deletes": deletes},
    )

    def merged():
        outcome = catch_up_merges(log.lake, log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
        return {
            row["id"]: (row["v"], row["n"], row["l"], row.get("note"), row.get("_is_deleted", False))
            for row in found
        }

    log.commit([(n, n, (n,), [(n,)], kafka(n)) for n in range(4)], {0: 4})
    merged()
    for change in GROWTH:
        log.lake.spark().sql(f"ALTER TABLE {log.lake.identifier(log.contract.table)} {change}")
    log.columns = AFTER
    changed = (1, 2**40, (2**41, "q"), [(2**42, "r")], kafka(4), "note")
    log.commit([changed, (2, None, None, None, kafka(5, tombstone=True), None)], {0: 6})
    gone = (2, {"p": 2, "q": None}, [{"p": 2, "q": None}], None, True)
    expected = {n: (n, {"p": n, "q": None}, [{"p": n, "q": None}], None, False) for n in (0, 3)} | {
        1: (2**40, {"p": 2**41, "q": "q"}, [{"p": 2**42, "q": "r"}], "note", False)
    }
    assert merged() == expected | ({2: gone} if deletes == "soft" else {})

    log.commit([(3, None, None, None, kafka(6, tombstone=True), None)], {0: 7})
    left = merged()
    assert left[0] == expected[0]
    assert (3 in left) == (deletes == "soft")


def test_a_delete_is_remembered_for_a_float_that_becomes_a_double(lakehouse):
    """Given keys and order columns that are floats, when rows are deleted and both become doubles, then older events of
    these keys bring no row back, and newer ones do."""
    columns = Struct((Field("id", FLOAT), Field("v", FLOAT), KAFKA_COLUMN))
    upsert = {"keys": ["id"], "order_by": ["v"]}
    log = AppendLog(lakehouse, columns, value={"format": "avro"}, upsert=upsert)
    keys = (0.1, 0.5, 0.2, math.nan, math.inf)
    of_float = [struct.unpack("f", struct.pack("f", key))[0] for key in keys]

    def merged(events):
        rows = [
            (*event, kafka(log.ledger.next.get(0, 0) + n, tombstone=event[1] is None)) for n, event in events
        ]
        log.commit(rows, {0: log.ledger.next.get(0, 0) + len(rows)})
        outcome = catch_up_merges(log.lake, log.current, "test")
        if outcome.state == "schema_review":
            approve(
                log.lake, log.current.contract, outcome.error["plan"], Signature("ada", "a test", run_id="r")
            )
            outcome = catch_up_merges(log.lake, log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
        return {row["id"]: row["v"] for row in found}

    assert len(merged(enumerate((key, 0.1) for key in keys))) == len(keys)
    assert merged(enumerate((key, None) for key in keys)) == {}
    for column in ("id", "v"):
        table = log.lake.identifier(log.contract.table)
        log.lake.spark().sql(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE double")
    log.columns = Struct((Field("id", DOUBLE), Field("v", DOUBLE), KAFKA_COLUMN))
    older, newer = 0.100000001, 0.1000001
    assert merged(enumerate((key, older) for key in of_float)) == {}
    assert merged(enumerate([(of_float[0], newer), (of_float[1], newer), (0.1, older)])) == {
        of_float[0]: newer,
        of_float[1]: newer,
        0.1: older,
    }


def test_a_merge_that_published_while_another_let_the_table_grow_is_not_merged_again(lakehouse, monkeypatch):
    """Given a merge whose table has just got a column, when another merge publishes before it goes on, then it plans
    again and finds nothing to do: rows are counted once."""
    log = AppendLog(lakehouse, BEFORE, value={"format": "json"}, upsert=["id"])
    log.commit([(1, 1, None, None, kafka(0))], {0: 1})
    assert catch_up_merges(log.lake, log.current, "test").error is None
    log.lake.spark().sql(f"ALTER TABLE {log.lake.identifier(log.contract.table)} ADD COLUMN note string")
    log.columns = NOTED
    log.commit([(2, 2, None, None, kafka(1), "a"), (1, 3, None, None, kafka(2), "b")], {0: 3})
    real, others = merge_table.apply_changes, []

    def grown(*asked, **how):
        done = real(*asked, **how)
        monkeypatch.undo()
        others.append(catch_up_merges(log.lake, log.current, "other").commits)
        return done

    monkeypatch.setattr(merge_table, "apply_changes", grown)
    outcome = catch_up_merges(log.lake, log.current, "test")
    assert (outcome.error, outcome.commits, others) == (None, 0, [1])
    merged = log.lake.state(log.current.contract.table).merged
    assert (merged.next, merged.totals.read) == ({0: 3}, 3)


def test_a_column_that_became_another_stops_the_merge_with_a_way_out(lakehouse):
    """Given an upsert table one of whose columns someone made anew in another type, when merged, then it stops by
    name, and dropped it is made anew."""
    log = AppendLog(lakehouse, BEFORE, value={"format": "json"}, upsert=["id"])
    name = log.lake.identifier(log.current.contract.table)
    log.commit([(1, 1, None, None, kafka(0))], {0: 1})
    assert catch_up_merges(log.lake, log.current, "test").error is None
    for change in ("DROP COLUMN v", "ADD COLUMN v string"):
        log.lake.spark().sql(f"ALTER TABLE {name} {change}")
    log.commit([(2, 2, None, None, kafka(1))], {0: 2})
    stopped = catch_up_merges(log.lake, log.current, "test")
    assert stopped.state == "table_incompatible"
    assert "append rows make it anew" in stopped.error["message"]
    log.lake.spark().sql(f"DROP TABLE {name}")
    accept_upsert(log.lake, log.current, "first-load", Signature("ada", "a test", run_id="r"))
    assert catch_up_merges(log.lake, log.current, "test").error is None
    found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in found} == {1: 1, 2: 2}


def test_values_of_a_column_that_was_renamed_by_hand_stay_where_they_are(lakehouse):
    """Given a column of an upsert table that somebody renamed, when a new one of its name is approved and a row is
    marked as deleted, then the old value is still under the new name, and nowhere else."""
    log = AppendLog(lakehouse, BEFORE, value={"format": "json"}, upsert={"keys": ["id"], "deletes": "soft"})
    name, ada = log.current.contract.table, Signature("ada", "a test", run_id="r")
    log.commit([(1, 7, (8,), [(9,)], kafka(0))], {0: 1})
    assert catch_up_merges(log.lake, log.current, "test").error is None
    for change in ("v TO w", "n.p TO q", "l.element.p TO q"):
        log.lake.spark().sql(f"ALTER TABLE {log.lake.identifier(name)} RENAME COLUMN {change}")
    log.commit([(1, None, None, None, kafka(1, tombstone=True))], {0: 2})
    waits = catch_up_merges(log.lake, log.current, "test")
    assert (waits.state, "renamed it to w by hand" in waits.error["message"]) == ("schema_review", True)
    approve(log.lake, log.current.contract, waits.error["plan"], ada)
    assert catch_up_merges(log.lake, log.current, "test").error is None
    [row] = lakehouse.catalog.load_table(name).scan().to_arrow().to_pylist()
    assert (row["v"], row["w"], row["_is_deleted"]) == (None, 7, True)
    assert (row["n"], row["l"]) == ({"q": 8, "p": None}, [{"q": 9, "p": None}])


def test_columns_taken_away_from_an_append_table_by_hand_are_not_merged_as_null(lakehouse):
    """Given rows that are not merged and columns that somebody renamed in the append table, when others rewrite it, then the merge waits, and renamed back it merges the values; given one dropped there, then it waits until it is dropped here too."""
    log = AppendLog(lakehouse, BEFORE, value={"format": "json"}, upsert=["id"])
    append, name = log.lake.identifier(log.contract.table), log.current.contract.table

    def changed(table, *changes):
        for change in changes:
            log.lake.spark().sql(f"ALTER TABLE {table} {change}")

    def rewritten():
        options = "options => map('rewrite-all', 'true')"
        log.lake.spark().sql(log.lake.call("rewrite_data_files", log.contract.table, options)).collect()

    def waits(what):
        stopped = catch_up_merges(log.lake, log.current, "test")
        assert (stopped.state, stopped.commits) == ("schema_review", 0)
        assert what in stopped.error["message"]
        [*_, told] = foresee_upsert(log.lake, log.current).changes
        assert (told["verdict"], what in told["reason"]) == ("impossible", True)

    def merged():
        outcome = catch_up_merges(log.lake, log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = lakehouse.catalog.load_table(name).scan().to_arrow().sort_by("id").to_pylist()
        return [(row["id"], row.get("v"), row["n"]["p"], row["l"][0]["p"]) for row in found]

    log.commit([(1, 7, (8,), [(9,)], kafka(0)), (2, 7, (8,), [(9,)], kafka(1))], {0: 2})
    assert merged() == [(1, 7, 8, 9), (2, 7, 8, 9)]
    log.commit([(1, 4, (5,), [(6,)], kafka(2))], {0: 3})
    pairs = (("v", "w"), ("n.p", "q"), ("l.element.p", "q"))
    changed(append, *(f"RENAME COLUMN {old} TO {new}" for old, new in pairs))
    rewritten()
    waits("v, renamed to w; n.p, renamed to n.q; l.element.p, renamed to l.element.q")
    changed(append, *(f"RENAME COLUMN {old[:-1]}{new} TO {old[-1]}" for old, new in pairs))
    assert merged() == [(1, 4, 5, 6), (2, 7, 8, 9)]

    changed(append, "ADD COLUMN note string")
    log.columns = NOTED
    log.commit([(2, 1, (2,), [(3,)], kafka(3), "x")], {0: 4})
    changed(append, "DROP COLUMN note")
    log.columns = BEFORE
    assert merged() == [(1, 4, 5, 6), (2, 1, 2, 3)], "read as it was then"
    log.commit([(1, 1, (2,), [(3,)], kafka(4))], {0: 5})
    waits("note, dropped")
    changed(log.lake.identifier(name), "DROP COLUMN note")
    assert merged() == [(1, 1, 2, 3), (2, 1, 2, 3)]


@pytest.mark.parametrize("name", ["_is_deleted", pytest.param("_IS_deleted", marks=pytest.mark.long)])
def test_a_column_in_the_place_of_the_mark_is_told_alike_by_merge_and_plan(lakehouse, name):
    """Given soft deletes, when the topic brings a column with the name of their mark, then both say it, and how to go on:
    with hard ones it is a column like others."""
    log = AppendLog(lakehouse, BEFORE, value={"format": "avro"}, upsert={"keys": ["id"], "deletes": "soft"})
    log.commit([(1, 7, (8,), [(9,)], kafka(0))], {0: 1})
    assert catch_up_merges(log.lake, log.current, "test").error is None
    log.lake.spark().sql(f"ALTER TABLE {log.lake.identifier(log.contract.table)} ADD COLUMN {name} string")
    log.columns = Struct((*BEFORE.fields, Field(name, STRING)))
    log.commit([(2, 7, (8,), [(9,)], kafka(1), "x")], {0: 2})
    stopped = catch_up_merges(log.lake, log.current, "test")
    [change] = foresee_upsert(log.lake, log.current).changes
    assert (stopped.state, change["verdict"]) == ("misconfigured", "impossible")
    assert change["reason"] in stopped.error["message"]
    assert f"{log.contract.table} has {name} from its topic. Say `deletes: hard`" in change["reason"]
    log.edit(value={"format": "avro"}, upsert={"keys": ["id"], "table": f"proof.{log.name}_now"})
    log.commit([(1, None, None, None, kafka(2, tombstone=True), None)], {0: 3})
    assert catch_up_merges(log.lake, log.current, "test").error is None
    found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
    assert [(row["id"], row[name]) for row in found] == [(2, "x")]


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("partitioning", [pytest.param("v", marks=pytest.mark.long), "n.p"])
def test_a_column_by_whose_values_rows_are_partitioned_becomes_wider(lakehouse, partitioning, format_version):
    """Given rows partitioned by a column, when it becomes wider and rows of before are marked as deleted, then each later merge reads them."""
    log = AppendLog(
        lakehouse,
        BEFORE,
        value={"format": "avro"},
        format_version=format_version,
        upsert={"keys": ["id"], "deletes": "soft", "partition_by": [partitioning]},
    )

    def merged():
        outcome = catch_up_merges(log.lake, log.current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = lakehouse.catalog.load_table(log.current.contract.table).scan().to_arrow().to_pylist()
        return {row["id"]: (row["v"], row["n"]["p"], row["_is_deleted"]) for row in found}, outcome.changes

    log.commit([(n, n, (n,), [], kafka(n)) for n in range(4)], {0: 4})
    assert merged()[0] == {n: (n, n, False) for n in range(4)}
    for change in GROWTH[:2]:
        log.lake.spark().sql(f"ALTER TABLE {log.lake.identifier(log.contract.table)} {change}")
    log.columns = Struct(
        (Field("id", LONG), Field("v", LONG), Field("n", Struct((Field("p", LONG),))), *BEFORE.fields[3:])
    )
    log.commit([(1, 2**40, (2**41,), [], kafka(4))], {0: 5})
    assert merged()[0] == {n: (n, n, False) for n in (0, 2, 3)} | {1: (2**40, 2**41, False)}
    log.commit([(2, None, None, None, kafka(5, tombstone=True))], {0: 6})
    found, changes = merged()
    assert found == {n: (n, n, n == 2) for n in (0, 2, 3)} | {1: (2**40, 2**41, False)}
    assert (changes.read, changes.deleted) == (1, 1)


def test_what_waits_is_merged_after_an_append_table_is_partitioned_by_a_wider_column(lakehouse):
    """Given rows that are not merged and a rule over the whole table, when one column becomes wider by a look at the schema and another by a batch, then the merge reads what waited, and the rule the rows of before."""
    topic = lakehouse.cluster.bare_topic("wider")
    rule = {"check": "unique", "columns": ["id", "v", "w"], "within": "table", "on_failure": "warn"}

    def declared(v="int", w="int"):
        fields = {"id": "bigint", "v": v, "w": w}
        key = {"format": "string", "fields": ["id"]}
        return lakehouse.table(
            topic,
            value={"format": "json", "fields": fields},
            key=key,
            upsert=["id"],
            partition_by=["v", "w"],
            quality=[rule],
        )

    def ran(table, *rows):
        texts = (json.dumps(dict(zip(("id", "v", "w"), row, strict=True))).encode() for row in rows)
        topic.send_raw([(b"key", text, 0) for text in texts])
        outcome = table.run()
        assert outcome.error is None, outcome.error["message"]
        return [each.failed for each in outcome.quality.values()]

    def merged(table):
        current = upsert_table_of(table.contract)
        outcome = catch_up_merges(lakehouse.lake, current, "test")
        assert outcome.error is None, outcome.error["message"]
        found = lakehouse.catalog.load_table(current.contract.table).scan().to_arrow().to_pylist()
        return sorted((row["id"], row["v"], row["w"]) for row in found)

    assert ran(declared(), (1, 7, 7), (2, 7, 7)) == [0]
    wider = declared(v="bigint")
    assert evolve_now(lakehouse.lake, wider.contract, "look").done
    assert merged(wider) == [(1, 7, 7), (2, 7, 7)]
    widest = declared(v="bigint", w="bigint")
    assert ran(widest, (1, 7, 7), (3, 2**40, 2**41)) == [1]
    assert merged(widest) == [(1, 7, 7), (2, 7, 7), (3, 2**40, 2**41)]
