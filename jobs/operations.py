"""The command line's verbs as jobs: the same names, the same arguments, the same entry in the operations log."""

import logging
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from assets.launchpad import Launchpad
from assets.names import OF_UPSERTS, PUBLISHING, VERB_TAG, table_key
from assets.runs.snapshot_ids import ids_as_text
from resources.lake import LakeResource
from tidemark.domain.config.upsert import is_upsert_table
from tidemark.domain.errors import Refused, TidemarkError, without_secrets
from tidemark.domain.states import Acceptance
from tidemark.domain.times import time_of
from tidemark.engine.login import login_name

if TYPE_CHECKING:
    from tidemark.domain.config.contract import Contract
    from tidemark.engine.access.lake import Lake
    from tidemark.engine.table.operations import Operation, Signature

    Change = Callable[[Lake, Contract, Signature], Operation]

OF_VERB = "error"
"""The metadata of a failure with the error of a verb."""
PROGRESS = logging.getLogger("tidemark.progress")
"""What a long verb says on the way; the command line shows it on a terminal."""
AUTHENTICATED_TAG_VARIABLE = "TIDEMARK_AUTHENTICATED_TAG"
"""The environment variable that names the run tag in which this host puts who has signed in."""


class SignedConfig(Launchpad):
    """What every verb takes that is recorded."""

    reason: str = Field(default="", description="why; goes into the operations log")
    by: str = Field(default="", description="who; TIDEMARK_USER or the login name when empty")
    dry_run: bool = Field(default=False, description="say what would be done, change nothing")

    @property
    def who(self) -> str:
        """The person that the operations log names."""
        return self.by or os.environ.get("TIDEMARK_USER") or login_name()


def signed(context: dg.OpExecutionContext, config: SignedConfig) -> "Signature":
    """Who asks, as declared; and whom the host knows, from the run tag that it is said to set."""
    from tidemark.engine.table.operations import Signature  # noqa: PLC0415 - only a step pays for the engine's imports

    known = context.run.tags.get(os.environ.get(AUTHENTICATED_TAG_VARIABLE, ""))
    return Signature(config.who, config.reason, context.run_id, config.dry_run, known or None)


def say(context: dg.OpExecutionContext, prefix: str, text: str) -> None:
    """Tell how far a long verb is: in the log of its run, and to PROGRESS with `prefix` before it."""
    context.log.info(text)
    PROGRESS.info("%s%s", prefix, text)


class Verb(SignedConfig):
    """What every verb that changes a table takes."""

    table: str = Field(description="namespace.name")


class Accept(Verb):
    """`accept` also says which stop state it resolves."""

    action: Acceptance = Field(description="the stop state that is resolved")


class Approve(Verb):
    """`approve` names the plan that is let through."""

    plan: str = Field(description="the id that `tidemark plan` shows")


@dg.op
def pause_table(context: dg.OpExecutionContext, config: Verb, lake: LakeResource) -> None:
    """Let nothing be ingested into a table until it is resumed."""
    from tidemark.engine.operate.pause import pause  # noqa: PLC0415 - only a step pays for the engine's imports

    change_table(context, config, lake, pause)


@dg.op
def resume_table(context: dg.OpExecutionContext, config: Verb, lake: LakeResource) -> None:
    """Undo `pause`; the next run continues where the ledger ends."""
    from tidemark.engine.operate.pause import resume  # noqa: PLC0415

    change_table(context, config, lake, resume)


@dg.op
def accept_table(context: dg.OpExecutionContext, config: Accept, lake: LakeResource) -> None:
    """Resolve a stop state explicitly; what was lost or changed is recorded in the ledger."""
    from tidemark.engine.operate.accept_upsert import accept_either  # noqa: PLC0415

    change_table(
        context,
        config,
        lake,
        lambda lake, contract, signature: accept_either(lake, contract, config.action, signature),
    )


@dg.op
def approve_table(context: dg.OpExecutionContext, config: Approve, lake: LakeResource) -> None:
    """Let a parked schema change through; kept in the table's history with who and why."""
    from tidemark.engine.config import discovery  # noqa: PLC0415
    from tidemark.engine.operate.approve import approve  # noqa: PLC0415

    def tell(names: Mapping[str, str]) -> None:
        discovery.update(lake.places.home, lambda seen: seen.with_renamed(names))

    change_table(
        context,
        config,
        lake,
        lambda lake, contract, signature: approve(lake, contract, config.plan, signature, tell),
    )
    if not config.dry_run:
        _show_what_waits(context, config.table, lake)


