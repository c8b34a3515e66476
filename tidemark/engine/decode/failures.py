"""The second look at records that could not be decoded: which value, where and why.

Belongs here: bringing failed values to the client, where `avro_explain` or the format's own decoder reads them.
They are looked at here and not on Spark's executors, which need not have this package; that is why the look is
bounded. Failures beyond the bounds keep the cause of the first pass: correct, but for Avro `undecodable` where a
value was out of range.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.formats.avro import AvroSchema
from tidemark.domain.formats.avro_decoder import HEADER_SIZE
from tidemark.domain.formats.avro_explain import explain
from tidemark.domain.formats.explanation import Cause, Explanation
from tidemark.domain.formats.routes import branch_prefix
from tidemark.engine.decode.decoding import NO_ID, Decoding
from tidemark.engine.decode.on_executors import explain as explain_shipped
from tidemark.engine.decode.shipped.batch import ENVIRONMENT
from tidemark.engine.decode.shipped.variant_documents import document_fault
from tidemark.engine.decode.working_columns import CAUSE, DETAIL, FATE, KAFKA, VALUE

UNEXPLAINED = Explanation(
    "undecodable",
    "the bytes follow the schema, but Spark's decoder refuses them: beyond the limits of the server?",
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a batch's failures is brought to the client at most."""

    rows: int = 1_000
    value_bytes: int = 1 << 20
    total_bytes: int = 64 << 20


DEFAULT_BOUNDS = Bounds()


def explain_failures(
    decoded: DataFrame, decoding: Decoding, bounds: Bounds = DEFAULT_BOUNDS
) -> Mapping[tuple[int, int], Explanation]:
    """Explanations by (partition, offset) for rows of `decode` that were quarantined while decoding.

    `decoded` is a result of `decode`, or any part of it with `_kafka`, VALUE, FATE and CAUSE. Reads it once.
    """
    is_failed = (F.col(FATE) == "quarantined") & F.col(CAUSE).isin(*get_args(Cause)) & F.col(DETAIL).isNull()
    is_small = F.length(F.col(VALUE)) <= bounds.value_bytes
    failed = decoded.where(is_failed & is_small).limit(bounds.rows)
    found: dict[tuple[int, int], Explanation] = {}
    total = 0
    for row in failed.select(
        f"{KAFKA}.partition", f"{KAFKA}.offset", f"{KAFKA}.schema_id", VALUE
    ).toLocalIterator():
        total += len(row[VALUE])
        if total > bounds.total_bytes:
            break
        found[row["partition"], row["offset"]] = explain_value(row[VALUE], row["schema_id"], decoding)
    return found


def explain_value(value: bytes, schema_id: int | None, decoding: Decoding) -> Explanation:
    """Why one value failed that was written with the schema of this id.

    Header included where there is one.
    """
    schema = decoding.writers.get(schema_id if schema_id is not None else NO_ID)
    if schema is None:
        return _explain_text(value)
    payload = value[HEADER_SIZE if decoding.framing == "confluent" else 0 :]
    try:
        if isinstance(schema, AvroSchema):
            return _explain_avro(payload, schema) or UNEXPLAINED
        return explain_shipped(payload, schema) or UNEXPLAINED
    except ENVIRONMENT:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a value does to its reader: it is in quarantine already
        return Explanation("undecodable", f"the value: reading it raises {type(error).__name__}")


def _explain_avro(payload: bytes, schema: AvroSchema) -> Explanation | None:
    prefix = branch_prefix(schema.routes.index("own")) if schema.routes else b""
    if not payload.startswith(prefix):
        return Explanation("undecodable", "the value: begins with no branch of the union")
    return explain(payload[len(prefix) :], schema.root, document_fault)


def _explain_text(value: bytes) -> Explanation:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return Explanation("undecodable", f"no UTF-8 at byte {error.start} of the value")
    return UNEXPLAINED
