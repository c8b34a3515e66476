"""How dbt's nodes become assets: what `dbt_project/assets.json` is made with, and what the events of a build speak of.

Imports dbt, a second and a half of every process that does: never at load (docs/adr/0030).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from dagster_dbt import DagsterDbtTranslator
from dagster_dbt.asset_utils import build_dbt_specs

from assets.names import ROLE_TAG, table_key, table_of
from tidemark.domain.errors import Refused
from tidemark.domain.lineage.marts import Mart, MartCheck, MartColumn, Project


class MartTranslator(DagsterDbtTranslator):
    """A key is the name of the table, the group its namespace; it reads as one lake with the append tables."""

    def get_asset_key(self, dbt_resource_props: Mapping[str, Any]) -> dg.AssetKey:
        """Of the table that dbt makes or reads, whatever the model or source is called."""
        return table_key(_relation(dbt_resource_props))

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str | None:
        """The namespace."""
        return str(self.get_asset_key(dbt_resource_props).path[0])

    def get_tags(self, dbt_resource_props: Mapping[str, Any]) -> Mapping[str, str]:
        """A data node, like tables and topics."""
        return {**super().get_tags(dbt_resource_props), ROLE_TAG: "data"}

    def get_description(self, dbt_resource_props: Mapping[str, Any]) -> str:
        """What the project says, without the SQL."""
        return str(dbt_resource_props.get("description") or "")


def among_their_parents(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with each model as a parent of itself, under an id of its own.

    dagster-dbt tells nothing of the columns that a model reads of itself (`this`), and an id twice on one way is an
    endless one to it.
    """
    nodes = dict(manifest["nodes"])
    for name, node in manifest["nodes"].items():
        if node["resource_type"] == "model" and node["config"]["materialized"] != "ephemeral":
            itself = f"{name}.itself"
            depends_on = node["depends_on"]
            nodes[name] = {**node, "depends_on": {**depends_on, "nodes": [*depends_on["nodes"], itself]}}
            nodes[itself] = {**node, "unique_id": itself, "depends_on": {"nodes": []}}
    return {**manifest, "nodes": nodes}


def described(manifest: Mapping[str, Any], digest: str) -> Project:
    """A manifest as the definitions need it.

    Raises:
        Refused: a key is told that is not the name of the table, or a source has no topic.
    """
    _require_names(manifest)
    translator = MartTranslator()
    specs, checks = build_dbt_specs(
        translator=translator,
        manifest=manifest,
        select="fqn:*",
        exclude="",
        selector="",
        io_manager_key=None,
        project=None,
    )
    return Project(
        digest=digest,
        sources={
            table_of(translator.get_asset_key(source)): _meta(source)["topic"]
            for source in manifest["sources"].values()
        },
        marts=tuple(
            _mart(manifest, spec, checks) for spec in sorted(specs, key=lambda each: each.key.to_string())
        ),
    )


def unchecked(manifest: Mapping[str, Any], project: Project) -> list[str]:
    """The tests of the project that are no asset check, each with how it becomes one."""
    marts = {each.unique_id: each.model for each in project.marts}
    known = {check.unique_id for mart in project.marts for check in mart.checks}
    return [
        f"{node['original_file_path']}: test {node['name']} is no asset check: {_how(node, marts)}"
        for name, node in sorted(manifest["nodes"].items())
        if node["resource_type"] == "test" and name not in known
    ]


def _how(test: Mapping[str, Any], marts: Mapping[str, str]) -> str:
    own = [marts[each] for each in test["depends_on"]["nodes"] if each in marts]
    if own:
        return f"say whose it is, {{{{ config(meta={{'dagster': {{'ref': {{'name': '{own[0]}'}}}}}}) }}}}"
    return "it reads no mart; make it a rule of the table's contract, or read a mart with ref() in tests/"


def _require_names(manifest: Mapping[str, Any]) -> None:
    """Raises Refused: what is built or read would be looked for under another name, or be fed by no topic."""
    wrong = []
    for node in (*manifest["sources"].values(), *manifest["nodes"].values()):
        if node["resource_type"] not in {"source", "model", "seed", "snapshot"}:
            continue
        meta = _meta(node)
        told = meta.get("dagster", {}).get("asset_key")
        if told and table_key(_relation(node)) != dg.AssetKey(told):
            key = dg.AssetKey(told).to_user_string()
            wrong.append(f"{node['unique_id']} has the asset key {key}, but its table is {_relation(node)}")
        if node["resource_type"] == "source" and not meta.get("topic"):
            wrong.append(f"{node['unique_id']} names no topic")
    if wrong:
        raise Refused(
            "\n".join(wrong),
            next_step="leave meta.dagster.asset_key out, or name the table so by schema and alias (of a source: schema "
            "and identifier); write the topic that feeds a source as meta.topic",
        )


def _meta(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return node["config"].get("meta") or node.get("meta") or {}


def _relation(node: Mapping[str, Any]) -> str:
    return f"{node['schema']}.{node.get('identifier') or node['alias']}"


def _mart(manifest: Mapping[str, Any], spec: dg.AssetSpec, checks: Sequence[dg.AssetCheckSpec]) -> Mart:
    node = manifest["nodes"][spec.metadata["dagster_dbt/unique_id"]]
    return Mart(
        table=table_of(spec.key),
        model=node["name"],
        unique_id=node["unique_id"],
        description=spec.description or "",
        owners=tuple(spec.owners),
        tags=tuple(sorted(spec.tags.keys() & node["tags"])),
        code_version=spec.code_version,
        upstream=tuple(sorted(table_of(each.asset_key) for each in spec.deps)),
        keeps=node["resource_type"] == "snapshot" or node["config"].get("full_refresh") is False,
        columns=tuple(
            MartColumn(name=each["name"], description=each["description"])
            for each in node["columns"].values()
        ),
        checks=tuple(
            MartCheck(
                name=each.name,
                unique_id=each.metadata["dagster_dbt/unique_id"],
                description=each.description or "",
                deps=tuple(sorted(table_of(dep.asset_key) for dep in each.additional_deps)),
                blocking=each.blocking,
            )
            for each in sorted(checks, key=lambda each: each.name)
            if each.asset_key == spec.key
        ),
    )
