"""Counting during the one pass, and the second look at what was not written."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
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
from tidemark.engine.decode.working_columns import CAUSE, FATE

FUTURE = "INTERVAL 1 HOUR"
WRITTEN = "_tidemark_written"
"""The working column that says of a record whether it becomes a row."""
BITS = 63
"""Of a number whose sign is left alone."""
_FAR_DAY = 106_751_990
"""Days from 1970: those beyond are no timestamp."""


class Observed(Observation):
    """Spark's Observation without its `isStreaming` check, which makes the server analyse the whole plan."""

    def _on(self, df: Any, *exprs: Any) -> Any:
        self._result = {}
        return ConnectDataFrame(CollectMetrics(df._plan, self, list(exprs)), df._session)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class EventTime:
    """The contract's `event_time` column, and the newest one published so far; `day`: it is a date."""

    path: tuple[str, ...]
    watermark: datetime | None
    day: bool = False


@dataclass(frozen=True, slots=True)
class Counting:
    """What a pass counts: `schema_ids` are those that are told of, others are not."""

    partitions: Collection[int]
    schema_ids: Collection[int] = ()
    event_time: EventTime | None = None
    rules: Rules | None = None
    several_types: bool = False


def observed(decoded: DataFrame, counting: Counting, observation: Observed) -> DataFrame:
    """`decoded` with the counting of `evidence` attached to its next pass, and WRITTEN in place of FATE and CAUSE.

    Whatever Spark would interpret for each record, or compare as a text, is a column of the generated code first.
    """
    by_partition = {"read": F.lit(True), **(_fates() if counting.several_types else {})}
    rows = decoded.select(
        "*",
        (F.col(FATE) == "written").alias(WRITTEN),
        *(_middle(which).alias(_working(name)) for name, which in by_partition.items()),
    ).drop(FATE, CAUSE)
    sane = F.col("_kafka.timestamp") <= _varying(F.current_timestamp() + F.expr(FUTURE))
    bins = F.lit(max(2, len(counting.partitions)))
    metrics = [
        _count(~F.col(WRITTEN)).alias("unwritten"),
        _count(~sane).alias("ahead"),
        F.max(F.when(sane, F.unix_millis(F.col("_kafka.timestamp")))).alias("max_timestamp"),
        *_ids_seen(counting.schema_ids),
        *(_event_metrics(counting.event_time) if counting.event_time else ()),
        *(rule_metrics(counting.rules) if counting.rules else ()),
        *(F.histogram_numeric(F.col(_working(name)), bins).alias(name) for name in by_partition),
    ]
    return rows.observe(cast("Any", observation), *metrics)


class CountsLost(Outage):
    """A write ended, but what it counted did not arrive with its end: nothing is wrong with Spark or the batch."""


def evidence(observation: Observed, counting: Counting) -> Evidence:
    """What the pass has counted.

    Raises:
        CountsLost: on their way from the server; the batch is planned again.
    """
    seen = observation.get
    if "read" not in seen:
        raise CountsLost("spark_down", NO_TABLE, "the write ended, but its counts did not arrive")
    return Evidence(
        read=_counts(seen, "read", counting) or {},
        unwritten=seen["unwritten"],
        schema_ids=_schema_ids(seen, counting.schema_ids),
        max_timestamp=seen["max_timestamp"],
        ahead=seen["ahead"],
        watermark=seen.get("watermark"),
        late=seen.get("late", 0),
        rules=rule_results(counting.rules, seen) if counting.rules else {},
        tombstones=_counts(seen, "tombstones", counting),
        skipped=_counts(seen, "skipped", counting),
        unrouted=_counts(seen, "unrouted", counting),
    )


def _fates() -> dict[str, Column]:
    """What is counted by partition where a topic has several record types."""
    fate, truncate = F.col(FATE), F.col(CAUSE).eqNullSafe(TRUNCATE)
    return {
        "tombstones": fate == "tombstone",
        "skipped": (fate == "skipped") & ~truncate,
        "unrouted": F.col(CAUSE) == UNROUTED,
    }


def _working(name: str) -> str:
    return f"_tidemark_{name}"


def _middle(which: Column) -> Column:
    """The middle of the partition's bin, NULL for other records.

    A histogram counts all partitions in one expression: a count of each would ask every record about all of them. It is
    exact: bins merge only if there are more values than bins. Merging tasks may round a value, by less than the half
    that is added.
    """
    return F.when(which, F.col("_kafka.partition") + F.lit(0.5))


def _counts(seen: Mapping[str, Any], name: str, counting: Counting) -> dict[int, int] | None:
    """By partition, of which several tasks may have left several bins; None where it was not counted."""
    if name not in seen:
        return None
    found = dict.fromkeys(counting.partitions, 0)
    for middle, count in seen[name] or ():
        found[int(middle)] += int(count)
    return found


def _ids_seen(schema_ids: Collection[int]) -> list[Column]:
    """A bit for each id that was there, or a set, for which each record's becomes an object, where they are many."""
    if not schema_ids:
        return []
    schema_id = F.col("_kafka.schema_id")
    if len(schema_ids) > BITS:
        return [F.collect_set(schema_id).alias("schema_ids")]
    first, *others = ((schema_id == each, F.lit(bit).cast("bigint")) for bit, each in _bits(schema_ids))
    found = reduce(lambda chain, case: chain.when(*case), others, F.when(*first))
    return [F.bit_or(found).alias("schema_ids")]


def _bits(schema_ids: Collection[int]) -> list[tuple[int, int]]:
    """The newest first: most records are of that."""
    return [(1 << place, each) for place, each in enumerate(sorted(schema_ids, reverse=True))]


def _schema_ids(seen: Mapping[str, Any], known: Collection[int]) -> frozenset[int]:
    found = seen.get("schema_ids") or 0
    if isinstance(found, int):
        return frozenset(each for bit, each in _bits(known) if found & bit)
    return frozenset(found).intersection(known)  # each record that is not framed adds a number


def _event_metrics(event_time: EventTime) -> list[Column]:
    at = _time_of(event_time)
    written = F.col(WRITTEN)
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
