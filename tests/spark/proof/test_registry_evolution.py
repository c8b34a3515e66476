"""Rule: Protobuf and JSON Schema evolve by the same plans as Avro, each record read by the version it was written with."""

import json
import struct

import httpx
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tidemark.engine.operate.approve import approve
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.schema.protoc import compile_proto
from tidemark.engine.table.operations import Signature

ANN = Signature("ann", "known", "run-1")


@pytest.fixture
def topic(lakehouse):
    return lakehouse.cluster.bare_topic("evolves", 2)


class Versions:
    """The versions of a topic's subject, which the registry lets anyone add, and records of any of them."""

    def __init__(self, topic, kind):
        self.topic, self.kind, self.sent = topic, kind, 0

    def register(self, schema):
        return self.topic.register(schema, self.kind), schema

    def lets_anything_in(self):
        root = self.topic.cluster.registry_url.removesuffix("/apis/ccompat/v7")
        rules = f"{root}/apis/registry/v2/groups/default/artifacts/{self.topic.name}-value/rules"
        rule = {"type": "COMPATIBILITY", "config": "NONE"}
        httpx.post(rules, json=rule, trust_env=False, timeout=30).raise_for_status()

    def send(self, version, *, index=0, **fields):
        """A record whose `id` is its number; all of them alternate between the partitions. `index` is its message's."""
        schema_id, schema = version
        fields = {"id": self.sent, **fields}
        if self.kind == "JSON":
            body = json.dumps(fields).encode()
        else:
            place = bytes([2, 2 * index]) if index else b"\0"
            body = place + message_of(schema, index)(**fields).SerializeToString()
        self.topic.send_raw([(b"k", struct.pack(">bI", 0, schema_id) + body, self.sent % 2)])
        self.sent += 1


def message_of(text, index=0):
    """A message of a file, as protobuf itself writes it."""
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(compile_proto(text)).file
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(files[-1].message_type[index].name))


def sampled(lakehouse, table):
    """What `plan --sample` says of each fate."""
    found = foresee(lakehouse.lake, table.contract, sample=1000).sample
    causes = {(each["cause"], each["count"]) for each in found["causes"]}
    return {name: found[name] for name in ("records", "written", "quarantined", "waiting")}, causes


def rows(table):
    found = table.iceberg().scan().to_arrow().to_pylist()
    return {row["id"]: {k: v for k, v in row.items() if k not in {"id", "_kafka"}} for row in found}


def planned(lakehouse, table):
    plan = foresee(lakehouse.lake, table.contract)
    return plan.plan, [(c["kind"], c["path"], c["verdict"]) for c in plan.changes]


ORDER = """syntax = "proto3"; message Order {
  int32 id = 1; repeated %(n)s counts = 2; optional %(real)s rate = 3; map<string, Item> items = 4;
  oneof pay { string card = 5; %(branch)s } Status status = 7; %(presence)s int32 boxes = 8;
  message Item { %(n)s n = 1; %(note)s } enum Status { NEW = 0; %(symbol)s } }"""
FIRST = {"n": "int32", "real": "float", "branch": "", "note": "", "symbol": "", "presence": "optional"}
GROWN = {
    "n": "int64",
    "real": "double",
    "branch": "int64 voucher = 6;",
    "note": "optional string note = 2;",
    "symbol": "PAID = 1;",
    "presence": "",
}


