"""Rule: a column and a partition field never have one name, which Iceberg does not take; one of them gives way."""

import uuid

import pytest
from topics import Topic

from tidemark.domain.config.upsert import upsert_table_of
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.preview.foresee import foresee

AT = {"type": "long", "logicalType": "timestamp-micros"}
PLAIN = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": AT}],
}
BOTH = {**PLAIN, "fields": [*PLAIN["fields"], {"name": "at_day", "type": "string", "default": ""}]}


@pytest.fixture
def topic(lakehouse):
    made = Topic(lakehouse.cluster, f"names_{uuid.uuid4().hex[:6]}", PLAIN)
    made.create(1)
    return made


def send(topic, schema, *numbers):
    topic.use(schema)
    records = ({"id": n, "at": n, **({"at_day": "x"} if schema is BOTH else {})} for n in numbers)
    topic.send_raw([(b"k%d" % record["id"], topic.encode(record), 0) for record in records])


def partitions(lakehouse, name):
    spec = lakehouse.catalog.load_table(name).spec()
    return {(field.name, str(field.transform)) for field in spec.fields}


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_the_partition_field_of_a_table_that_has_the_column_gives_way(lakehouse, topic, format_version):
    """Given a topic with the time and a field that is called as its day, when a table is made, or partitioned later, then both are there, in the upsert table too."""
    send(topic, BOTH, *range(3))
    said = {"format_version": format_version, "upsert": ["id"], "partition_by": ["day(at)", "bucket(2, id)"]}
    table = lakehouse.table(topic, **said)
    assert table.run().state == "fresh"
    later = lakehouse.table(topic, f"{topic.name}_later", format_version=format_version)
    assert later.run().state == "fresh"
    later = lakehouse.table(
        topic, f"{topic.name}_later", format_version=format_version, partition_by=["day(at)"]
    )
    current = upsert_table_of(table.contract)
    assert catch_up_merges(lakehouse.lake, current, "test").error is None
    send(topic, BOTH, 3)
    for each in (table, later):
        assert each.run().state == "fresh"
        assert foresee(lakehouse.lake, each.contract).changes == ()
    assert catch_up_merges(lakehouse.lake, current, "test").error is None
    for name in (table.name, current.contract.table):
        assert partitions(lakehouse, name) == {("at_day_", "day"), ("id_bucket", "bucket[2]")}
        rows = (
            lakehouse.spark()
            .sql(f"SELECT id, at_day FROM lake.{name} WHERE at < now() ORDER BY id")
            .collect()
        )
        assert [tuple(row) for row in rows] == [(n, "x") for n in range(4)]
    assert partitions(lakehouse, later.name) == {("at_day_", "day")}


@pytest.mark.parametrize("format_version", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_field_that_comes_later_and_is_called_as_a_partition_stops_the_table(
    lakehouse, topic, format_version
):
    """Given a table partitioned by day, when its producer adds a field of that name, then the table stops with the reason before its records; those before are there, and the contract may set them aside."""
    send(topic, PLAIN, *range(2))
    said = {"format_version": format_version, "partition_by": ["day(at)"]}
    table = lakehouse.table(topic, **said)
    assert table.run().state == "fresh"
    send(topic, PLAIN, 2)
    send(topic, BOTH, 3)
    stopped = table.run()
    assert (stopped.state, stopped.rows.written) == ("schema_unsupported", 1)
    assert "at_day: a partition field of the table has the name" in stopped.error["message"]
    aside = lakehouse.table(
        topic, **said, schema_changes={"incompatible": "quarantine"}, quarantine={"fail": 1}
    )
    assert aside.run().rows[:3] == (1, 0, 1)
    assert aside.causes() == {"schema_not_allowed": 1}


def test_a_column_that_the_contract_declares_under_the_name_of_a_partition_is_told(lakehouse, topic):
    fields = {"id": "bigint", "at": "timestamp"}
    said = {"partition_by": ["day(at)"], "upsert": ["id"]}
    topic.send_raw([(b"1", b'{"id": 1, "at": "2026-01-01T00:00:00Z"}', 0)])
    table = lakehouse.table(topic, value={"format": "json", "fields": fields}, **said)
    assert table.run().state == "fresh"
    edited = lakehouse.table(topic, value={"format": "json", "fields": {**fields, "at_day": "date"}}, **said)
    stopped = edited.run()
    assert stopped.state == "table_incompatible"
    assert "at_day: a partition field of the table has the name" in stopped.error["message"]


def test_an_upsert_table_that_alone_is_partitioned_names_the_column(lakehouse, topic):
    send(topic, PLAIN, 0)
    table = lakehouse.table(topic, upsert={"keys": ["id"], "partition_by": ["day(at)"]})
    current = upsert_table_of(table.contract)
    assert table.run().state == "fresh"
    assert catch_up_merges(lakehouse.lake, current, "test").error is None
    send(topic, BOTH, 1)
    assert table.run().state == "fresh"
    stopped = catch_up_merges(lakehouse.lake, current, "test")
    assert stopped.state == "table_incompatible"
    assert "at_day: a partition field of the table has the name" in stopped.error["message"]
