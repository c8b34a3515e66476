"""Rule: of several record types each is a table's own, routed to another table, or counted as unrouted."""

import json
from dataclasses import replace

import pytest

from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.routes import Events, avro_routes, branch_prefix, message_prefixes
from tidemark.domain.ledger.evidence import (
    Evidence,
    Group,
    first_offenders,
    groups_from_counts,
    nothing_decodes,
    truncates,
    unknown_ids,
    unrouted,
)
from tidemark.domain.ledger.ledger import Counts
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.decode.decoding import Decoding
from tidemark.engine.decode.failures import explain_value
from tidemark.engine.schema.event_routes import holds, type_names
from tidemark.engine.schema.writer import Reading, writer_of

PLACED = {"type": "record", "name": "Placed", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
PAID = {"type": "record", "name": "shop.Paid", "fields": [{"name": "by", "type": "string"}]}
AUDIT = {"type": "record", "name": "Audit", "fields": [{"name": "who", "type": "string"}]}
EVENTS = Events("shop.Paid", frozenset({"shop.Placed", "shop.Paid"}))


def registered(schema, kind="AVRO"):
    return RegisteredSchema(7, 1, kind, schema if isinstance(schema, str) else json.dumps(schema))


def routes(schema):
    return avro_routes(json.dumps(schema), EVENTS)


def test_a_union_with_the_own_type_has_a_route_for_every_branch():
    assert routes([PLACED, "null", PAID, AUDIT]) == ("routed", "unrouted", "own", "unrouted")
    assert routes(["shop.Placed", "shop.Paid"]) == ("routed", "own")
    assert routes([PLACED, AUDIT]) == routes(PAID) == routes("null") == avro_routes("shop.Paid", EVENTS) == ()


def test_what_a_union_begins_with_is_the_place_of_the_branch_as_a_zigzag_varint():
    assert [branch_prefix(position) for position in (0, 1, 63, 64)] == [b"\0", b"\x02", b"\x7e", b"\x80\x01"]


LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
CHAIN = {
    "type": "record",
    "name": "shop.Placed",
    "fields": [
        {"name": "next", "type": ["null", "Placed"]},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "a", "type": "int"},
        {"name": "A", "type": "int"},
    ],
}
LINED = {"type": "record", "name": "shop.Paid", "fields": [{"name": "line", "type": "Line"}]}


@pytest.mark.parametrize(
    ("union", "references"),
    [([CHAIN, LINED], []), (["shop.Placed", "shop.Paid"], [CHAIN, LINED])],
    ids=["in one text", "as references"],
)
def test_a_type_that_has_no_columns_stops_no_table_of_another_type(union, references):
    """Given a record that contains itself beside one that uses what it defines, then the other alone has a table."""
    imports = tuple((each["name"], json.dumps(each)) for each in references)
    version = replace(registered(union), imports=imports)
    found = writer_of(version, Reading(events=EVENTS))
    assert str(found.columns) == "struct<line: struct<sku: string>>"
    with pytest.raises(SchemaUnsupported, match="contains itself"):
        writer_of(version, Reading(events=replace(EVENTS, own="shop.Placed")))
    decoding = Decoding("avro", found.columns, 0, {7: found.schema}, framing="bare")
    assert explain_value(b"\x02\x04ab", 7, decoding).detail.startswith("the bytes follow the schema")
    assert explain_value(b"\x02\x04a", 7, decoding).detail.startswith("line.sku")
    assert "no branch of the union" in explain_value(b"\x04\x04ab", 7, decoding).detail


@pytest.mark.parametrize(
    ("schema", "kind", "names"),
    [
        (PLACED, "AVRO", ("shop.Placed",)),
        (AUDIT, "AVRO", ("Audit",)),
        (["null", PLACED, "shop.Paid"], "AVRO", ("shop.Placed", "shop.Paid")),
        ({"type": "array", "items": "long"}, "AVRO", (None,)),
        ({"title": "shop.Placed", "type": "object"}, "JSON", ("shop.Placed",)),
        ({"type": "object"}, "JSON", (None,)),
        ("no json", "JSON", (None,)),
        (
            'syntax = "proto3"; package shop; message A { message B { int32 x = 1; } B b = 1; } message C { A a = 1; }',
            "PROTOBUF",
            ("shop.A", "shop.A.B", "shop.C"),
        ),
    ],
)
def test_the_names_of_record_types_are_read_from_the_registered_text(schema, kind, names):
    assert type_names(registered(schema, kind)) == names


