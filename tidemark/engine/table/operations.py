"""The operations log: who changed what, when and why. An Iceberg table, so it outlives Dagster's database."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, LongType, NestedField, StringType, TimestamptzType

from tidemark import __version__
from tidemark.domain.columns.spark_types import columns_ddl, quoted_name
from tidemark.domain.columns.types import Struct
from tidemark.domain.config.naming import OPERATIONS_LOG
from tidemark.engine.access.iceberg_types import columns_of
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.namespace import make_namespace
from tidemark.engine.access.spark import temp_view
from tidemark.engine.access.table_state import load
from tidemark.engine.faults import pause_point
from tidemark.engine.table.branch import is_writable
from tidemark.engine.table.races import repeated

_COLUMNS: Mapping[str, IcebergType] = {
    "at": TimestamptzType(),
    **dict.fromkeys(("by", "verb", "table", "arguments", "reason"), StringType()),
    **dict.fromkeys(("before_snapshot", "after_snapshot"), LongType()),
    **dict.fromkeys(("run_id", "tidemark", "authenticated"), StringType()),
}
_SCHEMA = Schema(*(NestedField(n, name, kind) for n, (name, kind) in enumerate(_COLUMNS.items(), 1)))
_PROPERTIES = {"comment": "Who changed what, when and why"}


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

    def as_note(self, **more: Any) -> str:
        """What a table property says of the act, and `more` of it, for whoever finds that it was never logged."""
        says = {
            "by": self.by,
            "reason": self.reason,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "run_id": self.run_id,
            "authenticated": self.authenticated,
            **more,
        }
        return json.dumps(says)


@dataclass(frozen=True, slots=True)
class Operation:
    """One verb that changed a table. `arguments` is plain JSON without secrets; `at`: when, if that is not now."""

    by: str
    verb: str
    table: str
    reason: str
    run_id: str
    arguments: Mapping[str, Any]
    before_snapshot: int | None = None
    after_snapshot: int | None = None
    authenticated: str | None = None
    at: datetime | None = None

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


def log_operation(
    lake: Lake,
    signature: Signature,
    verb: str,
    table: str,
    arguments: Mapping[str, Any],
    before: int | None = None,
    after: int | None = None,
) -> Operation:
    """What was done to a table whose head was `before` and is `after`; it is in the log, but for a dry run."""
    operation = Operation(
        by=signature.by,
        authenticated=signature.authenticated,
        verb=verb,
        table=table,
        reason=signature.reason,
        run_id=signature.run_id,
        arguments={"dry_run": signature.dry_run, **arguments},
        before_snapshot=before,
        after_snapshot=after,
    )
    if not signature.dry_run:
        record(lake, operation)
    return operation


def record(lake: Lake, operation: Operation) -> None:
    """Write one line of the log; creates it on first use. What a run has done to a table is in it once.

    What others have logged of a run that was still at work (with its `at`) gives way to what that run logs in the end.
    The change was made before: whoever repeats a verb that died here finds it by its run (`log_unfinished_act`).
    """
    pause_point("unrecorded")
    make_namespace(lake.catalog, lake.platform.default_namespace)
    repeated(lambda: _append(lake, operation))


def _append(lake: Lake, operation: Operation) -> None:
    log = load(lake.catalog, log_table(lake))
    if log is None:
        log = lake.catalog.create_table_if_not_exists(log_table(lake), _SCHEMA, properties=_PROPERTIES)
    by_spark = not is_writable(log.metadata)  # somebody has raised its format
    if not {*_SCHEMA.column_names} <= {*log.schema().column_names}:  # of an earlier Tidemark
        log = _grown_by_spark(lake, log) if by_spark else _grown(log)
    row = {
        "at": operation.at or datetime.now(UTC),
        "by": operation.by,
        "verb": operation.verb,
        "table": operation.table,
        "arguments": json.dumps(_without_values(operation.arguments), sort_keys=True, default=str),
        "reason": operation.reason,
        "before_snapshot": operation.before_snapshot,
        "after_snapshot": operation.after_snapshot,
        "run_id": operation.run_id,
        "tidemark": __version__,
        "authenticated": operation.authenticated,
    }
    same = _of([operation.run_id], verb=operation.verb, table=operation.table)
    there = log.scan(row_filter=same).to_arrow().to_pylist() if operation.run_id else []
    if there and (operation.at is not None or there[0]["arguments"] == row["arguments"]):
        return
    if by_spark:
        _append_by_spark(lake, row, instead=bool(there))
    elif there:
        log.overwrite(pa.Table.from_pylist([row], schema=_SCHEMA.as_arrow()), overwrite_filter=same)
    else:
        log.append(pa.Table.from_pylist([row], schema=_SCHEMA.as_arrow()))


def _without_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The log is kept for ever: it says where rows are that broke a rule, and has none of their values."""
    rules = [
        {**each, "samples": [{**sample, "values": {}} for sample in each.get("samples", ())]}
        for each in arguments.get("rules", ())
    ]
    return {**arguments, **({"rules": rules} if rules else {})}


