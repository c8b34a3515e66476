"""The operations log: who changed what, when and why. An Iceberg table, so it outlives Dagster's database."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemark import __version__
from tidemark.domain.columns.spark_types import quoted_name
from tidemark.engine.access.lake import Lake

LOG_NAME = "tidemark_operations"
_COLUMNS = (
    "at timestamp, `by` string, verb string, `table` string, arguments string, reason string, "
    "before_snapshot bigint, after_snapshot bigint, run_id string, tidemark string"
)


@dataclass(frozen=True, slots=True)
class Signature:
    """Who changes something, why, and in which run; with `dry_run` nothing is written."""

    by: str
    reason: str
    run_id: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb that changed a table. `arguments` is plain JSON without secrets."""

    by: str
    verb: str
    table: str
    reason: str
    run_id: str
    arguments: Mapping[str, Any]
    before_snapshot: int | None = None
    after_snapshot: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON for `--json` and Dagster metadata."""
        return {
            "verb": self.verb,
            "table": self.table,
            "by": self.by,
            "reason": self.reason,
            "arguments": dict(self.arguments),
            "before_snapshot": self.before_snapshot,
            "after_snapshot": self.after_snapshot,
            "run_id": self.run_id,
        }


def log_table(lake: Lake) -> str:
    """`namespace.name` of the operations log."""
    return f"{lake.platform.default_namespace}.{LOG_NAME}"


def record(lake: Lake, operation: Operation) -> None:
    """Append one line to the log; creates it on first use."""
    spark, table = lake.spark(), lake.identifier(log_table(lake))
    namespace = quoted_name(lake.platform.catalog.name, lake.platform.default_namespace)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table} ({_COLUMNS}) USING iceberg COMMENT 'Who changed what, when and why'"
    )
    row = (
        datetime.now(UTC),
        operation.by,
        operation.verb,
        operation.table,
        json.dumps(dict(operation.arguments), sort_keys=True, default=str),
        operation.reason,
        operation.before_snapshot,
        operation.after_snapshot,
        operation.run_id,
        __version__,
    )
    spark.createDataFrame([row], _COLUMNS).writeTo(table).append()
