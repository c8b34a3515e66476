"""The writer in `tidemark/jvm` beside Iceberg's own: the same rows, the same metrics, files that any reader takes."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

ROWS = 12_000
COLUMNS = {
    "id": ("BIGINT NOT NULL", "id"),
    "flag": ("BOOLEAN", "IF(id % 3 = 0, NULL, id % 2 = 0)"),
    "small": ("INT", "IF(id % 1000 = 7, NULL, CAST(id % 40 - 20 AS INT))"),
    "single": (
        "FLOAT",
        "element_at(array(0f, -0f, float('nan'), float('inf'), NULL, 1.5f), CAST(id % 6 + 1 AS INT))",
    ),
    "twice": ("DOUBLE", "IF(id % 5 = 0, double('nan'), IF(id % 5 = 1, NULL, id * -1.25d))"),
    "no_number": ("DOUBLE", "double('nan')"),
    "short": ("DECIMAL(9,2)", "CAST(id - 6000 AS DECIMAL(9,2)) / 4"),
    "long": ("DECIMAL(18,4)", "CAST((id - 6000) * 1000003 AS DECIMAL(18,4))"),
    "wide": ("DECIMAL(38,10)", "CAST((id - 6000) * 99999999999 AS DECIMAL(38,10)) * 10000"),
    "day": ("DATE", "date_from_unix_date(CAST(id - 20000 AS INT))"),
    "at": ("TIMESTAMP", "timestamp_micros(id * 1234567 - 99999999999)"),
    "wall": ("TIMESTAMP_NTZ", "timestampadd(SECOND, CAST(id AS INT), TIMESTAMP_NTZ'1969-12-31 23:00:00')"),
    "text": ("STRING", "IF(id % 11 = 0, '', concat('é😀', hash(id), repeat('x', CAST(id % 50 AS INT))))"),
    "word": ("STRING", "element_at(array('NEW', 'PAID', NULL, 'SENT'), CAST(id % 4 + 1 AS INT))"),
    "turning": ("STRING", "IF(id < 5000, 'same', concat('other', id))"),
    "late": ("STRING", "IF(id < 3000, NULL, concat('v', id % 5))"),
    "none": ("STRING", "NULL"),
    "bytes": ("BINARY", "IF(id % 9 = 0, X'', CAST(repeat(chr(id % 200), CAST(id % 20 AS INT)) AS BINARY))"),
    "large": ("BINARY", "IF(id % 4000 = 1, CAST(repeat('y', 70000) AS BINARY), NULL)"),
    "list": (
        "ARRAY<INT>",
        "CASE id % 4 WHEN 0 THEN NULL WHEN 1 THEN array() WHEN 2 THEN array(NULL, 1) ELSE sequence(1, CAST(id % 30 AS INT)) END",
    ),
    "deep": (
        "ARRAY<STRUCT<a: ARRAY<STRING>, m: MAP<STRING, DOUBLE>>>",
        (
            "CASE id % 3 WHEN 0 THEN array() WHEN 1 THEN array(NULL, named_struct('a', array('x', NULL), 'm', NULL)) ELSE "
            "array(named_struct('a', array(), 'm', map('k', double('nan'), 'l', NULL)), named_struct('a', NULL, 'm', map())) END"
        ),
    ),
    "pairs": (
        "MAP<STRING, STRUCT<x: BIGINT, y: ARRAY<DECIMAL(20,1)>>>",
        "IF(id % 2 = 0, map(concat('k', id), named_struct('x', id, 'y', array(CAST(id AS DECIMAL(20,1)), NULL))), NULL)",
    ),
    "inner": (
        "STRUCT<a: INT, b: STRUCT<c: STRING, d: FLOAT>>",
        (
            "CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN named_struct('a', 1, 'b', NULL) ELSE "
            "named_struct('a', NULL, 'b', named_struct('c', concat('c', id), 'd', float(id))) END"
        ),
    ),
}
SMALL_PAGES = {
    "write.parquet.page-row-limit": "700",
    "write.parquet.page-size-bytes": "16384",
    "write.parquet.row-group-size-bytes": "150000",
    "write.parquet.dict-size-bytes": "20000",
    "write.metadata.metrics.default": "full",
}
LEFT_TO_ICEBERG = {"write.parquet.bloom-filter-enabled.column.small": "true"}


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.writers")
    return spark


@pytest.fixture(scope="module")
def written(spark: SparkSession, stack: dict[str, Any]) -> dict[str, Table]:
    """The same rows by both writers, with one file each."""
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    found = {}
    for writer, more in {"ours": {}, "theirs": LEFT_TO_ICEBERG}.items():
        create(spark, writer, more)
        rows(spark).writeTo(f"lake.writers.{writer}").append()
        found[writer] = catalog.load_table(f"writers.{writer}")
    return found


def create(spark: SparkSession, table: str, more: dict[str, str], partitions: str = "") -> None:
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in {**SMALL_PAGES, **more}.items())
    declared = ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())
    spark.sql(f"CREATE TABLE lake.writers.{table} ({declared}) {partitions} TBLPROPERTIES ({properties})")


def rows(spark: SparkSession, more: str = "") -> DataFrame:
    chosen = ", ".join(
        f"CAST({made} AS {kind.removesuffix(' NOT NULL')}) AS {name}"
        for name, (kind, made) in COLUMNS.items()
    )
    return spark.sql(f"SELECT {chosen}{more} FROM range(0, {ROWS}, 1, 1)")


def file_of(table: Table) -> Path:
    (path,) = table.inspect.files()["file_path"].to_pylist()
    return Path(path.removeprefix("file://").removeprefix("file:"))


def test_each_has_written_its_own_file(written: dict[str, Table]) -> None:
    """Else the comparison would be of one writer with itself."""
    footers = {name: pq.read_metadata(file_of(table)) for name, table in written.items()}
    assert footers["ours"].metadata[b"tidemark.writer"] == b"columnar"
    assert b"tidemark.writer" not in footers["theirs"].metadata
    assert footers["ours"].num_row_groups > 2


def test_spark_reads_the_same_rows_from_both(spark: SparkSession, written: dict[str, Table]) -> None:
    """Every type, NULL and NaN and empty, flat and nested, over many pages and row groups."""
    ours, theirs = (
        spark.table(f"lake.writers.{name}").orderBy("id").collect() for name in ("ours", "theirs")
    )
    assert len(ours) == ROWS
    assert [repr(row) for row in ours] == [repr(row) for row in theirs]


def test_arrow_reads_the_same_rows_and_finds_the_checksums_right(written: dict[str, Table]) -> None:
    """Parquet's C++ reader is another implementation of the format."""
    ours, theirs = (
        pq.read_table(file_of(table), page_checksum_verification=True).sort_by("id").to_pylist()
        for table in written.values()
    )
    assert repr(ours) == repr(theirs)


