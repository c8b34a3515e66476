"""Which names of columns Spark and Iceberg refuse, and where: what the rules of names rest on."""

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.domain.columns.names import METADATA_COLUMNS
from tidemark.engine.operate.backfill.source import time_of

TABLE = "named.t"


@pytest.fixture(scope="module")
def spark(spark: SparkSession, stack: dict[str, Any]) -> SparkSession:
    spark.sql(f"USE {stack['catalog']['name']}")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS named")
    return spark


def written(spark: SparkSession, columns: str, values: str) -> list[dict[str, Any]]:
    """The rows that one row makes in a new table, after a merge that changes nothing else."""
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
    modes = "'write.merge.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE {TABLE} (id int, {columns}) USING iceberg TBLPROPERTIES ({modes})")
    spark.sql(f"INSERT INTO {TABLE} SELECT 1, {values}")
    spark.sql(
        f"MERGE INTO {TABLE} t USING (SELECT 1 AS k) s ON t.id = s.k WHEN MATCHED THEN UPDATE SET id = 2"
    )
    rows: list[dict[str, Any]] = spark.table(TABLE).toArrow().to_pylist()
    return rows


@pytest.mark.parametrize("name", [*sorted(METADATA_COLUMNS), "_File"])
def test_a_table_with_a_name_of_icebergs_metadata_is_of_no_use(spark: SparkSession, name: str) -> None:
    refusal = rf"reserved for Iceberg metadata columns: \[{name}\]|Row ID attributes cannot be nullable: {name.lower()}#"
    with pytest.raises(PySparkException, match=refusal):
        written(spark, f"{name} int", "1")


def test_inside_of_structs_such_names_are_as_good_as_any(spark: SparkSession) -> None:
    names = sorted(METADATA_COLUMNS)
    fields, values = ", ".join(f"{n}: int" for n in names), ", ".join(f"'{n}', 7" for n in names)
    rows = written(spark, f"s struct<{fields}>, _change_type int", f"named_struct({values}), 8")
    assert rows == [{"id": 2, "s": dict.fromkeys(names, 7), "_change_type": 8}]


@pytest.mark.parametrize(
    ("name", "other"), [("1", "_1"), ("a.b", "a_x2Eb"), ("😀", "_xD83D_xDE00"), ("é-", "é_x2D"), ("٣", "_٣")]
)
def test_no_file_can_be_written_with_names_that_it_spells_the_same(
    spark: SparkSession, name: str, other: str
) -> None:
    with pytest.raises(PySparkException, match="Duplicate key"):
        written(spark, f"`{name}` int, `{other}` int", "1, 2")
    rows = written(spark, f"`{name}` int, s struct<`{other}`: int>", f"1, named_struct('{other}', 2)")
    assert rows == [{"id": 2, name: 1, "s": {other: 2}}]


def test_windows_are_cut_by_a_column_with_a_backtick_in_its_name_as_by_any(spark: SparkSession) -> None:
    rows = spark.sql("SELECT named_struct('b`c', 7) AS `a``t`, 8 AS `a`")
    assert rows.select(time_of("`a``t`.`b``c`")).first()[0] == 7
