"""Avro records of Debezium as rows: the change that an envelope, or a flattened record, holds.

Belongs here: expressions over one decoded record: its row, `_cdc`, and what keeps it from being a row. The same for
JSON is in `shipped.debezium_json`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.columns.spark_types import spark_ddl
from tidemark.domain.columns.types import Field, Struct
from tidemark.domain.formats.avro_decoder import decoded_names
from tidemark.domain.formats.avro_nodes import Node, Record, Union
from tidemark.domain.formats.debezium import (
    CDC,
    META,
    TRUNCATE,
    Envelope,
    flat_row,
    meta_fields,
    part,
    present,
    row_record,
)
from tidemark.engine.decode.avro import record_field
from tidemark.engine.decode.avro_checks import fits

SKIP = "skip"
"""In place of a cause: no row is made of the record, and it is counted."""
_DIGITS = 20
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""


@dataclass(frozen=True)
class Change:
    """One decoded record of a writer whose top-level type is `root`; `ended`: its bytes follow that to their end.

    With `truncates` the truncation of a table is a row, otherwise it is skipped. `name` is the working column of the
    row.
    """

    value: Column
    ended: Column
    root: Node
    envelope: Envelope
    truncates: bool
    name: str

    def prepared(self, rows: DataFrame) -> DataFrame:
        """`rows` with the change's row as a column of its own, which keeps what is made of it short."""
        return rows if self.envelope == "debezium_flat" else rows.withColumn(self.name, self._row())

    def column(self, field: Field, reader: Node | None) -> Column:
        """A column of the table."""
        if field.name == CDC.name:
            found = F.when(self.value.isNotNull(), self._cdc())
            if self.envelope == "debezium_flat" and isinstance(self.root, Union):
                found = found.when(self.ended & self.value.isNull(), _delete())
            return found.cast(spark_ddl(field.type))
        row, node = self.row
        return record_field(row, node, field, reader)

    @cached_property
    def row(self) -> tuple[Column, Record]:
        """The row after the change, before it when it is a delete; and its type."""
        if self.envelope == "debezium_flat":
            return self.value, flat_row(self.record)
        return F.col(self.name), row_record(self.record)

    def _row(self) -> Column:
        before, after = self._get("before"), self._get("after")
        return F.when(self.op == "d", F.lit(None) if before is None else before).otherwise(after)

    @property
    def record(self) -> Record:
        """The top-level record."""
        found = present(self.root)
        if not isinstance(found, Record):
            raise TypeError(f"no record: {found}")
        return found

    @cached_property
    def op(self) -> Column:
        """What happened; a flattened record that does not say is `u`, and `d` when it is marked as deleted."""
        if self.envelope == "debezium":
            return self._text("op")
        deleted = F.when(self._text(f"{META}deleted") == "true", "d")
        return F.coalesce(deleted, self._text(f"{META}op"), F.lit("u"))

    def fault(self) -> Column:
        """The cause that keeps the record out, SKIP, TRUNCATE, or NULL."""
        row, node = self.row
        skipped = F.when(self.op == "m", SKIP)
        if not self.truncates:
            skipped = skipped.when(self.op == "t", TRUNCATE)
        in_range = fits(row, node)
        fault = skipped if in_range is None else skipped.when(~in_range, "value_out_of_range")
        fault = fault.when(~self._millis().between(_FIRST_MS, _LAST_MS), "value_out_of_range")
        return fault.when(self._is_broken(), "invalid_against_schema")

    def detail(self) -> Column:
        """Words for a record that is no change, else NULL; a record that did not decode has no op either."""
        words = F.concat(F.lit("no change of a row: op "), self.op, F.lit(", after NULL"))
        return F.when(self.op.isNotNull() & self._is_broken(), words)

    def _is_broken(self) -> Column:
        known = self.op.isin("c", "r", "u", "d", "t", "m")
        if self.envelope == "debezium_flat":
            return ~F.coalesce(known, F.lit(False))
        after = self._get("after")
        missing = self.op.isin("c", "r", "u") & (F.lit(None) if after is None else after).isNull()
        return ~F.coalesce(known, F.lit(False)) | missing

    def _cdc(self) -> Column:
        bag = self._bag()
        parts = {
            "op": self.op,
            "source": self._source(bag),
            "ts": F.timestamp_millis(F.when(self._millis().between(_FIRST_MS, _LAST_MS), self._millis())),
            "pos": position(bag),
            "snapshot": bag["snapshot"].cast("string") if "snapshot" in bag else F.lit(None).cast("string"),
            "transaction": self._transaction(bag),
        }
        assert isinstance(CDC.type, Struct)  # noqa: S101 - its fields are the keys above
        return F.struct(*(parts[field.name].alias(field.name) for field in CDC.type.fields))

    def _bag(self) -> Mapping[str, Column]:
        """What the connector says about the source, by name."""
        if self.envelope == "debezium":
            source, node = self._get("source"), part(self.record, "source")
            if source is None or not isinstance(node, Record):
                return {}
            names = zip(decoded_names(node), node.fields, strict=True)
            return {field.name: source[name] for name, field in names if part(node, field.name) is not None}
        found = {f.name.removeprefix(META): self._get(f.name) for f in meta_fields(self.record)}
        named = {name: column for name, column in found.items() if column is not None}
        return {
            **named,
            **{n.removeprefix("source_"): c for n, c in named.items() if n.startswith("source_")},
        }

    def _source(self, bag: Mapping[str, Column]) -> Column:
        if self.envelope == "debezium":
            parts = list(bag.items())
        else:
            names = [f.name.removeprefix(META) for f in meta_fields(self.record)]
            parts = [(name, bag[name]) for name in names if name in bag]
        return _json(parts)

    def _transaction(self, bag: Mapping[str, Column]) -> Column:
        if self.envelope == "debezium":
            block, node = self._get("transaction"), part(self.record, "transaction")
            if block is None or not isinstance(node, Record):
                return F.lit(None).cast("string")
            return F.when(block.isNotNull(), F.to_json(block, {"ignoreNullFields": "false"}))
        prefix = "transaction_"
        return _json([(n.removeprefix(prefix), c) for n, c in bag.items() if n.startswith(prefix)])

    def _millis(self) -> Column:
        names = ("ts_ms",) if self.envelope == "debezium" else (f"{META}ts_ms", f"{META}source_ts_ms")
        found = [column for name in names if (column := self._get(name)) is not None]
        return F.coalesce(*(column.try_cast("bigint") for column in found), F.lit(None).cast("bigint"))

    def _text(self, name: str) -> Column:
        found = self._get(name)
        return F.lit(None).cast("string") if found is None else found.cast("string")

    def _get(self, name: str) -> Column | None:
        if part(self.record, name) is None:
            return None
        names = zip(decoded_names(self.record), self.record.fields, strict=True)
        return self.value[next(decoded for decoded, field in names if field.name == name)]


