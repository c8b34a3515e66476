"""Schemas of Debezium's converters as columns: semantic names, envelopes, and what is none of them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import debezium
import pytest
from debezium import semantic
from hypothesis import given
from hypothesis import strategies as st

from tidemark.domain.columns.types import VARIANT, Struct
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats import avro
from tidemark.domain.formats.avro_columns import columns
from tidemark.domain.formats.connect import is_zoned_time
from tidemark.domain.formats.debezium import (
    CDC,
    avro_columns,
    is_bookkeeping,
    json_documents,
    untold,
    with_texts,
)

TIME, CONNECT = debezium.TIME, debezium.CONNECT


def parsed(schema, *, connect=True):
    return avro.parse(json.dumps(schema), connect=connect)


def column(kind):
    """(type, comment) of the column that a row's field becomes."""
    struct = avro_columns(parsed(debezium.envelope_schema({"v": kind})), "debezium").struct
    found = struct.field("v")
    return (str(found.type), found.doc)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (semantic("int", f"{TIME}Date"), "date"),
        (semantic("int", f"{TIME}Time"), "long"),
        (semantic("long", f"{TIME}MicroTime"), "long"),
        (semantic("long", f"{TIME}Timestamp"), "timestamp"),
        (semantic("long", f"{TIME}MicroTimestamp"), "timestamp"),
        (semantic("long", f"{TIME}NanoTimestamp"), "long"),
        (semantic("string", f"{TIME}ZonedTimestamp"), "timestamptz"),
        (semantic("long", f"{CONNECT}Timestamp"), "timestamptz"),
        (semantic("int", f"{TIME}Year"), "int"),
        (semantic("long", f"{TIME}MicroDuration"), "long"),
        (debezium.decimal(2, 10), "decimal(10,2)"),
        (debezium.decimal(2), "decimal(38,2)"),
        (debezium.decimal(2, 39), "string"),
        (debezium.decimal(0, 1), "decimal(1,0)"),
        (debezium.decimal(-2, 30), "string"),
        (debezium.VARIABLE, "string"),
        (debezium.GEOMETRY, "struct<wkb: binary, srid: int>"),
        (semantic("bytes", f"{debezium.DATA}Bits", length="8"), "binary"),
        ({"type": "array", "items": semantic("int", f"{TIME}Date")}, "list<date>"),
    ],
)
def test_each_semantic_name_has_its_type(kind, expected):
    assert column(kind)[0] == expected


def test_json_is_a_variant_where_the_table_knows_them_and_text_inside_of_lists():
    document = semantic("string", f"{debezium.DATA}Json")
    schema = debezium.envelope_schema(
        {"v": document, "l": {"type": "array", "items": document}, "s": "string"}
    )
    for variants, kind in ((True, "variant"), (False, "string")):
        struct = avro_columns(
            avro.parse(json.dumps(schema), connect=True, variants=variants), "debezium"
        ).struct
        assert [str(struct.field(name).type) for name in "vls"] == [kind, "list<string>", "string"]
    plain = avro.parse(json.dumps(debezium.row_schema({"v": document})), variants=True)
    assert str(columns(plain).struct.field("v").type) == "string"


@pytest.mark.parametrize("envelope", ["debezium", "debezium_flat"])
def test_json_that_a_table_holds_as_text_is_read_as_text(envelope):
    """It had the column before format 3; beside it one that came later."""
    document = semantic("string", f"{debezium.DATA}Json")
    inner = {"type": "record", "name": "In", "fields": [{"name": "v", "type": ["null", document]}]}
    fields = {"old": document, "new": document, "in": inner}
    make = debezium.envelope_schema if envelope == "debezium" else debezium.row_schema
    schema, text = (
        avro.parse(json.dumps(make(fields)), connect=True, variants=variants) for variants in (True, False)
    )
    stored = avro_columns(text, envelope).struct
    assert with_texts(schema, stored, envelope).root == text.root
    mixed = Struct(tuple(replace(f, type=VARIANT) if f.name == "new" else f for f in stored.fields))
    found = avro_columns(with_texts(schema, mixed, envelope), envelope).struct
    assert [str(found.field(name).type) for name in fields] == ["string", "variant", "struct<v: string>"]


