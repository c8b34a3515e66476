"""JSON as Kafka Connect writes it: values that their schema gives a meaning, digit by digit."""

import base64
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.formats.debezium import json_documents
from tidemark.domain.formats.json_nodes import Leaf, Object, Property
from tidemark.engine.decode.shipped.connect_json import meant, opened
from tidemark.engine.decode.shipped.debezium_json import Keys, Rows, position
from tidemark.engine.decode.shipped.json_values import JsonFault, leaf, parse

TIME, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def coded(number):
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def landed(value, schema, node):
    """The value of a column, as the strict JSON rules make it of what the schema means."""
    return leaf(node)(meant(value, schema, node))


@given(MICROS)
def test_every_microsecond_timestamp_is_that_microsecond(micros):
    found = landed(micros, {"name": f"{TIME}MicroTimestamp"}, Leaf("timestamp"))
    assert found.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC) == timedelta(microseconds=micros)


@given(MICROS.map(lambda micros: micros // 1000))
def test_every_millisecond_timestamp_is_that_millisecond(millis):
    zoned = landed(millis, {"name": f"{CONNECT}Timestamp"}, Leaf("timestamptz"))
    local = landed(millis, {"name": f"{TIME}Timestamp"}, Leaf("timestamp"))
    assert zoned - datetime(1970, 1, 1, tzinfo=UTC) == timedelta(milliseconds=millis)
    assert local.replace(tzinfo=UTC) == zoned


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_every_decimal_keeps_its_digits(number, scale):
    schema = {"name": f"{CONNECT}Decimal", "parameters": {"scale": str(scale)}}
    expected = (
        Decimal(number).scaleb(-scale, None)
        if number == 0
        else Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    )
    assert landed(coded(number), schema, Leaf("decimal", 38, scale)) == expected
    text = landed(coded(number), schema, Leaf("string"))
    assert "E" not in text
    assert Decimal(text) == expected


@given(st.integers(-(10**60), 10**60), st.integers(-40, 60))
def test_a_number_of_its_own_scale_is_plain_text(number, scale):
    value = {"scale": scale, "value": coded(number)}
    text = meant(value, {"name": "io.debezium.data.VariableScaleDecimal"}, Leaf("string"))
    assert "E" not in text
    assert Decimal(text) == Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


@pytest.mark.parametrize(
    ("value", "schema", "node", "cause"),
    [
        (2_932_897, {"name": f"{TIME}Date"}, Leaf("date"), "value_out_of_range"),
        (-719_163, {"name": f"{TIME}Date"}, Leaf("date"), "value_out_of_range"),
        (2**62, {"name": f"{TIME}MicroTimestamp"}, Leaf("timestamp"), "value_out_of_range"),
        ("not base64!", {"type": "bytes"}, Leaf("binary"), "undecodable"),
        (5, {"type": "bytes"}, Leaf("binary"), "type_mismatch"),
        (
            "",
            {"name": f"{CONNECT}Decimal", "parameters": {"scale": "2"}},
            Leaf("decimal", 5, 2),
            "undecodable",
        ),
        (
            coded(123456),
            {"name": f"{CONNECT}Decimal", "parameters": {"scale": "2"}},
            Leaf("decimal", 5, 2),
            "value_out_of_range",
        ),
        (
            coded(12345),
            {"name": f"{CONNECT}Decimal", "parameters": {"scale": "3"}},
            Leaf("decimal", 5, 2),
            "value_out_of_range",
        ),
        (5, None, Leaf("date"), "type_mismatch"),
        ("MTI=", None, Leaf("binary"), "type_mismatch"),
    ],
)
def test_what_is_not_exact_has_its_cause(value, schema, node, cause):
    with pytest.raises(JsonFault) as found:
        landed(value, schema, node)
    assert found.value.cause == cause


def test_a_document_with_two_fields_of_those_names_is_no_schema():
    assert opened({"schema": "public", "payload": 1}) == (None, {"schema": "public", "payload": 1})
    assert opened({"schema": None, "payload": 1}) == (None, 1)


ROOT = json_documents({"id": "bigint"}, "debezium", truncates=False).root
assert isinstance(ROOT, Object)


@pytest.mark.parametrize(
    ("document", "cause"),
    [
        ({"op": "m"}, "skip"),
        ({"op": "t"}, "truncate"),
        ({"ts_ms": 1}, "skip"),
        ({"ts_ms": 1, "ts_us": 2, "ts_ns": 3}, "skip"),
        ({"status": "BEGIN", "id": "1", "event_count": None, "data_collections": None, "ts_ms": 1}, "skip"),
        ({"source": {}, "ts_ms": 1, "databaseName": "d", "ddl": "CREATE", "tableChanges": []}, "skip"),
        ({"op": "c", "after": None}, "invalid_against_schema"),
        ({"op": "z", "after": {}}, "invalid_against_schema"),
        ({"id": 1}, "invalid_against_schema"),
        ({}, "invalid_against_schema"),
        ([], "invalid_against_schema"),
        ({"op": "c", "after": [1]}, "type_mismatch"),
        ({"op": "c", "after": {"id": 1}, "ts_ms": 2**62}, "value_out_of_range"),
    ],
)
def test_what_makes_no_row(document, cause):
    with pytest.raises(JsonFault) as found:
        Rows(ROOT, "debezium", truncates=False)(document)
    assert found.value.cause == cause


SCHEMA = {"type": "struct", "optional": True, "fields": [{"type": "int64", "field": "id"}]}


@pytest.mark.parametrize(
    "document",
    [None, {"schema": SCHEMA, "payload": None}, {"schema": None, "payload": None}],
    ids=["bare", "schema", "null schema"],
)
def test_a_flat_delete_that_is_not_rewritten_is_a_null(document):
    """Given what Connect writes for a value of NULL with a schema, when flat, then a delete that tells nothing else."""
    assert Rows(ROOT, "debezium_flat", truncates=False)(document) == {"_cdc": {"op": "d"}}
    with pytest.raises(JsonFault) as found:
        Rows(ROOT, "debezium", truncates=False)(document)
    assert found.value.cause == "invalid_against_schema", "an envelope says itself that it is a delete"


def test_a_flat_row_that_looks_like_a_heartbeat_is_a_row():
    root = json_documents({"ts_ms": "bigint"}, "debezium_flat", truncates=False).root
    assert isinstance(root, Object)
    row = Rows(root, "debezium_flat", truncates=False)({"ts_ms": 5})
    assert (row["ts_ms"], row["_cdc"]["op"]) == (5, "u")


@pytest.mark.parametrize(
    ("envelope", "document", "pointer"),
    [("debezium", {"op": "c", "after": {"_cdc": 1}}, "/after/_cdc"), ("debezium_flat", {"_cdc": 1}, "/_cdc")],
)
def test_a_column_of_the_source_never_gives_way_to_the_change(envelope, document, pointer):
    root = json_documents({"id": "bigint"}, envelope, truncates=False).root
    with pytest.raises(JsonFault) as found:
        Rows(root, envelope, truncates=False)(document)
    assert (found.value.cause, found.value.pointer) == ("type_mismatch", pointer)


class Looked(list):
    """Counts how often somebody goes through it."""

    looks = 0

    def __iter__(self):
        self.looks += 1
        return super().__iter__()


def test_a_schema_is_gone_through_once_for_a_record_of_many_columns():
    """Given a record of two hundred columns and its schema, a name of which is there twice, then the first one counts."""
    days = {f"d{n}": n for n in range(200)}
    fields = Looked({"field": name, "type": "int32", "name": f"{TIME}Date"} for name in days)
    fields.append({"field": "d1", "type": "int32"})
    root = json_documents(dict.fromkeys(days, "date"), "debezium", truncates=False).root
    row = {"field": "after", "type": "struct", "fields": fields}
    document = {"schema": {"type": "struct", "fields": [row]}, "payload": {"op": "c", "after": days}}
    found = Rows(root, "debezium", truncates=False)(document)
    assert (found["d1"], found["d199"]) == ("1970-01-02", "1970-07-19")
    assert fields.looks == 1


def test_places_in_the_log_order_as_text():
    lsn = [position({"lsn": n}) for n in (9, 10, 99, 100, 2**63 - 1)]
    file = [
        position({"file": "bin.000001", "pos": p, "row": r}) for p, r in ((9, 0), (10, 0), (10, 2), (10, 10))
    ]
    assert lsn == sorted(map(str, lsn))
    assert file == sorted(map(str, file))
    assert position({"lsn": None}) is None
    assert position({}) is None
    assert position({"file": "", "pos": 0, "row": 0}) is None, "a snapshot of MySQL"
    change = {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": None, "event_serial_no": None}
    assert position(change) == "00000027:00000ac0:0002"


KEY = Object((Property("id", Leaf("long")),), is_open=False)
PAIR = Object((Property("id", Leaf("long")), Property("tenant", Leaf("string"))), is_open=False)


@pytest.mark.parametrize(
    ("root", "document", "expected"),
    [
        (KEY, b"7", {"id": 7}),
        (KEY, b'{"id": 7}', {"id": 7}),
        (KEY, b'{"order_id": 7}', {"id": 7}),
        (KEY, b'{"schema": {"type": "int64"}, "payload": 7}', {"id": 7}),
        (KEY, b"null", {"id": None}),
        (PAIR, b'{"tenant": "t", "id": 7, "more": 1}', {"id": 7, "tenant": "t"}),
        (PAIR, b'{"id": 7}', "type_mismatch"),
        (PAIR, b"7", "type_mismatch"),
        (KEY, b"7 8", "undecodable"),
    ],
)
def test_json_keys(root, document, expected):
    try:
        found = Keys(root, certain=True)(parse(document))
    except JsonFault as fault:
        found = fault.cause
    assert found == expected
    assert json.dumps(expected)
