"""Formats of the registry go the whole way: found by schema type, evolved by writer, held to the contract."""

import itertools
import struct

import httpx
import pytest

from tidemark.domain.errors import Refused
from tidemark.domain.plan.proposal import propose
from tidemark.engine.operate.accept import accept
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.preview.survey import survey
from tidemark.engine.table.operations import Signature

ITEM = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Item",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "price": {"type": "number", "minimum": 0}},
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.fixture
def topic(lakehouse):
    return lakehouse.cluster.bare_topic("registered", 2)


def send(topic, schema_id, *payloads):
    head = struct.pack(">bI", 0, schema_id)
    topic.send_raw((b"k", head + payload, n % topic.partitions) for n, payload in enumerate(payloads))


def rows(table, *names):
    found = table.iceberg().scan(selected_fields=names).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_json_schema_is_found_by_its_type_and_evolves_as_avro_does(lakehouse, topic):
    """Given documents of two versions, when run, then each is read by its own writer, into one table."""
    first = topic.register(ITEM, "JSON")
    send(topic, first, b'{"id": 1, "price": 1.5}', b'{"id": 2}', b'{"id": 3, "price": -1}')
    table = lakehouse.table(topic, quarantine={"fail": 0.5})
    assert table.run().rows._asdict() == {
        "read": 3,
        "written": 2,
        "quarantined": 1,
        "tombstones": 0,
        "skipped": 0,
    }
    grown = {**ITEM, "properties": {**ITEM["properties"], "tag": {"type": "string"}}}
    second = topic.register(grown, "JSON")
    send(topic, second, b'{"id": 4, "tag": "y"}')
    send(topic, first, b'{"id": 5}')
    send(topic, 2**31 - 1, b'{"id": 6}')
    assert table.run().rows.written == 2
    assert rows(table, "id", "price", "tag") == [
        {"id": 1, "price": 1.5, "tag": None},
        {"id": 2, "price": None, "tag": None},
        {"id": 4, "price": None, "tag": "y"},
        {"id": 5, "price": None, "tag": None},
    ]
    assert table.causes() == {"invalid_against_schema": 1, "unknown_schema_id": 1}
    quarantine = lakehouse.catalog.load_table(f"{table.name}_quarantine")
    details = quarantine.scan(selected_fields=("detail",)).to_arrow()["detail"].to_pylist()
    assert "/price: -1 is less than the minimum of 0" in details
    table.holds_everything()


def test_a_format_that_the_registry_contradicts_is_refused_by_name(lakehouse, topic):
    send(topic, topic.register(ITEM, "JSON"), b'{"id": 1}')
    outcome = lakehouse.table(topic, value={"format": "avro"}).run()
    assert outcome.state == "misconfigured"
    assert "holds JSON (version 1), and the contract says format: avro" in str(outcome.error)


MONEY = 'syntax = "proto3"; package common; message Money { int64 units = 1; string currency = 2; }'
ORDER = """syntax = "proto3"; package shop; import "common/money.proto"; import "google/protobuf/timestamp.proto";
message Order { int32 id = 1; common.Money total = 2; Status status = 3; google.protobuf.Timestamp at = 4;%s
  enum Status { NEW = 0; PAID = 1; } }
message Refund { int32 id = 1; }"""


def test_protobuf_is_found_by_its_type_with_references_and_evolves(lakehouse, topic):
    """Given two versions, another message and damage on one topic, when run, then each record is in its one place, also once the registry has only a version with another message before."""
    common = f"{topic.name}-common"
    topic.cluster.register(common, MONEY, "PROTOBUF")
    references = [{"name": "common/money.proto", "subject": common, "version": 1}]
    first = topic.register(ORDER % "", "PROTOBUF", references=references)
    plain, full = b"\x08\x01", b"\x08\x02\x12\x07\x08\x05\x12\x03EUR\x18\x01\x22\x04\x08\x01\x10\x05"
    send(topic, first, b"\x00" + plain, b"\x00" + full, b"\x02\x02" + plain, b"\x00\x08", b"\x00\x0a\x01a")
    table = lakehouse.table(topic, quarantine={"fail": 0.7})
    outcome = table.run()
    assert (outcome.state, outcome.error) == ("fresh", None)
    assert outcome.rows._asdict() == {
        "read": 5,
        "written": 2,
        "quarantined": 3,
        "tombstones": 0,
        "skipped": 0,
    }
    assert table.causes() == {"wrong_message_type": 1, "undecodable": 1, "invalid_against_schema": 1}
    second = topic.register(ORDER % " optional string note = 5; ", "PROTOBUF", references=references)
    send(topic, second, b"\x00\x08\x03\x2a\x00")
    send(topic, first, b"\x00\x08\x04")
    topic.send_raw([(b"k", None, 0)])
    assert table.run().rows.written == 2
    found = rows(table, "id", "total", "status", "note")
    assert [row["id"] for row in found] == [1, 2, 3, 4]
    assert [row["note"] for row in found] == [None, None, "", None]
    assert [row["status"] for row in found] == ["NEW", "PAID", "NEW", "NEW"]
    assert [row["total"] for row in found] == [None, {"units": 5, "currency": "EUR"}, None, None]
    quarantine = lakehouse.catalog.load_table(f"{table.name}_quarantine")
    details = quarantine.scan(selected_fields=("detail",)).to_arrow()["detail"].to_pylist()
    assert "the value: message index [1] of the schema, the table is for shop.Order" in details
    table.holds_everything()
    subject = f"{topic.cluster.registry_url}/subjects/{topic.name}-value"
    text = (ORDER % " optional string note = 5; ").replace(
        "message Order", "message Head { bool a = 1; } message Order"
    )
    httpx.put(subject.replace("/subjects", "/config"), json={"compatibility": "NONE"}, trust_env=False)
    third = topic.register(text, "PROTOBUF", references=references)
    for version, how in itertools.product((1, 2), ("", "?permanent=true")):
        httpx.delete(f"{subject}/versions/{version}{how}", trust_env=False).raise_for_status()
    send(topic, third, b"\x02\x02\x08\x05")
    assert (table.run().rows.written, table.ids()) == (1, [1, 2, 3, 4, 5])
    assert "a" not in lakehouse.catalog.load_table(table.name).schema().column_names


