"""Which tables some run has loaded, by Dagster's records, and the lake that knows it: steps on tables open it here."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg

from assets.names import OUTCOME, RECEIPT, table_key, table_of
from tidemark.engine.access.lake import Lake

if TYPE_CHECKING:
    from resources.lake import LakeResource  # imports pyspark, which `tidemark status` does without

OTHERS = 1000
"""Results of others that are passed at most on the way to one of ours: people report few, a team's own asset many."""


@contextmanager
def opened(resource: "LakeResource", instance: dg.DagsterInstance) -> Iterator[Lake]:
    """The lake, `loaded` by Dagster's records: they tell a table that is gone from one that never was."""
    with resource.open() as lake:
        lake.loaded = lambda table: table in loaded_before(instance, [table])
        yield lake


def loaded_before(instance: dg.DagsterInstance, tables: Sequence[str]) -> set[str]:
    """Those of the tables that some run has loaded: if one is not there now, that is no first load."""
    return set(last_results(instance, tables))


def last_results(instance: dg.DagsterInstance, tables: Sequence[str]) -> dict[str, datetime]:
    """When each of the tables that some run has loaded last got a result of ours.

    A team's own asset may have had the key before there was a contract, and people can report a materialization.
    """
    found: dict[str, datetime] = {}
    for each in instance.get_asset_records([table_key(table) for table in tables]):
        key, newest = each.asset_entry.asset_key, each.asset_entry.last_materialization
        last = last_of_ours(instance, key, newest) if newest else None
        if last is not None:
            found[table_of(key)] = datetime.fromtimestamp(last.timestamp, UTC)
    return found


def last_of_ours(
    instance: dg.DagsterInstance, key: dg.AssetKey, newest: dg.EventLogEntry
) -> dg.EventLogEntry | None:
    """The newest result of ours of an asset whose newest of all is given."""
    if _is_ours(newest.asset_materialization):
        return newest
    before = instance.fetch_materializations(key, limit=OTHERS).records
    return next((each.event_log_entry for each in before if _is_ours(each.asset_materialization)), None)


def _is_ours(made: dg.AssetMaterialization | None) -> bool:
    return made is not None and not {OUTCOME, RECEIPT}.isdisjoint(made.metadata)
