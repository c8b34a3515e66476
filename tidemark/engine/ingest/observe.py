"""Counting during the one pass, and the second look at what was not written."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
from pyspark.sql.connect.observation import Observation
from pyspark.sql.connect.plan import CollectMetrics

from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.errors import NO_TABLE, Outage
from tidemark.domain.formats.debezium import TRUNCATE
from tidemark.domain.formats.routes import UNROUTED
from tidemark.domain.ledger.evidence import Evidence, Group
from tidemark.domain.ledger.quality_results import Rules
from tidemark.engine.decode.quality_rows import rule_metrics, rule_results
from tidemark.engine.decode.records import CAUSE, FATE

FUTURE = "INTERVAL 1 HOUR"
_FAR_DAY = 106_751_990
"""Days from 1970: those beyond are no timestamp."""


class Observed(Observation):
    """Spark's, but for its question whether the rows are a stream: the server would analyse the whole plan for it."""

    def _on(self, df: Any, *exprs: Any) -> Any:
        self._result = {}
        return ConnectDataFrame(CollectMetrics(df._plan, self, list(exprs)), df._session)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class EventTime:
    """The contract's `event_time` column, and the newest one published so far; `day`: it is a date."""

    path: tuple[str, ...]
    watermark: datetime | None
    day: bool = False


def observed(
    decoded: DataFrame,
    partitions: Collection[int],
    observation: Observed,
    event_time: EventTime | None = None,
    rules: Rules | None = None,
    *,
    several_types: bool = False,
) -> DataFrame:
    """`decoded` with the counting of `evidence` attached to its next pass."""
    fate, truncate = F.col(FATE), F.col(CAUSE).eqNullSafe(TRUNCATE)
    sane = F.col("_kafka.timestamp") <= _varying(F.current_timestamp() + F.expr(FUTURE))
    metrics: list[Column] = [
        _count(fate != "written").alias("unwritten"),
        _count(~sane).alias("ahead"),
        F.max(F.when(sane, F.unix_millis(F.col("_kafka.timestamp")))).alias("max_timestamp"),
        F.collect_set(F.col("_kafka.schema_id")).alias("schema_ids"),
    ]
    metrics += _event_metrics(event_time) if event_time else []
    metrics += rule_metrics(rules) if rules else []
    metrics.append(_per_partition(F.col("_kafka.partition"), partitions).alias("read"))
    if several_types:
        parts = {
            "tombstones": fate == "tombstone",
            "skipped": (fate == "skipped") & ~truncate,
            "unrouted": F.col(CAUSE) == UNROUTED,
        }
        metrics += [
            _per_partition(F.when(which, F.col("_kafka.partition")), partitions).alias(name)
            for name, which in parts.items()
        ]
    return decoded.observe(cast("Any", observation), *metrics)


class CountsLost(Outage):
    """A write ended, but what it counted did not arrive with its end: nothing is wrong with Spark or the batch."""


def evidence(observation: Observed, partitions: Iterable[int], rules: Rules | None = None) -> Evidence:
    """What the pass has counted.

    Raises:
        CountsLost: on their way from the server; the batch is planned again.
    """
    seen = observation.get
    listed = list(partitions)
    if "read" not in seen:
        raise CountsLost("spark_down", NO_TABLE, "the write ended, but its counts did not arrive")
    return Evidence(
        read=_counts(seen, "read", listed) or {},
        unwritten=seen["unwritten"],
        schema_ids=frozenset(seen["schema_ids"] or ()),
        max_timestamp=seen["max_timestamp"],
        ahead=seen["ahead"],
        watermark=seen.get("watermark"),
        late=seen.get("late", 0),
        rules=rule_results(rules, seen) if rules else {},
        tombstones=_counts(seen, "tombstones", listed),
        skipped=_counts(seen, "skipped", listed),
        unrouted=_counts(seen, "unrouted", listed),
    )


def _per_partition(partition: Column, partitions: Collection[int]) -> Column:
    """How often each partition is there, in one expression: a count of each would ask every record about all of them.

    Exact: bins merge only if there are more values than bins. Merging tasks may round a value, by less than the half
    that is added.
    """
    return F.histogram_numeric(partition + F.lit(0.5), F.lit(max(2, len(partitions))))


def _counts(seen: Mapping[str, Any], name: str, partitions: Iterable[int]) -> dict[int, int] | None:
    """By partition, of which several tasks may have left several bins; None where it was not counted."""
    if name not in seen:
        return None
    found = dict.fromkeys(partitions, 0)
    for middle, count in seen[name] or ():
        found[int(middle)] += int(count)
    return found


def _event_metrics(event_time: EventTime) -> list[Column]:
    at = _time_of(event_time)
    written = F.col(FATE) == "written"
    sane = written & (at <= _varying(F.current_timestamp() + F.expr(FUTURE)))
    late = written & (at < _varying(F.lit(event_time.watermark).cast("timestamp")))
    return [F.max(F.when(sane, F.unix_micros(at))).alias("watermark"), _count(late).alias("late")]


def _time_of(event_time: EventTime) -> Column:
    """A date that no timestamp holds counts as the nearest that one does: the cast of it would stop the batch."""
    found = F.col(quoted_name(*event_time.path))
    if event_time.day:
        first, last = (F.date_from_unix_date(F.lit(day)) for day in (-_FAR_DAY, _FAR_DAY))
        found = F.when(found < first, first).when(found > last, last).otherwise(found)
    return found.cast("timestamp")


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
