"""The quarantined records of a batch as rows of the quarantine table: original bytes, cause, and the detail.

Read again from Kafka, and only where they lie: quarantined records are rare, a batch is not.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from tidemark.domain.ledger.evidence import Group, causes_of, span, unknown_ids
from tidemark.domain.ledger.quality_results import hidden_columns, redacted
from tidemark.engine.access.lake import Lake
from tidemark.engine.decode.failures import explain_failures
from tidemark.engine.decode.quality_rows import details
from tidemark.engine.decode.records import decode
from tidemark.engine.decode.working_columns import CAUSE, DETAIL, FATE, VALUE
from tidemark.engine.ingest.plan import Plan
from tidemark.engine.ingest.read import read_ranges
from tidemark.engine.schema.event_routes import IDS_LOOKED_UP
from tidemark.engine.schema.subjects import subject_of

_KAFKA = ("topic", "epoch", "partition", "offset", "timestamp", "timestamp_type", "key")
_EXPLAINED = "partition int, offset bigint, found_cause string, found_detail string"


def quarantined_rows(lake: Lake, plan: Plan, groups: Iterable[Group]) -> DataFrame:
    """Rows in the columns of the quarantine table, each with the most exact cause that could be found."""
    listed = list(groups)
    return explained_rows(lake, plan, _read_again(lake, plan, listed), listed)


def explained_rows(lake: Lake, plan: Plan, decoded: DataFrame, groups: Iterable[Group]) -> DataFrame:
    """The quarantined rows of `decoded` in the columns of the quarantine table."""
    listed = list(groups)
    decoding = plan.decoding()
    bad = decoded.where(F.col(FATE) == "quarantined")
    hidden = hidden_columns(plan.contract)
    found = {place: redacted(each, hidden) for place, each in explain_failures(bad, decoding).items()}
    rows = [(p, o, each.cause, each.detail) for (p, o), each in found.items()]
    explained = bad.sparkSession.createDataFrame(rows, _EXPLAINED)
    return (
        _columns(bad, plan, _known_ids(lake, plan, listed))
        .join(F.broadcast(explained), ["partition", "offset"], "left")
        .select(*_named())
    )


def causes_known(groups: Iterable[Group], known: Collection[int]) -> dict[str, int]:
    """How many of the quarantined records have each cause; the first pass takes ids that are `known` for unknown."""
    return causes_of(
        replace(g, cause="schema_not_allowed")
        if g.cause == "unknown_schema_id" and g.schema_id in known
        else g
        for g in groups
    )


def exact_causes(
    lake: Lake, plan: Plan, groups: Iterable[Group], decoded: DataFrame | None = None
) -> dict[str, int]:
    """How many of the quarantined records of `groups` have each cause, as the rows above would tell it.

    Only what Avro calls undecodable is looked at again, in `decoded` or else in Kafka.
    """
    listed = [group for group in groups if group.fate == "quarantined"]
    causes = causes_known(listed, _known_ids(lake, plan, listed))
    vague = [group for group in listed if group.cause == "undecodable"]
    if not vague or (decoding := plan.decoding()).format != "avro":
        return causes
    again = _read_again(lake, plan, vague) if decoded is None else decoded
    found = explain_failures(again.where(F.col(CAUSE) == "undecodable"), decoding)
    exact = Counter(causes)
    exact.subtract({"undecodable": len(found)})
    exact.update(each.cause for each in found.values())
    return dict(+exact)


def _read_again(lake: Lake, plan: Plan, groups: Iterable[Group]) -> DataFrame:
    return decode(read_ranges(lake, plan.contract, span(groups, "quarantined")), plan.decoding())


def _columns(bad: DataFrame, plan: Plan, known: list[int]) -> DataFrame:
    schema_id, cause = F.col("_kafka.schema_id"), F.col(CAUSE)
    unknown = cause == "unknown_schema_id"
    registered = unknown & schema_id.isin(known) if known else F.lit(False)
    subject = F.lit(subject_of(plan.contract))
    refused = schema_id.isin(sorted(plan.refused)) if plan.refused else F.lit(False)
    return bad.select(
        *(F.col(f"_kafka.{name}").alias(name) for name in _KAFKA),
        F.col(VALUE).alias("value"),
        F.col("_kafka.headers").alias("headers"),
        schema_id.alias("schema_id"),
        F.when(registered, "schema_not_allowed").otherwise(cause).alias("cause"),
        F.when(refused, "the table does not hold this schema, and the contract or an approval sends it here")
        .when(registered, F.concat(F.lit("registered, but not under subject "), subject))
        .when(unknown, F.concat(F.lit("the registry does not list it under subject "), subject))
        .when(cause == "no_magic_byte", _first_bytes())
        .otherwise(F.coalesce(F.col(DETAIL), *([details(plan.row_rules)] if plan.row_rules else [])))
        .alias("detail"),
        F.lit(plan.batch_id).alias("batch_id"),
        F.lit(plan.run_id).alias("run_id"),
        F.current_timestamp().alias("quarantined_at"),
    )


def _first_bytes() -> Column:
    value = F.col(VALUE)
    return F.concat(
        F.length(value).cast("string"), F.lit(" bytes, beginning with 0x"), F.hex(F.substring(value, 1, 5))
    )


def _named() -> list[Column]:
    first = [F.col(name) for name in (*_KAFKA, "value", "headers", "schema_id")]
    return [
        *first,
        F.coalesce("found_cause", "cause").alias("cause"),
        F.coalesce("found_detail", "detail").alias("detail"),
        *(F.col(name) for name in ("batch_id", "run_id", "quarantined_at")),
        F.lit(None).cast("string").alias("resolved_by"),
        F.lit(None).cast("timestamp").alias("resolved_at"),
    ]


def _known_ids(lake: Lake, plan: Plan, groups: list[Group]) -> list[int]:
    """Of the ids that the decoder does not know those that the registry does: refused, or of another subject."""
    unknown = unknown_ids(groups)
    asked = sorted(unknown - plan.refused)[:IDS_LOOKED_UP]
    registry = lake.registry(plan.contract.cluster) if asked else None
    return sorted(unknown & plan.refused) + [i for i in asked if registry and registry.exists(i)]
