"""`backfill` as a job: history beside the live ingest, published in one commit."""

from functools import partial

import dagster as dg
from pydantic import Field

from jobs.operations import Verb, asked_time, change_table, say, verb_job
from resources.lake import LakeResource


class Backfill(Verb):
    """Where history comes from, and how far this run goes: load and compare, publish, or drop it again."""

    source: str = Field(
        default="",
        description="topic:NAME, topic:CLUSTER/NAME, table:namespace.name or parquet:PATH; empty: the table's topic",
    )
    from_time: str = Field(default="", description="ISO 8601; not needed to go on with a backfill")
    to_time: str = Field(default="", description="ISO 8601, not included")
    time_column: str = Field(
        default="", description="rows only: the time that windows are cut by; = event_time"
    )
    window_seconds: int | None = Field(
        default=None, description="rows only: what one commit holds; = 86400, a day"
    )
    max_records: int | None = Field(default=None, description="records only: what one commit holds at most")
    rate: float = Field(default=0.0, description="rows or records a second at most, on average; 0: any")
    cutover: bool = Field(
        default=False, description="publish when all is loaded; else stop at the comparison"
    )
    abort: bool = Field(default=False, description="drop what was loaded")


@dg.op
def backfill_table(context: dg.OpExecutionContext, config: Backfill, lake: LakeResource) -> None:
    """Load history into a shadow of the table, compare it window by window, publish it in one commit or drop it."""
    from tidemark.engine.operate.backfill.act import backfill  # noqa: PLC0415 - only a step pays for the engine's imports
    from tidemark.engine.operate.backfill.pace import Pace  # noqa: PLC0415
    from tidemark.engine.operate.backfill.plan import Asked  # noqa: PLC0415

    def asked() -> Asked:
        return Asked(
            source=config.source,
            since=asked_time(config.from_time),
            until=asked_time(config.to_time),
            time_column=config.time_column,
            window_seconds=config.window_seconds,
            max_records=config.max_records,
            cutover=config.cutover,
            abort=config.abort,
            pace=Pace(config.rate, partial(say, context, f"{config.table}: ")),
        )

    change_table(
        context,
        config,
        lake,
        lambda lake, contract, signature: backfill(lake, contract, asked(), signature),
    )


def backfill_job() -> dg.JobDefinition:
    """The job `backfill`."""
    return verb_job("backfill", backfill_table)
