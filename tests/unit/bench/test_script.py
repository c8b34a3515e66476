"""The script that one would write by hand decodes every format into the columns of the table, value by value."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.sidebyside.columns import Columns
from bench.sidebyside.peers import proto_arrow, script
from bench.sidebyside.workload import WORKLOADS, ordered_at

COUNT = 300


@pytest.fixture
def script_job(monkeypatch):
    """It runs as a file of its own, beside the other."""
    pytest.importorskip("pyruhvro", reason="of the dependency group bench")
    monkeypatch.syspath_prepend(str(Path(proto_arrow.__file__).parent))
    import script_job  # noqa: PLC0415

    yield script_job
    for name in ("script_job", "proto_arrow"):
        sys.modules.pop(name)


@pytest.mark.parametrize("name", ["orders", "json", "protobuf"])
def test_each_value_is_the_one_that_was_sent(script_job, name):
    workload = WORKLOADS[name]
    schema, _ = Columns(workload).iceberg()
    job = {"format": workload.value_format, "schema": script.schema_of(workload), "cores": 1}
    rows = script_job.decoder(job)(list(workload.values(COUNT, 7)))
    found = script_job.cast(rows, schema.as_arrow()).to_pylist()
    assert len(found) == COUNT
    for number, row in enumerate(found):
        at = datetime.fromtimestamp(ordered_at(number, COUNT) / 1000, UTC)
        assert row == {"order_id": number, "ordered_at": at, **workload.body(number)}
