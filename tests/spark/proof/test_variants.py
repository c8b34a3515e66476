"""Rule: on format 3 what has no single type is a VARIANT, every digit of it kept, and the table lives like any other."""

import struct
from datetime import UTC, datetime

import debezium
import pytest

from tidemark.domain.columns.types import STRING, VARIANT
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.approve import approve
from tidemark.engine.operate.backfill.act import backfill
from tidemark.engine.operate.backfill.plan import Asked
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.schema.history import history, unfinished
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_key

MIXED = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "any": {},
        "list": {"type": "array", "items": {"type": ["string", "integer"]}},
        "inner": {"type": "object", "properties": {"free": {"type": "object"}}},
    },
    "additionalProperties": False,
}
PROTO = """syntax = "proto3"; import "google/protobuf/struct.proto";
message Event { int32 id = 1; google.protobuf.Struct data = 2; repeated google.protobuf.Value more = 3; }"""
EDGES = (
    '{"a":[1,2.50,null,"x"]}',
    "12345678901234567890123456789012345678",
    "-0.1234567890123456789012345678901234567",
    "1.7976931348623157e308",
    '"text"',
    "null",
    "true",
    "[]",
)


@pytest.fixture
def topic(lakehouse):
    return lakehouse.cluster.bare_topic("variant")


def send(topic, *values, schema_id=None):
    head = b"" if schema_id is None else struct.pack(">bI", 0, schema_id)
    topic.send_raw((b"k", head + value, 0) for value in values)


def rows(lakehouse, table, *columns):
    listed = ", ".join(columns)
    order = "_kafka.offset"
    found = lakehouse.spark().sql(f"SELECT {listed} FROM lake.{table.name} ORDER BY {order}").collect()
    return [tuple(row) for row in found]


def test_a_document_keeps_every_digit_or_is_quarantined_and_state_is_read(lakehouse, topic):
    """Given documents at the edges of JSON's numbers, when run on format 3, then each is exact or out with its cause."""
    send(topic, *(edge.encode() for edge in EDGES))
    send(topic, b'{"n": [123456789012345678901234567890123456789012]}', b"1e400", b"{")
    table = lakehouse.table(topic, value={"format": "json"}, format_version=3, quarantine={"fail": 0.5})
    outcome = table.run()
    assert (outcome.error, outcome.rows[:3]) == (None, (11, 8, 3))
    found = [text for (text,) in rows(lakehouse, table, "to_json(value)")]
    assert found[1] == EDGES[1]
    assert found[2] == EDGES[2]
    assert float(found[3]) == 1.7976931348623157e308
    assert found[0] == '{"a":[1,2.5,null,"x"]}'
    assert found[4:] == ['"text"', "null", "true", "[]"]
    kinds = [kind for (kind,) in rows(lakehouse, table, "schema_of_variant(value)")]
    assert kinds[1:4] == ["DECIMAL(38,0)", "DECIMAL(37,37)", "DOUBLE"]
    state = lakehouse.lake.state(table.name)
    assert state.columns.field("value").type == VARIANT
    assert (state.rows, state.ledger.next) == (8, {0: 11})
    assert table.causes() == {"value_out_of_range": 2, "undecodable": 1}
    send(topic, b"7")
    assert table.run().rows.written == 1
    assert where_key(lakehouse.lake, table.contract, b"k")[0][0].fate == "published"
    report = reconcile(lakehouse.lake, table.contract)
    assert report.sound, report


