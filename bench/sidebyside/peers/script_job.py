"""What one would write by hand, and its parts: `python script_job.py SETTINGS.json`.

`mode` table: consume, decode, append to the table. consume: read only. decode, parquet: read the topic into memory,
then print the CPU seconds of that part alone.
"""

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import proto_arrow
import pyarrow as pa
import pyarrow.json as pj
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


def decoder(job: dict[str, Any]) -> Callable[[list[bytes]], pa.Table]:
    """The fastest way of Python to Arrow: Avro in Rust, JSON in C++, Protobuf by its own C library and lists."""
    schema, cores = job["schema"], job["cores"]
    match job["format"]:
        case "avro":
            return lambda values: pa.Table.from_batches(
                deserialize_array_threaded([v[HEADER:] for v in values], schema, cores)
            )
        case "protobuf":
            kind = proto_arrow.message_class(base64.b64decode(schema))
            return lambda values: proto_arrow.to_arrow(kind, values)
        case _:
            kinds = {n: pa.type_for_alias(k) if k else pa.timestamp("us", "UTC") for n, k in schema.items()}
            how = pj.ParseOptions(explicit_schema=pa.schema(kinds), unexpected_field_behavior="error")
            return lambda values: pj.read_json(pa.BufferReader(b"\n".join(values)), parse_options=how)


def to_table(job: dict[str, Any]) -> None:
    """Append to the Iceberg table, a few times."""
    table = load_catalog(job["catalog"]["name"], **job["catalog"]["properties"]).load_table(job["table"])
    wanted, decoded = table.schema().as_arrow(), decoder(job)
    for values in batches(job):
        table.append(cast(decoded(values), wanted))


def cast(rows: pa.Table, wanted: pa.Schema) -> pa.Table:
    """With the table's types."""
    at = rows.schema.get_field_index("ordered_at")
    zoned = rows["ordered_at"].cast(pa.timestamp("us", "UTC"))
    rows = rows.set_column(at, pa.field("ordered_at", pa.timestamp("us", "UTC")), zoned)
    return pa.table([rows[n].cast(wanted.field(n).type) for n in rows.column_names], names=rows.column_names)


def part(job: dict[str, Any]) -> float:
    """CPU seconds of decoding, or of writing Parquet."""
    spent, decoded = 0.0, decoder(job)
    for number, values in enumerate(batches(job)):
        began = time.process_time()
        rows = decoded(values)
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
