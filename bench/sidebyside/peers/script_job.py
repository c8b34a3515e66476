"""What one would write by hand, and its parts: `python script_job.py SETTINGS.json`.

`mode` table: consume, decode, append to the table. consume: read only. decode, parquet: read the topic into memory,
then print the CPU seconds of that part alone.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyiceberg.catalog import load_catalog
from pyruhvro import deserialize_array_threaded

HEADER = 5
BATCH = 500_000
POLL = 20_000


def batches(job: dict[str, Any]) -> Iterator[list[bytes]]:
    """The values of the topic, `BATCH` or so at a time."""
    consumer = Consumer(job["consumer"])
    consumer.assign([TopicPartition(job["topic"], p, OFFSET_BEGINNING) for p in range(job["partitions"])])
    left, held = job["records"], []
    while left:
        found = [message.value() for message in consumer.consume(POLL, timeout=1)]
        left -= len(found)
        held += found
        if len(held) >= BATCH or not left:
            yield held
            held = []
    consumer.close()


def decoded(values: list[bytes], avro: str, cores: int) -> pa.Table:
    """Avro to Arrow, in Rust."""
    return pa.Table.from_batches(deserialize_array_threaded([v[HEADER:] for v in values], avro, cores))


def to_table(job: dict[str, Any]) -> None:
    """Append to the Iceberg table, a few times."""
    table = load_catalog(job["catalog"]["name"], **job["catalog"]["properties"]).load_table(job["table"])
    wanted = table.schema().as_arrow()
    for values in batches(job):
        table.append(_cast(decoded(values, job["avro"], job["cores"]), wanted))


def _cast(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    at = rows.schema.get_field_index("ordered_at")
    zoned = rows["ordered_at"].cast(pa.timestamp("us", "UTC"))
    rows = rows.set_column(at, pa.field("ordered_at", pa.timestamp("us", "UTC")), zoned)
    return pa.table([rows[n].cast(wanted.field(n).type) for n in rows.column_names], names=rows.column_names)


def part(job: dict[str, Any]) -> float:
    """CPU seconds of decoding, or of writing Parquet."""
    spent = 0.0
    for number, values in enumerate(batches(job)):
        began = time.process_time()
        rows = decoded(values, job["avro"], job["cores"])
        if job["mode"] == "parquet":
            began = time.process_time()
            pq.write_table(rows, f"{job['folder']}/{number}.parquet", compression="zstd", compression_level=1)
        spent += time.process_time() - began
    return spent


def main() -> None:
    """Do it."""
    job = json.loads(Path(sys.argv[1]).read_text())
    if job["mode"] == "table":
        to_table(job)
    elif job["mode"] == "consume":
        for _ in batches(job):
            pass
    else:
        Path(job["answer"]).write_text(str(part(job)))


if __name__ == "__main__":
    main()
