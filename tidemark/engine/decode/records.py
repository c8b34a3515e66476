"""Kafka records to table rows, each with its fate: one pass, exact or quarantined (docs/types.md).

Belongs here: what becomes of a record. Values and keys are taken apart by `payload`, the conversions are in
`avro` and, for formats that Spark does not know, in `shipped`; the reasons for a record that failed are
found afterwards by `failures`.
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that all of Spark's documentation uses

from tidemark.domain.columns.spark_types import quoted_name
from tidemark.domain.formats.debezium import CDC, TRUNCATE
from tidemark.domain.formats.routes import UNROUTED
from tidemark.engine.access.conditions import any_of, kept_apart
from tidemark.engine.decode.debezium import SKIP
from tidemark.engine.decode.decoding import Decoding, KeyDecoding
from tidemark.engine.decode.key import key_cause, key_detail
from tidemark.engine.decode.payload import Parts, taken_apart
from tidemark.engine.decode.quality_rows import judged
from tidemark.engine.decode.working_columns import CAUSE, DETAIL, FATE, KAFKA, VALUE

_NULL_KEY = "_tidemark_null_key"
_KEY_ASKED = "_tidemark_key_asked"
_KEY_CAUSE = "_tidemark_key_cause"
_VALUE_CAUSE = "_tidemark_value_cause"


def decode(raw: DataFrame, decoding: Decoding) -> DataFrame:
    """Rows of the table for every Kafka record, and what became of each.

    `raw` has the columns of Spark's Kafka source with includeHeaders: key, value, topic, partition, offset,
    timestamp, timestampType, headers. The result has `decoding.columns` in their order and types, then
    `_kafka`, and four working columns: VALUE (the value's bytes), FATE (never NULL), CAUSE (docs/types.md; NULL
    unless quarantined, or for a skipped record `unrouted` when no table is for it, `truncate` when it empties the
    source) and DETAIL (words for a cause that the value alone does not explain, else NULL). Value columns are
    meaningful where FATE is `written`; a tombstone has NULLs but for what its key fills.

    A record is decoded once however often the result's columns are used, as long as each action runs once.
    """
    parts = taken_apart(raw, decoding)
    if decoding.key is not None:
        parts = _with_key(parts, decoding, decoding.key)
    return _with_fate(parts, decoding)


def _with_key(parts: Parts, decoding: Decoding, key: KeyDecoding) -> Parts:
    """The same with the columns of tombstones and deletes filled from the Kafka key."""
    needed = F.col("value").isNull() if decoding.upserts else F.lit(False)
    if decoding.envelope != "none":
        deleted = parts.columns[CDC.name]["op"] == "d"
        needed = needed | (parts.cause.isNull() & F.coalesce(deleted, F.lit(False)))
    payload, asked = key.decoding.payload, F.col(_KEY_ASKED)
    rows = parts.rows.select("*", needed.alias(_KEY_ASKED), parts.cause.alias(_VALUE_CAUSE))
    once = kept_apart(asked)
    found = taken_apart(rows.select("*", F.when(once, F.col("key")).alias(payload)), key.decoding)
    filled = {name: found.columns[source] for name, source in key.columns.items()}
    columns = {
        name: F.when(asked, F.coalesce(filled[name], column)).otherwise(column) if name in filled else column
        for name, column in parts.columns.items()
    }
    cause = key_cause(found.cause, filled, parts.columns, certain=key.certain)
    rows = found.rows.select("*", F.when(once, cause).alias(_KEY_CAUSE))
    detail = F.coalesce(parts.detail, key_detail(F.col(_KEY_CAUSE)))
    return Parts(rows, columns, F.coalesce(F.col(_VALUE_CAUSE), F.col(_KEY_CAUSE)), parts.schema_id, detail)


def _kafka_columns(epoch: int, schema_id: Column) -> Column:
    """The `_kafka` struct from the Kafka source's columns."""
    parts = {
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "offset": F.col("offset"),
        "timestamp": F.col("timestamp"),
        "timestamp_type": F.col("timestampType"),
        "key": F.col("key"),
        "headers": F.col("headers"),
        "schema_id": schema_id,
        "tombstone": F.col("value").isNull(),
        "epoch": F.lit(epoch).cast("int"),
    }
    return F.struct(*(column.alias(name) for name, column in parts.items())).alias(KAFKA)


def _with_fate(parts: Parts, decoding: Decoding) -> DataFrame:
    null_key = _null_key(parts.columns, decoding)
    shaped_rows = parts.rows.select(
        *(column.alias(name) for name, column in parts.columns.items()),
        _kafka_columns(decoding.epoch, parts.schema_id),
        F.col("value").alias(VALUE),
        parts.cause.alias(CAUSE),
        parts.detail.alias(DETAIL),
    )
    kept = [F.col(quoted_name(name)) for name in (*parts.columns, KAFKA, VALUE)]
    fate, cause, detail = _fate(decoding), F.when(F.col(CAUSE) != SKIP, F.col(CAUSE)), F.col(DETAIL)
    if null_key is not None:
        shaped_rows = shaped_rows.select("*", fate.alias(FATE), null_key.alias(_NULL_KEY))
        keyless = (F.col(FATE) == "written") & F.col(_NULL_KEY)
        fate = F.when(keyless, "quarantined").otherwise(F.col(FATE))
        cause = F.when(keyless, "null_key").otherwise(cause)
        detail = F.when(keyless, "a column of the upsert key is NULL").otherwise(detail)
        if decoding.envelope == "debezium":  # the delete before it has named the row, or is out itself
            idle = F.col(_NULL_KEY) & F.col(VALUE).isNull() & cause.eqNullSafe("null_key")
            fate = F.when(idle, "tombstone").otherwise(fate)
            cause, detail = (F.when(~idle, each) for each in (cause, detail))
    rows = shaped_rows.select(*kept, fate.alias(FATE), cause.alias(CAUSE), detail.alias(DETAIL))
    return judged(rows, decoding.rules) if decoding.rules else rows


def _null_key(names: Collection[str], decoding: Decoding) -> Column | None:
    """Whether a required column is NULL; None where none is required: each further step is planned in every batch."""
    if not decoding.required:
        return None
    lacking = any_of([F.col(quoted_name(*path)).isNull() for path in decoding.required])
    exempt = F.col(CDC.name)["op"] == "t" if CDC.name in names else F.lit(False)
    return lacking & ~F.coalesce(exempt, F.lit(False))


def _fate(decoding: Decoding) -> Column:
    schema_id = F.col(KAFKA)["schema_id"]
    tombstone = "written" if decoding.upserts else "tombstone"
    return (
        F.when(F.col(VALUE).isNull() & F.col(CAUSE).isNull(), tombstone)
        .when(
            schema_id.isin(*sorted(decoding.skipped)) | F.col(CAUSE).isin(SKIP, TRUNCATE, UNROUTED), "skipped"
        )
        .when(schema_id.isin(*sorted(decoding.uncovered)), "uncovered")
        .when(F.col(CAUSE).isNotNull(), "quarantined")
        .otherwise("written")
    )
