"""Every row of the published matrix is a test; the page is printed from the rows that are tested."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from matrix import (
    AVRO,
    DEBEZIUM,
    JSON_FIELDS,
    JSON_SCHEMA,
    NO_COLUMN,
    PROTOBUF,
    WHOLES,
    TypeRow,
    WholeRow,
    debezium_type,
    json_schema_of,
    proto_of,
)
from matrix_changes import CHANGES, EDITS, ChangeRow, EditRow
from matrix_page import page

import debezium

from tidemark.domain.formats import avro_columns
from tidemark.domain.formats import json_columns
from tidemark.domain.formats import json_schema
from tidemark.domain.formats import protobuf_columns
from tidemark.domain.formats.avro import parse
from tidemark.domain.formats.debezium import avro_columns as avro_envelope
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_table_of
from tidemark.domain.plan.contract_record import RECORD, record_text
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.plan.schema_plan import SchemaPlan, WriterColumns, plan_schema
from tidemark.domain.columns.shape import Shape, spelled, spelled_columns
from tidemark.domain.plan.table_plan import with_table
from tidemark.domain.plan.table_properties import governance
from tidemark.domain.columns.types import LONG, STRING, TIMESTAMPTZ, Field, Struct
from tidemark.engine.access.registry import RegisteredSchema
from tidemark.engine.decode.on_executors import arrow_type, rows_of
from tidemark.engine.schema.protobuf import read
from tidemark.engine.schema.protoc import compile_proto
from tidemark.engine.schema.writer import Reading, writer_of

PAGE = Path(__file__).parents[3] / "docs" / "matrix.md"


def test_the_page_is_current() -> None:
    if os.environ.get("TIDEMARK_WRITE_SNAPSHOTS"):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "TIDEMARK_WRITE_SNAPSHOTS=1 writes it anew"


def by_name(row: Any) -> str:
    return str(getattr(row, "written", None) or getattr(row, "change", None) or row.edit)


@pytest.mark.parametrize("row", AVRO, ids=by_name)
def test_an_avro_type_has_its_column(row: TypeRow) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "v", "type": row.schema or ["null", "long"]}]
    schema = parse(json.dumps({"type": "record", "name": "R", "fields": fields}))
    found = avro_columns.columns(schema).struct.fields[1:]
    assert [str(each.type) for each in found] == ([] if row.column == NO_COLUMN else [row.column])


@pytest.mark.parametrize("row", JSON_FIELDS, ids=by_name)
def test_a_declared_json_type_lands_exactly(row: TypeRow) -> None:
    landed(json_columns.declared({"v": row.schema}), row)


@pytest.mark.parametrize("row", JSON_SCHEMA, ids=by_name)
def test_a_json_schema_type_lands_exactly(row: TypeRow) -> None:
    landed(json_schema.parse(json.dumps(json_schema_of({"v": row.schema}))), row)


@pytest.mark.parametrize("row", DEBEZIUM, ids=by_name)
def test_a_type_of_debezium_has_its_column(row: TypeRow) -> None:
    text = json.dumps(debezium.envelope_schema({"v": debezium_type(row)}))
    assert str(avro_envelope(parse(text, connect=True), "debezium").struct.field("v").type) == row.column  # type: ignore[union-attr]


def landed(documents: json_columns.JsonDocuments, row: TypeRow) -> None:
    columns = json_columns.columns(documents)
    assert str(columns.fields[0].type) == row.column
    causes, rows = rows_of(documents, arrow_type(columns))([f'{{"v": {row.value}}}'.encode()])
    assert causes == [None]
    assert rows.to_pylist()[0]["v"] == row.lands


@pytest.mark.parametrize("row", PROTOBUF, ids=by_name)
def test_a_protobuf_type_lands_exactly(row: TypeRow) -> None:
    text = proto_of(row.schema)
    compiled = compile_proto(text, ())
    schema = read(compiled, None)
    columns = protobuf_columns.columns(schema)
    assert str(columns.fields[0].type) == row.column
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        pool.AddSerializedFile(file.SerializeToString())
    make = message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))
    message = make() if row.value is None else make(v=row.value)
    causes, rows = rows_of(schema, arrow_type(columns))([b"\0" + message.SerializeToString()])
    assert causes == [None]
    assert rows.to_pylist()[0]["v"] == row.lands


REGISTERED = [row for row in WHOLES if row.kind]


@pytest.mark.parametrize("row", REGISTERED, ids=by_name)
def test_a_value_as_a_whole_has_its_columns_or_is_refused_with_the_path(row: WholeRow) -> None:
    text = row.schema if row.kind == "PROTOBUF" else json.dumps(row.schema)
    schema = RegisteredSchema(1, 1, row.kind, text)
    if row.refused:
        with pytest.raises(SchemaUnsupported, match=row.refused):
            writer_of(schema, Reading())
        return
    columns = writer_of(schema, Reading()).columns
    assert [field.name for field in columns.fields] == list(row.lands)
    assert ", ".join(str(field.type) for field in columns.fields) == row.columns


def writer(number: int, fields: list[dict[str, Any]]) -> WriterColumns:
    try:
        schema = parse(json.dumps({"type": "record", "name": "R", "fields": fields}))
        return WriterColumns(number, number, avro_columns.columns(schema).struct)
    except SchemaUnsupported as error:
        return WriterColumns(number, number, Struct(()), str(error))


def planned(row: ChangeRow, **policy: str) -> SchemaPlan:
    said = Contract.model_validate(
        {
            "topic": "t",
            "table": "a.b",
            "partition_by": row.partition_by,
            "upsert": row.upsert,
            "schema_changes": policy,
        }
    )
    writers = [writer(number, fields) for number, fields in enumerate(row.versions, 1)]
    columns = writers[0].columns
    pinned = tuple((field,) for field in row.partition_by)
    upsert = upsert_table_of(said)
    plan = plan_schema(said.table, columns, writers, said.schema_changes, shape=Shape(partition_sources=pinned), upsert=upsert)
    clashing = {c.schema_id for c in plan.changes if c.kind == "incompatible"}
    return with_table(plan, said, columns, made_by(said), [w for w in writers if w.id not in clashing])


def made_by(said: Contract) -> Shape:
    own = {k: v for k, v in governance(said).items() if v is not None}
    return Shape(
        partition_by=spelled(said.partitioning),
        sort_by=spelled_columns(said.sort_by),
        format_version=said.format_version,
        properties={**own, **said.table_properties, RECORD: record_text(said)},
    )


@pytest.mark.parametrize("row", CHANGES, ids=by_name)
def test_a_schema_change_is_planned_with_its_verdict(row: ChangeRow) -> None:
    changes = planned(row).changes
    quiet = row.kind == "remove_column" and row.default == "apply"  # nothing is done, so nothing is planned
    if row.kind is None or quiet:
        assert changes == ()
    else:
        assert [(c.kind, ".".join(c.path), c.verdict) for c in changes] == [(row.kind, row.path, row.default)]


@pytest.mark.parametrize("row", [row for row in CHANGES if row.key], ids=by_name)
@pytest.mark.parametrize("says", ["review", "quarantine"])
def test_the_contract_chooses_another_verdict(row: ChangeRow, says: str) -> None:
    [change] = planned(row, **{row.key: says}).changes
    assert (change.kind, ".".join(change.path), change.verdict) == (row.kind, row.path, says)


COLUMNS = Struct((Field("id", LONG), Field("at", TIMESTAMPTZ), Field("who", STRING)))


@pytest.mark.parametrize("row", EDITS, ids=by_name)
def test_an_edit_of_the_contract_is_planned_with_its_verdict(row: EditRow) -> None:
    before, after = (Contract.model_validate({"topic": "t", "table": "a.b", **s}) for s in (row.before, row.after))
    plan = with_table(SchemaPlan("a.b", ()), after, COLUMNS, made_by(before), [])
    assert (row.kind, row.verdict) in {(c.kind, c.verdict) for c in plan.changes}
