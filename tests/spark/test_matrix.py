"""The values of the published matrix's Avro rows, decoded on Spark in one record."""

from collections.abc import Iterator
from typing import Any

import pytest
from decoding import columns_of, encoded, exact, framed, record, rows_of, schema_of
from matrix import AVRO, TypeRow
from pyspark.sql import SparkSession

from tidemark.engine.decode.decoding import Decoding
from tidemark.engine.decode.working_columns import FATE


@pytest.fixture(scope="module")
def decoded(stack: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One record of a writer that lacks the last field, read into the table of one that has it."""
    spark = SparkSession.builder.remote(stack["spark"]["remote"]).create()
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    fields = [
        (f"v{n}", row.schema or ["null", "long"], *(() if row.schema else (None,)))
        for n, row in enumerate(AVRO)
    ]
    old, new = record(*fields[:-1]), record(*fields)
    decoding = Decoding(
        "avro", columns_of(new), 0, {1: schema_of(old), 2: schema_of(new)}, reader=schema_of(new)
    )
    value = {f"v{n}": row.value for n, row in enumerate(AVRO) if row.schema}
    [row] = rows_of(spark, decoding, [framed(1, encoded(old, value))])
    assert row[FATE] == "written"
    yield row
    spark.stop()


@pytest.mark.parametrize("row", AVRO, ids=lambda row: row.written)
def test_the_value_lands_as_the_matrix_says(decoded: dict[str, Any], row: TypeRow) -> None:
    assert exact(decoded.get(f"v{AVRO.index(row)}")) == exact(row.lands)