def test_the_manifest_says_the_same_of_both_files(written: dict[str, Table]) -> None:
    """Counts, NULLs, NaNs and bounds of each column decide which files a query reads."""
    ours, theirs = (table.inspect.files().to_pylist()[0] for table in written.values())
    assert ours["record_count"] == theirs["record_count"] == ROWS
    nested = {"deep", "list", "pairs"}
    for name in COLUMNS:
        if name in nested:
            continue
        kept, expected = (each["readable_metrics"][name] for each in (ours, theirs))
        if name == "inner":
            kept, expected = (dict(_flat(each)) for each in (kept, expected))
        else:
            kept, expected = (
                {k: v for k, v in each.items() if k != "column_size"} for each in (kept, expected)
            )
        assert repr(kept) == repr(expected), name


def _flat(metrics: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in metrics.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}.{key}")
        elif key != "column_size":
            yield f"{path}.{key}", value


@pytest.mark.parametrize(
    "condition",
    [
        "id BETWEEN 3456 AND 3460",
        "id = 699 OR id = 700 OR id = 11999",
        "turning = 'other11998'",
        "turning = 'same' AND id % 100 = 3",
        "word IS NULL AND id > 11000",
        "twice < -14990",
        "wide > 59900000000000",
        "day < DATE'1915-04-01'",
        "inner.b.c = 'c9002'",
    ],
)
def test_pages_that_a_filter_passes_over_hold_no_row_of_it(
    spark: SparkSession, written: dict[str, Table], condition: str
) -> None:
    """Statistics of pages and groups, dictionaries and the column index are what a filter goes by."""
    counts = [spark.table(f"lake.writers.{name}").where(condition).count() for name in written]
    assert counts[0] == counts[1] > 0


