"""JSON topics go the whole way: table from declared columns, quarantine with pointers, columns that come later."""

import json

import pytest

from tidemark.domain.errors import Refused
from tidemark.engine.operate.accept import accept
from tidemark.engine.operate.approve import approve
from tidemark.engine.preview.foresee import foresee
from tidemark.engine.table.operations import Signature


def json_topic(lakehouse, partitions=2):
    return lakehouse.cluster.bare_topic("json", partitions)


def send(topic, *values):
    """Objects as JSON, bytes as they are."""
    encoded = [v if isinstance(v, bytes) or v is None else json.dumps(v).encode() for v in values]
    topic.send_raw((b"k", value, n % topic.partitions) for n, value in enumerate(encoded))


def test_declared_columns_make_a_table_and_the_rest_is_accounted_for(lakehouse):
    """Given documents, tombstones and poison, when run, then each is in its one place, with its pointer."""
    topic = json_topic(lakehouse)
    send(topic, *({"id": n, "price": n + 0.5, "note": f"n{n}"} for n in range(100)))
    send(
        topic,
        None,
        None,
        b'{"id": "7"}',
        b'{"id": 1180591620717411303424}',
        b'{"id": 1} {}',
        b'{"id":1,"id":2}',
    )
    fields = {"id": "bigint", "price": "decimal(10,2)"}
    table = lakehouse.table(topic, value={"format": "json", "fields": fields}, quarantine={"fail": 0.2})
    outcome = table.run()
    assert (outcome.state, outcome.error) == ("fresh", None)
    assert (outcome.rows.written, outcome.rows.quarantined, outcome.rows.tombstones) == (100, 4, 2)
    assert table.causes() == {"type_mismatch": 1, "value_out_of_range": 1, "undecodable": 2}
    quarantine = lakehouse.catalog.load_table(f"{table.name}_quarantine")
    details = quarantine.scan(selected_fields=("detail",)).to_arrow()["detail"].to_pylist()
    assert "/id: a string where an integer belongs" in details
    table.holds_everything()
    extra = table.iceberg().scan(selected_fields=("_extra",)).to_arrow()["_extra"].to_pylist()
    assert sorted(extra) == sorted(f'{{"note":"n{n}"}}' for n in range(100))


def test_a_column_that_the_contract_adds_is_added_to_the_table(lakehouse):
    topic = json_topic(lakehouse)
    send(topic, {"id": 1, "name": "a"})
    lakehouse.table(topic, value={"format": "json", "fields": {"id": "bigint"}}).run()
    send(topic, {"id": 2, "name": "b"})
    table = lakehouse.table(topic, value={"format": "json", "fields": {"id": "bigint", "name": "string"}})
    assert table.run().state == "fresh"
    rows = table.iceberg().scan(selected_fields=("id", "name", "_extra")).to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "name": None, "_extra": '{"name":"a"}'},
        {"id": 2, "name": "b", "_extra": None},
    ]


def test_a_name_that_spark_would_fill_in_stays_the_name(lakehouse):
    """Given columns named like a setting, at first and later, when loaded and merged, then they have that name."""
    topic = json_topic(lakehouse)
    first, later = "${spark.sql.caseSensitive}", "${spark.sql.session.timeZone}"
    fields = {"id": "bigint", first: "string", "s": f"struct<`${first}`: int>"}
    send(topic, {"id": 1, first: "a", "s": {first: 5}})
    upsert = {"keys": ["id"]}
    lakehouse.table(topic, value={"format": "json", "fields": fields}, upsert=upsert).run()
    send(topic, {"id": 2, first: "b", later: 7})
    table = lakehouse.table(
        topic, value={"format": "json", "fields": {**fields, later: "bigint"}}, upsert=upsert
    )
    assert table.run().error is None
    rows = table.iceberg().scan(selected_fields=("id", first, later)).to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, first: "a", later: None},
        {"id": 2, first: "b", later: 7},
    ]