def _show_what_waits(context: dg.OpExecutionContext, table: str, resource: LakeResource) -> None:
    """The checks of what waits for a review, which an approval has made untrue."""
    from assets.checks.drift import drift_evaluation  # noqa: PLC0415
    from assets.runs.schema import reviewed  # noqa: PLC0415

    contract = resource.configuration.any_table(table)
    if is_upsert_table(contract):
        return
    try:
        with resource.open() as lake:
            found = [reviewed(lake, contract, context.run_id), drift_evaluation(lake, contract)]
    except TidemarkError as error:
        context.log.warning("%s: what waits for a review is not known now: %s", table, error)
        return
    for each in filter(None, found):
        context.instance.report_runless_asset_event(each)


def change_table(
    context: dg.OpExecutionContext, config: Verb, resource: LakeResource, change: "Change"
) -> None:
    """Make the change and show it on the op and on the table's asset; the job's name is the verb.

    Raises:
        dg.Failure: it was refused, or a service does not answer.
    """
    from assets.runs.loaded import opened  # noqa: PLC0415
    from tidemark.engine.access.outages import translated  # noqa: PLC0415

    signature = signed(context, config)
    try:
        known = resource.configuration
        contract = (known.any_table if context.job_name in OF_UPSERTS else known.contract)(config.table)
    except TidemarkError as error:
        raise shown_failure(error) from without_secrets(error)
    publishes = context.job_name in PUBLISHING and not config.dry_run
    try:
        with (
            opened(resource, context.instance) as lake,
            translated(config.table, topic=contract.topic, cluster=contract.cluster),
        ):
            operation = change(lake, contract, signature).as_json()
    except BaseException as error:
        if publishes:  # it may have stopped, or somebody ended it, between two commits
            _show_what_is_there(context, contract, resource)
        if isinstance(error, TidemarkError):
            raise shown_failure(error) from without_secrets(error)
        raise
    metadata = {"tidemark/operation": dg.MetadataValue.json(ids_as_text(operation))}
    context.add_output_metadata(metadata)
    if config.dry_run:
        return
    context.log_event(dg.AssetObservation(table_key(config.table), metadata=metadata))
    if publishes:
        _show_what_is_there(context, contract, resource)


def _show_what_is_there(context: dg.OpExecutionContext, contract: "Contract", resource: LakeResource) -> None:
    """The result of a table, unless Dagster has it: what is made of it would wait for the next batch of a quiet topic.

    The table says whether there is one: what was published before may be of a run that died or stopped on its way.
    """
    from assets.runs.report import is_unreported, published  # noqa: PLC0415

    try:
        with resource.open() as lake:
            state = lake.state(contract.table)
    except TidemarkError as error:
        context.log.warning("%s: marts wait for the next batch: %s", contract.table, error)
        return
    if is_unreported(context.instance, contract, state, context.run_id):
        for each in published(context.instance, contract, state):
            context.instance.report_runless_asset_event(each)


def asked_time(text: str) -> datetime | None:
    """As `time_of` reads it. Raises Refused."""
    try:
        return time_of(text)
    except ValueError as error:
        raise Refused(str(error), next_step="write it like 2026-01-31T12:00:00Z") from None


def shown_failure(error: TidemarkError) -> dg.Failure:
    """The failure of a run with the error's fields, from which the command line makes the error again."""
    return dg.Failure(
        str(error),
        metadata={OF_VERB: dg.MetadataValue.json(ids_as_text(error.as_json()))},
        allow_retries=False,
    )


def verb_job(verb: str, op: dg.OpDefinition) -> dg.JobDefinition:
    """The job of a verb: `op` alone, under the tag that sensors look for."""
    return dg.GraphDefinition(name=verb, description=op.description, node_defs=[op]).to_job(
        tags={VERB_TAG: verb}
    )


def operator_jobs() -> list[dg.JobDefinition]:
    """The jobs `pause`, `resume`, `accept` and `approve`."""
    ops = {"pause": pause_table, "resume": resume_table, "accept": accept_table, "approve": approve_table}
    return [verb_job(verb, op) for verb, op in ops.items()]