def test_arrow_filters_by_its_statistics_alone(written: dict[str, Table]) -> None:
    """Row groups are left out by the statistics in the footer."""
    found = pq.read_table(file_of(written["ours"]), filters=[("id", ">=", 11_990)])
    assert found["id"].to_pylist() == list(range(11_990, ROWS))


def test_no_rows_are_no_file(spark: SparkSession, written: dict[str, Table]) -> None:
    """An append of nothing is a snapshot, as before."""
    spark.table("lake.writers.ours").where("id < 0").writeTo("lake.writers.ours").append()
    assert len(written["ours"].refresh().inspect.files()) == 1


def test_a_file_is_not_much_larger(written: dict[str, Table]) -> None:
    """A dictionary is chosen where it makes pages smaller."""
    sizes = {name: file_of(table).stat().st_size for name, table in written.items()}
    assert sizes["ours"] < 1.1 * sizes["theirs"], sizes


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd"])
def test_each_codec_is_as_the_table_says(spark: SparkSession, stack: dict[str, Any], codec: str) -> None:
    """Read by Arrow, with the codec in the footer."""
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    properties = f"'write.parquet.compression-codec' = '{codec}'"
    spark.sql(f"CREATE TABLE lake.writers.{codec} (id BIGINT, word STRING) TBLPROPERTIES ({properties})")
    rows = spark.sql("SELECT id, concat('w', id % 7) AS word FROM range(0, 50000, 1, 1)")
    rows.writeTo(f"lake.writers.{codec}").append()
    file = file_of(catalog.load_table(f"writers.{codec}"))
    assert pq.read_metadata(file).row_group(0).column(0).compression == codec.upper()
    found = pq.read_table(file, page_checksum_verification=True)
    assert found["id"].to_pylist() == list(range(50_000))
    assert found["word"].to_pylist() == [f"w{number % 7}" for number in range(50_000)]


def test_pages_are_compressed_to_the_level_that_the_table_says(
    spark: SparkSession, stack: dict[str, Any]
) -> None:
    """Those of four megabytes and more too, of which no copy is made."""
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    text = (
        "IF(id = 777, repeat(uuid(), 200000), concat('Long Street ', id * 7919 % 9973, ', Door ', id % 13))"
    )
    spark.sql(f"SELECT id, {text} AS word FROM range(0, 50000, 1, 1)").createOrReplaceTempView("levels")
    sizes = {}
    for level in (1, 9):
        properties = (
            f"'write.parquet.compression-codec' = 'zstd', 'write.parquet.compression-level' = '{level}'"
        )
        spark.sql(
            f"CREATE TABLE lake.writers.level_{level} (id BIGINT, word STRING) TBLPROPERTIES ({properties})"
        )
        spark.table("levels").writeTo(f"lake.writers.level_{level}").append()
        file = file_of(catalog.load_table(f"writers.level_{level}"))
        found = pq.read_table(file, page_checksum_verification=True)
        assert found["id"].to_pylist() == list(range(50_000))
        words = found["word"].to_pylist()
        assert len(words[777]) == 7_200_000
        assert words[776] == f"Long Street {776 * 7919 % 9973}, Door {776 % 13}"
        sizes[level] = file.stat().st_size
    assert sizes[9] < sizes[1], sizes


