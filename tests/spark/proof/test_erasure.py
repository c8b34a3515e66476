"""Rule: what the runbook says of erasing a person's rows is so: nothing of them is left, and all goes on."""

import time
from pathlib import Path
from urllib.parse import urlparse

import pyarrow.parquet as pq
from upserted import Upserted

from tidemark.engine.maintain.maintain import maintain
from tidemark.engine.operate.replay_quarantine import Selection, replay_quarantine
from tidemark.engine.table.operations import Signature
from tidemark.engine.verify.reconcile import reconcile
from tidemark.engine.verify.where import where_key

ANNA = 7_777_001
KEY = str(ANNA).encode()
SOON = {"snapshots": {"max_age": "1s", "min_keep": 1}}


def test_the_rows_of_a_person_can_be_erased_from_every_table_and_file(lakehouse):
    """Given a person's rows, delete and broken record, when the runbook is followed, then no file names her, and reconcile tells gaps until Kafka has forgotten her too."""
    made = Upserted(lakehouse, partitions=1, order_by=["ts"])
    made.declare(maintenance=SOON)
    tables = [made.append.name, made.append.contract.quarantine_table, made.name, made.current.memory]
    lake, contract = lakehouse.lake, made.append.contract

    def sql(text):
        return lakehouse.spark().sql(text).collect()

    made.both((1, "bo", 1), (ANNA, "anna@x", 1))
    made.topic.send_raw([(KEY, b'{"id": "anna@x', 0)])
    made.both((ANNA, None))
    assert {each.fate for each in where_key(lake, contract, KEY)[0]} == {"published", "quarantined"}
    assert [table for table in tables if named_in(lakehouse, table)] == tables
    assert made.rows() == {1: "bo"}, "the tombstone took her row"

    sql(f"DELETE FROM lake.{made.append.name} WHERE id = {ANNA}")
    sql(f"DELETE FROM lake.{made.name} WHERE id = {ANNA}")
    sql(f"DROP TABLE lake.{made.current.memory} PURGE")
    sql(
        f"UPDATE lake.{tables[1]} SET key = NULL, value = X'', headers = NULL, detail = NULL "
        f"WHERE key = X'{KEY.hex()}'"
    )
    told = reconcile(lake, contract)
    assert (told.sound, told.counts[0].gaps, told.counts[0].quarantined) == (False, [(1, 2), (3, 4)], 1)
    assert replay_quarantine(lake, contract, Selection(), Signature("ada", "a test")).arguments["moved"] == 0
    for table in tables[:3]:
        rewrite = f"table => '{table}', options => map('delete-file-threshold', '1', 'rewrite-all', 'true')"
        sql(f"CALL lake.system.rewrite_data_files({rewrite})")
    made.both((2, "cy", 1))
    time.sleep(1.1)
    assert not [g for g in maintain(lake, contract, ("snapshot_expiry",)) if g.error]
    assert [table for table in tables[:3] if named_in(lakehouse, table)] == []
    assert made.rows() == {1: "bo", 2: "cy"}

    made.topic.delete_records({0: 4})
    assert reconcile(lake, contract).sound


def named_in(lakehouse, table):
    """Data files below the table's folder that hold her, whoever still names them."""
    folder = Path(urlparse(lakehouse.catalog.load_table(table).location()).path) / "data"
    rows = {file: str(pq.read_table(file).to_pylist()) for file in folder.rglob("*.parquet")}
    return [file for file, text in rows.items() if "anna@" in text or str(ANNA) in text]
