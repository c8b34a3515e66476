"""What Dagster's records say about tables: how their last run ended, whether they were ever loaded, sightings of lag.

Nothing here is needed: with no instance, or one that does not answer, there are no hints.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from tidemark.engine.config.configuration import places
from tidemark.engine.look.status import Hint


def hints(home: Path, tables: Sequence[str]) -> Mapping[str, Hint]:
    """Hints by table; empty when Dagster has never been used here, or its home or storage is not to be read."""
    folder = Path(os.environ.get("DAGSTER_HOME") or home / "dagster").absolute()
    if not tables or not _is_used(folder):
        return {}
    from dagster import DagsterInstance  # noqa: PLC0415 - a second of imports, only when something lags

    from assets.runs.last_runs import hints_of  # noqa: PLC0415
    from sensors.recorded_sightings import recorded_sightings  # noqa: PLC0415

    logging.getLogger("dagster").setLevel(logging.CRITICAL)
    os.environ["DAGSTER_HOME"] = str(folder)
    try:
        with DagsterInstance.get() as instance:
            return hints_of(instance, tables, recorded_sightings(instance))
    except Exception:  # noqa: BLE001 - a cache that does not answer
        return {}


def _is_used(folder: Path) -> bool:
    try:
        return (folder / "dagster.yaml").exists()
    except OSError:  # another user's
        return False


def loaded(tables: Sequence[str]) -> Callable[[str], bool]:
    """Whether some run has loaded a table, as far as Dagster knows; it is asked for `tables` at once, when needed."""
    listed = frozenset(tables)

    @cache
    def known(asked: frozenset[str]) -> frozenset[str]:
        found = hints(places(os.environ).home, sorted(asked))
        return frozenset(table for table, each in found.items() if each.loaded)

    return lambda table: table in known(listed if table in listed else frozenset((table,)))
