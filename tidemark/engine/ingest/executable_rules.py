"""Whether quality rules can be executed on a table's columns: asked when a batch is planned, never in its middle."""

from collections.abc import Iterator

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import StructType

from tidemark.domain.columns.spark_types import spark_json
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.quality import QualityRule
from tidemark.domain.config.quality_fit import fit_faults
from tidemark.domain.errors import Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.decode.quality_rows import anchored

_SOUND: set[tuple[str, str]] = set()
"""(expression, columns) that Spark has taken in this process: the answer can not change."""


def check_rules(lake: Lake, contract: Contract, columns: Struct) -> None:
    """Raises Stopped(`misconfigured`) with every fault of the contract's rules; `columns` are all of the table's."""
    faults = unfit_rules(lake, contract, columns)
    if faults:
        raise Stopped("misconfigured", contract.table, "; ".join(faults), topic=contract.topic, faults=faults)


def unfit_rules(lake: Lake, contract: Contract, columns: Struct) -> list[str]:
    """What does not fit, one sentence each; Spark is asked about SQL and regular expressions, and only once."""
    if not contract.quality:
        return []
    faults = fit_faults(contract.quality, columns)
    asked = [rule for rule in contract.quality if _text(rule) and (_text(rule), str(columns)) not in _SOUND]
    if asked:
        found = dict(_spark_faults(lake, asked, columns))
        faults += [f"quality: {title}: {fault}" for title, fault in found.items()]
        _SOUND.update((_text(rule), str(columns)) for rule in asked if rule.title not in found)
    return faults


def _text(rule: QualityRule) -> str:
    return rule.sql or rule.pattern or ""


def _spark_faults(lake: Lake, rules: list[QualityRule], columns: Struct) -> Iterator[tuple[str, str]]:
    empty = lake.spark().createDataFrame([], StructType.fromJson(spark_json(columns)))
    for rule in rules:
        fault = _sql_fault(empty, rule.sql) if rule.sql else _pattern_fault(lake, rule.pattern or "")
        if fault:
            yield rule.title, fault


def _sql_fault(empty: DataFrame, sql: str) -> str | None:
    """What the analyser says: inside of an aggregate Spark refuses chance, windows, generators and other aggregates."""
    try:
        _ = empty.select(F.count_if(F.expr(sql))).schema
    except AnalysisException as error:
        return _first_line(error)
    return None


def _pattern_fault(lake: Lake, pattern: str) -> str | None:
    try:
        lake.spark().range(1).select(F.lit("").rlike(anchored(pattern))).collect()
    except PySparkException as error:
        if "pattern" not in str(error).lower():
            raise
        return f"{pattern!r} is not a regular expression of Java: {_first_line(error)}"
    return None


def _first_line(error: PySparkException) -> str:
    return str(error.getMessage()).strip().splitlines()[0].partition(" SQLSTATE")[0][:400]
