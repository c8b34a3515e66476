"""Every schema change of the published matrix is carried out on a real table, rows and all: SQLite catalog, PyIceberg, no JVM."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from matrix_changes import CHANGES, ChangeRow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from tidemark.domain.config.contract import Contract, SchemaChanges
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.avro import parse
from tidemark.domain.formats.avro_columns import columns as avro_columns
from tidemark.domain.plan.meanings import MEANINGS
from tidemark.engine.access.table_state import TableState, read_state
from tidemark.engine.preview.sample import approved
from tidemark.engine.schema.evolve import (
    Approval,
    Evolution,
    evolve,
    plan_evolution,
    refused_ids,
    value_columns,
)
from tidemark.engine.schema.history import history
from tidemark.engine.schema.writer import Writer
from tidemark.engine.schema.writers import TopicSchemas

TABLE = "shop.orders"
SAMPLES = {
    pa.types.is_boolean: True,
    pa.types.is_integer: 7,
    pa.types.is_floating: 1.5,
    pa.types.is_decimal: Decimal("1.25"),
    pa.types.is_date: date(2026, 1, 1),
    pa.types.is_timestamp: datetime(2026, 1, 1, tzinfo=UTC),
    pa.types.is_binary: b"xy",
    pa.types.is_large_binary: b"xy",
}


def sample(kind: pa.DataType) -> Any:
    """A value of this type with nothing NULL in it."""
    if pa.types.is_struct(kind):
        return {each.name: sample(each.type) for each in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [sample(kind.value_type)]
    if pa.types.is_map(kind):
        return [(sample(kind.key_type), sample(kind.item_type))]
    return next((value for is_of, value in SAMPLES.items() if is_of(kind)), "x")


def holds(found: Any, sent: Any) -> bool:
    """Whether everything that was sent is there; what was added beside it is NULL."""
    if isinstance(sent, dict):
        return all(holds(found[name], sent[name]) if name in sent else found[name] is None for name in found)
    if isinstance(sent, (list, tuple)):
        return len(found) == len(sent) and all(map(holds, found, sent))
    return bool(found == sent)


class Lake:
    """A lake without Spark: what PyIceberg can write needs none."""

    def __init__(self, folder: Path, row: ChangeRow) -> None:
        self.platform = SimpleNamespace(catalog=SimpleNamespace(type="sql"))
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("shop")
        self.catalog.create_table(TABLE, Schema(), properties={"format-version": "2", MEANINGS: "{}"})
        self.contract = Contract.model_validate(
            {"topic": "orders", "table": TABLE, "partition_by": row.partition_by, "upsert": row.upsert}
        )

    def state(self) -> TableState:
        return read_state(self.catalog, TABLE)

    def evolve(self, schemas: TopicSchemas, approval: Approval | None = None) -> Evolution:
        return evolve(self, self.contract, self.state(), schemas, run_id="r", approval=approval)  # type: ignore[arg-type]

    def append_sample(self) -> dict[str, Any]:
        table = self.catalog.load_table(TABLE)
        kinds = table.schema().as_arrow()
        sent = {each.name: sample(each.type) for each in kinds}
        table.append(pa.table({each.name: pa.array([sent[each.name]], each.type) for each in kinds}, kinds))
        return sent


def topic(*versions: list[dict[str, Any]]) -> TopicSchemas:
    writers, unsupported = [], {}
    for number, fields in enumerate(versions, 1):
        try:
            schema = parse(json.dumps({"type": "record", "name": "R", "fields": fields}))
            writers.append(Writer(number, number, schema, avro_columns(schema).struct))
        except SchemaUnsupported as error:
            unsupported[number] = str(error)
    return TopicSchemas(writers=tuple(writers), unsupported=unsupported)


@pytest.mark.parametrize("row", CHANGES, ids=lambda row: row.change)
def test_a_schema_change_is_carried_out_as_the_matrix_says(tmp_path: Path, row: ChangeRow) -> None:
    lake, schemas, newest = Lake(tmp_path, row), topic(*row.versions), len(row.versions)
    lake.evolve(topic(row.before))
    sent, before = lake.append_sample(), value_columns(lake.state())
    foreseen = approved(lake.state(), schemas, plan_evolution(lake.contract, lake.state(), schemas))
    found = lake.evolve(schemas)
    held = schemas.covered(value_columns(lake.state()))
    if row.kind is None or (row.kind, row.default) == ("remove_column", "apply"):
        assert (found.done, found.parked, newest in held) == ((), (), True)
    elif row.default == "apply":
        assert [(c.kind, ".".join(c.path)) for c in found.done] == [(row.kind, row.path)]
        assert set(held) == {1, newest}
        assert [each["schema_ids"] for each in history(lake.state())][1:] in ([[2]], [[]], [[0]])
        assert plan_evolution(lake.contract, lake.state(), schemas).changes == ()
    else:
        assert [(c.kind, ".".join(c.path), c.verdict) for c in found.parked] == [
            (row.kind, row.path, row.default)
        ]
        assert (found.done, value_columns(lake.state())) == ((), before)
        decided = lake.evolve(schemas, Approval(found.plan.id, "ann", "known"))
        settled = row.default == "review"
        assert bool(decided.done) == settled
        refused = newest in refused_ids(lake.contract, lake.state(), schemas)
        assert refused == (settled and row.kind == "incompatible")
        assert (plan_evolution(lake.contract, lake.state(), schemas).changes == ()) == settled
    assert foreseen
    assert schemas.covered(value_columns(foreseen)) == schemas.covered(value_columns(lake.state())), (
        "as a sample says"
    )
    [read] = lake.catalog.load_table(TABLE).scan().to_arrow().to_pylist()
    assert holds(read, sent), (read, sent)


ID = {"name": "id", "type": "long"}
TIME = {"name": "t", "type": {"type": "int", "logicalType": "time-millis"}}


@pytest.mark.parametrize(
    ("add_column", "enter"), [("apply", {1, 2}), ("review", {1, 2}), ("quarantine", {1})]
)
def test_a_sample_lets_in_what_a_run_would_after_an_approval(
    tmp_path: Path, add_column: str, enter: set[int]
) -> None:
    """Given a column whose numbers have a unit, then its records are foreseen as written unless the contract refuses them."""
    row = ChangeRow("", [ID], [ID, TIME], "add_column", "t", "", "", "")
    lake, schemas = Lake(tmp_path, row), topic([ID], [ID, TIME])
    lake.evolve(topic([ID]))
    said = lake.contract.model_copy(update={"schema_changes": SchemaChanges(add_column=add_column)})  # type: ignore[arg-type]
    foreseen = approved(lake.state(), schemas, plan_evolution(said, lake.state(), schemas))
    assert foreseen
    assert set(schemas.covered(value_columns(foreseen))) == enter
    assert refused_ids(said, foreseen, schemas) == {1, 2} - enter
