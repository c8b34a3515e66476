"""Which tables have a backfill under way: a shadow beside a table is told from the names in the catalog alone."""

from collections.abc import Sequence

from tidemark.domain.config.naming import SHADOW
from tidemark.domain.errors import Outage, Stopped
from tidemark.engine.access.lake import Lake
from tidemark.engine.access.outages import translated


def backfilled(lake: Lake, tables: Sequence[str]) -> list[str]:
    """Those of `tables` that have a shadow; none where the catalog does not answer, which their states say."""
    found: set[str] = set()
    for namespace in sorted({each.partition(".")[0] for each in tables}):
        try:
            with translated():
                found |= {f"{namespace}.{each[-1]}" for each in lake.catalog.list_tables(namespace)}
        except (Outage, Stopped):
            continue
    return [each for each in tables if each + SHADOW in found]
