"""Rule: what maintenance looks at of a table is read from its manifests, in memory that grows with files, not with columns."""

import tracemalloc

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidemark.engine.table.live_files import read_layout

FILES = 200


@pytest.mark.parametrize("columns", [1, 150])
def test_files_of_wide_tables_take_no_more_memory_than_those_of_narrow_ones(tmp_path, columns):
    """Given a table with a file in each of many partitions, then all of them are told, each with its rows and size, and statistics of columns are not kept."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    rows = pa.table({"p": list(range(FILES)), **{f"c{n}": [1] * FILES for n in range(columns)}})
    table = catalog.create_table("n.t", rows.schema)
    with table.update_spec() as spec:
        spec.add_identity("p")
    table.append(rows)
    table.delete("p = 7")
    tracemalloc.start()
    try:
        layout = read_layout(table)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    files = table.inspect.files()
    assert {each.name: (each.sizes, each.rows) for each in layout.partitions} == {
        f"p={n}": ((size,), 1)
        for n, size in zip(
            (each["p"] for each in files["partition"].to_pylist()),
            files["file_size_in_bytes"].to_pylist(),
            strict=True,
        )
    }
    assert len(layout.partitions) == FILES - 1
    assert taken / FILES < 8_000


def test_specs_with_several_manifests_are_told(tmp_path):
    """Given files of two partition specs, when each has come in a commit of its own, then a spec with more than one is scattered, unless a column of it is gone."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    table, found = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("p", pa.int64())])), []
    for _ in range(2):
        for _ in range(2):
            table.append(pa.table({"id": [1], "p": [1]}))
            found.append(read_layout(table).scattered)
        with table.update_spec() as spec:
            spec.remove_field("p") if found[2:] else spec.add_identity("p")
    with table.update_schema() as schema:
        schema.delete_column("p")
    assert [*found, read_layout(table).scattered] == [(), (0,), (0,), (0, 1), (0,)]