HELPER_FIRST = """syntax = "proto3"; package shop; message Address { string id = 1; }
message Order { int64 id = 1; Address to = 2; }"""


def test_a_protobuf_table_is_of_the_message_that_its_records_name(lakehouse, topic):
    """Given a file with a helper before the records' message, when planned, proposed and run before the first record and after it, then all wait, and then all are of the message that the index names, whatever comes later."""
    schema_id = topic.register(HELPER_FIRST, "PROTOBUF")
    lake, table = lakehouse.lake, lakehouse.table(topic, quarantine={"fail": 0.9})
    why = "its schema has 2 messages, shop.Address, shop.Order"
    waits = foresee(lake, table.contract)
    assert (waits.verdict, waits.changes, why in waits.findings[0]) == ("nothing", (), True)
    made = propose(survey(lake, topic.name, "main", 100))
    assert (made.fits, made.seen.columns, why in made.reasons[0].text) == (True, None, True)
    nothing = table.run()
    assert (nothing.state, nothing.error, nothing.commits) == ("fresh", None, 0)
    with pytest.raises(Refused, match=why):
        accept(lake, table.contract, "first-load", Signature("ada", "a test", run_id="r"))
    assert not lakehouse.catalog.table_exists(table.name)
    order = b"\x02\x02\x08"
    send(topic, schema_id, order + b"\x01", order + b"\x02\x12\x03\x0a\x01a", b"\x00\x0a\x01b")
    columns = "struct<id: long, to: struct<id: string>>"
    [planned, *_] = foresee(lake, table.contract).changes
    assert (planned["kind"], planned["to"]) == ("create_table", columns)
    assert str(survey(lake, topic.name, "main", 100).columns) == columns
    outcome = table.run()
    assert (outcome.error, outcome.rows[:3]) == (None, (3, 2, 1))
    assert rows(table, "id", "to") == [{"id": 1, "to": None}, {"id": 2, "to": {"id": "a"}}]
    assert table.iceberg().properties["tidemark.message"] == "shop.Order"
    send(topic, schema_id, *[b"\x00\x0a\x01c"] * 3, order + b"\x03")
    assert table.run().rows[:3] == (4, 1, 3)
    assert table.causes() == {"wrong_message_type": 4}
    table.holds_everything()
    send(topic, schema_id, *[b"\x00\x0a\x01d"] * 10)
    told = table.run().error["message"]
    assert "They are of other messages than shop.Order: shop.Address (10). A table is for one message" in told


def test_a_table_that_a_wrong_message_has_made_without_rows_is_made_anew(lakehouse, topic):
    """Given a contract that names the helper, when it is mended, then run and plan say what helps, which no approval does, and doing that loads every record."""
    schema_id = topic.register(HELPER_FIRST, "PROTOBUF")
    send(topic, schema_id, b"\x02\x02\x08\x01")
    assert lakehouse.table(topic, value={"message": "shop.Address"}).run().state == "misconfigured"
    table = lakehouse.table(topic, value={"message": "shop.Order"})
    stopped = table.run()
    assert (stopped.state, "It has no rows: drop it" in stopped.error["message"]) == ("schema_review", True)
    assert any("It has no rows: drop it" in each for each in foresee(lakehouse.lake, table.contract).findings)
    lakehouse.spark().sql(f"DROP TABLE {table.name}")
    assert table.run().error is None
    assert rows(table, "id") == [{"id": 1}]
    table.holds_everything()
