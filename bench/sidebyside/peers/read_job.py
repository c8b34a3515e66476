"""Read a table as a user's Spark would: `python read_job.py SETTINGS.json`.

PyIceberg cannot read what has equality deletes.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from spark_session import opened


def main() -> None:
    """Write ids, times and amounts to a Parquet file, and how long a full read took once everything was warm."""
    job = json.loads(Path(sys.argv[1]).read_text())
    spark = opened(job)
    rows = spark.table(job["table"])
    found = rows.selectExpr("order_id", "unix_millis(ordered_at) AS at", "amount_cents").toArrow()
    rows.write.format("noop").mode("overwrite").save()
    began = time.perf_counter()
    rows.write.format("noop").mode("overwrite").save()
    Path(job["answer"]).write_text(str(time.perf_counter() - began))
    pq.write_table(found, job["rows"])


if __name__ == "__main__":
    main()
