"""A look at a table that is written by key, through Spark: what it holds, key by key, and what reading it costs."""

import json
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.sidebyside.ground import Ground, Look, stored
from bench.sidebyside.meter import Meter
from bench.sidebyside.peers.spark_streaming import ENVIRON, spark_conf
from bench.sidebyside.workload import Sums
from tidemark.services.catalog import NAME

JOB = Path(__file__).parent / "peers" / "read_job.py"


def look_by_key(ground: Ground, table: str) -> Look:
    """Every key with its time, and the seconds of a full read; raises Failed."""
    settings, answer, found = (ground.home / f"{table}.read.{kind}" for kind in ("json", "txt", "parquet"))
    job = {
        "conf": spark_conf(ground, str(ground.home / "read.scratch")),
        "table": f"{NAME}.{table}",
        "answer": str(answer),
        "rows": str(found),
    }
    settings.write_text(json.dumps(job))
    with Meter(ground.home / f"{table}.read.log") as unmeasured:
        unmeasured.run([sys.executable, JOB, settings], ENVIRON)
    rows = pq.read_table(found)
    ids, times = (rows[name].to_pylist() for name in ("order_id", "at"))
    cents = pc.sum(rows["amount_cents"]).as_py() or 0
    sums = Sums(len(ids), len(set(ids)), sum(ids), cents, dict(zip(ids, times, strict=True)))
    return Look(sums, *stored(ground.catalog.load_table(table)), float(answer.read_text()))
