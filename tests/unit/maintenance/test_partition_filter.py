"""A partition as a filter on its source columns: exactly its rows, whatever the transform."""

from datetime import date
from decimal import Decimal

import pytest

from tidemark.domain.columns.partition_filter import PartitionValue, partition_where

CASES = [
    (("at",), "timestamptz", "day", 20454,
     "`at` >= TIMESTAMP '2026-01-01 00:00:00+00:00' AND `at` < TIMESTAMP '2026-01-02 00:00:00+00:00'"),
    (("at",), "timestamptz", "day", date(2026, 1, 1),
     "`at` >= TIMESTAMP '2026-01-01 00:00:00+00:00' AND `at` < TIMESTAMP '2026-01-02 00:00:00+00:00'"),
    (("_kafka", "timestamp"), "timestamptz", "hour", 490897,
     "{c} >= TIMESTAMP '2026-01-01 01:00:00+00:00' AND {c} < TIMESTAMP '2026-01-01 02:00:00+00:00'"),
    (("at",), "timestamp", "month", -1,
     "`at` >= TIMESTAMP_NTZ '1969-12-01 00:00:00' AND `at` < TIMESTAMP_NTZ '1970-01-01 00:00:00'"),
    (("d",), "date", "year", 56, "`d` >= DATE '2026-01-01' AND `d` < DATE '2027-01-01'"),
    (("at",), "timestamptz", "day", 20_415_509,
     "`at` >= TIMESTAMP '+57865-10-07 00:00:00+00:00' AND `at` < TIMESTAMP '+57865-10-08 00:00:00+00:00'"),
    (("at",), "timestamptz", "month", 96_360,
     "`at` >= TIMESTAMP '+10000-01-01 00:00:00+00:00' AND `at` < TIMESTAMP '+10000-02-01 00:00:00+00:00'"),
    (("d",), "date", "identity", 2_932_897, "`d` = DATE '+10000-01-01'"),
    (("at",), "timestamp", "day", 106_751_991, "`at` >= TIMESTAMP_NTZ '+294247-01-10 00:00:00'"),
    (("at",), "timestamptz", "month", 3_507_324, "`at` >= TIMESTAMP '+294247-01-01 00:00:00+00:00'"),
    (("at",), "timestamptz", "year", -292_278, "`at` < TIMESTAMP '-290307-01-01 00:00:00+00:00'"),
    (("at",), "timestamp", "day", -106_751_992, "`at` < TIMESTAMP_NTZ '-290308-12-22 00:00:00'"),
    (("at",), "timestamp", "hour", 1_732_919_506,
     "`at` >= TIMESTAMP_NTZ '+199660-07-08 10:00:00' AND `at` < TIMESTAMP_NTZ '+199660-07-08 11:00:00'"),
    (("at",), "timestamp", "hour", 1_732_919_507,
     ("(`at` >= TIMESTAMP_NTZ '+199660-07-08 11:00:00' AND `at` < TIMESTAMP_NTZ '+199660-07-08 12:00:00'"
      " OR `at` < TIMESTAMP_NTZ '-290308-12-21 20:00:00')")),
    (("at",), "timestamp", "hour", -1_732_919_508,
     ("(`at` >= TIMESTAMP_NTZ '-195721-06-25 12:00:00' AND `at` < TIMESTAMP_NTZ '-195721-06-25 13:00:00'"
      " OR `at` >= TIMESTAMP_NTZ '+294247-01-10 04:00:00')")),
    (("d",), "date", "month", 70_555_326, "`d` >= DATE '+5881580-07-01'"),
    (("d",), "date", "year", -5_879_611, "`d` < DATE '-5877640-01-01'"),
    (("at",), "timestamptz", "year", 300_000, None),
    (("c",), "long", "bucket[16]", 5, "`lake`.system.bucket(16, `c`) = 5"),
    (("c",), "string", "truncate[2]", "o'", "`lake`.system.truncate(2, `c`) = 'o\\''"),
    (("c",), "string", "identity", "de", "`c` = 'de'"),
    (("c",), "int", "identity", 7, "`c` = 7"),
    (("c",), "boolean", "identity", True, "`c` = true"),
    (("c",), "date", "identity", 20454, "`c` = DATE '2026-01-01'"),
    (("c",), "decimal(9, 2)", "identity", Decimal("1.50"), "`c` = CAST('1.50' AS decimal(9, 2))"),
    (("c",), "string", "identity", None, "`c` IS NULL"),
    (("c",), "double", "identity", 1.5, None),
    (("c",), "string", "void", None, ""),
    ((), "string", "identity", None, None),
]  # fmt: skip


@pytest.mark.parametrize(("source", "kind", "transform", "value", "where"), CASES)
def test_a_partition_value_becomes_the_condition_of_its_rows(source, kind, transform, value, where):
    column = ".".join(f"`{name}`" for name in source)
    found = partition_where([PartitionValue(source, kind, transform, value)], "lake")
    assert found == (where and where.replace("{c}", column))


def test_fields_are_combined_and_one_that_cannot_be_said_spoils_all():
    known, odd = (
        PartitionValue(("a",), "int", "identity", 1),
        PartitionValue(("b",), "double", "identity", 1.0),
    )
    assert partition_where([known, known], "lake") == "`a` = 1 AND `a` = 1"
    assert partition_where([known, odd], "lake") is None
    assert partition_where([], "lake") == ""
