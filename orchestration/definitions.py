"""The composition root: files in, Definitions out. Touches no network.

The one module of the shell that works when it is imported, because Dagster loads it by name.
"""

import atexit
import gc
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.checks.drift import drift_checks
from assets.checks.files import file_checks
from assets.checks.freshness import freshness_checks, merge_freshness_checks
from assets.checks.kafka import watch_checks
from assets.ingest import ingest_assets
from assets.maintenance import maintenance_assets
from assets.schema import schema_assets
from assets.specs import located, quarantine_spec, topic_specs
from assets.upsert import upsert_assets
from jobs.backfill import backfill_job
from jobs.drill import drill_job, drill_schedule
from jobs.ingest import ingest_job
from jobs.maintain import maintain_job
from jobs.maintenance_schedules import maintenance_schedules
from jobs.operations import operator_jobs
from jobs.purge import purge_job, purge_schedule
from jobs.recovery import recovery_jobs
from jobs.schema import schema_schedule
from jobs.upsert import merge_job, merge_schedule
from orchestration.governance import governance
from resources.lake import LakeResource, configuration_of, places_now
from sensors.kafka_lag import lag_sensor
from sensors.new_topics import new_topics
from sensors.recorded_sightings import recorded_sightings
from sensors.upsert_lag import upsert_sensor
from tidemark.domain.config.configuration import Configuration
from tidemark.domain.config.contract import Contract
from tidemark.domain.config.upsert import upsert_tables
from tidemark.engine.config import discovery
from tidemark.engine.config.configuration import Places
from tidemark.engine.config.discovery import Discovery


def build_defs(
    resource_overrides: Mapping[str, Any] | None = None, where: Places | None = None
) -> dg.Definitions:
    """Everything that platform file and contracts ask for, made anew. Raises ConfigurationError."""
    where = where or places_now()
    configuration = configuration_of(where)
    seen = discovery.read(where.home)
    tables = _tables(configuration, seen, where)
    built_on = governance(configuration.platform, configuration.contracts, seen, where)
    own = dg.Definitions(
        resources={"lake": LakeResource.at(where), **(resource_overrides or {})},
        executor=dg.in_process_executor,
    )
    every = [*(tables.assets or ()), *(built_on.assets or ())]
    checks = [
        spec.key
        for each in (*every, *(tables.asset_checks or ()))
        for spec in getattr(each, "check_specs", ())
    ]
    return dg.Definitions.merge(own, tables, built_on, _operations(every, checks))


def _tables(configuration: Configuration, seen: Discovery, where: Places) -> dg.Definitions:
    """Topics, append and upsert tables: their assets and checks, what runs them and what keeps them."""
    platform, contracts = configuration.platform, configuration.contracts
    catalog, lanes = platform.catalog.name, platform.lanes
    upserts = [each.contract for each in upsert_tables(contracts).values()]
    topics = {table: each.append.topic for table, each in upsert_tables(contracts).items()}
    columns = {each.table: seen.columns(each.table) for each in (*contracts, *upserts)}
    by_lane, upserts_by_lane, shown_digests = _by_lane(contracts), _by_lane(upserts), seen.digests()
    schemas = schema_assets(contracts)
    assets = [
        *topic_specs(contracts),
        *(ingest_assets(name, lanes[name], each, catalog, columns) for name, each in by_lane.items()),
        *(quarantine_spec(each, catalog) for each in contracts),
        *(
            upsert_assets(name, lanes[name], each, catalog, columns, topics)
            for name, each in upserts_by_lane.items()
        ),
        *((schemas,) if schemas else ()),
        *maintenance_assets(contracts),
    ]
    return dg.Definitions(
        assets=located(assets, seen.location),
        asset_checks=[
            *(freshness_checks(name, each, recorded_sightings) for name, each in by_lane.items()),
            *merge_freshness_checks(upserts),
            *file_checks(contracts),
            *drift_checks(contracts),
            *watch_checks(contracts),
        ],
        jobs=[ingest_job(contracts)] if contracts else [],
        schedules=[
            *((schema_schedule(schemas, where),) if schemas else ()),
            *((merge_schedule(merge_job(upserts), upserts_by_lane, where),) if upserts else ()),
            *maintenance_schedules(contracts, platform.maintenance, where),
        ],
        sensors=[
            *(lag_sensor(name, lanes[name], each, shown_digests) for name, each in by_lane.items()),
            *(upsert_sensor(name, lanes[name], each) for name, each in upserts_by_lane.items()),
            *((new_topics,) if configuration.patterns and not contracts else ()),
        ],
    )


def _operations(assets: Sequence[Any], checks: Sequence[dg.AssetCheckKey]) -> dg.Definitions:
    """What people ask for; `assets` are all there are, so that a rollback can name what is stale."""
    drills, purge = drill_job(), purge_job(checks)
    jobs = [*operator_jobs(), *recovery_jobs(assets), maintain_job(), backfill_job(), drills, purge]
    return dg.Definitions(jobs=jobs, schedules=[drill_schedule(drills), purge_schedule(purge)])


def _by_lane(contracts: Sequence[Contract]) -> Mapping[str, list[Contract]]:
    found: dict[str, list[Contract]] = defaultdict(list)
    for each in contracts:
        found[each.lane].append(each)
    return found


gc.set_threshold(50_000)  # both for the reasons that tidemark/cli/main.py has
atexit.register(gc.freeze)
defs = build_defs()
