"""The columns by which quarantine rows are told and counted."""

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("epoch", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("batch_id", pa.string()),
        ("resolved_by", pa.string()),
        ("resolved_at", pa.timestamp("us", "UTC")),
    ]
)