def test_long_lists_fill_pages_of_their_own(spark: SparkSession, stack: dict[str, Any]) -> None:
    """Lists of thousands of elements, also of NULLs, which take no bytes: a page ends with the row that fills it."""
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    spark.sql(
        "CREATE TABLE lake.writers.lists (id BIGINT, numbers ARRAY<BIGINT>, nothing ARRAY<STRING>) "
        "TBLPROPERTIES ('write.parquet.page-size-bytes' = '65536', 'write.parquet.row-group-size-bytes' = '200000')"
    )
    spark.sql(
        "SELECT id, sequence(0, id * 150) AS numbers, transform(sequence(1, 20000), n -> CAST(NULL AS STRING)) AS nothing "
        "FROM range(0, 100, 1, 1)"
    ).writeTo("lake.writers.lists").append()
    table = catalog.load_table("writers.lists")
    assert pq.read_metadata(file_of(table)).num_row_groups > 1
    for rows in (
        pq.read_table(file_of(table), page_checksum_verification=True),
        spark.table("lake.writers.lists").toArrow(),
    ):
        found = {row["id"]: row for row in rows.to_pylist()}
        assert len(found) == 100
        for number, row in found.items():
            assert row["numbers"] == list(range(number * 150 + 1))
            assert row["nothing"] == [None] * 20000


@pytest.mark.parametrize(
    ("table", "partitions", "properties"),
    [
        ("plainly", "", {}),
        ("spread", "PARTITIONED BY (bucket(3, word), years(at))", {"write.spark.fanout.enabled": "true"}),
        ("by_iceberg", "", LEFT_TO_ICEBERG),
        ("as_avro", "", {"write.format.default": "avro"}),
        ("as_orc", "", {"write.format.default": "orc"}),
    ],
)
def test_counted_rows_are_handed_over_without_being_copied(
    spark: SparkSession, written: dict[str, Table], table: str, partitions: str, properties: dict[str, str]
) -> None:
    """Whoever writes them: a batch counts its rows, and leaves some of them and its last columns out."""
    create(spark, table, {**properties, "write.distribution-mode": "none"}, partitions)
    counts = Observation()
    counted = rows(spark, ", IF(id % 7 = 3, 'skipped', 'written') AS fate").observe(
        counts,
        F.count("*").alias("read"),
        F.max("twice").alias("twice"),
        F.collect_set("word").alias("words"),
    )
    kept = counted.where("fate = 'written'").select(*COLUMNS)
    kept.createOrReplaceTempView("kept")
    (plan,) = spark.sql(f"EXPLAIN INSERT INTO lake.writers.{table} SELECT * FROM kept").collect()
    assert re.search(r"Passing.*\n.*CollectMetrics.*\n.*Records.*\n.*Project", plan[0]), plan[0]
    kept.writeTo(f"lake.writers.{table}").append()
    assert counts.get["read"] == ROWS
    assert sorted(counts.get["words"]) == ["NEW", "PAID", "SENT"]
    expected = spark.table("lake.writers.ours").where("id % 7 <> 3").orderBy("id").toArrow()
    found = spark.table(f"lake.writers.{table}").orderBy("id").toArrow()
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("between", ["coalesced", "sorted", "by Python"])
def test_rows_that_are_filled_anew_do_not_wait(
    spark: SparkSession, written: dict[str, Table], between: str
) -> None:
    """Where an operator makes rows of bytes, each is in the place of the last one, and so are texts and lists in it."""
    table = between.replace(" ", "_")
    create(spark, table, {"write.distribution-mode": "none"})
    made = rows(spark, ", IF(id % 7 = 3, 'skipped', 'written') AS fate")
    if between == "coalesced":
        made = made.union(made.where("id < 0")).coalesce(1)
    elif between == "sorted":
        made = made.sortWithinPartitions(F.desc("id"))
    else:
        asked = F.udf(lambda text: text + "!", "string")
        made = made.withColumn("text", F.rtrim(asked("text"), F.lit("!")))
    counted = made.select(*COLUMNS, F.concat("fate", F.lit(""))).toDF(*COLUMNS, "fate")
    kept = counted.observe(Observation(), F.count("*").alias("read")).where("fate = 'written'")
    kept.select(*COLUMNS).writeTo(f"lake.writers.{table}").append()
    expected = spark.table("lake.writers.ours").where("id % 7 <> 3").orderBy("id").toArrow()
    found = spark.table(f"lake.writers.{table}").orderBy("id").toArrow()
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


