"""What a merge of changed keys costs, beside a plain hand-written MERGE of the same rows in the same run.

    tidemark services up
    python bench/upsert.py --rows 1000000 --changed 10000          # spread and concentrated, format 2 and 3
    python bench/upsert.py --rows 1000000 10000000 --formats 3     # and how the cost grows with the table

The append table is filled by Spark, without Kafka: the subject begins where it ends. Figures depend on the machine:
quote the ratios, each of which stands beside its goal. CPU is that of the Spark server and of this process.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parent))
from cpu import cpu_of

from tidemark.domain.columns.types import KAFKA_COLUMN, LONG, STRING, Field, Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.ledger.ledger import Ledger
from tidemark.engine.access.lake import Lake
from tidemark.engine.config.configuration import load_from_environment
from tidemark.engine.lane.merge_catch_up import catch_up_merges
from tidemark.engine.table.branch import Attempt, open_branch
from tidemark.engine.table.create import create
from tidemark.engine.table.first_load import base_properties
from tidemark.engine.table.publish import publish
from tidemark.services.stack import Stack

BY_HAND, TIMES_CHANGED, TEN_TIMES_THE_ROWS = 1.0, 3.0, 2.0
"""Goals: no slower than by hand, bytes over those of the changed rows, and cost in a table of ten times the rows."""
VALUES = Struct((Field("id", LONG), Field("note", STRING), Field("amount", LONG), KAFKA_COLUMN))


def contract_of(version: int) -> Contract:
    name = f"upsert_{uuid4().hex[:8]}"
    upsert = {"keys": ["id"], "table": f"bench.{name}_current"}
    value = {"format": "json"}
    return Contract(topic=name, table=f"bench.{name}", value=value, upsert=upsert, format_version=version)


def append(lake: Lake, contract: Contract, ids: str, start: int, count: int) -> None:
    """Rows with keys `ids` (SQL on column n) at offsets from `start`, published with a receipt."""
    spark, before = lake.spark(), lake.state(contract.table)
    attempt = Attempt(contract.table, f"tidemark_{uuid4().hex}", before.head)
    made = open_branch(lake, attempt)
    rows = spark.range(start, start + count, 1, 2).selectExpr(
        f"{ids.replace('n', f'(id - {start})')} AS id",
        f"concat('{'x' * 60}', id) AS note",
        "id AS amount",
        "named_struct('topic', 't', 'partition', 0, 'offset', id, 'timestamp', timestamp_millis(id), 'timestamp_type', "
        "0, 'key', cast(NULL AS binary), 'headers', cast(NULL AS array<struct<key: string, value: binary>>), "
        "'schema_id', cast(NULL AS int), 'tombstone', false, 'epoch', 0) AS _kafka",
    )
    rows.writeTo(f"{lake.identifier(contract.table)}.`branch_{attempt.branch}`").append()
    table = lake.catalog.load_table(contract.table)
    data = table.metadata.snapshot_by_name(attempt.branch).snapshot_id
    ledger = Ledger(cluster_id="b", topic_id="b", topic=contract.topic, next={0: start + count})
    publish(lake, attempt, made | {data}, ledger)


def plain(lake: Lake, contract: Contract, target: str, start: int) -> None:
    """What one would write by hand: one MERGE of the newest row per key, without guard, stage, audit or receipt."""
    source = f"{lake.identifier(contract.table)} WHERE _kafka.offset >= {start}"
    lake.spark().sql(
        f"MERGE INTO {target} t USING (SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY "
        f"_kafka.offset DESC) AS r FROM {source}) WHERE r = 1) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id, note = s.note, amount = s.amount, _kafka = s._kafka "
        "WHEN NOT MATCHED THEN INSERT (id, note, amount, _kafka) VALUES (s.id, s.note, s.amount, s._kafka)"
    )


def measure(lake: Lake, stack: dict[str, Any], version: int, rows: int, changed: int) -> dict[str, float]:
    """Seconds by shape."""
    contract = contract_of(version)
    current = upsert_table_of(contract)
    create(lake, contract, VALUES, {**base_properties(contract), "tidemark.topic": contract.topic})
    append(lake, contract, "n", 0, rows)
    _, first = cost(stack, lambda: catch_up_merges(lake, current, "bench"))
    by_hand = lake.identifier(f"{contract.table}_plain")
    lake.spark().sql(
        f"CREATE TABLE {by_hand} USING iceberg TBLPROPERTIES ('format-version'='{version}', "
        "'write.merge.mode'='merge-on-read', 'write.parquet.compression-codec'='zstd') AS "
        f"SELECT * FROM {lake.identifier(current.contract.table)}"
    )
    print(f"format {version}, {rows:,} rows; first load {first:.1f} s")
    a_row = written(lake, current.contract.table)[0] / rows
    took = {}
    offset = rows
    step = max(1, rows // changed)
    shapes = {"warm-up": f"n * {step}", "spread": f"n * {step}", "together": "n + 1000"}
    for name, ids in shapes.items():
        append(lake, contract, ids, offset, changed)
        start, offset = offset, offset + changed
        cpu, seconds = cost(stack, lambda: catch_up_merges(lake, current, "bench"))
        hand_cpu, hand = cost(stack, lambda first=start: plain(lake, contract, by_hand, first))
        if name != "warm-up":
            size, files = written(lake, current.contract.table)
            other, _ = written(lake, f"{contract.table}_plain")
            took[name] = seconds
            print(
                f"{name:>10} tidemark {seconds:6.2f} s {cpu:6.2f} s CPU {size / 1e6:6.2f} MB in {files} files;  "
                f"by hand {hand:6.2f} s {hand_cpu:6.2f} s CPU {other / 1e6:6.2f} MB;"
                f"  ratio {beside(seconds / hand, BY_HAND)}, "
                f"bytes over changed rows {beside(size / (a_row * changed), TIMES_CHANGED)}"
            )
    return took


def beside(ratio: float, goal: float) -> str:
    """A ratio beside its goal."""
    return f"{ratio:.2f} (goal at most {goal:g}{'' if ratio <= goal else ', missed'})"


def written(lake: Lake, table: str) -> tuple[int, int]:
    """Bytes and files that the newest snapshot with rows has added."""
    for snapshot in reversed(lake.catalog.load_table(table).metadata.snapshots):
        summary = snapshot.summary.additional_properties
        if "added-files-size" in summary:
            added = int(summary.get("added-data-files", 0)) + int(summary.get("added-delete-files", 0))
            return int(summary["added-files-size"]), added
    return 0, 0


def cost(stack: dict[str, Any], job: Callable[[], Any]) -> tuple[float, float]:
    began, before = time.perf_counter(), cpu_of(stack)
    found = job()
    if getattr(found, "error", None):
        raise SystemExit(found.error["message"])
    return cpu_of(stack) - before, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--changed", type=int, default=10_000)
    parser.add_argument("--formats", type=int, nargs="+", default=[2, 3])
    arguments = parser.parse_args()
    stack = Stack(Path(os.environ.get("TIDEMARK_HOME", ".tidemark"))).status()
    lake = Lake(load_from_environment())
    for version in arguments.formats:
        first, *larger = arguments.rows
        small = measure(lake, stack, version, first, arguments.changed)
        for rows in larger:
            for name, seconds in measure(lake, stack, version, rows, arguments.changed).items():
                goal = TEN_TIMES_THE_ROWS
                print(f"{name:>10} {rows:,} rows over {first:,}: {beside(seconds / small[name], goal)}")
    lake.close()


if __name__ == "__main__":
    main()
