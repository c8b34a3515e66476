"""Rows of records are listed whatever time their producer wrote."""

import pyarrow as pa
import pytest

from tidemark.engine.verify.kafka_rows import listed

FAR = 1_763_900_000_000_000_000
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
