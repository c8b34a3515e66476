"""Rule: Spark brings the places of a window, or beyond the ledger, to the client, and of no others."""

import pytest
from pyspark.sql import SparkSession

from tidemark.domain.ledger.offsets import OffsetRange
from tidemark.engine.verify.marks import FEW, beyond, inside


@pytest.mark.parametrize("partitions", [2, FEW + 2])
def test_an_exact_filter_holds_for_the_offsets_of_a_window_alone(
    spark: SparkSession, partitions: int
) -> None:
    """Given rows of more partitions than the window has, which begins elsewhere in each and leaves one out, then only its places are found."""
    window = {p: OffsetRange(10 * p, 10 * p + 5) for p in range(partitions) if p != 1}
    rows = spark.range(1_000).selectExpr(
        f"CAST(id % {partitions + 3} AS INT) AS partition", f"id DIV {partitions + 3} AS offset"
    )
    found = {(r["partition"], r["offset"]) for r in rows.where(inside(window, exact=True)).collect()}
    there = {(n % (partitions + 3), n // (partitions + 3)) for n in range(1_000)}
    assert found == {(p, o) for p, o in there if p in window and window[p].start <= o < window[p].end}
    assert found


@pytest.mark.parametrize("partitions", [2, FEW + 2])
def test_an_exact_filter_holds_for_what_the_ledger_does_not_cover_alone(
    spark: SparkSession, partitions: int
) -> None:
    """Given a ledger of fewer partitions than rows are of, one of which it does not name and one of which is empty, then only what lies at or after its offsets is found."""
    following = {p: 0 if p == 2 else 10 * p + 5 for p in range(partitions) if p != 1}
    rows = spark.range(1_000).selectExpr(
        f"CAST(id % {partitions + 3} AS INT) AS partition", f"id DIV {partitions + 3} AS offset"
    )
    found = {(r["partition"], r["offset"]) for r in rows.where(beyond(following, exact=True)).collect()}
    there = {(n % (partitions + 3), n // (partitions + 3)) for n in range(1_000)}
    assert found == {(p, o) for p, o in there if o >= following.get(p, 0)}
    assert found < there
