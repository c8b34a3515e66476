"""Pages of the writer in `tidemark/jvm` whose values are all NULL or all the same, and the bounds of texts."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.services import own_jar as module
from tidemark.services.download import fetch
from tidemark.services.java import find_java
from tidemark.services.manifest import classpath
from tidemark.services.own_jar import own_jar, pyspark_home

ROWS = 6_000
PAGE = 768
"""Rows of a page of 700: it is looked at every 128."""
FLAT = {
    "id": ("BIGINT", "id"),
    "sizes": ("STRING", "left(md5(string(id)), CAST(id % 18 AS INT))"),
    "at_the_end": ("STRING", "left('qponmlkjihgfedcba', CAST(id * 7 % 18 AS INT))"),
    "alike": ("STRING", "concat('equal prefix ', id * 7919 % 9973)"),
    "zeros": ("STRING", "concat(repeat(chr(0), CAST((id + 3) % 11 AS INT)), IF(id % 5 = 0, 'a', ''))"),
    "beyond_ascii": ("STRING", "element_at(array('é', 'z', 'ÿ', '😀', 'zé', '￿'), CAST(id % 6 + 1 AS INT))"),
    "bytes": ("BINARY", "unhex(left(md5(string(id)), CAST(id % 10 * 2 AS INT)))"),
    "wide": ("DECIMAL(38,10)", "CAST((id - 3000) * 99999999999 AS DECIMAL(38,10)) * 10000"),
    "one": ("STRING", "'always'"),
    "empty": ("STRING", "''"),
    "one_or_null": ("STRING", "IF(id % 3 = 0, NULL, 'same')"),
    "turns": ("STRING", "IF(id < 3001, 'first', 'second')"),
    "turns_within_rows": ("STRING", "IF(id % 1000 < 993, 'before', 'after')"),
    "by_page": ("STRING", f"IF(id DIV {PAGE} % 2 = 0, 'even', 'odd')"),
    "turns_to_many": ("STRING", "IF(id < 3001, 'one', concat('x', id))"),
    "many_then_one": ("STRING", "IF(id % 4000 < 1000, sha2(string(id), 256), 'one')"),
    "long": ("STRING", "IF(id % 2000 < 1990, repeat('long', 50), 'short')"),
    "seldom": ("STRING", "IF(id < 2000, IF(id % 2 = 0, 'a', 'b'), IF(id % 200 = 0, 'b', NULL))"),
    "seldom_a_number": ("INT", "IF(id < 2000, CAST(id % 9 AS INT), IF(id % 200 = 0, 8, NULL))"),
    "number": ("INT", "7"),
    "number_turns": ("INT", "IF(id < 3001, -1, 1)"),
    "number_by_page": ("BIGINT", f"id DIV {PAGE}"),
    "many_numbers_then_one": ("BIGINT", "IF(id < 3001, id * 7919, 5)"),
    "zero": ("DOUBLE", "IF(id < 3001, -0d, 0d)"),
    "time": ("TIMESTAMP", "timestamp_micros(-1)"),
}
NESTED = {
    "list": ("ARRAY<STRUCT<key: STRING, value: BINARY>>", "array(named_struct('key', 'k', 'value', NULL))"),
    "map": ("MAP<STRING, ARRAY<INT>>", "map('a', array(1, NULL), concat('b', id), NULL)"),
    "inner": (
        "STRUCT<text: STRING, list: ARRAY<INT>, more: STRUCT<map: MAP<STRING, INT>>>",
        (
            "named_struct('text', IF(id % 2 = 0, NULL, IF(id % 40 > 35, 'u', 't')), 'list', CAST(NULL AS ARRAY<INT>), "
            "'more', named_struct('map', CAST(NULL AS MAP<STRING, INT>)))"
        ),
    ),
}
COLUMNS = {
    **FLAT,
    **{name: (kind, f"IF(id DIV 40 % 3 = 0, {made}, NULL)") for name, (kind, made) in NESTED.items()},
    "never": (NESTED["list"][0], "NULL"),
    "there": (NESTED["inner"][0], NESTED["inner"][1]),
}
SMALL_PAGES = {
    "write.parquet.page-row-limit": "700",
    "write.parquet.row-group-size-bytes": "450000",
    "write.metadata.metrics.default": "full",
}
WRITERS = {"together": {}, "singly": {}, "theirs": {"write.parquet.bloom-filter-enabled.column.id": "true"}}
"""Rows that wait for each other, rows of bytes that do not, and Iceberg's own writer."""
RUNS = """package tidemark.parquet;

import java.util.Arrays;
import org.apache.iceberg.shaded.org.apache.parquet.bytes.HeapByteBufferAllocator;
import org.apache.iceberg.shaded.org.apache.parquet.column.values.rle.RunLengthBitPackingHybridEncoder;

final class Runs {
  public static void main(String[] args) throws Exception {
    for (int width = 0; width < 32; width++) {
      for (int number : new int[] {0, 1, 300, 70_000, Integer.MAX_VALUE}) {
        int fits = number & (int) ((1L << width) - 1);
        for (int times : new int[] {8, 9, 63, 64, 504, 8191, 8192, 20_000}) {
          var encoder = new RunLengthBitPackingHybridEncoder(width, 64, 64, HeapByteBufferAllocator.getInstance());
          for (int i = 0; i < times; i++) {
            encoder.writeInt(fits);
          }
          if (!Arrays.equals(encoder.toBytes().toByteArray(), Levels.run(fits, times, width).toByteArray())) {
            System.out.println(width + " bits, " + times + " times " + fits);
          }
        }
      }
    }
    System.out.print("told");
  }
}
"""


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.pages")
    return spark