def test_untyped_parts_are_variants_wherever_they_are_and_arrive_later_too(lakehouse, topic):
    first = topic.register(MIXED, "JSON")
    send(
        topic,
        b'{"id": 1, "any": 5, "list": [1, "x"], "inner": {"free": {"k": 1.10}}}',
        b"{}",
        schema_id=first,
    )
    table = lakehouse.table(topic, format_version=3)
    assert table.run().rows[:3] == (2, 2, 0)
    grown = {**MIXED, "properties": {**MIXED["properties"], "later": {"type": ["object", "array"]}}}
    second = topic.register(grown, "JSON")
    send(topic, b'{"id": 3, "any": null, "list": [], "inner": {}, "later": [{}]}', schema_id=second)
    assert table.run().rows[:3] == (1, 1, 0)
    texts = ("id", "to_json(any)", "to_json(list)", "to_json(inner)", "to_json(later)")
    assert rows(lakehouse, table, *texts) == [
        (1, "5", '[1,"x"]', '{"free":{"k":1.1}}', None),
        (None, None, None, None, None),
        (3, None, "[]", "{}", "[{}]"),
    ]


@pytest.mark.parametrize("value", [{"format": "json"}, {"format": "registry"}], ids=["json", "registry"])
def test_are_read_on_where_the_contract_no_longer_says_format_3(lakehouse, topic, value):
    """Given a table of format 3, when `format_version` goes from its contract, then that alone is impossible, and records are read as before."""
    schema_id = topic.register(MIXED, "JSON") if value["format"] == "registry" else None
    send(topic, b'{"any": 5}', schema_id=schema_id)
    kept = lakehouse.table(
        topic, value=value, format_version=3, schema_changes={"incompatible": "quarantine"}
    )
    assert kept.run().rows[:3] == (1, 1, 0)
    table = lakehouse.table(topic, value=value, schema_changes={"incompatible": "quarantine"})
    send(topic, b'{"any": 6.50}', schema_id=schema_id)
    outcome = table.run()
    assert (outcome.error, outcome.rows[:3]) == (None, (1, 1, 0))
    column = "any" if schema_id else "value"
    texts = ["5", "6.5"] if schema_id else ['{"any":5}', '{"any":6.5}']
    assert [text for (text,) in rows(lakehouse, table, f"to_json({column})")] == texts
    found = foresee(lakehouse.lake, table.contract)
    assert [(c["kind"], c["verdict"]) for c in found.changes] == [("format_version", "impossible")]


def test_are_backfilled_where_the_contract_no_longer_says_format_3(lakehouse, topic):
    """Given a table of format 3 that began late, when `format_version` has gone from its contract, then what lies before is loaded as it is."""
    send(topic, b'{"any": 5}')
    said = {"value": {"format": "json"}, "ingest": {"start": "latest"}}
    lakehouse.table(topic, format_version=3, **said).run()
    table = lakehouse.table(topic, **said)
    asked = Asked(
        since=datetime(2020, 1, 1, tzinfo=UTC), until=datetime(2040, 1, 1, tzinfo=UTC), cutover=True
    )
    backfill(lakehouse.lake, table.contract, asked, Signature("ann", "history"))
    assert rows(lakehouse, table, "to_json(value)") == [('{"any":5}',)]


def test_what_lies_as_deep_as_a_schema_may_go_is_one_too(lakehouse, topic):
    """Given documents in eighteen objects, lists and maps, when run and merged into a table of format 2, then both hold each, also once the innermost has grown, and what is no VARIANT is out."""
    deepest = {"a": {}}
    objects, mixed, inside, around = {}, {}, "{}", "{}"
    for number in range(18):
        parts = {"a": objects} if number else deepest
        objects = {"type": "object", "properties": parts, "additionalProperties": False}
        inside = inside.replace("{}", '{"a": {}}')
        kinds = (
            ({"type": "array", "items": mixed}, "[{}]"),
            ({"type": "object", "additionalProperties": mixed}, '{"k": {}}'),
            ({"type": "object", "properties": {"a": mixed}, "additionalProperties": False}, '{"a": {}}'),
        )
        mixed, shape = kinds[number % 3]
        around = shape.replace("{}", around)
    properties = {"id": {"type": "integer"}, "objects": objects, "mixed": mixed}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    said = {"upsert": {"keys": ["id"], "format_version": 2}, "quarantine": {"fail": 1}}
    places = (
        "objects" + ".a" * 18,
        "mixed" + "".join((".a", "['k']", "[0]")[number % 3] for number in range(18)),
    )

    def merged(*documents):
        values = (
            f'{{"id": {number}, "objects": {inside.replace("{}", one)}, "mixed": {around.replace("{}", other)}}}'
            for number, one, other in documents
        )
        send(topic, *(value.encode() for value in values), schema_id=topic.register(schema, "JSON"))
        table = lakehouse.table(topic, format_version=3, **said)
        assert table.run().error is None
        current = upsert_table_of(table.contract)
        assert catch_up_merges(lakehouse.lake, current, "test").error is None
        listed = f"SELECT id, {', '.join(places)} FROM lake.{current.contract.table} ORDER BY id"
        found = [tuple(row) for row in lakehouse.spark().sql(listed).collect()]
        assert sorted(rows(lakehouse, table, "id", *(f"to_json({each})" for each in places))) == found
        return table, found

    first, later = (1, "1.1", '{"x":[]}'), (4, "true", "[]")
    table, found = merged(first, (2, "1e400", "1"), (3, "1", "1e400"))
    assert (found, table.causes()) == ([first], {"value_out_of_range": 2})
    deepest["later"] = {"type": "integer"}
    assert merged(later)[1] == [first, later]


