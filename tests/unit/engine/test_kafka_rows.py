"""Rows of records are listed whatever time their producer wrote, and never too many at once."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.domain.config.contract import Contract
from tidemark.domain.ledger.ledger import Ledger
from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.verify.kafka_rows import FORMAT, listed
from tidemark.engine.verify.marks import FEW, ROW, beyond, inside
from tidemark.engine.verify.reconcile import MARKS, _Comparison

FAR = 1_763_900_000_000_000_000
PLACE = pa.struct([("partition", pa.int32()), ("offset", pa.int64()), ("epoch", pa.int32())])
TIMES = pa.array([FAR, 5, None], pa.int64()).cast(pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"offset": [1, 2, 3], "timestamp": TIMES}),
        pa.StructArray.from_arrays([pa.array([1, 2, 3]), TIMES], names=["offset", "timestamp"]),
    ],
)
def test_a_time_beyond_year_9999_is_a_number_of_microseconds_like_every_other(rows):
    assert listed(rows) == [
        {"offset": 1, "timestamp": FAR},
        {"offset": 2, "timestamp": 5},
        {"offset": 3, "timestamp": None},
    ]


@pytest.mark.parametrize(("kind", "most", "asked"), [("avro", MARKS // 16, 1), ("parquet", MARKS, 0)])
def test_what_spark_brings_to_the_client_at_once_is_one_small_window(
    tmp_path: Path, kind: str, most: int, asked: int
) -> None:
    """Given a table of Avro files with many partitions, when reconciled, then windows are small, and Spark is asked for
    the rows of one and no others."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema([("_kafka", PLACE)]), properties={FORMAT: kind})
    table.append(table.schema().as_arrow().empty_table())
    texts: list[str] = []
    found = pa.table(
        {"partition": pa.array([3], pa.int32()), "offset": [301], "epoch": pa.array([0], pa.int32())}
    )
    spark = SimpleNamespace(sql=lambda text: texts.append(text) or SimpleNamespace(toArrow=lambda: found))
    lake: Any = SimpleNamespace(spark=lambda: spark, identifier=lambda name: name)
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", start={}, next={})
    head = table.metadata.current_snapshot_id
    work = _Comparison(
        lake, Contract(topic="orders", table="shop.orders"), head, ledger, {}, lambda *_: None, table
    )
    window = {p: OffsetRange(100 * p, 100 * p + 5) for p in range(FEW + 1)}
    marks = {p: np.zeros(5, dtype=np.uint8) for p in window}
    work._mark_rows(window, marks)
    assert (work.most, len(texts)) == (most, asked)
    where = f"WHERE _kafka.epoch = 0 AND ({inside(window, '_kafka.', exact=True)})"
    assert all(text.endswith(where) for text in texts)
    assert sum(int(each.sum()) for each in marks.values()) == asked * ROW == int(marks[3][1])


def test_no_row_of_an_earlier_epoch_is_read_for_what_the_ledger_does_not_cover(tmp_path: Path) -> None:
    """Given a topic that was made anew, of which little is read, when rows are looked for at or after `next`, then those of before do not come."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema([("_kafka", PLACE)]))
    before = [{"partition": 0, "offset": n, "epoch": 0} for n in range(100)]
    since = [{"partition": p, "offset": 2, "epoch": 1} for p in (0, 1)]
    table.append(pa.table({"_kafka": pa.array(before + since, PLACE)}))
    ledger = Ledger(cluster_id="c", topic_id="t", topic="orders", epoch=1, start={0: 0}, next={0: 2})
    contract = Contract(topic="orders", table="shop.orders")
    head = table.metadata.current_snapshot_id
    lake: Any = None
    work = _Comparison(lake, contract, head, ledger, {}, lambda *_: None, table)
    assert sum(len(each.offset) for each in work._rows(beyond(ledger.next, "_kafka."))) == 2
    work.count_beyond()
    assert {p: each.beyond for p, each in work.counts.items()} == {0: 1, 1: 1}
