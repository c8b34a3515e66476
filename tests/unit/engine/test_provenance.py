"""Rules of where a row comes from: who allowed its columns, and what somebody else did to main after its receipt."""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary

from tidemark.domain.config.contract import Contract
from tidemark.domain.errors import Outage
from tidemark.domain.maintenance.retention import EXPIRED_BEFORE, NOTED
from tidemark.engine.access import foreign_commits
from tidemark.engine.access.foreign_commits import by_retention, others_since, rewritten_since
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.access.table_state import TableState
from tidemark.engine.schema.history import HISTORY
from tidemark.engine.verify.provenance import approvals
from tidemark.review.receipts import snapshots_of

RECEIPT, BATCH = {"tidemark.ledger": "{}"}, {"tidemark.batch": "b"}
ID = {"name": "id", "type": "int"}
TOTALS = ("total-data-files", "total-delete-files", "total-records", "total-position-deletes")


def rows(brought: int, removed: int) -> dict[str, str]:
    return {"added-records": str(brought), "deleted-records": str(removed)}


CHAIN = [
    (1, Operation.APPEND, RECEIPT),
    (2, Operation.APPEND, BATCH),
    (3, Operation.APPEND, RECEIPT),
    (4, Operation.OVERWRITE, rows(9, 9)),
    (5, Operation.REPLACE, rows(9, 9)),
    (6, Operation.OVERWRITE, rows(0, 5)),  # the removing half of a replay: never main's head
    (7, Operation.APPEND, BATCH),
    (8, Operation.APPEND, RECEIPT),
    (9, Operation.DELETE, rows(0, 1)),
    (10, Operation.OVERWRITE, rows(3, 4) | dict.fromkeys(TOTALS, "0")),
]


def metadata(properties: dict[str, str] | None = None) -> TableMetadata:
    return TableMetadataV2(
        location="/t",
        last_column_id=0,
        schemas=[{"type": "struct", "schema-id": 0, "fields": []}],
        partition_specs=[{"spec-id": 0, "fields": []}],
        sort_orders=[{"order-id": 0, "fields": []}],
        current_snapshot_id=10,
        last_sequence_number=10,
        properties=properties or {},
        snapshots=[
            Snapshot(
                snapshot_id=n,
                parent_snapshot_id=n - 1 or None,
                sequence_number=n,
                timestamp_ms=1_000 * n,
                manifest_list="",
                summary=Summary(operation, **summary),
            )
            for n, operation, summary in CHAIN
        ],
        snapshot_log=[
            SnapshotLogEntry(snapshot_id=n, timestamp_ms=1_000 * n) for n in (1, 3, 4, 5, 8, 9, 10)
        ],
        refs={"main": SnapshotRef(snapshot_id=10, snapshot_ref_type="branch")},
    )


def test_who_allowed_a_column_is_known_of_every_schema_that_has_it() -> None:
    """Given a column that schema 2 was the first to need, when schema 3 has it, too, then its records name the approval; those of schema 1, which lacks it, do not, nor does anybody ask a registry where nothing was changed."""
    field = {"name": "note", "type": ["null", "string"], "default": None}
    fields = {1: [], 2: [field], 3: [field, {"name": "more", "type": ["null", "int"], "default": None}]}
    versions = tuple(
        RegisteredSchema(n, n, "AVRO", json.dumps({"type": "record", "name": "O", "fields": [ID, *more]}))
        for n, more in fields.items()
    )
    registry = SimpleNamespace(versions=lambda _: versions)
    lake: Any = SimpleNamespace(registry=lambda _: registry)
    contract = Contract(topic="orders", table="shop.orders")
    entry = {"plan": "p", "by": "ada", "schema_ids": [2], "changes": [{"kind": "add_column", "path": "note"}]}
    state = TableState("shop.orders", exists=True, properties={HISTORY: json.dumps([entry])})
    told = [[each["by"] for each in approvals(lake, contract, state, n)] for n in (1, 2, 3)]
    assert told == [[], ["ada"], ["ada"]]
    assert approvals(None, contract, TableState("shop.orders", exists=True), 3) == []  # type: ignore[arg-type]


def test_the_approval_for_a_schema_is_known_while_no_registry_answers() -> None:
    def down(_subject: str) -> None:
        raise Outage("registry_down", "-", "no registry here")

    lake: Any = SimpleNamespace(registry=lambda _: SimpleNamespace(versions=down))
    entry = {"plan": "p", "by": "ada", "schema_ids": [2], "changes": [{"kind": "add_column", "path": "note"}]}
    state = TableState("shop.orders", exists=True, properties={HISTORY: json.dumps([entry])})
    contract = Contract(topic="orders", table="shop.orders")
    assert [len(approvals(lake, contract, state, n)) for n in (2, 3)] == [1, 0]


def table(told: TableMetadata) -> Table:
    return Table(("t",), told, "/t/metadata.json", load_file_io(), NoopCatalog("none"))


def test_commits_of_others_are_those_on_main_that_are_no_batch_replay_or_compaction() -> None:
    found = others_since(metadata(), 10, 3)
    assert [(each.snapshot_id, each.operation, each.brought, each.removed) for each in found] == [
        (10, "overwrite", 3, 4),
        (9, "delete", 0, 1),
        (4, "overwrite", 9, 9),
    ]
    assert [each.snapshot_id for each in others_since(metadata(), 10, 8)] == [10, 9]
    assert [each["snapshot_id"] for each in snapshots_of(table(metadata()))["others"]] == [10, 9, 4], (
        "in the review pack"
    )
    assert [each.snapshot_id for each in others_since(metadata(), 10, None)] == [10, 9, 4]


def test_a_delete_long_after_a_head_that_has_expired_is_not_retentions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given notes of a cut whose head has expired (0) and of one before the last commit, when a delete came long after the oldest snapshot that is left, then it is somebody's."""
    noted = metadata({NOTED: json.dumps([(0, ""), (9, "")])})
    assert by_retention(noted) == {9, 10}
    monkeypatch.setattr(foreign_commits, "DELETED_WITHIN", timedelta(seconds=5))
    assert by_retention(noted) == {10}


def test_a_row_that_is_there_may_be_of_a_commit_that_brought_rows_but_not_of_retentions() -> None:
    assert [each.snapshot_id for each in rewritten_since(metadata(), 10, 3)] == [10, 4]
    expires = metadata({EXPIRED_BEFORE: "2026-01-01T00:00:00+00:00"})
    assert [each.snapshot_id for each in rewritten_since(expires, 10, 3)] == [4]


@pytest.mark.parametrize(
    ("heads", "own"),
    [([8], []), ([8, 9], [9, 10]), ([9], [10]), ([3, 9], [9, 10]), ([0], []), ([0, 9], [9, 10]), ([], [])],
)
def test_a_delete_is_retentions_where_it_is_the_only_one_behind_a_noted_head(
    heads: list[int], own: list[int]
) -> None:
    """Given two commits that removed rows, when a cut was noted before each, then both are retention's; of two behind
    one head neither is; a head that has expired (0) was before all that is left."""
    noted = metadata({NOTED: json.dumps([(head, "") for head in heads])})
    assert by_retention(noted) == set(own)
    told = snapshots_of(table(noted))
    assert [each["snapshot_id"] for each in told["others"]] == [n for n in (10, 9, 4) if n not in own]
    assert told["others_count"] == len(told["others"])