@pytest.mark.parametrize("schema", [None, MIXED], ids=["whole", "JSON Schema"])
def test_text_of_before_format_3_stays_as_it_comes(lakehouse, topic, schema):
    """Given a table of format 2 with JSON text, when it becomes one of format 3, then the same documents make the same text, whatever a VARIANT keeps."""
    schema_id = topic.register(schema, "JSON") if schema else None
    inside = '{"b":1.10, "a":1e2,"z":-0.0,"n":123456789012345678901234567890123456789012}'
    document = f'{{"id": 1, "any": {inside}, "list": [{"9" * 44}], "inner": {{"free": {inside}}}}}'
    texts = ("value",) if schema is None else ("any", "list[0]", "inner.free")
    said = {"value": {} if schema else {"format": "json"}, "quarantine": {"fail": 0.5}}
    table = lakehouse.table(topic, **said)
    send(topic, document.encode(), schema_id=schema_id)
    assert table.run().rows[:3] == (1, 1, 0)
    lakehouse.table(topic, **said, format_version=3)
    waits = table.run()
    plan = foresee(lakehouse.lake, table.contract).plan
    approve(lakehouse.lake, table.contract, plan, Signature("ada", "a test", run_id="r"))
    send(topic, document.encode(), schema_id=schema_id)
    outcome = table.run()
    assert (outcome.error, outcome.rows[:3]) == (None, (1, 1, 0)), waits
    assert table.iceberg().metadata.format_version == 3
    first, second = rows(lakehouse, table, *texts)
    assert first == second
    assert "9" * 44 in "".join(first)
    if schema:  # whoever looks why a record failed reads it in the same way
        send(topic, document.replace('"id": 1', '"id": "x"').encode(), schema_id=schema_id)
        assert table.run().error is None
        assert table.causes() == {"invalid_against_schema": 1}


def test_protobufs_own_json_is_a_variant(lakehouse, topic):
    schema_id = topic.register(PROTO, "PROTOBUF")
    number = struct.pack("<d", 1.5)
    data = b"\x0a\x0e\x0a\x01a\x12\x09\x11" + number
    value = b"\x00\x08\x01\x12" + bytes([len(data)]) + data + b"\x1a\x09\x11" + number + b"\x1a\x02\x20\x01"
    zero = value.replace(number, struct.pack("<d", -0.0)).replace(b"\x08\x01", b"\x08\x03", 1)
    send(topic, value, b"\x00\x08\x02", zero, schema_id=schema_id)
    table = lakehouse.table(topic, format_version=3)
    outcome = table.run()
    assert (outcome.error, outcome.rows[:3]) == (None, (3, 3, 0))
    assert rows(lakehouse, table, "id", "to_json(data)", "to_json(more)") == [
        (1, '{"a":1.5}', "[1.5,true]"),
        (2, None, "[]"),
        (3, '{"a":-0.0}', "[-0.0,true]"),
    ]


