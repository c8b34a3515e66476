"""Keys of upsert tables the whole way: composite and nested ones, the Kafka key itself, a new topic, a wider key, one that moves, identifier fields."""

import json

import pytest
from debezium import framed, register
from dying import dying_at
from upserted import Upserted

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.errors import Refused
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.approve import approve
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.table.operations import Signature

ADA = Signature("ada@shop.example", "a test", run_id="r")
FIELDS = {"region": "string", "account": "struct<id: int, name: string>", "v": "string"}
WIDER = {**FIELDS, "account": "struct<id: bigint, name: string>"}


class Tables:
    """One topic, read into two append tables: one with a composite, nested key, one whose key is the Kafka key."""

    def __init__(self, lakehouse):
        self.lakehouse = lakehouse
        self.topic = lakehouse.cluster.bare_topic("keys", 2)
        self.expected = {}
        self.declare(FIELDS)

    def declare(self, fields):
        common = {"value": {"format": "json", "fields": fields}, "approvers": [ADA.by]}
        made = self.lakehouse.table
        self.both = [
            made(
                self.topic,
                f"{self.topic.name}_nested",
                key={"format": "json", "fields": ["region", "account"]},
                upsert={"keys": ["region", "account.id"]},
                **common,
            ),
            made(self.topic, f"{self.topic.name}_kafka", upsert={"keys": ["_kafka.key"]}, **common),
        ]
        self.lakehouse.close()

    def send(self, *events):
        """(region, id, value); without a value a tombstone."""
        for region, number, value in events:
            key = json.dumps({"region": region, "account": {"id": number}}).encode()
            body = {"region": region, "account": {"id": number, "name": f"n{number}"}, "v": value}
            text = None if value is None else json.dumps(body).encode()
            self.topic.send_raw([(key, text, number % 2)])
            if value is None:
                self.expected.pop((region, number), None)
            else:
                self.expected[region, number] = value

    def ingest(self):
        for each in self.both:
            outcome = each.run()
            assert outcome.error is None, outcome.error["message"]

    def merge(self):
        return [
            catch_up_merges(self.lakehouse.lake, upsert_table_of(each.contract), "test") for each in self.both
        ]

    def are_equal(self):
        for each, outcome in zip(self.both, self.merge(), strict=True):
            assert outcome.error is None, outcome.error["message"]
            name = upsert_table_of(each.contract).contract.table
            rows = self.lakehouse.catalog.load_table(name).scan().to_arrow().to_pylist()
            found = {(r["region"], r["account"]["id"]): r["v"] for r in rows}
            assert found == self.expected, name
            assert len(rows) == len(found), name


def test_keys_of_every_kind_through_a_new_topic_and_a_wider_type(lakehouse):
    """Given nested, composite and Kafka keys, when rows change, go, come from a recreated topic and get wider keys,
    then both tables are the map, and the wider key waits for a person."""
    tables = Tables(lakehouse)
    tables.send(("eu", 1, "a"), ("eu", 2, "b"), ("us", 1, "c"), ("us", 2, "d"), ("us", 2, None))
    tables.ingest()
    tables.send(("eu", 1, None), ("us", 1, "c2"), ("eu", 3, "e"), ("eu", 1, "again"), ("eu", 2, None))
    tables.ingest()
    tables.are_equal()

    tables.topic.recreate(2)
    tables.send(("us", 1, "new topic"), ("eu", 3, None), ("us", 4, "f"))
    for each in tables.both:
        assert each.run().state == "topic_recreated"
        accept(lakehouse.lake, each.contract, "new-epoch", ADA)
    tables.ingest()
    tables.are_equal()

    tables.declare(WIDER)
    tables.send(("us", 2**40, "wide"), ("us", 4, None))
    tables.ingest()
    nested, by_kafka_key = tables.merge()
    assert by_kafka_key.error is None, by_kafka_key.error
    assert nested.state == "schema_review"
    assert "a key identifies rows" in nested.error["message"]
    current = upsert_table_of(tables.both[0].contract).contract
    plan = nested.error["plan"]
    with pytest.raises(Refused, match="may not approve"):
        approve(lakehouse.lake, current, plan, Signature("eve@shop.example", "a test", run_id="r"))
    approve(lakehouse.lake, current, plan, ADA)
    tables.are_equal()


