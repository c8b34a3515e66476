"""Debezium's topics go the whole way: every op in its place, types read back as they were sent, columns that come later."""

import io
import json

import debezium
import fastavro
import pytest
from debezium import change, framed, register, semantic

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.plan.proposal import propose
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.preview.foresee_upsert import foresee_upsert
from tidemark.engine.preview.survey import survey

TIME = debezium.TIME
COLUMNS = {
    "at": semantic("long", f"{TIME}MicroTimestamp"),
    "price": debezium.decimal(2, 10),
    "note": "string",
}
KEY = {
    "type": "record",
    "name": "Key",
    "namespace": debezium.PREFIX,
    "fields": [{"name": "id", "type": "long"}],
    "connect.name": f"{debezium.PREFIX}.Key",
}


@pytest.fixture
def topic(lakehouse):
    return lakehouse.cluster.bare_topic("debezium")


def row(number, **more):
    return {"id": number, **dict.fromkeys(COLUMNS), **more}


def test_a_topic_of_debezium_s_own_records_has_no_current_state_until_a_row_comes(lakehouse, topic):
    """Given a topic that a pattern with `upsert` has matched, and that holds no rows, then it is skipped, and nothing is to be merged; when a row comes after all, then it is."""
    keys, beats = register(topic, "key", KEY), register(topic, "value", debezium.HEARTBEAT)
    topic.send_raw([(None, framed(beats, debezium.HEARTBEAT, {"ts_ms": 5}), 0)])
    key = {"format": "avro", "fields": ["id"]}
    table = lakehouse.table(topic, value={"envelope": "debezium"}, key=key, upsert=["id"])
    current = upsert_table_of(table.contract)

    def merged():
        assert foresee_upsert(lakehouse.lake, current).verdict == "nothing"
        outcome = table.run()
        assert (outcome.state, outcome.error) == ("fresh", None)
        return catch_up_merges(lakehouse.lake, current, "test")

    outcome = merged()
    assert (outcome.state, outcome.error, outcome.commits) == ("fresh", None, 0)
    assert foresee(lakehouse.lake, table.contract).verdict == "nothing"
    assert merged().commits == 0
    assert not lakehouse.catalog.table_exists(current.contract.table)
    schema = debezium.envelope_schema(COLUMNS)
    value = framed(register(topic, "value", schema), schema, change("c", after=row(1)))
    topic.send_raw([(framed(keys, KEY, {"id": 1}), value, 0)])
    assert merged().commits == 1
    assert len(lakehouse.catalog.load_table(current.contract.table).scan().to_arrow()) == 1


def test_a_topic_of_envelopes_becomes_rows_with_their_changes(lakehouse, topic):
    """Given a snapshot, changes, deletes and Debezium's own records, when run, then nothing is lost or twice."""
    schema = debezium.envelope_schema(COLUMNS)
    keys, values = register(topic, "key", KEY), register(topic, "value", schema)
    beats = register(topic, "value", debezium.HEARTBEAT)

    def key(number):
        return framed(keys, KEY, {"id": number})

    def value(*args, **more):
        return framed(values, schema, change(*args, **more))

    price = debezium.unscaled(-12345)
    records = [
        (key(1), value("r", after=row(1, at=-1, price=price, note="é"))),
        (key(2), value("c", after=row(2, note="b"))),
        (key(1), value("u", before=row(1), after=row(1, note="__debezium_unavailable_value"))),
        (key(2), value("d", before=row(2, note="b"))),
        (key(2), None),
        (key(3), value("c", after=row(3))),
        (key(1), value("d")),
        (key(1), None),
        (b"poison", value("d")),
        (key(4), value("c", after=row(4, price=debezium.unscaled(10**10)))),
        (None, framed(beats, debezium.HEARTBEAT, {"ts_ms": 5})),
        (None, value("m")),
        (None, value("t")),
        (key(5), framed(values, schema, change("c", after=row(5)))[:-1]),
    ]
    topic.send_raw((k, v, 0) for k, v in records[:-7])
    made = propose(survey(lakehouse.lake, topic.name, "main", 100))
    assert made.contract["value"] == {"envelope": "debezium"}
    assert made.contract["key"] == {"format": "registry"}
    assert made.fits
    topic.send_raw((k, v, 0) for k, v in records[-7:])
    table = lakehouse.table(
        topic, value={"envelope": "debezium"}, key={"format": "avro"}, upsert=["id"], quarantine={"fail": 1}
    )
    outcome = table.run()
    assert (outcome.state, outcome.error) == ("fresh", None)
    assert outcome.rows._asdict() == {
        "read": 14,
        "written": 9,
        "quarantined": 3,
        "tombstones": 0,
        "skipped": 2,
    }
    assert table.causes() == {"undecodable": 2, "value_out_of_range": 1}
    names = [field.name for field in table.iceberg().schema().fields]
    assert names == ["id", "at", "price", "note", "_cdc", "_kafka"]
    by_offset = {r["_kafka"]["offset"]: r for r in table.iceberg().scan().to_arrow().to_pylist()}
    for offset, (sent_key, sent) in enumerate(records):
        if offset not in by_offset:
            continue
        landed = by_offset[offset]
        assert landed["_kafka"]["key"] == sent_key
        if sent is None:
            assert (landed["_cdc"], landed["note"], landed["id"]) == (
                None,
                None,
                decoded(KEY, sent_key)["id"],
            )
            continue
        event = decoded(schema, sent)
        image = event["before"] if event["op"] == "d" else event["after"]
        assert landed["note"] == (image and image["note"])
        assert landed["price"] == (image and image["price"])
        assert landed["id"] == (decoded(KEY, sent_key)["id"] if event["op"] != "t" else None)
        assert (landed["_cdc"]["op"], json.loads(landed["_cdc"]["source"])) == (event["op"], event["source"])
    by_spark = lakehouse.spark().sql(f"SELECT id, _cdc.op, cast(at AS string) AS at FROM lake.{table.name}")
    seen = sorted(((r["id"] or 0, r["op"] or "", r["at"]) for r in by_spark.collect()), key=str)
    assert (1, "r", "1969-12-31 23:59:59.999999") in seen
    assert [op for _, op, _ in seen].count("t") == 1
    _a_column_comes(table, topic, keys, records)


