"""One payload of a Kafka record, its value or its key, as columns: which writer wrote it, and how it decodes.

Belongs here: everything that is the same for values and keys. What becomes of the record is in `records`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses
from pyspark.sql.avro.functions import from_avro

from tidemark.domain.columns.spark_types import quoted_name, spark_ddl
from tidemark.domain.columns.types import BINARY, Field, Primitive, holds_variant
from tidemark.domain.formats.avro import AvroSchema
from tidemark.domain.formats.avro_columns import WHOLE_VALUE
from tidemark.domain.formats.avro_decoder import AVRO_OPTIONS, HEADER_SIZE, ID_SIZE, SENTINEL, decoder_schema
from tidemark.domain.formats.avro_nodes import Node, Record, skeleton
from tidemark.domain.formats.debezium import reader_row
from tidemark.domain.formats.routes import branch_prefix
from tidemark.engine.access.conditions import kept_apart
from tidemark.engine.access.nested import field_of
from tidemark.engine.decode.avro import record_field, shaped
from tidemark.engine.decode.avro_checks import fits, sound
from tidemark.engine.decode.debezium import Change
from tidemark.engine.decode.decoding import Decoding
from tidemark.engine.decode.on_executors import decoded as shipped_decoder
from tidemark.engine.decode.routes import branch_route, is_branch, route_of
from tidemark.engine.decode.text import exactly
from tidemark.engine.decode.variant import lost, with_variants

_SIGN = 1 << 31


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows with working columns, and what one payload of each becomes; `cause` may be SKIP, TRUNCATE or UNROUTED."""

    rows: DataFrame
    columns: Mapping[str, Column]
    cause: Column
    schema_id: Column
    detail: Column


def taken_apart(raw: DataFrame, decoding: Decoding) -> Parts:
    """The payload `decoding` names of every row, as its columns; nothing is raised for what does not decode."""
    if decoding.format == "avro":
        return _decode_avro(raw, decoding)
    if decoding.format in {"string", "raw"}:
        return _decode_whole(raw, decoding)
    return _decode_shipped(raw, decoding)


def _decode_whole(raw: DataFrame, decoding: Decoding) -> Parts:
    """Formats `string` and `raw`: the payload as it is, in the column `value`; text of a key as the column's type."""
    payload = F.col(decoding.payload)
    kind = next(field.type for field in decoding.columns.fields if field.name == WHOLE_VALUE)
    value, cause = payload, _null("string")
    if kind != BINARY and isinstance(kind, Primitive):
        text = payload.cast("string")
        value = F.when(F.is_valid_utf8(text), exactly(text, kind))
        cause = F.when(~F.is_valid_utf8(text), "undecodable").when(
            text.isNotNull() & value.isNull(), "type_mismatch"
        )
    columns = {
        field.name: value if field.name == WHOLE_VALUE else _null(spark_ddl(field.type))
        for field in decoding.columns.fields
    }
    return Parts(raw, columns, cause, _null("int"), _null("string"))