def declared_later(lakehouse, fields, **contract):
    """The outcome of a run after the declared columns of a table with `id: bigint` have become others."""
    topic = json_topic(lakehouse)
    send(topic, {"id": 1})
    lakehouse.table(topic, value={"format": "json", "fields": {"id": "bigint"}}).run()
    send(topic, {"id": 2})
    table = lakehouse.table(topic, value={"format": "json", "fields": fields}, **contract)
    head, outcome = table.head, table.run()
    assert table.head == head
    return outcome


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": "string"}, "id: incompatible (table long, contract string)"),
        ({"ID": "bigint"}, "the name equals"),
    ],
)
def test_a_declared_type_that_no_change_leads_to_stops_the_table(lakehouse, fields, reason):
    outcome = declared_later(lakehouse, fields)
    assert outcome.state == "table_incompatible"
    assert reason in str(outcome.error)


@pytest.mark.parametrize("known", [True, False])
def test_a_table_that_a_wrong_contract_has_made_without_rows_is_made_anew(lakehouse, known):
    """Given a first load of which nothing could be read, when the contract is mended, then run and plan say the same,
    and doing what they say loads every record, whether or not Dagster knows the table as loaded."""
    topic = json_topic(lakehouse)
    send(topic, *({"id": n} for n in range(20)))
    wrong = lakehouse.table(topic, value={"format": "json", "fields": {"id": "string"}})
    assert (wrong.run().state, wrong.iceberg().scan().to_arrow().num_rows) == ("misconfigured", 0)
    table = lakehouse.table(topic, value={"format": "json", "fields": {"id": "bigint", "b": "bigint"}})
    stopped = table.run()
    assert (stopped.state, "drop it" in stopped.error["message"]) == ("table_incompatible", True)
    found = foresee(lakehouse.lake, table.contract)
    assert (found.verdict, "drop it" in found.findings[0]) == ("impossible", True)
    assert any("no approval helps" in change["reason"] for change in found.changes)
    signature = Signature("ada", "a test", run_id="r")
    with pytest.raises(Refused):
        approve(lakehouse.lake, table.contract, found.plan, signature)
    lakehouse.spark().sql(f"DROP TABLE {table.name}")
    assert "the next run makes it anew; stops that as table_missing" in stopped.error["message"]
    if known:
        assert table.run(loaded_before=True).state == "table_missing"
        accept(lakehouse.lake, table.contract, "first-load", signature)
    assert table.run(loaded_before=known).state == "fresh"
    assert sorted(row["id"] for row in table.iceberg().scan().to_arrow().to_pylist()) == list(range(20))
    table.holds_everything()


def test_a_declared_column_waits_for_review_when_the_contract_says_so(lakehouse):
    wider = {"id": "bigint", "name": "string"}
    outcome = declared_later(lakehouse, wider, schema_changes={"add_column": "review"})
    assert outcome.state == "schema_review"
    assert "name: missing (table None, contract string)" in str(outcome.error)


def test_without_declared_columns_the_document_is_the_row(lakehouse):
    topic = json_topic(lakehouse, 1)
    send(topic, b'{"a": 1.0}', b"[1]", b'{"a": 1.0')
    table = lakehouse.table(topic, value={"format": "json"}, quarantine={"fail": 0.5})
    assert table.run().rows.written == 2
    assert table.iceberg().scan(selected_fields=("value",)).to_arrow()["value"].to_pylist() == [
        '{"a": 1.0}',
        "[1]",
    ]
    table.holds_everything()


def test_text_and_bytes_land_as_they_are_however_long(lakehouse):
    """Given a megabyte of text (the most that a producer sends by default), an emoji and bytes that are no text, when read as text and as bytes, then the text quarantines one record and the bytes none."""
    topic, long = json_topic(lakehouse, 1), "é" * 499_900
    values = [long.encode(), "🌊\n".encode(), b"\xff\x00", None, b""]
    send(topic, *values)
    text = lakehouse.table(topic, value={"format": "string"})
    raw = lakehouse.table(topic, f"{topic.name}_raw", value={"format": "raw"})
    assert text.run().rows[:4] == (5, 3, 1, 1)
    assert raw.run().rows[:4] == (5, 4, 0, 1)
    assert text.causes() == {"undecodable": 1}
    for read in (
        lambda t: t.iceberg().scan().to_arrow(),
        lambda t: lakehouse.spark().table(t.name).toArrow(),
    ):
        assert sorted(read(text)["value"].to_pylist()) == sorted([long, "🌊\n", ""])
        assert sorted(read(raw)["value"].to_pylist()) == sorted([values[0], values[1], values[2], b""])
    text.holds_everything()
    raw.holds_everything()