DEBEZIUM = debezium.envelope_schema(
    {
        "doc": debezium.semantic("string", f"{debezium.DATA}Json"),
        "tags": {"type": "array", "items": "string"},
        "note": "string",
    }
)
KEY = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
UNKNOWN = "__debezium_unavailable_value"


@pytest.mark.parametrize("format_version", [3, pytest.param(2, marks=pytest.mark.long)])
def test_debeziums_json_is_a_variant_through_merges_and_compaction(lakehouse, topic, format_version):
    """Given Json columns, values that the connector did not know and documents no VARIANT keeps, when merged and compacted, then state is exact; as text where the upsert table is of format 2."""
    keys = lakehouse.cluster.register(f"{topic.name}-key", KEY)
    values = lakehouse.cluster.register(f"{topic.name}-value", DEBEZIUM)

    def change(op, number, doc=None, tags=None, note=None):
        after = {"id": number, "doc": doc, "tags": tags, "note": note}
        return (
            debezium.framed(keys, KEY, {"id": number}),
            debezium.framed(values, DEBEZIUM, debezium.change(op, after=None if op == "d" else after)),
            0,
        )

    table = lakehouse.table(
        topic,
        value={"envelope": "debezium"},
        key={"format": "registry"},
        upsert={"keys": ["id"], "format_version": format_version},
        format_version=3,
        quarantine={"fail": 1},
        maintenance={"compaction": {"min_input_files": 2}},
    )
    current = upsert_table_of(table.contract)

    def merged(*changes):
        topic.send_raw(changes)
        outcome = table.run()
        assert outcome.error is None, outcome.error["message"]
        done = catch_up_merges(lakehouse.lake, current, "test")
        assert done.error is None, done.error["message"]
        doc = "to_json(doc)" if format_version == 3 else "doc"
        listed = f"SELECT id, {doc}, tags, note FROM lake.{current.contract.table} ORDER BY id"
        return [tuple(row) for row in lakehouse.spark().sql(listed).collect()]

    big = "12345678901234567890123456789012345678"
    first = [change("r", 1, f'{{"a": 1.50, "n": {big}}}', ["x"], "one"), change("c", 2, "[1]", [], "two")]
    lost = [change("c", 3, '{"n": 1e400}'), change("c", 4, "{} x"), change("c", 5, '{"a":1,"a":2}')]
    assert merged(*first, *lost, change("c", 6)) == [
        (1, f'{{"a":1.5,"n":{big}}}', ["x"], "one"),
        (2, "[1]", [], "two"),
        (6, None, None, None),
    ]
    assert table.causes() == {"value_out_of_range": 3}
    after = merged(change("u", 1, UNKNOWN, [UNKNOWN], "new"), change("d", 2), change("u", 6, '"text"', ["y"]))
    wanted = [(1, f'{{"a":1.5,"n":{big}}}', ["x"], "new"), (6, '"text"', ["y"], None)]
    assert after == wanted
    gains = list(maintain(lakehouse.lake, table.contract, ("compaction",)))
    assert not [gain.error for gain in gains if gain.error]
    assert any(gain.acted for gain in gains)
    assert merged(change("u", 6, "7", ["y"])) == [wanted[0], (6, "7", ["y"], None)]
    assert reconcile(lakehouse.lake, table.contract).sound


