"""The sensor of an installation whose `topics:` contracts have no topic yet: it waits for the first ones."""

import dagster as dg

from resources.lake import LakeResource, unreadable
from tidemark.domain.errors import ConfigurationError


@dg.sensor(
    name="new_topics",
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Looks for topics that a `topics:` contract takes; the lag sensors do so once there are any.",
)
def new_topics(context: dg.SensorEvaluationContext, lake: LakeResource) -> dg.SkipReason:
    """One look at the clusters."""
    from sensors.discover import remark_on, unserved  # noqa: PLC0415 - loading the definitions needs no Kafka client
    from sensors.on_disk import to_reload  # noqa: PLC0415
    from tidemark.engine.config.discovery import update  # noqa: PLC0415
    from tidemark.engine.look.topics import list_topics, with_listed  # noqa: PLC0415

    try:
        shared = lake.shared()
    except ConfigurationError as error:
        return dg.SkipReason(unreadable(error))
    listed, faults = list_topics(shared)
    update(lake.places.home, lambda seen: with_listed(seen, listed))
    configuration = shared.configuration
    waiting = None if unserved(configuration, listed) else to_reload(context, lake)
    silent = [f"kafka {cluster}: {error.message}" for cluster, error in faults.items()]
    remarks = [*silent, waiting, remark_on(configuration, listed)]
    return dg.SkipReason("; ".join(filter(None, remarks)) or "no topic matches a pattern yet")
