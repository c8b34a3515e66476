"""When offsets were first seen, as the lag sensors' cursors have it: for checks and `status`, which look less often."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import dagster as dg

from sensors.cursor import parse
from tidemark.domain.cadence.lag import Sighting


def recorded_sightings(instance: dg.DagsterInstance) -> Mapping[str, Sequence[Sighting]]:
    """Sightings by table, oldest first; empty where no sensor has ticked."""
    found: dict[str, list[Sighting]] = defaultdict(list)
    for state in instance.all_instigator_state():
        cursor = getattr(state.instigator_data, "cursor", None)
        if state.instigator_name.startswith("kafka_lag") and cursor:
            for table, entry in parse(cursor).tables.items():
                found[table] += entry.sightings
    return found