def write(spark: SparkSession, stack: dict[str, Any], table: str, writer: str, count: int) -> dict[str, Any]:
    """Rows in one file; returns what the manifest says of it."""
    properties = ", ".join(
        f"'{key}' = '{value}'" for key, value in {**SMALL_PAGES, **WRITERS[writer]}.items()
    )
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    spark.sql(f"CREATE TABLE lake.pages.{table} ({declared}) TBLPROPERTIES ({properties})")
    made = rows(spark, count)
    if writer == "together":
        made = made.observe(Observation(), F.count("*").alias("read")).where("fate = 'written'")
    made.select(*COLUMNS).writeTo(f"lake.pages.{table}").append()
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    (file,) = catalog.load_table(f"pages.{table}").inspect.files().to_pylist()
    return dict(file)


def rows(spark: SparkSession, count: int) -> DataFrame:
    """A cast of a struct would make each of its texts an object of its own."""
    chosen = ", ".join(
        f"{made if kind.startswith('STRUCT') else f'CAST({made} AS {kind})'} AS {name}"
        for name, (kind, made) in COLUMNS.items()
    )
    return spark.sql(
        f"SELECT {chosen}, IF(id < 0, 'skipped', 'written') AS fate FROM range(0, {count}, 1, 1)"
    )


def path_of(file: dict[str, Any]) -> Path:
    return Path(file["file_path"].removeprefix("file://").removeprefix("file:"))


@pytest.mark.parametrize("count", [7, 8, 9, 17, ROWS])
def test_rows_and_bounds_are_those_of_icebergs_writer(
    spark: SparkSession, stack: dict[str, Any], count: int
) -> None:
    """Fewer values alike than a run has, as many, and pages and row groups of them."""
    files = {writer: write(spark, stack, f"{writer}_{count}", writer, count) for writer in WRITERS}
    expected = pq.read_table(path_of(files["theirs"])).to_pylist()
    assert len(expected) == count
    for writer in ("together", "singly"):
        file = path_of(files[writer])
        assert pq.read_metadata(file).metadata[b"tidemark.writer"] == b"columnar"
        assert repr(pq.read_table(file, page_checksum_verification=True).to_pylist()) == repr(expected)
        read = spark.table(f"lake.pages.{writer}_{count}").orderBy("id").toArrow()
        assert repr(read.to_pylist()) == repr(
            spark.table(f"lake.pages.theirs_{count}").orderBy("id").toArrow().to_pylist()
        )
        for name in FLAT:
            kept, said = (
                {key: value for key, value in each["readable_metrics"][name].items() if key != "column_size"}
                for each in (files[writer], files["theirs"])
            )
            assert repr(kept) == repr(said), name


def test_each_row_group_has_the_bounds_of_its_texts(spark: SparkSession, stack: dict[str, Any]) -> None:
    """By the order of their bytes, also where the first eight are the same or a text ends before them."""
    read = pq.ParquetFile(path_of(write(spark, stack, "bounds", "together", ROWS)))
    assert read.num_row_groups > 1
    names = [name for name, (kind, _) in FLAT.items() if kind in {"STRING", "BINARY"}]
    for group in range(read.num_row_groups):
        values = read.read_row_group(group, columns=names).to_pydict()
        columns = map(read.metadata.row_group(group).column, range(len(FLAT)))
        said = {column.path_in_schema: column.statistics for column in columns}
        for name in names:
            there = [each for each in values[name] if each is not None]
            assert (said[name].min, said[name].max) == (min(there), max(there)), name


def test_a_run_of_one_number_is_what_parquets_encoder_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every width and from eight on; fewer are packed by the encoder itself."""
    (tmp_path / "Runs.java").write_text(RUNS)
    shutil.copy(module.SOURCES / "tidemark" / "parquet" / "Levels.java", tmp_path)
    monkeypatch.setattr(module, "SOURCES", tmp_path)
    fetch(("spark", "compiler"))
    jar = own_jar(find_java())
    beside = [jar, *classpath("spark"), pyspark_home() / "jars" / "*"]
    command = [find_java(), "-cp", os.pathsep.join(map(str, beside)), "tidemark.parquet.Runs"]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    jar.unlink()
    assert told.stdout == "told"
