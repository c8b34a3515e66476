"""The composition root: files in, Definitions out. Touches no network.

The one module of the shell that works when it is imported, because Dagster loads it by name.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.checks import freshness_checks
from assets.drift import drift_checks
from assets.ingest import ingest_assets
from assets.maintenance import health_checks, maintenance_assets
from assets.schema import schema_assets
from assets.specs import quarantine_spec, topic_specs
from assets.upsert import upsert_assets
from assets.watch import watch_checks
from jobs.backfill import backfill_job
from jobs.drill import drill_job, drill_schedule
from jobs.ingest import ingest_job
from jobs.maintain import maintain_job
from jobs.maintenance import maintenance_schedules
from jobs.operations import operator_jobs
from jobs.recovery import recovery_jobs
from jobs.schema import schema_schedule
from jobs.upsert import upsert_schedule
from orchestration.governance import governance
from resources.lake import LakeResource, configuration_of, places_now
from sensors.kafka_lag import lag_sensor
from sensors.sighted import recorded_sightings
from sensors.upsert_lag import upsert_sensor
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import currents
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import Places


def build_defs(
    resource_overrides: Mapping[str, Any] | None = None, where: Places | None = None
) -> dg.Definitions:
    """Everything that platform file and contracts ask for, made anew. Raises ConfigurationError."""
    where = where or places_now()
    configuration = configuration_of(where)
    platform, contracts = configuration.platform, configuration.contracts
    catalog = platform.catalog.name
    seen = discovery.read(where.home)
    columns = {each.table: seen.columns(each.table) for each in contracts}
    by_lane: dict[str, list[Contract]] = defaultdict(list)
    for contract in contracts:
        by_lane[contract.lane].append(contract)
    schemas = schema_assets(contracts)
    upserts = [each.contract for each in currents(contracts).values()]
    columns |= {each.table: seen.columns(each.table) for each in upserts}
    merged: dict[str, list[Contract]] = defaultdict(list)
    for each in upserts:
        merged[each.lane].append(each)
    assets = [
        *topic_specs(contracts),
        *(
            ingest_assets(name, platform.lanes[name], served, catalog, columns)
            for name, served in by_lane.items()
        ),
        *(quarantine_spec(each, catalog) for each in contracts),
        *(
            upsert_assets(name, platform.lanes[name], tables, catalog, columns)
            for name, tables in merged.items()
        ),
        *((schemas,) if schemas else ()),
        *maintenance_assets(contracts),
    ]
    drills = drill_job()
    composed = dg.Definitions(
        assets=assets,
        asset_checks=[
            *(freshness_checks(name, served, recorded_sightings) for name, served in by_lane.items()),
            *health_checks(contracts),
            *drift_checks(contracts),
            *watch_checks(contracts),
        ],
        jobs=[
            *((ingest_job(contracts),) if contracts else ()),
            *operator_jobs(),
            *recovery_jobs(assets),
            maintain_job(),
            backfill_job(),
            drills,
        ],
        schedules=[
            *((schema_schedule(schemas, contracts),) if schemas else ()),
            *((upsert_schedule(upserts),) if upserts else ()),
            *maintenance_schedules(contracts, platform.maintenance),
            drill_schedule(drills),
        ],
        sensors=[
            lag_sensor(name, platform.lanes[name], served, platform.report_every)
            for name, served in by_lane.items()
        ]
        + [upsert_sensor(name, platform.lanes[name], tables) for name, tables in merged.items()],
        resources={"lake": LakeResource.at(where), **(resource_overrides or {})},
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(composed, governance(platform, contracts, seen))


defs = build_defs()