def test_dates_of_any_year_are_keys(lakehouse):
    """Given days that Python has no date for, when their rows change and go, then the table is the map."""
    day = {"name": "d", "type": {"type": "int", "logicalType": "date"}}
    key = {"type": "record", "name": "Key", "fields": [day]}
    value = {**key, "name": "Value", "fields": [day, {"name": "v", "type": "string"}]}
    topic = lakehouse.cluster.bare_topic("days")
    key_id, value_id = register(topic, "key", key), register(topic, "value", value)
    table = lakehouse.table(topic, value={"format": "avro"}, key={"format": "avro"}, upsert=["d"])
    plain = {**day, "type": "int"}

    def merged(events):
        for number, text in events.items():
            told = framed(key_id, {**key, "fields": [plain]}, {"d": number})
            row = {"d": number, "v": text}
            body = text and framed(value_id, {**value, "fields": [plain, value["fields"][1]]}, row)
            topic.send_raw([(told, body, 0)])
        assert table.run().error is None
        current = upsert_table_of(table.contract)
        outcome = catch_up_merges(lakehouse.lake, current, "test")
        assert outcome.error is None, outcome.error["message"]
        rows = lakehouse.spark().sql(f"SELECT unix_date(d) AS d, v FROM {current.contract.table}").collect()
        return {row["d"]: row["v"] for row in rows}

    assert merged({-800_000: "a", 0: "b", 5_000_000: "c"}) == {-800_000: "a", 0: "b", 5_000_000: "c"}
    assert merged({-800_000: "a2", 5_000_000: None}) == {-800_000: "a2", 0: "b"}


def test_columns_of_any_name_are_keys_and_values(lakehouse):
    """Given names with spaces, commas and parentheses, and those of a merge's working columns, when their rows change and go, then the table is the map."""
    topic = lakehouse.cluster.bare_topic("spaced")
    names = ["x y", "in, (it)"]
    working = ("tidemark_key", "tidemark_action", "action", "k", "at", "kind", "stored")
    fields = {
        "x y": "string",
        "in, (it)": "int",
        "n o": "int",
        "t i": "timestamp",
        **dict.fromkeys(working, "string"),
    }
    table = lakehouse.table(
        topic,
        value={"format": "json", "fields": fields},
        key={"format": "json", "fields": names},
        upsert={"keys": names, "order_by": ["n o"], "sort_by": ["x y"]},
        quality=[{"column": "x y", "check": "not_null"}],
        event_time="t i",
    )  # fmt: skip

    def merged(*events):
        for a, b, n in events:
            key = {"x y": a, "in, (it)": b}
            values = {"n o": n, "t i": "2026-01-01T00:00:00Z", **dict.fromkeys(working, str(n))}
            body = None if n is None else json.dumps({**key, **values}).encode()
            topic.send_raw([(json.dumps(key).encode(), body, 0)])
        assert table.run().error is None
        current = upsert_table_of(table.contract)
        assert catch_up_merges(lakehouse.lake, current, "test").error is None
        rows = lakehouse.spark().table(f"lake.{current.contract.table}").collect()
        assert all({row[name] for name in working} == {str(row["n o"])} for row in rows)
        return {(row["x y"], row["in, (it)"]): row["n o"] for row in rows}

    assert merged(("a", 1, 5), ("a", 2, 6), ("b", 1, 7)) == {("a", 1): 5, ("a", 2): 6, ("b", 1): 7}
    events = ("a", 1, 4), ("a", 2, None), ("b", 1, 8), ("c", 3, 9)
    assert merged(*events) == {("a", 1): 5, ("b", 1): 8, ("c", 3): 9}


def test_partitions_that_come_later_are_told_where_the_offset_alone_is_the_order(lakehouse, caplog):
    """Given a topic whose second partition is empty at first, when it gets a third and a key moves there, then the log of the merge and the plan name the third alone."""
    made = Upserted(lakehouse)
    made.both((2, "a"), (2, "b"), (4, "c"))
    made.both((1, "x"))
    assert told(caplog) == []
    made.topic.grow(3)
    made.both((2, "moved"))
    assert made.rows() == {1: "x", 2: "b", 4: "c"}, "its older row has the greater offset"
    [said] = told(caplog)
    assert f"{made.topic.name} got partitions after rows had been merged (2):" in said
    made.both((2, "again"), (2, "newest"))
    assert made.rows() == {1: "x", 2: "newest", 4: "c"}
    assert told(caplog) == [said], "once"
    [noted] = foresee_upsert(lakehouse.lake, made.current).findings
    assert said == f"{made.name}: {noted}"


def told(caplog):
    return [each.getMessage() for each in caplog.records if each.name == "tidemark.merge"]


def test_a_table_whose_making_was_cut_off_gets_its_identifier_fields(lakehouse, monkeypatch):
    """Given a first merge that dies between the statements that make the table, or a table that has rows and lost them, when merged again, then its key is its identifier field."""
    made = Upserted(lakehouse, format_version=3, sort_by=["id"])
    made.send((1, "a"))
    assert made.append.run().error is None
    with dying_at(monkeypatch, "creating"):
        made.merge()
    assert identifiers(made) == []
    made.merge()
    assert (identifiers(made), made.rows()) == (["id"], {1: "a"})
    lakehouse.spark().sql(f"ALTER TABLE {made.name} DROP IDENTIFIER FIELDS id")
    assert identifiers(made) == []
    made.both((1, "b"), (2, "c"))
    assert (identifiers(made), made.rows()) == (["id"], {1: "b", 2: "c"})


def identifiers(made):
    schema = made.table().schema()
    return [schema.find_column_name(each) for each in schema.identifier_field_ids]
