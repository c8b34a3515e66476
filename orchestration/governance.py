"""What is built on the tables and told about them: marts, and who hears of it. Composed like the rest, no logic."""

from collections.abc import Sequence

import dagster as dg

from assets.marts.models import mart_assets
from assets.review import review_asset
from jobs.marts import marts_job
from jobs.review import review_schedule
from sensors.alerts import alert_sensor
from sensors.lineage import lineage_sensor
from sensors.marts import marts_sensor
from sensors.recorded_sightings import recorded_sightings
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.platform import Platform
from tidemark.domain.config.upsert import upsert_tables
from tidemark.engine.config.configuration import Places
from tidemark.engine.config.discovery import Discovery
from tidemark.engine.marts import read_project


def governance(
    platform: Platform, contracts: Sequence[Contract], seen: Discovery, where: Places
) -> dg.Definitions:
    """Marts whose sources are there, and the sensors that tell others."""
    project = read_project()
    marts = project.marts_for(contracts) if project else []
    tables = [*(each.table for each in contracts), *upsert_tables(contracts), *(each.table for each in marts)]
    columns = {table: seen.columns(table) for table in tables}
    built = mart_assets(marts, contracts, platform.catalog.name, columns)
    review = review_asset(contracts, recorded_sightings)
    told = [each for each in (lineage_sensor(platform), alert_sensor()) if each]
    return dg.Definitions(
        assets=[each for each in (built, review) if each],
        jobs=[marts_job(marts)] if marts else [],
        sensors=[*([marts_sensor(marts)] if marts else []), *told],
        schedules=[review_schedule(where)] if review else [],
    )
