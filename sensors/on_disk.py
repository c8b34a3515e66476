"""What a run that begins now would find: it reads the files anew, a sensor has what the definitions were made of."""

from dataclasses import replace

from assets.names import upsert_lane
from resources.lake import LakeResource, on_disk
from tidemark.domain.cadence.request import Ask
from tidemark.domain.config.upsert import currents
from tidemark.domain.errors import ConfigurationError

_SHOWN = 3


def runnable(resource: LakeResource, lane: str, decision: Ask) -> tuple[Ask, str | None]:
    """The decision without tables that such a run would not serve, and a remark on them."""
    if not decision.tables:
        return decision, None
    try:
        found = on_disk(resource.places)
    except ConfigurationError as error:
        why = "; ".join(str(problem) for problem in error.problems[:_SHOWN])
        return replace(
            decision, tables=(), due=()
        ), f"no run could read its configuration: {why} (tidemark check)"
    upserts = [each.contract for each in currents(found.contracts).values()]
    served = {each.table for each in found.contracts if each.lane == lane}
    served |= {each.table for each in upserts if upsert_lane(each.lane) == lane}
    gone = [table for table in decision.tables if table not in served]
    if not gone:
        return decision, None
    tables = tuple(table for table in decision.tables if table in served)
    due = tuple(table for table in decision.due if table in served)
    named = ", ".join(gone[:_SHOWN]) + (f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else "")
    remark = f"{named}: no contract of lane {lane} on disk any more, reload the definitions"
    return replace(decision, tables=tables if due else (), due=due), remark