def _a_column_comes(table, topic, keys, records):
    """The database's table gets a column: a new envelope, a new column; the old writer goes on."""
    grown = debezium.envelope_schema({**COLUMNS, "tag": "string"})
    later = register(topic, "value", grown)
    topic.send_raw(
        [
            (
                framed(keys, KEY, {"id": 9}),
                framed(later, grown, change("c", after={**row(9), "tag": "new"})),
                0,
            ),
            (*records[1], 0),
        ]
    )
    assert table.run().rows.written == 2
    rows = table.iceberg().scan(selected_fields=("id", "tag")).to_arrow().to_pylist()
    assert [r["id"] for r in rows if r["tag"] == "new"] == [9]
    assert sum(r["tag"] is None for r in rows) == 10


def decoded(schema, value):
    """An independent decode of what was sent."""
    schema = json.loads(json.dumps(schema).replace('"precision": 64', '"precision": 38'))
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(schema))


def test_json_envelopes_with_their_schema(lakehouse, topic):
    """Deletes take their key from the JSON key; a heartbeat is counted; without upsert a tombstone is too."""
    fields = [
        {"type": "int64", "optional": False, "field": "id"},
        debezium.connect_field("at", "int64", f"{TIME}MicroTimestamp"),
        debezium.connect_field("price", "bytes", f"{debezium.CONNECT}Decimal", scale="2"),
    ]
    key = json.dumps(
        {"schema": {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}, "payload": {"id": 1}}
    ).encode()
    created = change("c", after={"id": 1, "at": -1, "price": debezium.base64_of(-12345)})
    topic.send_raw(
        (key, value, 0)
        for value in [
            debezium.with_schema(fields, created),
            debezium.with_schema(fields, change("d")),
            None,
            b'{"ts_ms": 1}',
            b'{"op": "c"}',
        ]
    )
    declared = {"id": "bigint", "at": "timestamp_ntz", "price": "decimal(10,2)"}
    value = {"format": "json", "envelope": "debezium", "fields": declared}
    table = lakehouse.table(
        topic, value=value, key={"format": "json", "fields": ["id"]}, quarantine={"fail": 1}
    )
    assert table.run().rows._asdict() == {
        "read": 5,
        "written": 2,
        "quarantined": 1,
        "tombstones": 1,
        "skipped": 1,
    }
    rows = table.iceberg().scan().to_arrow().to_pylist()
    first, gone = sorted(rows, key=lambda r: r["_kafka"]["offset"])
    assert (first["id"], str(first["at"]), str(first["price"])) == (
        1,
        "1969-12-31 23:59:59.999999",
        "-123.45",
    )
    assert (gone["id"], gone["price"], gone["_cdc"]["op"]) == (1, None, "d")


FLAT = {
    "type": "record",
    "name": "Value",
    "namespace": debezium.PREFIX,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", debezium.decimal(2, 10)], "default": None},
        *({"name": n, "type": ["null", "string"], "default": None} for n in ("__op", "__deleted")),
        *({"name": n, "type": ["null", "long"], "default": None} for n in ("__source_ts_ms", "__lsn")),
    ],
}


