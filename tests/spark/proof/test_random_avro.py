"""Rule: whatever Avro says lands as docs/types.md says, value by value, through registry, broker, Spark and Iceberg."""

import io
import os
from random import Random

import fastavro
import pytest
from decoding import exact
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from random_avro import Maker, as_pyiceberg_reads, stored, wanted

TYPES = 20
RECORDS = 60


def encoded(parsed, value):
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, parsed, value)
    return sink.getvalue()


def decoded(parsed, payload):
    return fastavro.schemaless_reader(io.BytesIO(payload), parsed, None)


def versions_of(seed):
    """Twenty random types as the fields of one record, and two later versions that can each read the one before."""
    maker = Maker(Random(seed))
    first = maker.record(TYPES, 3)
    first["fields"].insert(0, {"name": "id", "type": "long"})
    second = maker.changed(first)
    return maker, [first, second, maker.changed(second)]


def column_values(rows):
    kept = [{name: row[name] for name in row if name != "_kafka"} for row in rows]
    return {row["id"]: exact(stored(row)) for row in kept}


@pytest.mark.random
@pytest.mark.parametrize("zone", ["Asia/Kolkata"])
@settings(
    max_examples=int(os.environ.get("TIDEMARK_RANDOM_SCHEMAS", "1")),
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
    database=None,
)
@given(seed=st.integers(0, 2**32))
@example(seed=6121028)  # NULL lists of structs
@example(seed=6820)  # and such lists in lists
def test_random_schemas_and_their_changes_are_read_back_value_by_value(lakehouse, zone, seed):
    """Given three versions of a random schema, interleaved, when run, then both engines read what fastavro reads."""
    print(f"seed {seed}")
    maker, versions = versions_of(seed)
    topic = lakehouse.cluster.topic("random", 2, schema=versions[0])
    ids = [topic.schema_id]
    for later in versions[1:]:
        topic.use(later)
        ids.append(topic.schema_id)
    parsed = [fastavro.parse_schema(schema, _write_hint=False) for schema in versions]
    expected, messages = {}, []
    for number in range(RECORDS):
        which = number % 3
        schema = versions[which]
        payload = encoded(parsed[which], {**maker.value(schema), "id": number})
        row = wanted(decoded(parsed[which], payload), schema, versions)
        expected[number] = stored(row)
        messages.append((b"k", b"\0" + ids[which].to_bytes(4, "big") + payload, number // 3 % 2))
    topic.send_raw(messages)
    table = lakehouse.table(topic)
    spark = lakehouse.spark()
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        outcome = table.run()
        assert (outcome.error, outcome.rows[:3]) == (None, (RECORDS, RECORDS, 0))
        by_pyiceberg = column_values(table.iceberg().scan().to_arrow().to_pylist())
        by_spark = column_values(spark.table(f"lake.{table.name}").toArrow().to_pylist())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    columns = table.iceberg().schema().as_struct()
    for number, row in expected.items():
        assert by_spark[number] == exact(row), f"seed {seed}, record {number}, by Spark"
        seen = exact(as_pyiceberg_reads(row, columns))
        assert by_pyiceberg[number] == seen, f"seed {seed}, record {number}, by PyIceberg"