def test_rows_that_are_suddenly_large_do_not_wait_in_numbers(
    spark: SparkSession, written: dict[str, Table]
) -> None:
    """Small rows are taken apart many at a time; then 269 of 6 MB come, in turn for each of sixteen open files.

    Were sixteen rows of each file to wait, they would be the whole heap.
    """
    spark.sql(
        "CREATE TABLE lake.writers.suddenly (id BIGINT, slot BIGINT, text STRING) PARTITIONED BY (slot) "
        "TBLPROPERTIES ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
    )
    made = spark.sql(
        "SELECT id, id % 16 AS slot, repeat(chr(97 + id % 26), IF(id < 2832, 10, 6000000)) AS text, "
        "IF(id = 3101, 'skipped', 'written') AS fate FROM range(0, 3102, 1, 1)"
    ).observe(Observation(), F.count("*").alias("read"))
    made.where("fate = 'written'").drop("fate").writeTo("lake.writers.suddenly").append()
    found = spark.table("lake.writers.suddenly").selectExpr(
        "count(distinct id)", "sum(length(text))", "count_if(left(text, 1) = chr(97 + id % 26))"
    )
    assert tuple(found.first()) == (3101, 2832 * 10 + 269 * 6_000_000, 3101)


def test_files_that_could_not_be_closed_are_no_part_of_what_is_open(
    spark: SparkSession, written: dict[str, Table], stack: dict[str, Any]
) -> None:
    """Iceberg closes no file after one that fails: what the others held is given back with their task.

    Else the server would soon take its memory for full, and cut every later file into row groups of a few rows.
    """
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    for table in ("unclosed", "afterwards"):
        spark.sql(
            f"CREATE TABLE lake.writers.{table} (slot STRING, text STRING) PARTITIONED BY (slot) "
            "TBLPROPERTIES ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
        )
    text = "repeat(md5(string(id)), 1000) AS text FROM range(0, 2560, 1, 1)"
    for _ in range(12):
        with pytest.raises(Exception, match="File name too long"):
            spark.sql(f"SELECT repeat(chr(97 + id % 32), 300) AS slot, {text}").writeTo(
                "lake.writers.unclosed"
            ).append()
    spark.sql(f"SELECT 'one' AS slot, {text}").writeTo("lake.writers.afterwards").append()
    assert pq.read_metadata(file_of(catalog.load_table("writers.afterwards"))).num_row_groups == 1


def test_many_open_files_of_a_few_large_rows_are_bounded_too(
    spark: SparkSession, written: dict[str, Table], stack: dict[str, Any]
) -> None:
    """Given 800 files of 100 rows of 5 KB, a third of them beyond the bound, then some end their row groups early.

    None of them ever has a page's worth of bytes or rows, which is when a file used to say what it holds.
    """
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    spark.sql(
        "CREATE TABLE lake.writers.wide_open (slot BIGINT, text STRING) PARTITIONED BY (slot) "
        "TBLPROPERTIES ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')"
    )
    spark.sql(
        "SELECT id % 800 AS slot, repeat(chr(97 + id % 26), 5000) AS text FROM range(0, 80000, 1, 1)"
    ).writeTo("lake.writers.wide_open").append()
    files = catalog.load_table("writers.wide_open").inspect.files()
    assert (len(files), sum(files["record_count"].to_pylist())) == (800, 80_000)
    groups = sum(len(offsets) for offsets in files["split_offsets"].to_pylist())
    assert 800 < groups < 8_000


def test_a_value_too_large_for_the_dictionary_is_in_the_file_once(
    spark: SparkSession, written: dict[str, Table], stack: dict[str, Any]
) -> None:
    """Given a column with a dictionary, when a value of 6 MB comes, then that is in a plain page alone."""
    catalog = load_catalog(stack["catalog"]["name"], **stack["catalog"]["properties"])
    spark.sql(
        "CREATE TABLE lake.writers.once (text STRING) TBLPROPERTIES ('write.parquet.page-row-limit' = '1000')"
    )
    spark.sql(
        "SELECT IF(id = 4500, repeat('x', 6000000), concat('w', id % 7)) AS text FROM range(0, 5000, 1, 1)"
    ).writeTo("lake.writers.once").append()
    column = pq.read_metadata(file_of(catalog.load_table("writers.once"))).row_group(0).column(0)
    assert column.has_dictionary_page
    assert 6_000_000 < column.total_uncompressed_size < 6_100_000
