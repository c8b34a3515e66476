"""The format of a topic is the type of its subject's schemas, one for all of them."""

import json
from dataclasses import replace

import pytest

from tidemark.domain.columns.evolution import first_columns
from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import SchemaUnsupported, Stopped
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.schema.subjects import in_order
from tidemark.engine.schema.writer import Reading, judged, messages, of_message, writer_of
from tidemark.engine.schema.writers import as_held, format_of


def contract(wanted="registry"):
    return Contract(topic="orders", table="shop.orders", value={"format": wanted})


def versions(*types):
    return [RegisteredSchema(40 + number, number, kind, "{}") for number, kind in enumerate(types, 1)]


@pytest.mark.parametrize(
    ("kind", "name"), [("AVRO", "avro"), ("JSON", "json_schema"), ("PROTOBUF", "protobuf")]
)
def test_the_schema_type_is_the_format(kind, name):
    assert format_of(contract(), versions(kind, kind)) == name
    assert format_of(contract(name), versions(kind)) == name


@pytest.mark.parametrize(
    ("wanted", "types", "reason"),
    [
        ("registry", ["JSON", "AVRO"], "several types: AVRO (version 2), JSON (version 1)"),
        ("avro", ["JSON"], "holds JSON (version 1), and the contract says format: avro"),
        ("json_schema", ["AVRO"], "holds AVRO (version 1), and the contract says format: json_schema"),
        ("registry", ["XSD"], "holds XSD (version 1): AVRO, JSON, PROTOBUF"),
    ],
)
def test_other_and_several_types_are_refused_by_name(wanted, types, reason):
    with pytest.raises(Stopped) as stopped:
        format_of(contract(wanted), versions(*types))
    assert stopped.value.state == "misconfigured"
    assert reason in stopped.value.message


def test_a_schema_without_columns_is_judged_once():
    version = RegisteredSchema(987_001, 1, "AVRO", '{"type": "record", "name": "R", "fields": []}')
    before = judged.cache_info().misses
    for _ in range(3):
        with pytest.raises(SchemaUnsupported, match=r"^the schema has no field to store"):
            writer_of(version, Reading())
    assert judged.cache_info().misses == before + 1


@pytest.mark.parametrize(("kind", "named"), [("JSON", "JSON Schema"), ("PROTOBUF", "PROTOBUF")])
def test_a_type_that_has_no_envelope_is_named_apart_from_what_has_one(kind, named):
    said = rf"^envelope: debezium is read from Avro, or with format: json from JSON, not from {named}$"
    with pytest.raises(SchemaUnsupported, match=said):
        writer_of(RegisteredSchema(987_002, 1, kind, "{}"), Reading(envelope="debezium"))


CONTACT = {"id": {"type": "integer"}, "at": {"type": "object", "properties": {"x": {"type": "number"}}}}
REACHED = [{"required": ["x"]}, {"required": ["y"]}]


def of_table(schema, *before):
    """The columns of a JSON Schema for a table that has those of the schemas `before`, or of none."""
    made = [RegisteredSchema(n, n, "JSON", json.dumps(each)) for n, each in enumerate([*before, schema], 1)]
    old = Reading(combined_as_text=True)
    held = first_columns([writer_of(each, old).columns for each in made[:-1]]) if before else None
    return str(writer_of(made[-1], as_held(made[-1], Reading(), held)).columns)


def test_what_a_table_has_as_json_text_stays_that_and_what_it_has_as_columns_too():
    """Given a constraint beside what has a type, when a table has the JSON text of it, then the text goes on."""
    plain = {"type": "object", "properties": CONTACT}
    whole = {**plain, "anyOf": [{"required": ["id"]}, {"required": ["at"]}]}
    inner = {"type": "object", "properties": {**CONTACT, "at": {**CONTACT["at"], "anyOf": REACHED}}}
    as_columns = "struct<id: long, at: struct<x: double, _extra: string>, _extra: string>"
    assert of_table(whole) == of_table(whole, plain) == of_table(whole, plain, whole) == as_columns
    assert of_table(whole, whole) == "struct<value: string>"
    assert of_table(inner) == of_table(inner, plain) == as_columns
    assert of_table(inner, inner) == "struct<id: long, at: string, _extra: string>"
    both = {**inner, "anyOf": whole["anyOf"]}
    assert of_table(both, plain) == of_table(both, inner) == as_columns, (
        "a whole document beside columns is none"
    )
    taken = {**plain, "properties": {"_kafka": {}}, "anyOf": REACHED}
    assert of_table(taken, taken) == "struct<value: string>"


def version(schema_id, number):
    return RegisteredSchema(schema_id, number, "AVRO", "{}")


def test_a_schema_registered_again_is_the_newest():
    assert in_order([[version(114, 1), version(100, 2), version(114, 3)]]) == (
        version(100, 2),
        version(114, 3),
    )


