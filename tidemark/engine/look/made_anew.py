"""Whether a build has made a table anew, told by the table: what dbt was asked for a model's config may refuse."""

from tidemark.domain.errors import Outage, Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.main_history import ancestors
from tidemark.engine.access.table_state import load, load_written


def snapshots_of(lake: Lake, table: str) -> frozenset[int]:
    """The ids of all snapshots of a table; none where there is no table. Raises Outage, Stopped."""
    found = load(lake.catalog, table)
    return frozenset(each.snapshot_id for each in found.metadata.snapshots) if found else frozenset()


def is_made_anew(lake: Lake, table: str, before: frozenset[int]) -> bool:
    """Whether no row is older than the time when `before` were all snapshots; no view has rows. False if in doubt."""
    try:
        found = load_written(lake.catalog, table)
    except (Outage, Stopped):
        return False
    if found is None:
        return True
    *_, first = ancestors(found.metadata, found.metadata.current_snapshot_id)
    return first.parent_snapshot_id is None and first.snapshot_id not in before