def _decode_shipped(raw: DataFrame, decoding: Decoding) -> Parts:
    """Formats that Spark decodes by a function of Python; Tidemark's classes take its place if they know the writer."""
    writers = {i: schema for i, schema in decoding.writers.items() if not isinstance(schema, AvroSchema)}
    schema_id, column = F.col(decoding.id_column), f"_tidemark_decoded_{decoding.payload}"
    identified = raw.select("*", _schema_id(decoding).alias(decoding.id_column))
    elsewhere = route_of(decoding, schema_id)
    wrote = schema_id.isin(*writers) if elsewhere is None else schema_id.isin(*writers) & elsewhere.isNull()
    value = F.when(wrote, F.col(decoding.payload))
    header = 0 if decoding.framing == "bare" else HEADER_SIZE
    rows = identified.select(
        "*", shipped_decoder(value, schema_id, writers, decoding.columns, header).alias(column)
    )
    row, fault = F.col(column)["row"], F.col(column)["cause"]
    columns = {each.name: row[each.name] for each in decoding.columns.fields}
    if holds_variant(decoding.columns):
        texts = field_of(quoted_name(column), "row")
        for each in decoding.columns.fields:
            columns[each.name] = F.expr(with_variants(field_of(texts, each.name), each.type))
        fault = F.coalesce(fault, F.when(F.expr(lost(texts, decoding.columns)), "value_out_of_range"))
    cause = _cause([(wrote, fault)], decoding)
    if elsewhere is not None:
        cause = F.coalesce(elsewhere, cause)
    return Parts(
        rows, columns, cause, _null("int") if decoding.format == "json" else schema_id, _null("string")
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """Writer schemas that differ in names of types, docs and defaults only: one decoder serves them.

    `routes` are those of a top-level union's branches, of which `root` is the own one, see `AvroSchema`.
    """

    ids: tuple[int, ...]
    root: Node
    routes: tuple[str, ...]
    column: str
    id_column: str

    @property
    def wrote(self) -> Column:
        """True for a record of one of these writers."""
        return F.col(self.id_column).isin(*self.ids)

    @property
    def value(self) -> Column:
        return F.col(self.column)["value"]

    @property
    def ended(self) -> Column:
        """True where the bytes follow the schema to their end."""
        return F.col(self.column)["sentinel"].eqNullSafe(F.lit(SENTINEL))

    def change(self, decoding: Decoding) -> Change | None:
        """The change that each record is, in a topic of Debezium's."""
        if decoding.envelope == "none":
            return None
        return Change(
            self.value, self.ended, self.root, decoding.envelope, decoding.upserts, f"{self.column}_row"
        )


def _groups(decoding: Decoding) -> tuple[_Group, ...]:
    alike: dict[tuple[Node, tuple[str, ...]], list[int]] = {}
    for schema_id, schema in sorted(decoding.writers.items()):
        if isinstance(schema, AvroSchema):
            alike.setdefault((skeleton(schema.root), schema.routes), []).append(schema_id)
    return tuple(
        _Group(
            tuple(ids), root, routes, f"_tidemark_decoded_{decoding.payload}_{position}", decoding.id_column
        )
        for position, ((root, routes), ids) in enumerate(alike.items())
    )


def _decode_avro(raw: DataFrame, decoding: Decoding) -> Parts:
    groups = _groups(decoding)
    identified = raw.select("*", _schema_id(decoding).alias(decoding.id_column))
    decoded = identified.select("*", *(_decoded(group, decoding) for group in groups))
    changes = [(group.wrote, change) for group in groups if (change := group.change(decoding))]
    for _, change in changes:
        decoded = change.prepared(decoded)
    faults = [(group.wrote, _fault(group, group.change(decoding))) for group in groups]
    columns = {
        field.name: F.coalesce(
            *(_column(group, field, decoding) for group in groups), _null(spark_ddl(field.type))
        )
        for field in decoding.columns.fields
    }
    payload, header = F.col(decoding.payload), _header_size(decoding)
    found = [F.when(g.wrote, branch_route(payload, header, g.routes)) for g in groups if len(g.routes) > 1]
    if (elsewhere := route_of(decoding, F.col(decoding.id_column))) is not None:
        found.append(elsewhere)
    details = [F.when(wrote, change.detail()) for wrote, change in changes]
    return Parts(
        decoded,
        columns,
        F.coalesce(*found, _cause(faults, decoding)),
        F.col(decoding.id_column),
        F.coalesce(*details, _null("string")),
    )


def _schema_id(decoding: Decoding) -> Column:
    """The writer's registry id, NULL where the value carries none; known ids are compared as bytes."""
    value = F.col(decoding.payload)
    if decoding.framing == "bare":
        return F.when(value.isNotNull(), F.lit(next(iter(decoding.writers))))
    known = {*decoding.writers, *decoding.uncovered, *decoding.skipped, *decoding.unfit}
    prefixes = {schema_id: F.lit(b"\0" + schema_id.to_bytes(ID_SIZE, "big")) for schema_id in sorted(known)}
    found = reduce(
        lambda cases, item: cases.when(F.startswith(value, item[1]), F.lit(item[0])),
        prefixes.items(),
        F.when(value.isNull() | ~F.startswith(value, F.lit(b"\0")) | (F.length(value) < HEADER_SIZE), None),
    )
    number = F.conv(F.hex(F.substring(value, 2, ID_SIZE)), 16, 10).cast("bigint")
    signed = F.when(number >= _SIGN, number - 2 * _SIGN).otherwise(number)
    return found.otherwise(signed).cast("int")


def _decoded(group: _Group, decoding: Decoding) -> Column:
    """`from_avro` for the group's records, NULL for others, those of a union's other branches among them."""
    payload, header, wrote = F.col(decoding.payload), _header_size(decoding), group.wrote
    if group.routes:
        own = group.routes.index("own")
        wrote, header = wrote & is_branch(payload, header, own), header + len(branch_prefix(own))
    once = F.when(kept_apart(wrote), F.concat(payload, F.lit(SENTINEL)))
    return from_avro(once, decoder_schema(group.root, header), AVRO_OPTIONS).alias(group.column)


def _header_size(decoding: Decoding) -> int:
    return HEADER_SIZE if decoding.framing == "confluent" else 0


def _column(group: _Group, field: Field, decoding: Decoding) -> Column:
    reader = decoding.reader.root if decoding.reader else None
    if change := group.change(decoding):
        return change.column(field, reader_row(reader, decoding.envelope) if reader else None)
    value, root = group.value, group.root
    if isinstance(root, Record):
        return record_field(value, root, field, reader)
    return (
        shaped(value, root, field.type, reader) if field.name == WHOLE_VALUE else _null(spark_ddl(field.type))
    )


def _cause(faults: Sequence[tuple[Column, Column]], decoding: Decoding) -> Column:
    """`faults`: which records, and the cause of each that is out."""
    payload, schema_id = F.col(decoding.payload), F.col(decoding.id_column)
    cause = F.when(payload.isNull(), None).when(schema_id.isNull(), "no_magic_byte")
    for wrote, fault in faults:
        cause = cause.when(wrote, fault)
    elsewhere = sorted(decoding.uncovered | decoding.skipped)
    cause = cause.when(schema_id.isin(*elsewhere), None)
    if decoding.unfit:
        cause = cause.when(schema_id.isin(*sorted(decoding.unfit)), "type_mismatch")
    return cause.otherwise("unknown_schema_id")


def _fault(group: _Group, change: Change | None) -> Column:
    value, root = group.value, group.root
    fault = F.when(~group.ended, "undecodable")
    if (is_sound := sound(value, root)) is not None:
        fault = fault.when(~is_sound, "undecodable")
    if change is not None:
        return fault.otherwise(change.fault())
    if (in_range := fits(value, root)) is not None:
        fault = fault.when(~in_range, "value_out_of_range")
    return fault


def _null(ddl: str) -> Column:
    return F.lit(None).cast(ddl)