def test_comments_say_what_a_number_counts():
    assert column(semantic("int", f"{TIME}Time"))[1] == "microseconds since midnight"
    assert column(semantic("long", f"{TIME}NanoTime"))[1] == "nanoseconds since midnight"
    assert "1970-01-01T00:00:00" in column(semantic("long", f"{TIME}NanoTimestamp"))[1]
    assert column(debezium.decimal(-2, 30))[1] == "number of scale -2 as text"


@pytest.mark.parametrize(
    ("name", "sound", "unsound"),
    [
        (f"{TIME}ZonedTimestamp", "1970-01-01T00:00:00Z", "infinity"),
        (f"{debezium.DATA}Json", '{"a": []}', "{a"),
    ],
)
def test_a_default_that_a_column_of_the_type_cannot_hold_is_told_and_ignored(name, sound, unsound):
    for default, told in ((sound, []), (unsound, ["v"])):
        row = debezium.row_schema({"v": semantic("string", name)})
        row["fields"][-1]["default"] = default
        schema = avro.parse(json.dumps(row), connect=True, variants=True)
        notes = avro_columns(schema, "debezium_flat").notes
        assert [note.path for note in notes if note.text.startswith("default ignored: ")] == told
        assert (schema.root.fields[-1].default is None) == bool(told)


@pytest.mark.parametrize(
    ("adds", "left"),
    [
        ([], {"ts", "pos"}),
        (["__op", "lsn", "ts_ms"], {"ts", "pos"}),
        (["__source_ts_ms", "__scn"], set()),
        (["__ts_ms", "__source_change_lsn"], set()),
        (["__file"], {"ts", "pos"}),
        (["__file", "__pos"], {"ts"}),
    ],
)
def test_what_a_flattened_record_does_not_tell_of_its_change_is_known_from_its_schema(adds, left):
    row = debezium.row_schema(dict.fromkeys(adds, "long"))
    row["fields"].append({"name": "__lsn", "type": "null"})
    assert untold(parsed(row)) == left


def test_names_of_connect_mean_nothing_in_other_topics():
    schema = parsed(debezium.row_schema({"v": semantic("int", f"{TIME}Date")}), connect=False)
    assert str(columns(schema).struct.field("v").type) == "int"


def test_an_envelope_has_the_columns_of_its_row_and_the_change_behind_them():
    struct = avro_columns(parsed(debezium.envelope_schema({"v": "string"})), "debezium").struct
    assert [field.name for field in struct.fields] == ["id", "v", "_cdc"]
    assert struct.fields[-1] == CDC


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (debezium.row_schema({}), "is no Debezium envelope"),
        ("string", "the schema is no record"),
        (debezium.envelope_schema({"_CDC": "string"}), "the name is reserved"),
        (
            {
                "type": "record",
                "name": "Envelope",
                "fields": [{"name": "after", "type": ["null", "string"]}, {"name": "op", "type": "string"}],
            },
            "the row is no record but text, as of MongoDB's connector: flatten it with ExtractNewDocumentState",
        ),
        (
            {
                "type": "record",
                "name": "Envelope",
                "fields": [{"name": "after", "type": ["null", "long"]}, {"name": "op", "type": "string"}],
            },
            "the row is no record",
        ),
    ],
)
def test_what_is_no_envelope_is_refused_by_name(schema, reason):
    with pytest.raises(SchemaUnsupported) as found:
        avro_columns(parsed(schema), "debezium")
    assert reason in str(found.value)
    assert ("MongoDB" in str(found.value)) == ("MongoDB" in reason)


def test_debeziums_own_records_are_known_by_name():
    assert is_bookkeeping("io.debezium.connector.common.Heartbeat")
    assert is_bookkeeping("io.debezium.connector.mysql.SchemaChangeValue")
    assert not is_bookkeeping("shop.public.Heartbeat")
    assert not is_bookkeeping(None)


ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)), ZONES)  # noqa: DTZ001 - the zone is drawn
def test_every_iso_time_with_a_zone_is_one(local, zone):
    at = local.replace(tzinfo=zone)
    assert is_zoned_time(at.isoformat())
    assert is_zoned_time(at.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    assert not is_zoned_time(local.isoformat())
    assert not is_zoned_time(f"{local:%Y-%m-%dT%H:%M:%S}.1234567Z")


def test_bytes_are_declared_for_converters_only():
    assert json_documents({"b": "binary"}, "debezium", truncates=False).shape == "debezium"
    with pytest.raises(SchemaUnsupported):
        json_documents({"f": "float"}, "debezium", truncates=False)
