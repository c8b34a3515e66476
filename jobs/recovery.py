"""Replay and rollback as jobs: what the command line does, with the same arguments and the same entry in the log."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from assets.checks.corrections import corrected
from assets.names import CORRECTED, table_key
from jobs.operations import Verb, asked_time, change_table, verb_job
from resources.lake import LakeResource
from tidemark.domain.config.naming import QUARANTINE, RESERVED_NAMESPACES

if TYPE_CHECKING:
    from tidemark.domain.config.contract import Contract
    from tidemark.engine.access.lake import Lake
    from tidemark.engine.table.operations import Operation, Signature

Assets = Sequence[dg.AssetsDefinition | dg.AssetSpec]


class Replay(Verb):
    """`replay` of the quarantine, or of a range of offsets that Kafka still has."""

    quarantine: bool = Field(
        default=False, description="decode quarantined records again; else read Kafka again"
    )
    cause: str = Field(default="", description="quarantine only: records of this cause; all when empty")
    partition: int | None = Field(default=None, description="which partition; needed to read Kafka again")
    from_offset: int | None = Field(default=None, description="the first offset")
    to_offset: int | None = Field(default=None, description="the offset after the last")


class Rollback(Verb):
    """`rollback` names its target in one of two ways."""

    snapshot: int | None = Field(default=None, description="id of a snapshot on the way to main")
    before: str = Field(
        default="", description="ISO 8601: the newest state published before; UTC without an offset"
    )


@dg.op
def replay_table(context: dg.OpExecutionContext, config: Replay, lake: LakeResource) -> None:
    """Move quarantined records that fit today into the table, or replace the rows of a range; exactly once."""
    from tidemark.engine.operate.replay import replay  # noqa: PLC0415 - only a step pays for the engine's imports
    from tidemark.engine.operate.replay_quarantine import Selection  # noqa: PLC0415

    selection = Selection(config.cause or None, config.partition, config.from_offset, config.to_offset)
    change_table(
        context,
        config,
        lake,
        lambda lake, contract, signature: replay(
            lake, contract, selection, signature, quarantine=config.quarantine
        ),
    )


def recovery_jobs(assets: Assets) -> list[dg.JobDefinition]:
    """The jobs `replay` and `rollback`; `assets` say what is stale after a rollback."""
    marts = {
        spec.asset_key.to_user_string()
        for each in assets
        if isinstance(each, dg.AssetsDefinition)
        for spec in each.check_specs
        if spec.name == CORRECTED
    }
    ops = {"replay": replay_table, "rollback": _rollback_op(lambda table: downstream(assets, table), marts)}
    return [verb_job(verb, op) for verb, op in ops.items()]


def _rollback_op(stale: Callable[[str], list[str]], marts: AbstractSet[str]) -> dg.OpDefinition:
    @dg.op
    def rollback_table(context: dg.OpExecutionContext, config: Rollback, lake: LakeResource) -> None:
        """Take table, offsets and quarantine back to an earlier snapshot; leaves the table paused."""
        from tidemark.engine.operate.rollback import Target, rollback  # noqa: PLC0415

        made: list[str] = []

        def change(lake: "Lake", contract: "Contract", signature: "Signature") -> "Operation":
            target = Target(config.snapshot, asked_time(config.before))
            made.extend(key for key in stale(config.table) if key not in marts or _is_built(lake, key))
            return rollback(lake, contract, target, signature, downstream=made)

        change_table(context, config, lake, change)
        for key in () if config.dry_run else marts & set(made):
            found = corrected(key.replace("/", "."), {config.table: "was rolled back"})
            context.instance.report_runless_asset_event(found)

    return rollback_table


def _is_built(lake: "Lake", mart: str) -> bool:
    return lake.catalog.table_exists(mart.replace("/", "."))


def downstream(assets: Assets, table: str) -> list[str]:
    """Everything that is made from a table, nearest first, as `a/b` asset keys; but for its quarantine."""
    children: dict[dg.AssetKey, set[dg.AssetKey]] = defaultdict(set)
    for each in assets:
        for spec in each.specs if isinstance(each, dg.AssetsDefinition) else (each,):
            for dep in spec.deps:
                children[dep.asset_key].add(spec.key)
    found: list[dg.AssetKey] = []
    ahead = [table_key(table)]
    while ahead:
        for child in sorted(children[ahead.pop(0)]):
            if child.path[0] in RESERVED_NAMESPACES or child == table_key(table + QUARANTINE):
                continue
            if child not in found:
                found.append(child)
                ahead.append(child)
    return [each.to_user_string() for each in found]
