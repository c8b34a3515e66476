"""When the review pack is made."""

import dagster as dg

from assets.review import KEY

EVERY = "0 6 * * *"


def review_schedule() -> dg.ScheduleDefinition:
    """Every morning, on by default."""
    job = dg.define_asset_job(
        "review", selection=dg.AssetSelection.assets(KEY), description="Make the governance review pack."
    )
    return dg.ScheduleDefinition(
        name="review_pack",
        job=job,
        cron_schedule=EVERY,
        description="Makes the review pack anew every morning.",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
