"""What decoding costs per format: records of five fields made inside Spark, decoded, and thrown away.

    tidemark services up
    python bench/formats.py --records 1000000

Best of three; "source" is making the same values without decoding them. Figures depend on the machine.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import psutil
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql import DataFrame, SparkSession

from tidemark.domain.formats import json_schema, protobuf_columns
from tidemark.domain.formats.json_columns import columns, declared
from tidemark.engine.access.spark_limits import SESSION_SETTINGS
from tidemark.engine.decode.decoding import NO_ID, Decoding
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import FATE
from tidemark.engine.schema import protobuf
from tidemark.engine.schema.protoc import compile_proto
from tidemark.services.stack import Stack

SCHEMA_ID = 7
HEAD = f"unhex('00{SCHEMA_ID:08x}')"
DOCUMENT = """cast(concat('{"order_id": ', id, ', "customer_id": ', id * 7, ', "amount": ', id % 100000 / 100,
 ', "status": "PAID", "ordered_at": "2026-01-02T03:04:05.678Z"}') as binary)"""
FIELDS = {
    "order_id": "bigint",
    "customer_id": "bigint",
    "amount": "double",
    "status": "string",
    "ordered_at": "timestamp",
}
SCHEMA = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer"},
        "customer_id": {"type": "integer"},
        "amount": {"type": "number", "minimum": 0},
        "status": {"type": "string"},
        "ordered_at": {"type": "string", "format": "date-time"},
    },
    "required": ["order_id"],
}
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto"; message Order { int64 order_id = 1;
 int64 customer_id = 2; double amount = 3; string status = 4; google.protobuf.Timestamp ordered_at = 5; }"""


def cases() -> dict[str, tuple[str, Decoding]]:
    """By format: the value as Spark SQL over `id`, and how it is decoded."""
    documents = declared(FIELDS)
    schema = json_schema.parse(json.dumps(SCHEMA))
    message = protobuf.read(compile_proto(PROTO))
    order = message_class(message.descriptors)(order_id=12345, customer_id=991, amount=12.34, status="PAID")
    order.ordered_at.FromMilliseconds(1767323045678)
    payload = f"if(id >= 0, concat({HEAD}, unhex('00{order.SerializeToString().hex()}')), null)"
    return {
        "json": (DOCUMENT, Decoding("json", columns(documents), 0, {NO_ID: documents}, framing="bare")),
        "json_schema": (
            f"concat({HEAD}, {DOCUMENT})",
            Decoding("json_schema", columns(schema), 0, {SCHEMA_ID: schema}),
        ),
        "protobuf": (
            payload,
            Decoding("protobuf", protobuf_columns.columns(message), 0, {SCHEMA_ID: message}),
        ),
    }


def message_class(descriptors: bytes) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def source(spark: SparkSession, value: str, records: int) -> DataFrame:
    return spark.range(0, records, 1, 2).selectExpr(
        "cast(cast(id as string) as binary) key",
        f"{value} value",
        "'orders' topic",
        "0 partition",
        "id offset",
        "current_timestamp() timestamp",
        "0 timestampType",
        "cast(null as array<struct<key: string, value: binary>>) headers",
    )


def measured(server: psutil.Process, frame: DataFrame) -> tuple[float, float]:
    """(CPU seconds of the server and its Python, wall seconds), the best of three."""
    found = []
    for _ in range(3):
        before, began = _cpu(server), time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        found.append((_cpu(server) - before, time.perf_counter() - began))
    return min(found)


def _cpu(server: psutil.Process) -> float:
    times = [p.cpu_times() for p in (server, *server.children(recursive=True))]
    return float(sum(t.user + t.system for t in times))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    records = parser.parse_args().records
    stack = Stack(Path(os.environ.get("TIDEMARK_HOME", ".tidemark"))).status()
    server = psutil.Process(stack["processes"]["spark"])
    spark = SparkSession.builder.remote(stack["spark"]["remote"]).create()
    for key, value in SESSION_SETTINGS.items():
        spark.conf.set(key, value)
    print(f"{'':>22} {'records/s':>10} {'CPU µs/record':>14}")
    for name, (value, decoding) in cases().items():
        raw = source(spark, value, records)
        for what, frame in (("source", raw), ("decoded", decode(raw, decoding).where(f"{FATE} = 'written'"))):
            cpu, seconds = measured(server, frame)
            print(
                f"{name:>12} {what:>9} {records / seconds:>10,.0f} {cpu / records * 1e6:>14.2f}", flush=True
            )
    spark.stop()


if __name__ == "__main__":
    main()
