"""From contract to asset specs: the append table, its quarantine and its topic."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from assets.column_lineage import Columns, came_from, from_append, from_topic
from assets.names import LANE_TAG, ROLE_TAG, table_key, table_of, topic_key
from tidemark.domain.columns.partitioning import as_noted
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.units import format_duration
from tidemark.domain.lineage.column_lineage import note_of
from tidemark.domain.plan.comments import described

_MARKDOWN = re.compile(r"[\\<*`]")


def table_spec(contract: Contract, catalog: str, columns: Columns, told_within: timedelta) -> dg.AssetSpec:
    """The append table of a contract; a run tells the result of a batch no later than `told_within` after it."""
    return dg.AssetSpec(
        table_key(contract.table),
        deps=[topic_key(contract)],
        description=contract.description or f"Topic `{contract.topic}` as an append table.",
        metadata=_table_metadata(contract, f"{catalog}.{contract.table}", columns),
        skippable=True,
        group_name=contract.namespace,
        code_version=contract.digest,
        owners=owned_by(contract.owners.data),
        tags={**contract.tags, ROLE_TAG: "data", LANE_TAG: contract.lane},
        kinds={"kafka", "iceberg", "spark"},
        freshness_policy=_silence(contract, told_within),
    )


def upsert_spec(contract: Contract, topic: str, catalog: str, columns: Columns) -> dg.AssetSpec:
    """The upsert table; `contract` as `tidemark.domain.config.upsert` makes it, `topic` that of the append table."""
    return dg.AssetSpec(
        table_key(contract.table),
        # the `topic` of an upsert contract is its append table
        deps=[table_key(contract.topic)],
        description=contract.description,
        metadata=_table_metadata(contract, f"{catalog}.{contract.table}", columns, from_append)
        | {"topic": topic},
        skippable=True,
        group_name=contract.namespace,
        code_version=contract.digest,
        owners=owned_by(contract.owners.data),
        tags={**contract.tags, ROLE_TAG: "data", LANE_TAG: contract.lane},
        kinds={"iceberg", "spark"},
    )


def quarantine_spec(contract: Contract, catalog: str) -> dg.AssetSpec:
    """Rows that could not enter, with their cause: reported by ingest, never run by itself."""
    return dg.AssetSpec(
        table_key(contract.quarantine_table),
        deps=[table_key(contract.table)],
        description=f"Records of `{contract.topic}` that could not enter `{contract.table}`, with their cause.",
        metadata={"dagster/table_name": f"{catalog}.{contract.quarantine_table}"},
        group_name=contract.namespace,
        owners=owned_by(contract.owners.data),
        tags={**contract.tags, ROLE_TAG: "data"},
        kinds={"iceberg"},
    )


def located(assets: Sequence[Any], location: Callable[[str], str]) -> list[Any]:
    """The assets, with `dagster/uri` where it is known where the files of their table lie."""

    def with_uri(spec: dg.AssetSpec) -> dg.AssetSpec:
        uri = location(table_of(spec.key))
        return spec.merge_attributes(metadata={"dagster/uri": uri}) if uri else spec

    return list(dg.map_asset_specs(with_uri, assets))


def topic_specs(contracts: Sequence[Contract]) -> list[dg.AssetSpec]:
    """The topics of all contracts, each once, in the group of its first table."""
    first: dict[dg.AssetKey, Contract] = {}
    for contract in contracts:
        first.setdefault(topic_key(contract), contract)
    return [
        dg.AssetSpec(
            key,
            description=f"Kafka topic `{contract.topic}` on cluster `{contract.cluster}`.",
            metadata={"topic": contract.topic, "cluster": contract.cluster},
            group_name=contract.namespace,
            owners=owned_by(contract.owners.stream),
            tags={**contract.tags, ROLE_TAG: "data"},
            kinds={"kafka"},
        )
        for key, contract in first.items()
    ]


def column_schema(contract: Contract, columns: Columns, made_of: dg.TableColumnLineage) -> dg.TableSchema:
    """Columns as Dagster's catalog shows them, with the contract's descriptions and tags, and what they are made of."""
    said = described(contract.columns)
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=each["name"],
                type=each["type"],
                description=said.get(as_noted([each["name"]])) or literal(each.get("doc")),
                constraints=came_from(made_of, each["name"], nullable=not each.get("required", False)),
                tags=dict.fromkeys(note_of(contract, each["name"])[0], "") or None,
            )
            for each in columns
        ]
    )


def literal(text: str | None) -> str | None:
    """Words of a registry's schema, which Dagster would read as Markdown: `<one>` would vanish."""
    return None if text is None else _MARKDOWN.sub(r"\\\g<0>", text)


def _table_metadata(
    contract: Contract,
    name: str,
    columns: Columns,
    made_of: Callable[[Contract, Columns], dg.TableColumnLineage] = from_topic,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "dagster/table_name": name,
        "topic": contract.topic,
        "lane": contract.lane,
        "target_lag": format_duration(contract.target_lag),
    }
    if contract.runbook:
        metadata["runbook"] = dg.MetadataValue.url(contract.runbook)
    if columns:
        lineage = made_of(contract, columns)
        metadata["dagster/column_schema"] = column_schema(contract, columns, lineage)
        metadata["dagster/column_lineage"] = lineage
    return metadata


def owned_by(owner: str | None) -> list[str]:
    """As Dagster takes owners: none, or a list of one."""
    return [owner] if owner else []


def _silence(contract: Contract, told_within: timedelta) -> dg.FreshnessPolicy | None:
    """Dagster's freshness is the age of the last materialization: right for `silence` and for nothing else.

    A record waits for its batch up to `target_lag`, and its batch for the result.
    """
    silence = contract.freshness.silence
    if silence is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=silence + contract.target_lag + told_within)
