"""A verb as a person asks for it in the launchpad, run in this process."""

from typing import Any

import dagster as dg

ASKED = {"table": "shop.orders", "reason": "a test", "by": "ada"}


def execute(
    defs: dg.Definitions, instance: dg.DagsterInstance, verb: str, **config: Any
) -> dg.ExecuteInProcessResult:
    return defs.resolve_job_def(verb).execute_in_process(
        run_config={"ops": {f"{verb}_table": {"config": {**ASKED, **config}}}},
        instance=instance,
        raise_on_error=False,
    )
