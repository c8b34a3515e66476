"""Rule: a table that PyIceberg makes is the one that Spark would have made."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tidemark.domain.columns.types import (
    BINARY,
    DATE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    Field,
    ListType,
    MapType,
    Struct,
    decimal,
    table_columns,
)
from tidemark.engine.table.create import create
from tidemark.engine.table.first_load import base_properties

COLUMNS = table_columns(
    Struct(
        (
            Field("id", LONG, "what it's \\ called, $1", required=True),
            Field("at", TIMESTAMPTZ),
            Field("day", DATE),
            Field("local", TIMESTAMP),
            Field("amount", decimal(20, 4)),
            Field("city", STRING),
            Field("photo", BINARY),
            Field("share", FLOAT),
            Field("a.b", STRING),
            Field("in `it`", STRING),
            Field("lines", ListType(Struct((Field("sku", STRING, "of the shop"), Field("n", INT))))),
            Field("by_name", MapType(STRING, Struct((Field("z", MapType(INT, ListType(DATE))),)))),
            Field("shop", Struct((Field("id", INT), Field("in", Struct((Field("zip", STRING),)))))),
        )
    )
)
LAYOUTS = {
    "plain": {},
    "by time": {"partition_by": ["day(at)", "hour(_kafka.timestamp)"], "sort_by": ["id"]},
    "by much": {
        "partition_by": ["bucket(16, id)", "truncate(4, city)", "month(day)", "year(local)", "shop.in.zip"],
        "sort_by": ["shop.id", "_kafka.offset", "`in ``it```"],
    },
    "by odd names": {"partition_by": ["`a.b`", "truncate(2, `in ``it```)", "bucket(3, amount)"]},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_is_made_as_spark_makes_one(lakehouse, layout):
    topic = lakehouse.cluster.topic(f"new_{layout.replace(' ', '_')}")
    says = {**LAYOUTS[layout], "description": "It's `one` of $many, \\ with a\nline"}
    made = {}
    for version in (2, 3):  # PyIceberg writes no format 3: that one is made by Spark
        table = lakehouse.table(topic, f"{topic.name}_{version}", format_version=version, **says)
        properties = {**base_properties(table.contract), "tidemark.says": "it's \\ $1"}
        for _ in range(2):  # the second finds it there
            create(lakehouse.lake, table.contract, COLUMNS, properties, ("id",) if layout == "plain" else ())
        made[version] = metadata(table)
    assert made[2] == made[3]
    assert made[2]["properties"]["tidemark.says"] == "it's \\ $1"


def metadata(table):
    """What the table's metadata say, but for what comes from its format and its time."""
    found = table.iceberg().metadata
    properties = dict(found.properties)
    owner = properties.pop("owner", None)  # the login name of whoever started the Spark server
    assert owner is None or found.format_version == 3
    return {
        "fields": found.schema().fields,
        "identifiers": found.schema().identifier_field_ids,
        "partitions": found.spec(),
        "order": found.sort_order_by_id(found.default_sort_order_id).fields,
        "ids": (found.last_column_id, found.last_partition_id),
        "properties": properties,
        "snapshots": (found.current_snapshot_id, found.snapshots, found.refs),
        "folder": found.location.rpartition("/")[0],
    }


def test_of_many_that_make_it_at_once_all_find_it_made(lakehouse):
    topic = lakehouse.cluster.topic("new_race")
    table = lakehouse.table(topic)
    lakes = [lakehouse.open_lake() for _ in range(6)]
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda lake: create(lake, table.contract, COLUMNS, {"made": "once"}), lakes))
    finally:
        for lake in lakes:
            lake.close()
    assert table.iceberg().metadata.properties["made"] == "once"
    assert table.head is None