@pytest.mark.long
def test_protobuf_widens_adds_a_branch_and_parks_what_is_incompatible(lakehouse, topic):
    """Given versions that widen in lists, maps and scalars, add a branch and a symbol, then one of another type, when run, then all but the last are followed, old writers too."""
    subject = Versions(topic, "PROTOBUF")
    first = subject.register(ORDER % FIRST)
    subject.lets_anything_in()
    subject.send(first, counts=[1], rate=0.5, items={"a": {"n": 1}}, card="c")
    table = lakehouse.table(topic)
    assert table.run().error is None
    second = subject.register(ORDER % GROWN)
    subject.send(second, counts=[2**40], rate=0.1, items={"b": {"n": 2**40, "note": ""}}, voucher=0, status=1)
    subject.send(first, counts=[], card="", boxes=0)
    subject.send(second)
    assert planned(lakehouse, table)[1] == [
        ("widen_type", "counts.element", "apply"),
        ("widen_type", "rate", "apply"),
        ("widen_type", "items.value.n", "apply"),
        ("add_column", "items.value.note", "apply"),
        ("add_column", "voucher", "apply"),
    ]
    outcome = table.run()
    assert (outcome.state, outcome.rows[:3]) == ("fresh", (3, 3, 0))
    assert rows(table) == {
        0: row([1], 0.5, [("a", {"n": 1, "note": None})], "c", None, "NEW", None),
        1: row([2**40], 0.1, [("b", {"n": 2**40, "note": ""})], None, 0, "PAID", 0),
        2: row([], None, [], "", None, "NEW", 0),
        3: row([], None, [], None, None, "NEW", 0),
    }
    other = subject.register((ORDER % GROWN).replace("string card", "bytes card"))
    subject.send(second, card="before")
    subject.send(other, card=b"\xff")
    subject.send(first, card="beside")
    waits = table.run()
    plan, changes = planned(lakehouse, table)
    assert (waits.state, waits.error["plan"], changes) == (
        "schema_review",
        plan,
        [("incompatible", "card", "review")],
    )
    assert sampled(lakehouse, table) == (
        {"records": 7, "written": 6, "quarantined": 0, "waiting": 1},
        {("schema_review", 1)},
    )
    approve(lakehouse.lake, table.contract, plan, ANN)
    assert table.run().state == "fresh"
    assert (sorted(rows(table)), table.causes()) == ([0, 1, 2, 3, 4, 6], {"schema_not_allowed": 1})
    table.holds_everything()


def row(counts, rate, items, card, voucher, status, boxes):
    names = ("counts", "rate", "items", "card", "status", "boxes", "voucher")
    return dict(zip(names, (counts, rate, items, card, status, boxes, voucher), strict=True))


@pytest.mark.long
def test_a_message_that_was_renamed_is_named_and_moves_nothing(lakehouse, topic):
    """Given a contract that names its message, when a version no longer has it, then its records stop the table by name and the old ones go on, until the contract sends them to the quarantine; without a name the first message counts."""
    subject = Versions(topic, "PROTOBUF")
    first = subject.register('syntax = "proto3"; message Order { int32 id = 1; }')
    subject.lets_anything_in()
    subject.send(first)
    named = lakehouse.table(topic, f"{topic.name}_named", value={"message": "Order"})
    free = lakehouse.table(topic)
    assert [named.run().state, free.run().state] == ["fresh", "fresh"]
    second = subject.register('syntax = "proto3"; message Purchase { int32 id = 1; }')
    subject.send(first)
    subject.send(second)
    outcome = named.run()
    assert outcome.state == "schema_unsupported"
    assert "Order" in outcome.error["message"]
    assert named.ids() == [0, 1]
    assert (free.run().state, free.ids()) == ("fresh", [0, 1, 2])
    aside = {"schema_changes": {"incompatible": "quarantine"}, "quarantine": {"fail": 0.9}}
    named = lakehouse.table(topic, f"{topic.name}_named", value={"message": "Order"}, **aside)
    subject.send(first)
    assert (named.run().error, named.ids(), named.causes()) == (None, [0, 1, 3], {"schema_not_allowed": 1})
    named.holds_everything()


