"""Formats that Spark cannot decode by itself: Python on its executors, a batch of Arrow columns at a time.

Belongs here: what is sent to the executors. The functions travel by value (`tidemark.engine.decode.shipped`): the
executors' Python needs pyarrow and the format's parser, not Tidemark. Only the values go there and come back as
rows; Spark keeps the other columns, and evaluates the function once per record, for it counts as one that may
answer differently each time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from tidemark.domain.columns.spark_types import spark_json
from tidemark.domain.columns.types import Struct, as_text
from tidemark.domain.errors import SchemaUnsupported
from tidemark.domain.formats.explanation import Explanation
from tidemark.domain.formats.json_columns import JsonDocuments
from tidemark.domain.formats.json_nodes import Object
from tidemark.domain.formats.protobuf_columns import ProtobufMessage
from tidemark.engine.decode.avro import bare
from tidemark.engine.decode.on_server import name_of
from tidemark.engine.decode.shipped import debezium_json, json_arrow
from tidemark.engine.decode.shipped.batch import Rows, decoder
from tidemark.engine.decode.shipped.json_validity import Validity
from tidemark.engine.decode.shipped.json_values import JsonFault, Reader, parse
from tidemark.engine.decode.shipped.protobuf_arrow import Reader as ProtobufReader
from tidemark.engine.decode.shipped.protobuf_faults import ProtobufFault
from tidemark.engine.decode.shipping import shippable

DEBEZIUM: Mapping[str, debezium_json.Envelope] = {"debezium": "debezium", "debezium_flat": "debezium_flat"}
ShippedSchema = JsonDocuments | ProtobufMessage


def decoded(
    value: Column, schema_id: Column, writers: Mapping[int, ShippedSchema], columns: Struct, header: int
) -> Column:
    """struct<cause: string, row: struct<columns>> of a value written with the schema of this id; NULLs for NULL.

    Variants come as JSON text, see `variant`.
    """
    columns = cast("Struct", as_text(columns))
    returned = StructType([StructField("cause", StringType()), StructField("row", _struct_type(columns))])
    if not writers:
        return F.lit(None).cast(returned)
    shippable()
    target = arrow_type(columns)
    by_id = {schema_id: rows_of(schema, target) for schema_id, schema in writers.items()}
    decode = decoder(by_id, header)
    decode.__name__ = name_of(writers, columns, header)
    function = cast("Any", F).arrow_udf(decode, returned).asNondeterministic()
    column: Column = function(value, schema_id)
    return column


def arrow_type(columns: Struct) -> pa.StructType:
    """The columns as Spark hands them over."""
    found: pa.StructType = cast("Any", to_arrow_type)(_struct_type(columns))
    return found


def _struct_type(columns: Struct) -> StructType:
    """A type, not DDL: that PySpark would have parsed by the server of whichever session the thread used last."""
    return StructType.fromJson(spark_json(bare(columns)))


def rows_of(schema: ShippedSchema, target: pa.StructType) -> Rows:
    """The function that reads payloads of one writer into rows of `target`."""
    if isinstance(schema, ProtobufMessage):
        return partial(_reader(schema).rows, target=target)
    return partial(
        json_arrow.rows, root=schema.root, target=target, problem=_validity(schema), read=_read(schema)
    )


def explain(payload: bytes, schema: ShippedSchema) -> Explanation | None:
    """The first fault of a value without its header, None when it has none."""
    fault: JsonFault | ProtobufFault | None
    if isinstance(schema, ProtobufMessage):
        fault = _reader(schema).fault_of(payload)
    else:
        fault = json_arrow.fault_of(payload, schema.root, _validity(schema), _read(schema))
    if fault is None or fault.cause == "skip" or fault.cause == "truncate":  # noqa: PLR1714 - mypy follows this alone
        return None
    return Explanation(fault.cause, fault.detail)


def check_validator(schema: JsonDocuments) -> None:
    """Raises SchemaUnsupported where the text of a JSON Schema is not one."""
    validity = _validity(schema)
    try:
        _ = validity and validity.validator
    except (ValueError, RecursionError) as error:
        raise SchemaUnsupported("", f"no valid JSON Schema: {error}") from error


def _reader(schema: ProtobufMessage) -> ProtobufReader:
    return ProtobufReader(schema.descriptors, schema.index, schema.root)


def _read(schema: JsonDocuments) -> Callable[[bytes], Any]:
    """How a value becomes the document that the schema's tree describes."""
    if schema.shape == "plain" or not isinstance(schema.root, Object):
        return parse
    if schema.shape in DEBEZIUM:
        return Reader(debezium_json.Rows(schema.root, DEBEZIUM[schema.shape], truncates=schema.truncates))
    return Reader(debezium_json.Keys(schema.root, certain=schema.shape == "key"))


def _validity(schema: JsonDocuments) -> Validity | None:
    return Validity(schema.schema) if schema.schema is not None else None