def test_debeziums_json_of_before_format_3_stays_text_too(lakehouse, topic):
    """Given a table of format 2, when it becomes one of format 3, then documents that no VARIANT keeps go on as text."""
    values = lakehouse.cluster.register(f"{topic.name}-value", DEBEZIUM)
    documents = ('{"a":1,"a":2}', f'{{"n":{"9" * 42}}}')

    def send(*texts):
        rows = ({"id": n, "doc": text, "tags": None, "note": None} for n, text in enumerate(texts))
        topic.send_raw(
            (b"k", debezium.framed(values, DEBEZIUM, debezium.change("c", after=row)), 0) for row in rows
        )

    said = {"value": {"envelope": "debezium"}, "quarantine": {"fail": 1}}
    table = lakehouse.table(topic, **said)
    send(*documents)
    assert table.run().rows[:3] == (2, 2, 0)
    lakehouse.table(topic, **said, format_version=3)
    plan = foresee(lakehouse.lake, table.contract).plan
    approve(lakehouse.lake, table.contract, plan, Signature("ada", "a test", run_id="r"))
    send(*documents)
    assert table.run().rows[:3] == (2, 2, 0)
    assert table.iceberg().metadata.format_version == 3
    assert rows(lakehouse, table, "doc") == [(text,) for text in 2 * documents]


def test_an_upsert_table_whose_format_waits_holds_new_documents_as_text(lakehouse, topic):
    """Given an append table that was raised to format 3, when a column without a type comes and the upsert table still
    waits for its own approval, then merges go on and keep its JSON text, before and after it is approved."""
    plain = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
    grown = {**plain, "properties": {**plain["properties"], "any": {}}}
    ada, said = Signature("ada", "a test", run_id="r"), {"upsert": ["id"]}
    send(topic, b'{"id": 0}', schema_id=topic.register(plain, "JSON"))
    table = lakehouse.table(topic, **said)
    current = upsert_table_of(table.contract)
    name = current.contract.table

    def merged():
        outcome = table.run()
        assert outcome.error is None, outcome.error["message"]
        done = catch_up_merges(lakehouse.lake, current, "test")
        assert done.error is None, done.error["message"]
        listed = lakehouse.spark().sql(f"SELECT * FROM lake.{name} ORDER BY id").collect()
        return [row.asDict().get("any") for row in listed]

    assert merged() == [None]
    table = lakehouse.table(topic, **said, format_version=3)
    lakehouse.close()  # what is opened from now on knows the contract
    current = upsert_table_of(table.contract)
    approve(lakehouse.lake, table.contract, foresee(lakehouse.lake, table.contract).plan, ada)
    grown_id = topic.register(grown, "JSON")
    send(topic, b'{"id": 1, "any": {"a": [1, "x"]}}', schema_id=grown_id)
    assert merged() == [None, '{"a":[1,"x"]}']
    assert lakehouse.lake.state(table.name).columns.field("any").type == VARIANT
    waits = foresee_upsert(lakehouse.lake, current)
    approve(lakehouse.lake, current.contract, waits.plan, ada)
    send(topic, b'{"id": 2, "any": "text"}', schema_id=grown_id)
    assert merged() == [None, '{"a":[1,"x"]}', '"text"']
    state = lakehouse.lake.state(name)
    assert (state.shape.format_version, state.columns.field("any").type) == (3, STRING)


@pytest.mark.long
def test_two_runs_that_need_the_same_variant_column_add_it_once(lakehouse, topic):
    """Given a table of format 3 and a property without a type, when two runs are about to add its column, then it is there once, and so is each record."""
    plain = {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": False}
    first = topic.register(plain, "JSON")
    send(topic, b'{"id": 0}', schema_id=first)
    table = lakehouse.table(topic, format_version=3)
    table.run()
    second = topic.register({**plain, "properties": {**plain["properties"], "any": {}}}, "JSON")
    send(topic, b'{"id": 1, "any": {"a": [1, "x"]}}', schema_id=second)
    send(topic, b'{"id": 2}', schema_id=first)
    runs = [table.start(pause_at="evolving") for _ in range(2)]
    for run in runs:
        run.reaches_its_pause()
    for run in runs:
        run.release()
    assert [run.result()[0]["error"] for run in runs] == [None, None]
    assert rows(lakehouse, table, "id", "to_json(any)") == [(0, None), (1, '{"a":[1,"x"]}'), (2, None)]
    state = lakehouse.lake.state(table.name)
    assert [c["path"] for entry in history(state) for c in entry["changes"]] == ["any"]
    assert unfinished(state) == []
    assert reconcile(lakehouse.lake, table.contract).sound