@pytest.mark.long
def test_a_message_put_on_top_does_not_become_the_tables(lakehouse, topic):
    """Given a version with another message before the table's, and then the old text registered once more, when run, then the table follows its message, and the other's records are quarantined by name."""
    subject = Versions(topic, "PROTOBUF")
    text = 'syntax = "proto3"; message Order { int32 id = 1; }'
    first = subject.register(text)
    subject.lets_anything_in()
    subject.send(first)
    table = lakehouse.table(topic, quarantine={"fail": 0.9})
    assert table.run().error is None
    order = "message Order { int32 id = 1; string note = 2; }"
    second = subject.register(f'syntax = "proto3"; message Head {{ int32 id = 1; }} {order}')
    subject.send(second, index=1, note="n")
    subject.send(second)
    assert table.run().error is None
    subject.register(text)
    subject.send(second, index=1, note="m")
    assert table.run().error is None
    assert {i: row["note"] for i, row in rows(table).items()} == {0: None, 1: "n", 3: "m"}
    assert table.causes() == {"wrong_message_type": 1}
    table.holds_everything()


SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "status": {"enum": ["new"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "name": {"type": "string"},
    },
    "required": ["id", "name"],
    "additionalProperties": False,
}


def changed(**properties):
    return {**SCHEMA, "properties": {**SCHEMA["properties"], **properties}, "required": ["id"]}


@pytest.mark.long
def test_json_schema_grows_and_parks_what_is_incompatible(lakehouse, topic):
    """Given versions with a new symbol, a nullable and a nested property, then one whose integers became numbers, when run, then only that one waits."""
    subject = Versions(topic, "JSON")
    first = subject.register(SCHEMA)
    subject.lets_anything_in()
    subject.send(first, status="new", lines=[{"n": 1, "more": 1.5}], name="a")
    table = lakehouse.table(topic, quarantine={"fail": 0.9})
    assert table.run().error is None
    line = {"type": "object", "properties": {"n": {"type": "integer"}, "more": {"type": "number"}}}
    grown = {
        "status": {"enum": ["new", "paid"]},
        "lines": {"type": "array", "items": line},
        "name": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
    }
    second = subject.register(changed(**grown))
    subject.send(second, status="paid", lines=[{"n": 2, "more": 1.5}], name=None, at="2026-01-01T00:00:00Z")
    subject.send(first, status="paid", name="invalid by its own version")
    subject.send(first, name="b")
    assert planned(lakehouse, table)[1] == [
        ("add_column", "lines.element.more", "apply"),
        ("add_column", "at", "apply"),
    ]
    outcome = table.run()
    assert (outcome.state, outcome.rows[:3]) == ("fresh", (3, 2, 1))
    found = rows(table)
    assert (sorted(found), table.causes()) == ([0, 1, 3], {"invalid_against_schema": 1})
    assert [each["more"] for each in found[1]["lines"]] == [1.5]
    assert [(each["more"], each["_extra"]) for each in found[0]["lines"]] == [(None, '{"more":1.5}')]
    assert [found[n]["name"] for n in (0, 1, 3)] == ["a", None, "b"]
    decimal = {"id": {"type": "integer", "maximum": 2**70}}
    numbers = subject.register(changed(**{**grown, "id": {"type": "number"}}))
    wide = subject.register(changed(**{**grown, **decimal}))
    dates = subject.register(changed(**{**grown, "name": {"type": "string", "format": "date"}}))
    for version in (numbers, wide):
        subject.send(version)
    subject.send(dates, name="2026-01-01")
    subject.send(second)
    assert table.run().state == "schema_review"
    plan, changes = planned(lakehouse, table)
    assert changes == [
        ("incompatible", "id", "review"),
        ("incompatible", "id", "review"),
        ("incompatible", "name", "review"),
    ]
    assert sampled(lakehouse, table) == (
        {"records": 8, "written": 4, "quarantined": 1, "waiting": 3},
        {("schema_review", 1), ("invalid_against_schema", 1)},
    )
    approve(lakehouse.lake, table.contract, plan, ANN)
    assert (table.run().state, sorted(rows(table))) == ("fresh", [0, 1, 3, 7])
    assert table.causes() == {"invalid_against_schema": 1, "schema_not_allowed": 3}
    table.holds_everything()