def _grown(log: Table) -> Table:
    with log.update_schema() as change:
        change.union_by_name(_SCHEMA)
    return log


def _grown_by_spark(lake: Lake, log: Table) -> Table:
    there = log.schema().column_names
    lacking = Struct(tuple(each for each in columns_of(_SCHEMA).fields if each.name not in there))
    lake.spark().sql(f"ALTER TABLE {lake.identifier(log_table(lake))} ADD COLUMNS ({columns_ddl(lacking)})")
    return log.refresh()


def _append_by_spark(lake: Lake, row: Mapping[str, Any], *, instead: bool) -> None:
    """`instead`: of the row that is there of the same act."""
    spark, log, names = lake.spark(), lake.identifier(log_table(lake)), list(map(quoted_name, _COLUMNS))
    rows = spark.createDataFrame([tuple(row[name] for name in _COLUMNS)], columns_ddl(columns_of(_SCHEMA)))
    with temp_view(rows, "operation") as view:
        if instead:
            same = " AND ".join(
                f"l.{name} = r.{name}" for name in map(quoted_name, ("run_id", "verb", "table"))
            )
            told = ", ".join(f"l.{name} = r.{name}" for name in names)
            spark.sql(f"MERGE INTO {log} l USING {view} r ON {same} WHEN MATCHED THEN UPDATE SET {told}")
        else:
            listed = ", ".join(names)
            spark.sql(f"INSERT INTO {log} ({listed}) SELECT {listed} FROM {view}")


def log_unfinished_act(
    lake: Lake, says: Mapping[str, Any], verb: str, table: str, **arguments: Any
) -> Operation | None:
    """The operation of an act that died between its change and its row, which is written now; None when it was logged.

    `says`: what the table itself tells of the act, with {"by", "reason", "run_id", "at"} and "authenticated" where
    known. Where main was then nobody knows.
    """
    run_id = says.get("run_id")
    log = load(lake.catalog, log_table(lake)) if run_id else None
    if not run_id or (log is not None and _rows(log, [str(run_id)], verb=verb)):
        return None
    operation = Operation(
        by=str(says.get("by", "")),
        authenticated=says.get("authenticated"),
        verb=verb,
        table=table,
        reason=str(says.get("reason", "")),
        run_id=str(run_id),
        arguments={"dry_run": False, **arguments},
        at=_moment(says.get("at")),
    )
    record(lake, operation)
    return operation


def _moment(text: Any) -> datetime | None:
    """The time that a note says; None where somebody's hand has written none."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (TypeError, ValueError):
        return None


def logged_runs(lake: Lake, run_ids: Collection[str]) -> frozenset[str]:
    """Those of the runs that have a row."""
    log = load(lake.catalog, log_table(lake))
    return frozenset() if log is None else _rows(log, run_ids)


def _rows(log: Table, run_ids: Collection[str], **beside: str) -> frozenset[str]:
    """Those of the runs that have a row with these values."""
    found = log.scan(row_filter=_of(run_ids, **beside), selected_fields=("run_id",)).to_arrow()
    return frozenset(str(each) for each in found["run_id"].to_pylist())


def _of(run_ids: Collection[str], **beside: str) -> BooleanExpression:
    asked: BooleanExpression = In(term="run_id", literals=run_ids)
    for column, value in beside.items():
        asked = And(asked, EqualTo(term=column, value=value))
    return asked
