"""The verbs that change a table: Dagster jobs of the same name, run in this process and logged by the engine."""

import logging
import shlex
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import dagster as dg
import yaml

from assets.names import OF_UPSERTS
from assets.runs.snapshot_ids import ids_as_numbers
from tidemark.cli.contracts import load_contracts
from tidemark.cli.in_dagster import config_of, dagster_instance, execute, interrupted
from tidemark.cli.output import console, print_json
from tidemark.domain.errors import NO_TABLE, Interrupted, Outage, Overtaken, Refused, Stopped, TidemarkError
from tidemark.engine.login import login_name


def change(verb: str, arguments: Mapping[str, Any], *, as_json: bool) -> None:
    """Run `verb` and print the operation as it was logged, with the config that does the same in the launchpad.

    Raises:
        Refused: it would do harm or has nothing to act on.
        Stopped, Outage: a service does not answer, or the table is in another stop state.
    """
    known = load_contracts()
    (known.any_table if verb in OF_UPSERTS else known.contract)(arguments["table"])
    asked = {**arguments, "by": arguments["by"] or login_name()}
    operation, config, run_id = launched(verb, asked, as_json=as_json)
    if as_json:
        print_json({**operation, "launchpad": config})
        return
    out = console()
    done = "would be done (dry run)" if asked["dry_run"] else "done"
    out.print(f"{verb} {asked['table']}: {done}, by {operation['by']}: {operation['reason']}")
    details = {k: v for k, v in operation["arguments"].items() if k != "dry_run"}
    if details:
        out.print(yaml.safe_dump(details, sort_keys=False).rstrip())
    out.print(f"Dagster run {run_id}. The same in the launchpad of job {verb}:", style="dim")
    out.print(yaml.safe_dump(config, sort_keys=False).rstrip(), style="dim")


def launched(
    verb: str, asked: Mapping[str, Any], *, as_json: bool
) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """The operation as it was logged, the config that does the same in the launchpad, and the id of the run.

    Raises:
        Interrupted: by Ctrl-C or SIGTERM; names the command that does it again.
        TidemarkError: as the engine raised it.
    """
    with dagster_instance() as instance, _told(as_json=as_json):
        config = config_of(verb, asked)
        result = execute(instance, verb, run_id=str(uuid.uuid4()), run_config=config)
    return _operation(result, verb), config, result.run_id


@contextmanager
def _told(*, as_json: bool) -> Iterator[None]:
    """On a terminal, what a long verb says on its way (the job logs the same)."""
    err = console(as_json=True)
    if as_json or not err.is_interactive:
        yield
        return
    from jobs.operations import PROGRESS  # noqa: PLC0415 - the definitions that it is loaded with are read next

    class Shown(logging.Handler):
        def emit(self, said: logging.LogRecord) -> None:
            err.print(said.getMessage(), style="dim")

    handler = Shown()
    PROGRESS.setLevel(logging.INFO)
    PROGRESS.addHandler(handler)
    try:
        yield
    finally:
        PROGRESS.removeHandler(handler)


def _operation(result: dg.ExecuteInProcessResult, verb: str) -> Mapping[str, Any]:
    if interrupted(result):
        raise Interrupted(verb, shlex.join(["tidemark", *sys.argv[1:]]))
    for event in result.all_events:
        if event.is_successful_output:
            told = event.step_output_data.metadata.get("tidemark/operation")
            if told is not None:
                return cast("Mapping[str, Any]", ids_as_numbers(told.value))
        if event.is_step_failure:
            raise _error(event)
    raise TidemarkError("the job ended without a word", next_step="the same command with --debug shows why")


def _error(event: dg.DagsterEvent) -> TidemarkError:
    from jobs.operations import OF_VERB  # noqa: PLC0415 - only a failure asks for it

    failure = event.step_failure_data.user_failure_data
    told = failure.metadata.get(OF_VERB) if failure else None
    if told is None:
        wrapper = event.step_failure_data.error
        cause = (wrapper.cause or wrapper) if wrapper else None
        why = cause.message.strip() if cause else "the job failed"
        return TidemarkError(why, next_step="try again with --debug", state="failed")
    fields = dict(cast("Mapping[str, Any]", ids_as_numbers(told.value)))
    kind, message, next_step = (fields.pop(key, "") for key in ("kind", "message", "next_step"))
    return remade(kind, message, next_step, fields)


def remade(kind: str, message: str, next_step: str, fields: Mapping[str, Any]) -> TidemarkError:
    """An error that came through Dagster as JSON, as the kind it was: the exit code depends on it."""
    if kind in {"Stopped", "Outage"}:
        rest = {k: v for k, v in fields.items() if k not in {"state", "table", "detail"}}
        known: type[Stopped | Outage] = Stopped if kind == "Stopped" else Outage
        error = known(fields["state"], fields["table"] or NO_TABLE, fields.get("detail", ""), **rest)
        error.message, error.next_step = message, next_step  # with the topic and the cluster in them
        error.fields["safe"] = fields.get("safe", "")
        return error
    if kind == "Overtaken":
        return Overtaken(fields["table"], fields["planned"], fields["found"])
    return (Refused if kind == "Refused" else TidemarkError)(message, next_step=next_step, **fields)