@pytest.mark.parametrize("kind", ["avro", pytest.param("json", marks=pytest.mark.long)])
def test_flattened_records_become_rows_with_what_was_added_to_them(lakehouse, topic, kind):
    """Given a row, its delete rewritten as a row, a tombstone and a record without its fields, when run, then each is in its one place."""
    meta = {"__op": "u", "__deleted": "false", "__source_ts_ms": 1000, "__lsn": 12}
    gone = {**meta, "__op": "d", "__deleted": "true"}
    images = [{"id": 1, "price": -12345, **meta}, {"id": 2, "price": None, **gone}]
    if kind == "avro":
        keys, values = register(topic, "key", KEY), register(topic, "value", FLAT)
        sent = [
            framed(values, FLAT, {**i, "price": i["price"] and debezium.unscaled(i["price"])}) for i in images
        ]
        key = [framed(keys, KEY, {"id": n}) for n in (1, 2)]
        value = {"envelope": "debezium_flat"}
    else:
        sent = [json.dumps({**i, "price": i["price"] and i["price"] / 100}).encode() for i in images]
        key = [json.dumps({"id": n}).encode() for n in (1, 2)]
        declared = {"id": "bigint", "price": "decimal(10,2)"}
        value = {"format": "json", "envelope": "debezium_flat", "fields": declared}
    topic.send_raw([(key[0], sent[0], 0), (key[1], sent[1], 0), (key[1], None, 0), (key[0], sent[0][:-1], 0)])
    table = lakehouse.table(
        topic, value=value, key={"format": kind, "fields": ["id"]}, upsert=["id"], quarantine={"fail": 1}
    )
    outcome = table.run()
    assert (outcome.error, outcome.rows[:4]) == (None, (4, 3, 1, 0)), table.causes()
    landed = sorted(table.iceberg().scan().to_arrow().to_pylist(), key=lambda r: r["_kafka"]["offset"])
    assert [(r["id"], r["price"] and str(r["price"])) for r in landed] == [
        (1, "-123.45"),
        (2, None),
        (2, None),
    ]
    assert [r["_cdc"] and (r["_cdc"]["op"], r["_cdc"]["pos"]) for r in landed] == [
        ("u", "00000000000000000012"),
        ("d", "00000000000000000012"),
        None,
    ]
    assert table.causes() == {"undecodable": 1}
    table.holds_everything(upsert=True)


@pytest.mark.parametrize(
    "deletes",
    ["hard", pytest.param("soft", marks=pytest.mark.long), pytest.param(None, marks=pytest.mark.long)],
)
def test_a_flat_delete_that_is_not_rewritten_takes_its_row(lakehouse, topic, deletes):
    """Given rows, then a batch of nothing but deletes as Connect writes them by default, the NULL with its schema or bare,
    when run, then each is a row that tells its key and takes the row of it; nothing stops."""
    schema = {"type": "struct", "optional": True, "fields": [{"type": "int64", "field": "id"}]}

    def record(number, payload):
        document = {"schema": schema, "payload": payload} if number % 2 else payload
        return json.dumps({"id": number}).encode(), json.dumps(document).encode(), 0

    topic.send_raw(record(n, {"id": n, "name": "a"}) for n in range(13))
    table = lakehouse.table(
        topic,
        value={
            "format": "json",
            "envelope": "debezium_flat",
            "fields": {"id": "bigint", "name": "string"},
        },
        key={"format": "json", "fields": ["id"]},
        **({"upsert": {"keys": ["id"], "deletes": deletes}} if deletes else {}),
    )

    def run():
        outcome = table.run()
        assert (outcome.state, outcome.error, table.causes()) == ("fresh", None, {})
        current = upsert_table_of(table.contract)
        if current is None:
            return None, None
        assert catch_up_merges(lakehouse.lake, current, "test").error is None
        rows = lakehouse.catalog.load_table(current.contract.table).scan().to_arrow().to_pylist()
        marked = {row["id"] for row in rows if row.get("_is_deleted")}
        return {row["id"] for row in rows} - marked, marked

    assert run() == ((set(range(13)), set()) if deletes else (None, None))
    topic.send_raw(record(n, None) for n in range(12))
    gone = set(range(12)) if deletes == "soft" else set()
    assert run() == (({12}, gone) if deletes else (None, None))
    landed = sorted(table.iceberg().scan().to_arrow().to_pylist(), key=lambda r: r["_kafka"]["offset"])[13:]
    assert [(r["id"], r["name"], r["_cdc"]["op"], r["_cdc"]["source"]) for r in landed] == [
        (n, None, "d", None) for n in range(12)
    ]
    table.holds_everything(upsert=bool(deletes))