def _delete() -> Column:
    """What is told of a delete that is not rewritten: the NULL in place of a flattened record."""
    assert isinstance(CDC.type, Struct)  # noqa: S101 - so it is
    told = {field.name: F.lit("d" if field.name == "op" else None) for field in CDC.type.fields}
    return F.struct(
        *(told[field.name].cast(spark_ddl(field.type)).alias(field.name) for field in CDC.type.fields)
    )


def position(bag: Mapping[str, Column]) -> Column:
    """The place in the database's log: numbers padded to twenty digits, parts with colons between them.

    A file without a name is none: so MySQL's snapshots say that they have no place.
    """
    if "lsn" in bag:
        return _padded(bag["lsn"])
    if "change_lsn" in bag:
        parts = [bag[name].cast("string") for name in ("commit_lsn", "change_lsn") if name in bag]
        serial = [_padded(bag["event_serial_no"])] if "event_serial_no" in bag else []
        return F.nullif(F.concat_ws(":", *parts, *serial), F.lit(""))
    if "file" in bag and "pos" in bag:
        row, file = [_padded(bag["row"])] if "row" in bag else [], bag["file"].cast("string")
        return F.when(file != "", F.concat_ws(":", file, _padded(bag["pos"]), *row))
    return _padded(bag["scn"]) if "scn" in bag else F.lit(None).cast("string")


def _padded(number: Column) -> Column:
    text = number.cast("string")
    return F.lpad(text, F.greatest(F.length(text), F.lit(_DIGITS)), F.lit("0"))


def _json(parts: list[tuple[str, Column]]) -> Column:
    if not parts:
        return F.lit(None).cast("string")
    return F.to_json(F.struct(*(column.alias(name) for name, column in parts)), {"ignoreNullFields": "false"})
