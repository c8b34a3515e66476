"""The command line's way into Dagster: jobs run in this process, on the instance of this home.

So they show in the UI like any run, and work when no webserver, daemon or code server is up.
"""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster import DagsterInstance
from dagster._check import CheckError
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.execute_in_process import core_execute_in_process
from dagster._core.instance.config import PoolGranularity

from orchestration.instance import SETTINGS, prepare_dagster_home
from sensors.dead_runs import bury
from tidemark.cli.border import debugging
from tidemark.domain.errors import Refused
from tidemark.engine.alive import alive
from tidemark.engine.alone import alone
from tidemark.engine.config.configuration import places

_INTERRUPT = dg.DagsterExecutionInterruptedError.__name__
_LOUD = ("dagster", "SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
_OR_OURS = "or unset DAGSTER_HOME for the one in Tidemark's home"
_HOW = f"docs/deployment, {SETTINGS}"


@contextmanager
def dagster_instance() -> Iterator[DagsterInstance]:
    """The instance of DAGSTER_HOME, by default <TIDEMARK_HOME>/dagster; prepared on first use.

    Raises:
        Refused: DAGSTER_HOME is no folder with settings of Dagster, or they cannot be followed.
    """
    if not os.environ.get("DAGSTER_HOME"):
        os.environ["DAGSTER_HOME"] = str(prepare_dagster_home(places(os.environ).home))
    home = Path(os.environ["DAGSTER_HOME"])
    if not (home.is_absolute() and (home / SETTINGS).is_file()):
        raise Refused(
            f"DAGSTER_HOME must be the absolute path of a folder with a {SETTINGS}, not {home}",
            next_step=f"make that folder ({_HOW}), {_OR_OURS}",
        )
    with ExitStack() as stack:
        # two that open a new instance at once would both make its tables
        with alone(home / ".tidemark.lock"):
            try:
                instance = stack.enter_context(DagsterInstance.get())
            except (CheckError, dg.DagsterError, yaml.YAMLError) as error:
                raise Refused(
                    f"Dagster does not take {home / SETTINGS}: {error}",
                    next_step=f"mend it, or install what it names ({_HOW}), {_OR_OURS}",
                ) from error
            instance.get_runs(limit=1)
            instance.all_asset_keys()
        yield instance


def require_our_settings(instance: DagsterInstance) -> None:
    """A daemon takes every run that its instance has in the queue: it fails those of projects that it does not know.

    Raises:
        Refused: the instance has no settings for Tidemark's lanes, so it is for other work.
    """
    pools = instance.get_concurrency_config().pool_config
    if (pools.default_pool_limit, pools.pool_granularity) == (1, PoolGranularity.RUN):
        return
    settings = Path(os.environ["DAGSTER_HOME"]) / SETTINGS
    raise Refused(
        f"{settings} has not Tidemark's settings (concurrency.pools: default_limit 1, granularity run): a daemon "
        "there would let runs of one lane go at once, and fail the queued runs of other projects",
        next_step=f"unset DAGSTER_HOME for the one in Tidemark's home, or mend those settings: {_HOW}",
    )


def execute(
    instance: DagsterInstance,
    job: str,
    *,
    run_id: str,
    run_config: Mapping[str, Any] | None = None,
    assets: Sequence[dg.AssetKey] = (),
    tags: Mapping[str, str] | None = None,
) -> dg.ExecuteInProcessResult:
    """Execute a job of the composition root here and now, or what it does for some assets; failures are in the result.

    An interrupt ends the run within seconds; it is recorded as canceled, and `interrupted` says so of the result.

    Raises:
        ConfigurationError: the definitions cannot be made.
    """
    if not debugging():
        _quiet()
    from orchestration.definitions import defs  # noqa: PLC0415 - reads the contracts as it is imported

    home = places(os.environ).home
    bury(instance, home)
    console = {"console": {"config": {"log_level": "INFO" if debugging() else "CRITICAL"}}}
    with alive(home, run_id), _never_left_waiting(instance, run_id):
        # execute_in_process would evaluate every check of the assets: those of an asset's own step are evaluated there
        chosen = defs.resolve_job_def(job).get_subset(
            asset_selection=set(assets), asset_check_selection=set()
        )
        result = core_execute_in_process(
            job=InMemoryJob(chosen.as_ephemeral_job(resource_defs={}, input_values={})),
            run_config={**(run_config or {}), "loggers": console},
            instance=instance,
            output_capturing_enabled=True,
            raise_on_error=False,
            run_tags={**chosen.run_tags, **(tags or {})},
            run_id=run_id,
            asset_selection=frozenset(assets),
        )
    if interrupted(result):
        instance.report_run_canceled(result.dagster_run, "Interrupted from the command line.")
    return result


@contextmanager
def _never_left_waiting(instance: DagsterInstance, run_id: str) -> Iterator[None]:
    """Whatever ends this process between a run's row and its first event ends the run, which would keep its tables."""
    try:
        yield
    except BaseException:
        run = instance.get_run_by_id(run_id)
        if run is not None and run.status == dg.DagsterRunStatus.NOT_STARTED:
            instance.report_run_canceled(run, "Interrupted before it began.")
        raise


def interrupted(result: dg.ExecuteInProcessResult) -> bool:
    """Whether Ctrl-C ended the run, or a signal that ends a command as that does."""
    errors = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    errors += [
        event.job_failure_data.error for event in result.all_events if event.is_run_failure
    ]  # in no step
    return any(error is not None and error.cls_name == _INTERRUPT for error in errors)


def config_of(job: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What the launchpad takes to run a job of one op with these arguments."""
    from orchestration.definitions import defs  # noqa: PLC0415

    (op,) = defs.resolve_job_def(job).nodes
    return {"ops": {op.name: {"config": dict(arguments)}}}


def _quiet() -> None:
    """What goes wrong is told by the outcomes; nobody needs it twice, and on stderr as JSON."""
    warnings.simplefilter("ignore")
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