def test_a_schema_that_cannot_be_read_still_has_its_name():
    recursive = {
        "type": "record",
        "name": "shop.Paid",
        "fields": [{"name": "next", "type": ["null", "shop.Paid"]}],
    }
    assert holds(registered(recursive), EVENTS)


def test_a_schema_without_the_own_type_is_routed_only_when_all_its_types_are():
    assert EVENTS.gravest(["shop.Placed"]) == "routed"
    assert EVENTS.gravest(["shop.Placed", "Audit"]) == "unrouted"
    assert EVENTS.gravest([]) == "unrouted"


def test_message_indexes_are_zigzag_varints_and_the_first_message_is_a_zero():
    assert message_prefixes((0,)) == (b"\x02\x00", b"\x00")
    assert message_prefixes((1,)) == (b"\x02\x02",)
    assert message_prefixes((0, 100)) == (b"\x04\x00\xc8\x01",)


def evidence(read, unwritten, skipped, tombstones=0, unrouted=0):
    return Evidence(
        {0: read},
        unwritten,
        tombstones={0: tombstones},
        skipped={0: skipped},
        unrouted={0: unrouted},
    )


def test_skipped_records_need_no_second_look():
    groups = groups_from_counts(evidence(10, 6, 5, 1, 2), {0: OffsetRange(5, 15)})
    assert [(g.fate, g.cause, g.count) for g in groups] == [
        ("tombstone", None, 1),
        ("skipped", None, 3),
        ("skipped", "unrouted", 2),
    ]
    assert unrouted(groups) == 2


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (evidence(10, 7, 5, 1), "one is neither skipped nor a tombstone"),
        (evidence(11, 6, 5, 1), "a task was counted twice"),
        (evidence(9, 6, 5, 1), "an offset without a record could hide what was counted twice"),
        (Evidence({0: 10}, 6), "nothing was counted by fate"),
    ],
)
def test_anything_else_is_looked_at_again(seen, why):
    assert groups_from_counts(seen, {0: OffsetRange(5, 15)}) is None, why


def bad(cause, count=3, fate="quarantined"):
    return Group(0, fate, cause, 7, count, 0, count - 1)


def test_nothing_decodes_when_every_value_is_unreadable():
    assert nothing_decodes([Counts(3, 0, 3)], [bad("undecodable")])
    assert nothing_decodes([Counts(4, 0, 3, 1)], [bad("wrong_message_type"), bad(None, 1, "tombstone")])
    assert not nothing_decodes([Counts(4, 1, 3)], [bad("undecodable")])
    assert not nothing_decodes([Counts(3, 0, 3)], [bad("value_out_of_range")])
    assert not nothing_decodes([Counts(3, 0, 3)], [bad("quality:not_null(a)")])
    assert not nothing_decodes([Counts(4, 0, 3, 0, 1)], [bad("undecodable"), bad(None, 1, "skipped")])
    assert not nothing_decodes([Counts(1, 0, 0, 1)], [bad(None, 1, "tombstone")])


def test_of_truncates_that_are_no_rows_the_last_counts():
    groups = [
        Group(0, "skipped", "truncate", 7, 2, 3, 9),
        Group(0, "skipped", "truncate", 8, 1, 5, 5),
        Group(0, "skipped", None, 7, 4, 1, 12),
        Group(1, "quarantined", "undecodable", 7, 1, 2, 2),
    ]
    assert truncates(groups) == {0: 9}


def test_the_first_offset_that_the_table_does_not_cover_is_told_by_partition():
    groups = [
        Group(0, "uncovered", "add_column", 7, 2, 30, 41),
        Group(0, "uncovered", "add_column", 8, 1, 12, 12),
        Group(0, "quarantined", "undecodable", 7, 1, 3, 3),
        Group(1, "skipped", None, 7, 4, 1, 12),
    ]
    assert first_offenders(groups) == {0: 12}


def test_a_record_without_a_schema_id_asks_the_registry_for_nothing():
    """Given records of an id that is not listed, one that tells none, and one that fails otherwise, then the
    first alone is named."""
    groups = [
        Group(0, "quarantined", "unknown_schema_id", 8, 2, 0, 1),
        Group(0, "quarantined", "unknown_schema_id", None, 1, 2, 2),
        bad("undecodable"),
    ]
    assert unknown_ids(groups) == {8}
