"""Counting during the one pass, and the second look at what was not written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
from pyspark.sql.connect.observation import Observation
from pyspark.sql.connect.plan import CollectMetrics

from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.errors import Outage
from tidemark.domain.formats.debezium import TRUNCATE
from tidemark.domain.formats.routes import UNROUTED
from tidemark.domain.ledger.evidence import Evidence, Group
from tidemark.domain.ledger.quality_results import Rules
from tidemark.engine.decode.quality_rows import rule_metrics, rule_results
from tidemark.engine.decode.records import CAUSE, FATE

FUTURE = "INTERVAL 1 HOUR"


class Observed(Observation):
    """Spark's, but for its question whether the rows are a stream: the server would analyse the whole plan for it."""

    def _on(self, df: Any, *exprs: Any) -> Any:
        self._result = {}
        return ConnectDataFrame(CollectMetrics(df._plan, self, list(exprs)), df._session)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class EventTime:
    """The contract's `event_time` column, and the newest one published so far."""

    path: tuple[str, ...]
    watermark: datetime | None


def observed(
    decoded: DataFrame,
    partitions: Iterable[int],
    observation: Observed,
    event_time: EventTime | None = None,
    rules: Rules | None = None,
    *,
    several_types: bool = False,
) -> DataFrame:
    """`decoded` with the counting of `evidence` attached to its next pass."""
    partition, fate = F.col("_kafka.partition"), F.col(FATE)
    truncate = F.col(CAUSE).eqNullSafe(TRUNCATE)
    sane = F.col("_kafka.timestamp") <= _varying(F.current_timestamp() + F.expr(FUTURE))
    metrics: list[Column] = [
        _count(fate != "written").alias("unwritten"),
        _count(~sane).alias("future"),
        F.max(F.when(sane, F.unix_millis(F.col("_kafka.timestamp")))).alias("max_timestamp"),
        F.collect_set(F.col("_kafka.schema_id")).alias("schema_ids"),
    ]
    metrics += _event_metrics(event_time) if event_time else []
    metrics += rule_metrics(rules) if rules else []
    for p in partitions:
        metrics.append(_count(partition == p).alias(f"read_{p}"))
        if several_types:
            metrics += [
                _count((partition == p) & (fate == "tombstone")).alias(f"tombstones_{p}"),
                _count((partition == p) & (fate == "skipped") & ~truncate).alias(f"skipped_{p}"),
                _count((partition == p) & (F.col(CAUSE) == UNROUTED)).alias(f"unrouted_{p}"),
            ]
    return decoded.observe(cast("Any", observation), *metrics)


def evidence(observation: Observed, partitions: Iterable[int], rules: Rules | None = None) -> Evidence:
    """What the pass has counted.

    Raises:
        Outage: the counts were lost on their way from the server; the batch is planned again.
    """
    seen = observation.get
    listed = list(partitions)
    if not all(f"read_{p}" in seen for p in listed):
        raise Outage("spark_down", "-", "the write ended, but its counts did not arrive")
    return Evidence(
        read={p: seen[f"read_{p}"] for p in listed},
        unwritten=seen["unwritten"],
        schema_ids=frozenset(seen["schema_ids"] or ()),
        max_timestamp=seen["max_timestamp"],
        future=seen["future"],
        watermark=seen.get("watermark"),
        late=seen.get("late", 0),
        rules=rule_results(rules, seen) if rules else {},
        tombstones=_per_partition(seen, "tombstones", listed),
        skipped=_per_partition(seen, "skipped", listed),
        unrouted=_per_partition(seen, "unrouted", listed),
    )


def _per_partition(seen: Mapping[str, Any], name: str, partitions: list[int]) -> dict[int, int] | None:
    """None where it was not counted."""
    counted = all(f"{name}_{p}" in seen for p in partitions)
    return {p: seen[f"{name}_{p}"] for p in partitions} if counted else None


def _event_metrics(event_time: EventTime) -> list[Column]:
    at = F.col(quoted_name(*event_time.path)).cast("timestamp")
    written = F.col(FATE) == "written"
    sane = written & (at <= _varying(F.current_timestamp() + F.expr(FUTURE)))
    late = written & (at < _varying(F.lit(event_time.watermark).cast("timestamp")))
    return [F.max(F.when(sane, F.unix_micros(at))).alias("watermark"), _count(late).alias("late")]


def _count(condition: Column) -> Column:
    """Spark's own `count_if` makes each condition a column of every row."""
    return F.count(F.when(condition, 1))


def _varying(value: Column) -> Column:
    """`value`, another one in every batch, kept out of the generated code: else each batch is compiled anew.

    Spark writes numbers and times into that code, and hands arrays over.
    """
    return F.array(value)[F.col("_kafka.partition") * 0]


def second_look(decoded: DataFrame) -> list[Group]:
    """Everything that was not written, grouped; reads the batch once more."""
    return grouped(decoded.where(F.col(FATE) != "written"))


def grouped(decoded: DataFrame) -> list[Group]:
    """Every record of `decoded` by partition, fate, cause and schema id."""
    rows = (
        decoded.groupBy(
            F.col("_kafka.partition").alias("partition"),
            F.col(FATE).alias("fate"),
            F.col(CAUSE).alias("cause"),
            F.col("_kafka.schema_id").alias("schema_id"),
        )
        .agg(
            F.count("*").alias("count"),
            F.min("_kafka.offset").alias("first"),
            F.max("_kafka.offset").alias("last"),
        )
        .collect()
    )
    return [
        Group(r["partition"], r["fate"], r["cause"], r["schema_id"], r["count"], r["first"], r["last"])
        for r in rows
    ]
