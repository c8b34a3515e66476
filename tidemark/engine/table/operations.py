"""The operations log: who changed what, when and why. An Iceberg table, so it outlives Dagster's database."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, cast

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, EqualTo, Or

from tidemark import __version__
from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.config.naming import OPERATIONS_LOG
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.table_state import load
from tidemark.engine.faults import pause_point

_COLUMNS = (
    "at timestamp, `by` string, verb string, `table` string, arguments string, reason string, "
    "before_snapshot bigint, after_snapshot bigint, run_id string, tidemark string, authenticated string"
)

_NEWEST = "authenticated"
"""The column that a log of an earlier Tidemark lacks."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Who changes something, why, and in which run; with `dry_run` nothing is written.

    `by` is what was declared, `authenticated` whom the host knows to have asked.
    """

    by: str
    reason: str
    run_id: str = ""
    dry_run: bool = False
    authenticated: str | None = None

    def as_note(self) -> str:
        """What a table property says of the act, for whoever finds that it was never logged (`finish`)."""
        says = {
            "by": self.by,
            "reason": self.reason,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "run_id": self.run_id,
            "authenticated": self.authenticated,
        }
        return json.dumps(says)


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
    authenticated: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON for `--json` and Dagster metadata."""
        return {
            "verb": self.verb,
            "table": self.table,
            "by": self.by,
            "authenticated": self.authenticated,
            "reason": self.reason,
            "arguments": dict(self.arguments),
            "before_snapshot": self.before_snapshot,
            "after_snapshot": self.after_snapshot,
            "run_id": self.run_id,
        }


def log_table(lake: Lake) -> str:
    """`namespace.name` of the operations log."""
    return f"{lake.platform.default_namespace}.{OPERATIONS_LOG}"


def record(lake: Lake, operation: Operation) -> None:
    """Append one line to the log; creates it on first use.

    The change was made before: whoever repeats a verb that died here finds it by its run and calls `finish`.
    """
    pause_point("unrecorded")
    spark, table = lake.spark(), lake.identifier(log_table(lake))
    namespace = quoted_name(lake.platform.catalog.name, lake.platform.default_namespace)
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table} ({_COLUMNS}) USING iceberg COMMENT 'Who changed what, when and why'"
    )
    if _NEWEST not in spark.table(table).columns:
        spark.sql(f"ALTER TABLE {table} ADD COLUMN {_NEWEST} string")
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
        operation.authenticated,
    )
    spark.createDataFrame([row], _COLUMNS).writeTo(table).append()


def finish(
    lake: Lake, says: Mapping[str, Any], verb: str, table: str, snapshot: int | None, **arguments: Any
) -> Operation | None:
    """The operation of an act that died between its change and its row, which is written now; None when it was logged.

    `says`: what the table itself tells of the act, with {"by", "reason", "run_id"} and "authenticated" where known.
    """
    run_id = says.get("run_id")
    if not run_id or _logged(lake, str(run_id), verb):
        return None
    operation = Operation(
        by=str(says.get("by", "")),
        authenticated=says.get("authenticated"),
        verb=verb,
        table=table,
        reason=str(says.get("reason", "")),
        run_id=str(run_id),
        arguments={"dry_run": False, **arguments},
        before_snapshot=snapshot,
        after_snapshot=snapshot,
    )
    record(lake, operation)
    return operation


def logged_runs(lake: Lake, run_ids: Collection[str]) -> frozenset[str]:
    """Those of the runs that have a row."""
    log = load(lake.catalog, log_table(lake))
    if log is None:
        return frozenset()
    each_of = (EqualTo(term="run_id", value=each) for each in run_ids)
    any_of = reduce(Or, each_of, cast("BooleanExpression", AlwaysFalse()))
    rows = log.scan(row_filter=any_of, selected_fields=("run_id",)).to_arrow()
    return frozenset(str(each) for each in rows["run_id"].to_pylist())


def _logged(lake: Lake, run_id: str, verb: str) -> bool:
    log = load(lake.catalog, log_table(lake))
    if log is None:
        return False
    mine = And(EqualTo(term="run_id", value=run_id), EqualTo(term="verb", value=verb))
    return bool(log.scan(row_filter=mine, selected_fields=("run_id",)).to_arrow().num_rows)
