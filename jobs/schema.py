"""The schedule of schema evolution: ingest evolves a table when a record needs it, this looks before one comes."""

from collections.abc import Sequence

import dagster as dg

from resources.lake import LakeResource
from tidemark.domain.config.contract import Contract

SCHEMA_EVOLUTION = "schema_evolution"
EVERY = "*/15 * * * *"


def schema_schedule(contracts: Sequence[Contract]) -> dg.ScheduleDefinition:
    """All tables in one run, on by default; the same run looks how long Kafka keeps what is not read.

    The job selects no assets, or Dagster would store for each of its looks which assets and checks it is about to
    evaluate, and show those that have nothing new as skipped. What it finds are events of the assets all the same.
    """
    job = dg.GraphDefinition(
        name=SCHEMA_EVOLUTION,
        description="Compare tables with registered writers; apply what contracts allow, park the rest. Also looks how "
        "long Kafka keeps what is not read yet.",
        node_defs=[_schemas(contracts), _headroom(contracts)],
    ).to_job()
    return dg.ScheduleDefinition(
        name=SCHEMA_EVOLUTION,
        job=job,
        cron_schedule=EVERY,
        description="Looks every quarter of an hour for schemas that tables need, and how long Kafka keeps the rest.",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def _schemas(contracts: Sequence[Contract]) -> dg.OpDefinition:
    @dg.op(name="look_at_schemas", description="Every table against the registered writers of its topic.")
    def look(context: dg.OpExecutionContext, lake: LakeResource) -> None:
        from assets.evolution import watch_tables  # noqa: PLC0415 - only a step pays for the engine's imports

        watch_tables(context, lake, contracts)

    return look


def _headroom(contracts: Sequence[Contract]) -> dg.OpDefinition:
    @dg.op(name="look_at_headroom", description="How long Kafka keeps what is not read yet.")
    def look(context: dg.OpExecutionContext, lake: LakeResource) -> None:
        from assets.news import News  # noqa: PLC0415
        from assets.watching import judged_headrooms  # noqa: PLC0415

        news = News(context)
        with lake.open() as opened:
            for found in judged_headrooms(opened, contracts):
                news.tell(dg.AssetCheckEvaluation(**found))

    return look