def test_a_deleted_version_is_older_than_all_others_and_none_of_another_type() -> None:
    """Given a version that was a mistake, when it is deleted, then it decides no columns, and its type is no stop."""
    wrong, gone = replace(version(114, 3), type="JSON", deleted=True), replace(version(100, 2), deleted=True)
    assert in_order([[version(99, 1), gone, wrong]]) == (gone, version(99, 1))
    assert in_order([[replace(version(114, 1), deleted=True), version(114, 3)]]) == (version(114, 3),)
    assert in_order([[version(364, 1), replace(version(367, 2), deleted=True)], [version(370, 1)]]) == (
        replace(version(367, 2), deleted=True),
        version(364, 1),
        version(370, 3),
    )


def test_schemas_of_several_subjects_are_ordered_by_id_for_their_numbers_do_not_compare():
    found = in_order([[version(364, 1), version(367, 2)], [version(370, 1)]])
    assert found == (version(364, 1), version(367, 2), version(370, 3))


def test_a_message_put_before_the_first_one_does_not_become_the_tables():
    order = "message Order { int32 id = 1; }"
    old, new, gone = (
        RegisteredSchema(n, n, "PROTOBUF", f'syntax = "proto3"; {text}')
        for n, text in enumerate(
            (order, f"message Head {{ bool a = 1; }} {order}", "message Head { bool a = 1; }"), 1
        )
    )
    reading = of_message(Reading(), [new, old], None, None)
    assert [str(writer_of(each, reading).columns) for each in (old, new)] == ["struct<id: int>"] * 2
    assert str(writer_of(gone, reading).columns) == "struct<a: boolean>"
    assert messages(RegisteredSchema(9, 1, "PROTOBUF", "no proto")) == {}


def test_the_tables_message_is_found_under_another_name_or_none_is():
    """A package or a name may change; of several that it could be none is taken, for its columns would be the table's."""
    order, head, other = (f"message {n} {{ int32 {n.lower()} = 1; }}" for n in ("Order", "Head", "Other"))
    reading = Reading(first="shop.Order")

    def columns(text: str, reading: Reading = reading) -> str:
        text = f'syntax = "proto3"; package shop.v2; {text}'
        return str(writer_of(RegisteredSchema(1, 1, "PROTOBUF", text), reading).columns)

    assert columns(f"{head} {order} {other}") == "struct<order: int>"
    assert columns(f"message Head {{ int32 head = 1; {other} }}") == "struct<head: int>"
    inner = f"message All {{ int32 all = 1; {order} }}"
    assert columns(f"{inner} {head}") == "struct<order: int>"
    assert columns(f"{head} {inner} {order}") == "struct<order: int>"
    within = f"message All {{ int32 all = 1; {order} }} message Any {{ int32 any = 1; {order} }}"
    for unclear in (f"{head} {other}", within):
        with pytest.raises(SchemaUnsupported, match=r"no message shop\.Order.*value\.message"):
            columns(unclear)
    assert (
        columns(f"{head} {other}", Reading(message="shop.v2.Other", first="shop.Order"))
        == "struct<other: int>"
    )


def test_the_oldest_message_is_that_of_the_first_version_with_one_whatever_its_id():
    """Given a later text that another subject had before, and so has a lower id, then it is no older for that."""
    texts = ("enum E { A = 0; }", "message Order { int32 id = 1; }", "message Head { bool a = 1; }")
    versions = [
        RegisteredSchema(schema_id, version, "PROTOBUF", f'syntax = "proto3"; {text}')
        for schema_id, version, text in zip((1, 20, 19), (1, 2, 3), texts, strict=True)
    ]
    assert of_message(Reading(), reversed(versions), None, None).first == "Order"
    assert of_message(Reading(), versions[:1], None, None) == Reading()


def test_the_message_is_the_contracts_then_the_tables_then_the_oldest_ones():
    """Given a registry that has lost the version that a table was made of, then the table's message stays its own."""
    order, head = "message Order { int32 id = 1; }", "message Head { bool a = 1; }"
    left = [RegisteredSchema(2, 2, "PROTOBUF", f'syntax = "proto3"; package shop; {head} {order}')]
    assert of_message(Reading(), left, None, None).first == "shop.Head"
    assert of_message(Reading(), left, None, "shop.Order").first == "shop.Order"
    moved = of_message(Reading(), left, None, "old.Order")
    assert str(writer_of(left[0], moved).columns) == "struct<id: int>"
    declared = of_message(Reading(), left, "shop.Order", "shop.Head")
    renamed = RegisteredSchema(3, 3, "PROTOBUF", f'syntax = "proto3"; package shop.v2; {head} {order}')
    assert str(writer_of(renamed, declared).columns) == "struct<id: int>"
    gone = of_message(Reading(), left, "old.Order", "old.Order")
    assert str(writer_of(left[0], gone).columns) == "struct<id: int>"
    wrong = of_message(Reading(), left, "shop.Ordr", None)
    with pytest.raises(SchemaUnsupported, match=r"no message shop\.Ordr"):
        writer_of(left[0], wrong)
    of_event = Reading(message="shop.Head")
    assert of_message(of_event, left, None, "shop.Order") == of_event
