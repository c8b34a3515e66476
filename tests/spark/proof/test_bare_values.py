"""Rule: values without the registry's header are read with the one schema that the contract names, or nothing is."""

import uuid

import pytest
from decoding import encoded

from tidemark.engine.operate.approve import approve
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.table.operations import Signature

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "note", "type": "string", "default": ""}]}
THIRD = {**FIRST, "fields": [*SECOND["fields"], {"name": "more", "type": "long", "default": 0}]}
PROTO = """syntax = "proto3"; package shop; message Other { string text = 1; }
message Order { int32 id = 1; optional string note = 2; }"""
ITEM = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture
def topic(lakehouse):
    return lakehouse.cluster.bare_topic("bare")


def send(topic, *values):
    topic.send_raw((b"k", value, 0) for value in values)


def test_the_newest_version_is_followed_and_a_batch_of_something_else_stops_the_table(lakehouse, topic):
    """Given bare Avro, when a version is added, then the table grows and decoding follows; then nothing decodes."""
    table = lakehouse.table(topic, value={"schema": "by_latest_schema"})
    missing = table.run()
    assert missing.state == "misconfigured"
    assert f"no subject {topic.name}-value" in missing.error["message"]
    first = topic.register(FIRST)
    send(topic, b"\xff\xff")
    unread = table.run()
    assert (unread.state, unread.rows.read) == ("misconfigured", 0)
    assert f"can be read as the newest version of subject {topic.name}-value: undecodable 1" in str(
        unread.error
    )
    send(topic, *(encoded(FIRST, {"id": n}) for n in range(99)))
    assert table.run().rows[:3] == (100, 99, 1)
    second = topic.register(SECOND)
    send(topic, encoded(SECOND, {"id": 99, "note": "x"}))
    assert table.run().rows.written == 1
    assert table.rows()[-2:] == [{"id": 98, "note": None}, {"id": 99, "note": "x"}]
    ids = table.iceberg().scan(selected_fields=("_kafka",)).to_arrow()["_kafka"].to_pylist()
    assert {kafka["schema_id"] for kafka in ids} == {first, second}
    table.holds_everything()
    topic.register(THIRD)
    send(topic, encoded(THIRD, {"id": 100, "note": "", "more": 1}))
    careful = lakehouse.table(
        topic, value={"schema": "by_latest_schema"}, schema_changes={"add_column": "review"}
    )
    waits = careful.run()
    assert (waits.state, waits.rows.read) == ("schema_review", 0)
    assert "more: missing" in waits.error["message"]


def test_a_column_that_the_newest_version_drops_waits_for_its_review(lakehouse, topic):
    """Given bare Avro, when a version without a column is registered, then no record becomes a NULL unseen."""
    topic.register(SECOND)
    said = {"value": {"schema": "by_latest_schema"}}
    table = lakehouse.table(topic, **said, schema_changes={"remove_column": "review"})
    send(topic, encoded(SECOND, {"id": 0, "note": "x"}))
    table.run()
    topic.register({**FIRST, "doc": "without"})
    send(topic, encoded(FIRST, {"id": 1}))
    waits = table.run()
    assert (waits.state, table.ids()) == ("schema_review", [0])
    assert "note: schema id" in waits.error["message"]
    approve(lakehouse.lake, table.contract, waits.error["plan"], Signature("ann", "known"))
    assert (table.run().state, table.ids()) == ("fresh", [0, 1])
    table.holds_everything()
    partitioned = lakehouse.table(topic, table.name.partition(".")[2], **said, partition_by=["note"])
    send(topic, encoded(FIRST, {"id": 2}))
    assert (partitioned.run().state, table.ids()) == ("schema_unsupported", [0, 1])
    assert foresee(lakehouse.lake, partitioned.contract, sample=5).sample["waiting"] == 3


def test_a_pinned_version_stays_and_must_exist(lakehouse, topic):
    topic.register(FIRST)
    topic.register(SECOND)
    send(topic, *(encoded(FIRST, {"id": n}) for n in range(3)))
    wrong = lakehouse.table(topic, value={"schema": "pinned", "version": 7}).run()
    assert wrong.state == "misconfigured"
    assert "has no version 7: there are 1, 2" in wrong.error["message"]
    table = lakehouse.table(topic, value={"schema": "pinned", "version": 1})
    assert table.run().rows.written == 3
    assert table.rows() == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_a_protobuf_message_without_index_is_the_one_that_the_contract_names(lakehouse, topic):
    topic.register(PROTO, "PROTOBUF")
    send(topic, *(b"\x08" + bytes([n]) + b"\x12\x01x" for n in range(1, 13)), b"\x0a\x01t")
    nameless = lakehouse.table(topic, value={"schema": "by_latest_schema"}).run()
    assert nameless.state == "misconfigured"
    assert "must name the message" in nameless.error["message"]
    other = lakehouse.table(topic, value={"schema": "by_latest_schema", "message": "shop.Others"}).run()
    assert other.state == "schema_unsupported"
    assert "no message shop.Others: shop.Other, shop.Order" in str(other.error)
    table = lakehouse.table(
        topic, value={"schema": "by_latest_schema", "message": "shop.Order"}, quarantine={"fail": 0.1}
    )
    assert table.run().rows[:3] == (13, 12, 1)
    assert table.rows()[0] == {"id": 1, "note": "x"}
    assert table.causes() == {"invalid_against_schema": 1}


