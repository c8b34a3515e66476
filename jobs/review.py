"""When the review pack is made."""

import dagster as dg

from assets.review import KEY
from jobs.scheduled import scheduled
from tidemark.engine.config.configuration import Places

EVERY = "0 6 * * *"


def review_schedule(where: Places) -> dg.ScheduleDefinition:
    """Every morning, on by default."""
    job = dg.define_asset_job(
        "review", selection=dg.AssetSelection.assets(KEY), description="Make the governance review pack."
    )
    return scheduled(job, EVERY, "Makes the review pack anew every morning.", where, name="review_pack")
