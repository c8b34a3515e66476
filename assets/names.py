"""Asset keys, tags, pools and checks. Keys are for ever; nothing else in the shell makes them."""

from collections.abc import Collection

import dagster as dg
from dagster._core.storage.tags import POOL_TAG_PREFIX, SCHEDULE_NAME_TAG

from tidemark.domain.config.contract import Contract
from tidemark.domain.maintenance.gain import Kind

LOCATION = "tidemark"
"""The code location, as workspace.yaml and pyproject.toml name it too."""
LANE_TAG = "tidemark/lane"
TRIGGER_TAG = "tidemark/trigger"
TABLES_TAG = "tidemark/tables"
ATTEMPT_TAG = "tidemark/attempt"
OFFSETS_TAG = "tidemark/offsets"
STOPPED_TAG = "tidemark/stopped"
VERB_TAG = "tidemark/verb"
BY_TAG = "tidemark/by"
REASON_TAG = "tidemark/reason"
ROLE_TAG = "tidemark/role"
OUTCOME = "tidemark/outcome"
RECEIPT = "tidemark/receipt"
"""Every result of a table carries one of these two: RECEIPT where the run could not report its commit."""
SENSOR = "sensor"
SCHEMA_EVOLUTION = "schema_evolution"
"""The job that looks at the schemas of all tables."""
VERBS = ("pause", "resume", "accept", "approve", "replay", "rollback", "backfill", "maintain", "drill")
"""Values of the verb's tag: the jobs of operators."""
OF_UPSERTS = ("pause", "resume", "accept", "approve")
"""Those that take an upsert table as well."""
PUBLISHING = ("replay", "backfill")
"""Those that bring rows into a table, of which it then has a result."""

MAINTENANCE_POOL = "tidemark_maintenance"
"""Held by one run at a time, whoever launched it."""
MARTS_POOL = "tidemark_marts"

FRESHNESS = "freshness"
QUARANTINE_RATE = "quarantine_rate"
RECONCILIATION = "reconciliation"
EVENT_TIME = "event_time"
DRIFT = "schema_drift"
HEALTH = "files"
HEADROOM = "retention_headroom"
KAFKA_RECONCILIATION = "kafka_reconciliation"
REVIEW = "schema_review"
COMPATIBILITY = "registry_compatibility"
ALLOWED = "tagged_columns_are_allowed"
CORRECTED = "follows_corrections"
"""The last two of marts, the two before them of `schema/…` assets, all others of tables."""
OF_LOOKS = (DRIFT, HEALTH, HEADROOM, KAFKA_RECONCILIATION)
"""Those of tables that no batch judges; a new check that no batch judges goes in here."""
NEWEST = 1_000_000
"""Offsets of a table that `kafka_reconciliation` compares; `tidemark reconcile` compares all."""


def by_sensor(run: dg.DagsterRun) -> bool:
    """Whether a lag sensor asked for a run: one that a person executes again has its tags, but ends when caught up."""
    return run.tags.get(TRIGGER_TAG) == SENSOR and run.parent_run_id is None


def by_schedule(run: dg.DagsterRun) -> bool:
    """Whether a schedule asked for a run: one that a person executes again has its tags, and tells everything."""
    return SCHEDULE_NAME_TAG in run.tags and run.parent_run_id is None


def is_ours(run: dg.DagsterRun) -> bool:
    """Other projects may share the instance. A run of ours holds a pool of ours, or is of our location or verbs."""
    origin = run.remote_job_origin
    return (
        VERB_TAG in run.tags
        or any(pool.startswith(pool_of("")) for pool in pools_of(run))
        or (origin is not None and origin.location_name == LOCATION)
    )


def topic_key(contract: Contract) -> dg.AssetKey:
    """`kafka/<cluster>/<topic>`."""
    return dg.AssetKey(["kafka", contract.cluster, contract.topic])


def table_key(table: str) -> dg.AssetKey:
    """`<namespace>/<table>`."""
    return dg.AssetKey(table.split("."))


def schema_key(table: str) -> dg.AssetKey:
    """`schema/<namespace>/<table>`."""
    return dg.AssetKey(["schema", *table.split(".")])


def maintenance_key(table: str, kind: Kind) -> dg.AssetKey:
    """`maintenance/<namespace>/<table>/<kind>`."""
    return dg.AssetKey(["maintenance", *table.split("."), kind])


def table_of(key: dg.AssetKey) -> str:
    """The table whose rows an asset is; what `kafka/…`, `schema/…` and `maintenance/…` become is no table's name."""
    return ".".join(key.path)


def table_about(key: dg.AssetKey) -> str:
    """The table that an asset is about: of `schema/…` and `maintenance/…` the one in the key."""
    match list(key.path):
        case ["schema", namespace, name] | ["maintenance", namespace, name, _]:
            return f"{namespace}.{name}"
    return table_of(key)


def pool_of(lane: str) -> str:
    """The pool that one run of a lane holds at a time."""
    return f"tidemark_{lane}"


def ingest_op(lane: str) -> str:
    """The step that ingests the tables of a lane."""
    return f"ingest_{lane}"


def merge_op(lane: str) -> str:
    """The step that merges into the upsert tables of a lane."""
    return f"merge_{lane}"


def maintain_op(kind: Kind) -> str:
    """The step that maintains tables in one way."""
    return f"maintain_{kind}"


def upsert_lane(lane: str) -> str:
    """The upsert tables of a lane run apart from its ingest, as if they were a lane of their own."""
    return f"{lane}_upsert"


def pools_of(run: dg.DagsterRun) -> Collection[str]:
    """The pools that a run holds until it ends: Dagster counts them by run, not by step."""
    return (run.run_op_concurrency and run.run_op_concurrency.all_pools) or ()


def holds_lane(run: dg.DagsterRun) -> bool:
    """Whether the tables of a lane wait until the run ends, whatever else it does."""
    others = {MAINTENANCE_POOL, MARTS_POOL}
    return any(pool.startswith(pool_of("")) and pool not in others for pool in pools_of(run))


def pool_filter(pool: str) -> dict[str, str]:
    """The tags by which Dagster stores that a run needs a pool, however the run was made."""
    return {f"{POOL_TAG_PREFIX}{pool}": "true"}