def test_a_json_document_without_header_is_held_to_its_schema(lakehouse, topic):
    topic.register(ITEM, "JSON")
    send(topic, b'{"id": 1}', b'{"id": 2, "more": [1.50]}', b'{"no": 1}')
    table = lakehouse.table(topic, value={"schema": "by_latest_schema"}, quarantine={"fail": 0.5})
    assert table.run().rows[:3] == (3, 2, 1)
    assert table.rows() == [{"id": 1, "_extra": None}, {"id": 2, "_extra": '{"more":[1.50]}'}]
    assert table.causes() == {"invalid_against_schema": 1}


def test_a_topic_that_is_not_what_the_contract_says_stops_its_table_and_fills_no_quarantine(lakehouse):
    """Given three records in another format than the contract's, or of another message, when run, then none goes to a quarantine; readable ones go on beside them."""
    said = {
        "registry": ({}, [b'{"id": 1}'] * 3),
        "json": (
            {"value": {"format": "json", "fields": {"id": "bigint"}}},
            [b"\x00\x00\x00\x00\x01\x02"] * 3,
        ),
        "message": ({"value": {"message": "shop.Order"}}, [b"\x0a\x01t"] * 3),
    }
    for name, (contract, values) in said.items():
        topic = lakehouse.cluster.bare_topic(f"wrong_{name}")
        known = topic.register(PROTO, "PROTOBUF") if name == "message" else topic.register(FIRST)
        header = b"\x00" + known.to_bytes(4, "big")
        index = {"message": b"\x00"}.get(name, b"")
        send(topic, *(header + index + v if name == "message" else v for v in values))
        table = lakehouse.table(topic, **contract)
        stopped = table.run()
        assert (stopped.state, stopped.rows.read) == ("misconfigured", 0), name
        assert "None of 3 records can be read as" in stopped.error["message"]
        mended = "shop.Other (3). If that is what the table is for, say `value: {message: shop.Other}`. It has no rows"
        assert (mended in stopped.error["message"]) == (name == "message")
        assert not lakehouse.catalog.table_exists(f"{table.name}_quarantine")
    good = b"\x00" + known.to_bytes(4, "big") + b"\x02\x02\x08\x01"
    send(topic, *[good] * 97)
    assert table.run().rows[:3] == (100, 97, 3)
    assert table.causes() == {"wrong_message_type": 3}


CLOSED = {**ITEM, "additionalProperties": False}
PINNED = {
    "PROTOBUF": (
        PROTO,
        PROTO.replace("note = 2; }", "note = 2; int64 more = 3; }"),
        b"\x08\x01\x12\x01x",
        b"\x08\x02\x18\x05",
    ),
    "JSON": (
        CLOSED,
        {**CLOSED, "properties": {**ITEM["properties"], "more": {"type": "integer"}}},
        b'{"id": 1}',
        b'{"id": 2, "more": 5}',
    ),
}


@pytest.mark.parametrize("kind", ["PROTOBUF", pytest.param("JSON", marks=pytest.mark.long)])
def test_one_table_follows_the_newest_version_and_another_stays_with_its_own(lakehouse, topic, kind):
    """Given bare values of two versions, when read by the newest and by the first, then the one grows a column and the other loses nothing."""
    first, second, old, new = PINNED[kind]
    topic.register(first, kind)
    send(topic, old)
    said = {"message": "shop.Order"} if kind == "PROTOBUF" else {}
    latest = lakehouse.table(topic, f"{topic.name}_latest", value={"schema": "by_latest_schema", **said})
    pinned = lakehouse.table(topic, value={"schema": "pinned", "version": 1, **said})
    assert [table.run().rows.written for table in (latest, pinned)] == [1, 1]
    topic.register(second, kind)
    send(topic, new)
    assert (latest.run().rows.written, pinned.run().error) == (1, None)
    assert [(row["id"], row["more"]) for row in latest.rows()] in ([(1, 0), (2, 5)], [(1, None), (2, 5)])
    assert [row["id"] for row in pinned.rows()] == [1]
    assert pinned.causes() == {"invalid_against_schema": 1}


def test_subjects_named_by_record_or_by_topic_and_record_are_followed(lakehouse):
    """Given a topic per strategy with records of two versions of such a subject, when run, then both are read into the one table."""
    for name in ("{token}.Order", "{topic}-shop.Order"):
        topic = lakehouse.cluster.bare_topic("named")
        subject = name.format(token=f"shop{uuid.uuid4().hex[:6]}", topic=topic.name)
        table = lakehouse.table(topic, value={"subject": subject})
        for schema, value in ((FIRST, {"id": 1}), (SECOND, {"id": 2, "note": "x"})):
            known = lakehouse.cluster.register(subject, schema)
            send(topic, b"\x00" + known.to_bytes(4, "big") + encoded(schema, value))
        assert table.run().rows.written == 2
        assert table.rows() == [{"id": 1, "note": ""}, {"id": 2, "note": "x"}]
        assert lakehouse.lake.registry("main").versions(f"{topic.name}-value") == ()
